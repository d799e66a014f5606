"""No boundaries yet: sound and a transcript, or sound alone, become a review whose boundaries say how certain they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner
from tests.page.conftest import Service, watched
from tests.page.test_review import check_with_axe, download, drop, ready, until, wait_until_saved
from tests.page.test_views import ask

pytestmark = [pytest.mark.slow]
SOUND = samples.AUDIO.read_bytes()
WORDS = "in being comparatively modern"
SHOTS = os.environ.get("SHOTS")


def shot(page: Any, name: str) -> None:
    """A picture to be looked at, where a folder for them is named."""
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def open_align(page: Any) -> None:
    page.get_by_role("link", name="Align", exact=True).click()
    page.wait_for_selector(".options-grid")


def start(page: Any) -> None:
    page.locator(".home > .row > .primary").click()


def test_a_typed_transcript_becomes_a_review(page: Any) -> None:
    open_align(page)
    check_with_axe(page)
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_selector(".uploads li")
    start(page)
    ready(page)
    check_with_axe(page)
    file = "phonechainReview.store.files.get(0)"
    # Each boundary has its probability, and the inspector says that of the chosen segment's two.
    assert page.evaluate(f"{file}.answer.boundaries.within.every((p) => p >= 0 && p <= 1)")
    at = page.evaluate("phonechainReview.timeline.selected")
    within = page.evaluate(f"{file}.answer.boundaries.within[{at}]")
    assert f"{within:.2f} within 20 ms" in page.locator(".edges").inner_text().replace("> 0.99", f"{within:.2f}")
    assert "90 %:" in page.locator(".edges").inner_text()
    # The list can go by boundaries.
    page.locator("[data-filter=sort]").select_option("boundary")
    first = page.evaluate("phonechainReview.list.entries[0].id")
    lowest = page.evaluate(f"Math.min(...{file}.answer.boundaries.within)")
    assert page.evaluate(f"{file}.answer.boundaries.within[{first}]") == lowest
    # A boundary moved by hand loses its certainty, and everything else goes on as in any review.
    page.locator("canvas").focus()
    page.keyboard.press("Alt+Shift+ArrowRight")
    wait_until_saved(page, 1)
    assert "set by hand" in page.locator(".edges").inner_text()
    page.keyboard.press("Enter")
    wait_until_saved(page, 2)
    grid = read(download(page))
    assert [t.name for t in grid.tiers] == ["words", "phones"]
    assert [s.label for s in tier_segments(grid.tiers[0]) if s.label] == WORDS.split()


def test_an_alignment_model_is_chosen(page: Any, service: Service, tmp_path: Path) -> None:
    own = PhoneAligner.load(pretrained_path(ALIGNMENT))
    own.temperature_ = 3.0
    own.save(tmp_path / "own.safetensors")
    body = (tmp_path / "own.safetensors").read_bytes()
    made = ask(service, "POST", "models?name=unsure", body, "application/octet-stream")
    open_align(page)
    chosen = page.get_by_label("Model for the boundaries")
    chosen.locator("option", has_text="unsure").wait_for(state="attached")
    assert chosen.input_value() == "english-alignment"
    assert page.get_by_label("Model for the labels").locator("option", has_text="alignment").count() == 0
    certainty = []
    for name in ("english-alignment", "unsure"):
        page.goto(service.url)
        open_align(page)
        chosen.locator("option", has_text="unsure").wait_for(state="attached")
        chosen.select_option(name)
        page.get_by_role("button", name="Try the sample").click()
        page.wait_for_selector(".uploads li")
        start(page)
        ready(page)
        certainty.append(
            page.evaluate("phonechainReview.store.files.get(0).answer.boundaries.within.reduce((a, b) => a + b)")
        )
    assert certainty[1] < certainty[0]
    page.evaluate(f"fetch('models/unsure@{made['version']}', {{method: 'DELETE'}})")


def test_surer_boundaries_are_drawn_stronger(page: Any) -> None:
    open_align(page)
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_selector(".uploads li")
    start(page)
    ready(page)
    # The line of a boundary, in the waveform's upper edge where nothing else is drawn, at full and at no certainty.
    ink = page.evaluate(
        """(async () => {
            const view = phonechainReview, line = view.timeline, file = view.store.files.get(0);
            const row = file.rows.findIndex((r, i) => i > line.selected + 1 && line.xOf(r[1]) > 40);
            const lane = line.lanes.find((one) => one.kind === "wave");
            const measure = async (within) => {
                file.answer.boundaries.within[row] = within;
                line.changed();
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                const x = Math.round((line.xOf(file.rows[row][1]) - 4) * line.scale);
                const data = line.context.getImageData(x, (lane.top + 3) * line.scale, 8 * line.scale, 1).data;
                let sum = 0;
                for (let i = 0; i < data.length; i += 4) sum += 255 - data[i];
                return sum;
            };
            return [await measure(0), await measure(0.5), await measure(1)];
        })()"""
    )
    assert 0 < ink[0] < ink[1] < ink[2]


@pytest.mark.parametrize("name", ["a.txt", "a.lab"])
def test_a_transcript_comes_as_a_file(page: Any, name: str) -> None:
    open_align(page)
    drop(page, ("a.flac", SOUND), (name, WORDS.encode("utf-16")))
    page.wait_for_selector(f".uploads :text('with {name}')")
    start(page)
    ready(page)
    assert page.evaluate("phonechainReview.store.files.get(0).answer.tiers[0].text.filter(Boolean).join(' ')") == WORDS


def test_sound_alone_is_recognised(page: Any) -> None:
    open_align(page)
    page.get_by_label("What you have").select_option("nothing")
    assert "about half of the recognised phones are wrong" in page.locator(".note:visible").inner_text()
    drop(page, ("a.flac", SOUND))
    page.wait_for_selector(".uploads li")
    start(page)
    ready(page)
    assert page.evaluate("phonechainReview.store.files.get(0).answer.tiers.length") == 1
    assert page.evaluate("phonechainReview.store.files.get(0).answer.boundaries.within.length") > 5


def test_words_without_a_pronunciation_are_named_and_a_dictionary_helps(page: Any) -> None:
    open_align(page)
    drop(page, ("a.flac", SOUND))
    page.get_by_role("combobox", name="Dictionary").select_option("own")
    page.set_input_files(
        ".file", [{"name": "d.dict", "mimeType": "text/plain", "buffer": b"being B IY IH NG\nmodern M AA D ER N\n"}]
    )
    page.get_by_label("Transcript for").fill(WORDS)
    start(page)
    until(page, "document.querySelectorAll('.uploads .bad').length === 1")
    text = page.locator(".uploads .bad").inner_text()
    assert "2 words of the transcript are not in the dictionary: in, comparatively" in text
    check_with_axe(page)
    whole = b"in IH N\nbeing B IY IH NG\ncomparatively K AH M P EH R AH T IH V L IY\nmodern M AA D ER N\n"
    page.set_input_files(".file", [{"name": "d.dict", "mimeType": "text/plain", "buffer": whole}])
    page.get_by_role("button", name="Try the failed ones again").click()
    ready(page)


@pytest.mark.parametrize("source", ["words", "nothing"])
def test_many_recordings_become_a_job_and_its_result_a_review(page: Any, source: str) -> None:
    open_align(page)
    page.get_by_role("combobox", name="What you have").select_option(source)
    drop(
        page, ("a.flac", SOUND), ("a.txt", WORDS.encode()), ("b.flac", SOUND), ("c.flac", b"no sound"),
        ("c.txt", WORDS.encode()),
    )  # fmt: skip
    if source == "words":
        page.get_by_label("Transcript for").fill(WORDS)  # b has none beside it
    page.get_by_role("button", name="Run as a job").click()
    page.wait_for_selector(".state-succeeded", timeout=240_000)
    assert "expected WAV, FLAC" in page.locator(".job-rest").inner_text()
    check_with_axe(page)
    shot(page, f"job-{source}")
    page.get_by_role("button", name="Open as a review").click()
    page.get_by_role("link", name="Open the review").click(timeout=60_000)
    ready(page)
    assert page.evaluate("phonechainReview.store.files.size") == 2
    assert page.evaluate("phonechainReview.store.files.get(0).answer.boundaries.within.every((p) => p >= 0 && p <= 1)")


def test_boundaries_that_came_are_refined(page: Any) -> None:
    open_align(page)
    page.get_by_role("combobox", name="What you have").select_option("boundaries")
    drop(page, ("a.flac", SOUND), ("a.TextGrid", samples.SEGMENTS.read_bytes()))
    page.wait_for_selector(".uploads :text('boundaries of a.TextGrid')")
    assert page.get_by_label("Transcript for").count() == 0 or page.get_by_label("Transcript of").is_hidden()
    check_with_axe(page)
    shot(page, "refine")
    start(page)
    ready(page)
    given = tier_segments(choose_tier(read(samples.SEGMENTS.read_bytes()))[0])
    moved = page.evaluate("phonechainReview.store.files.get(0).rows.map((row) => [row[3], row[1]])")
    assert [label for label, _ in moved if label in {s.label for s in given}] == [s.label for s in given]
    assert sum(start not in {s.start for s in given} for _, start in moved) > 0
    # The file that comes back is the one that was dropped: its tier of words is as it was.
    came, back = read(samples.SEGMENTS.read_bytes()), read(download(page))
    assert [tier.name for tier in back.tiers] == [tier.name for tier in came.tiers]
    assert back.tier("words") == came.tier("words")


def test_a_wrong_file_and_markup_are_text(page: Any) -> None:
    evil = "<img src=x onerror=window.evil=1>"
    open_align(page)
    drop(page, (f"{evil}.flac", b"no sound"), (f"{evil}.txt", b"in <b>being</b>"))
    start(page)
    until(page, "document.querySelectorAll('.uploads .bad').length === 1")
    assert "expected WAV, FLAC" in page.locator(".uploads").inner_text()
    assert evil in page.locator(".uploads").inner_text()
    assert page.evaluate("window.evil") is None
    assert page.locator("main img, main b").count() == 0


def test_it_goes_on_after_a_restart(browser: Any, tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        with watched(browser, service) as page:
            open_align(page)
            drop(page, ("a.flac", SOUND), ("a.txt", WORDS.encode()))
            page.wait_for_selector(".uploads li")
            service.stop()
            start(page)
            page.wait_for_selector(".bad")
            assert "does not answer" in page.locator(".home").inner_text()
            service.start()
            page.get_by_role("button", name="Try the failed ones again").click()
            ready(page)
    finally:
        service.stop()


@pytest.mark.parametrize("width", [1440, 375])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_as_meant(browser: Any, service: Service, width: int, scheme: str) -> None:
    with watched(
        browser, service, viewport={"width": width, "height": 900 if width > 400 else 812}, color_scheme=scheme
    ) as page:
        open_align(page)
        page.get_by_role("button", name="Try the sample").click()
        page.wait_for_selector(".uploads li")
        check_with_axe(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shot(page, f"align-{width}-{scheme}")
        start(page)
        ready(page)
        page.wait_for_load_state("networkidle")
        check_with_axe(page)
        shot(page, f"aligned-{width}-{scheme}")
