"""The phonetician's half hour on the page alone: train on what was labelled by hand, label the rest, check, train again."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from tests.page.conftest import Service
from tests.page.test_review import check_with_axe, ready, until, wait_until_saved
from tests.page.test_views import ask

pytestmark = [pytest.mark.slow]
CHECKED = 10
ENDED = 600_000


GUIDE = Path(__file__).parents[2] / "app/guide/phonetician.md"


def test_the_keys_of_the_guide_in_files_that_have_labels(page: Any, tmp_path: Path) -> None:
    """The guide's `rest` has labels: what Enter does there differs from files with boundaries alone."""
    step = " ".join(re.findall(r"^2\. .*?(?=^3\.)", GUIDE.read_text("utf-8"), re.S | re.M)[0].split())
    rest = tmp_path / "rest"
    rest.mkdir()
    for sound in sorted((samples.FOLDER / "reader").glob("LJ001-002[45].ogg")):
        shutil.copy(sound, rest)
        shutil.copy(sound.with_suffix(".TextGrid"), rest)
    page.wait_for_selector(".drop")
    page.set_input_files("input[data-folder]", str(rest))
    ready(page)
    assert page.locator(".actions .primary").inner_text().startswith("Accept")
    assert not page.get_by_role("button", name="Take the model's label for all").is_visible()

    def press(key: str) -> tuple[str, str, str]:
        """Label before, the model's, and label after."""
        old, best, at = page.evaluate(
            "(({file, row}) => [row[3], file.best(row), [file.number, row[0]]])(phonechainReview.current)"
        )
        before = page.evaluate("phonechainReview.store.revision")
        page.keyboard.press(key)
        wait_until_saved(page, before + 1)
        new = page.evaluate(f"phonechainReview.store.row({{file: {at[0]}, id: {at[1]}}}).row[3]")
        return old, best, new

    old, best, new = press("Enter")
    assert new == old != best
    assert "Enter accepts the label that the file has" in step
    old, best, new = press("Backspace")
    assert new == best != old
    assert "Backspace takes the model's" in step
    assert "In files with boundaries but no labels, Enter takes the model's label" in step


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Eight recordings that were labelled by hand, and two of which only the boundaries are drawn."""
    mine, rest = tmp_path / "mine", tmp_path / "rest"
    mine.mkdir()
    rest.mkdir()
    for n, sound in enumerate(sorted((samples.FOLDER / "reader").glob("*.ogg"))[:10]):
        folder = mine if n < 8 else rest
        shutil.copy(sound, folder)
        text = sound.with_suffix(".TextGrid").read_text("utf-8")
        text = text if folder is mine else re.sub('text = ".*?"', 'text = ""', text)
        (folder / f"{sound.stem}.TextGrid").write_text(text, "utf-8")
    return mine, rest


def test_from_a_few_labels_to_all_of_them(page: Any, service: Service, folders: tuple[Path, Path]) -> None:
    mine, rest = folders
    page.get_by_role("link", name="Train").click()
    page.get_by_text("Drop a corpus here").wait_for()  # the first view takes folders too
    page.set_input_files("input[data-folder]", str(mine))
    page.wait_for_selector("td.share", timeout=60_000)
    page.get_by_label("Epochs").fill("2")
    page.get_by_label("Name of the model").fill("half-hour")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector(".evaluation", timeout=ENDED)
    page.get_by_role("link", name="Label files with it").click()
    page.wait_for_selector(".drop")
    until(page, "document.querySelector('.options-row select').value === 'half-hour'")
    page.set_input_files("input[data-folder]", str(rest))
    ready(page)
    assert page.evaluate("[...phonechainReview.store.files.values()].map((file) => file.meta.speaker)") == [None, None]
    count = page.evaluate("phonechainReview.store.counts().segments")
    # Nothing is labelled: Enter takes the model's label, a label that is typed wins, and one click fills in all others.
    take = page.locator(".actions .primary").inner_text()
    best = page.evaluate("(at => at.file.best(at.row))(phonechainReview.current)")
    assert take.startswith(f"Take {best}")
    for _ in range(CHECKED - 1):
        page.keyboard.press("Enter")
    page.keyboard.type("zh")
    page.keyboard.press("Enter")
    wait_until_saved(page, CHECKED)
    page.get_by_role("button", name="Take the model's label for all").click()
    wait_until_saved(page, CHECKED + 2)
    check_with_axe(page)
    assert page.locator(".foot").inner_text().startswith(f"{CHECKED} of {count} checked, {count} changed")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(io.BytesIO(Path(waiting.value.path()).read_bytes())) as archive:
        names = sorted(archive.namelist())
        tiers = [tier_segments(choose_tier(read(archive.read(name)))[0]) for name in names]
    assert names == sorted(path.name for path in rest.glob("*.TextGrid"))
    assert all(segment.label for tier in tiers for segment in tier)
    assert sum(segment.label == "ZH" for tier in tiers for segment in tier) >= 1
    # Trained again, it keeps what it had learnt: the recordings that it was trained on come along.
    page.locator("[data-foot=next]").click()
    page.wait_for_selector(".columns")
    assert page.get_by_label("together with the 8 recordings of mine").is_checked()
    check_with_axe(page)
    page.get_by_role("button", name="Train again with my corrections").click()
    page.wait_for_selector(".state-running, .state-succeeded", timeout=ENDED)
    id = page.evaluate("location.hash").rsplit("/", 1)[-1]
    corpus = ask(service, "GET", f"corpora/{ask(service, 'GET', f'jobs/{id}')['request']['corpus']}")
    assert corpus["utterances"] == 10
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".state-cancelled, .state-succeeded", timeout=ENDED)
