"""A review of 100 doubtful segments by keyboard alone: every key is counted where the page hears it."""

from __future__ import annotations

from typing import Any

import pytest

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from tests.page.conftest import Service
from tests.page.test_review import drop, log, ready, wait_until_saved

pytestmark = [pytest.mark.slow]
SEGMENTS = 100
RIGHT, WRONG = 2, 4
"""Most keys for a segment that is right; for one that is wrong, beside those of its label."""


def labels(folder: str, name: str) -> list[str | None]:
    """The phones of one of the reader's recordings."""
    return [s.label for s in tier_segments(choose_tier(read((samples.FOLDER / folder / name).read_bytes()))[0])]


def test_a_hundred_doubtful_segments(page: Any, service: Service) -> None:
    """Each is heard once more by Tab; the right ones are accepted, the planted errors get the label that was there before."""
    names = sorted(path.name for path in samples.FOLDER.glob("planted/*.TextGrid"))[:8]
    sounds = [name.replace(".TextGrid", ".ogg") for name in names]
    drop(
        page,
        *((name, (samples.FOLDER / "planted" / name).read_bytes()) for name in names),
        *((name, (samples.FOLDER / "reader" / name).read_bytes()) for name in sounds),
    )
    ready(page)
    came = page.evaluate(
        "[...phonechainReview.store.files.values()].map((file) => [file.number, file.meta.annotation_name])"
    )
    true = {number: labels("reader", name) for number, name in came}  # they are sent two at a time, so in any order
    page.evaluate("window.keys = 0; addEventListener('keydown', () => window.keys++, true)")
    seen: set[tuple[int, int]] = set()
    wrong = 0
    for n in range(SEGMENTS):
        at = page.evaluate("phonechainReview.selected")
        shown = page.evaluate("phonechainReview.current.row[3]")
        wanted = true[at["file"]][at["id"]]
        assert wanted is not None
        seen.add((at["file"], at["id"]))
        before = page.evaluate("window.keys")
        page.keyboard.press("Tab")
        if shown != wanted:
            wrong += 1
            page.keyboard.type(wanted.lower())
        page.keyboard.press("Enter")
        keys = page.evaluate("window.keys") - before
        assert keys <= (RIGHT if shown == wanted else WRONG + len(wanted)), (n, shown, wanted)
        wait_until_saved(page, n + 1)
    assert len(seen) == SEGMENTS
    assert wrong > 10
    operations = log(page, service)
    assert {(o["file"], o["before"][0][0]) for o in operations} == seen
    assert sum(o["kind"] == "label" for o in operations) == wrong
    for operation in operations:
        id, _, _, label, reviewed = operation["after"][0]
        assert (label, reviewed) == (true[operation["file"]][id], True)
    assert f"{SEGMENTS} of" in page.locator(".foot").inner_text()
