"""Label and check: the flows of a person, by mouse and by keyboard, through a restart, with files of all kinds."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from tests.page.conftest import AXE, Service, watched

pytestmark = [pytest.mark.slow]
SAMPLE = samples.SEGMENTS.read_bytes()
COUNT = len(choose_tier(read(SAMPLE))[0].entries)


def until(page: Any, expression: str, seconds: float = 30) -> None:
    """Wait for an expression to be true; Playwright's own way evaluates text inside the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.05)


def open_sample(page: Any) -> None:
    page.get_by_role("button", name="Try the sample").click()
    ready(page)


def ready(page: Any) -> None:
    page.wait_for_selector(".review .list-row.chosen")
    until(page, "phonechainReview.timeline.peaks.length > 0")


def drop(page: Any, *files: tuple[str, bytes]) -> None:
    page.set_input_files(
        "input[type=file]", [{"name": n, "mimeType": "application/octet-stream", "buffer": b} for n, b in files]
    )


def wait_until_saved(page: Any, revision: int) -> None:
    until(page, f"phonechainReview.store.revision === {revision} && phonechainReview.store.queue.length === 0")


def download(page: Any) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    return Path(waiting.value.path()).read_bytes()


def log(page: Any, service: Service) -> list[dict[str, Any]]:
    id = page.evaluate("phonechainReview.store.id")
    with urllib.request.urlopen(f"{service.url}reviews/{id}/operations") as answer:
        return list(json.load(answer)["operations"])


def check_with_axe(page: Any) -> None:
    if AXE is None:
        return
    page.evaluate(Path(AXE).read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert not [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in found]


def test_one_key_for_a_right_label_and_the_label_for_a_wrong_one(page: Any, service: Service) -> None:
    open_sample(page)
    first = page.evaluate("phonechainReview.selected.id")
    page.keyboard.press("Enter")
    second = page.evaluate("phonechainReview.selected.id")
    assert second != first
    page.keyboard.type("zh")
    page.keyboard.press("Enter")
    third = page.evaluate("phonechainReview.selected.id")
    page.keyboard.press("Backspace")
    wait_until_saved(page, 3)
    operations = log(page, service)
    assert [(o["kind"], o["before"][0][0]) for o in operations] == [
        ("accept", first),
        ("label", second),
        ("label", third),
    ]
    assert operations[1]["after"][0][3:] == ["ZH", True]
    best = page.evaluate(f"(f => f.best(f.rows[{third}]))(phonechainReview.store.files.get(0))")
    assert operations[2]["after"][0][3] == best
    assert page.locator(".foot").inner_text().startswith("3 of 23 checked, 2 changed")


def test_everything_by_keyboard_and_back(page: Any) -> None:
    open_sample(page)
    for key in ("Enter", "Alt+ArrowRight", "Alt+Shift+ArrowLeft", "Shift+S", "Shift+M", "2"):
        page.keyboard.press(key)
    wait_until_saved(page, 6)
    assert download(page) != SAMPLE
    page.locator("canvas").focus()
    for _ in range(6):
        page.keyboard.press("Control+z")
    wait_until_saved(page, 12)
    assert download(page) == SAMPLE
    page.locator("canvas").focus()
    page.keyboard.press("Control+y")
    wait_until_saved(page, 13)
    before = page.evaluate("[phonechainReview.timeline.begin, phonechainReview.timeline.end]")
    page.keyboard.press("ArrowUp")
    after = page.evaluate("[phonechainReview.timeline.begin, phonechainReview.timeline.end]")
    assert after[1] - after[0] < before[1] - before[0]
    here = page.evaluate("phonechainReview.timeline.selected")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("phonechainReview.timeline.selected") == here - 1


def test_history_says_what_was_done_and_goes_back_to_it(page: Any, service: Service) -> None:
    open_sample(page)
    page.keyboard.press("Shift+H")
    panel = page.locator(".history")
    panel.get_by_text("No changes yet.").wait_for()
    assert page.evaluate("document.activeElement.closest('.history') !== null")
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert page.evaluate("document.activeElement === phonechainReview.timeline.canvas")
    chosen = page.evaluate("phonechainReview.selected.id")
    label = page.evaluate("phonechainReview.current.row[3]")
    page.keyboard.type("zh")
    page.keyboard.press("Enter")
    wait_until_saved(page, 1)
    page.keyboard.press("Alt+ArrowRight")
    page.keyboard.press("Enter")
    wait_until_saved(page, 3)
    page.get_by_role("button", name="History").click()
    rows = panel.locator("li")
    rows.nth(2).wait_for()
    assert rows.count() == 3
    texts = rows.all_inner_texts()
    assert "accepted" in texts[0]
    assert re.search(r"boundary of \S+ moved by .5 ms", texts[1])
    assert f"{label} → ZH" in texts[2]
    assert all("LJ001-0002" in text for text in texts)
    check_with_axe(page)
    rows.last.locator(".log-what").click()
    assert page.evaluate("phonechainReview.selected.id") == chosen
    page.get_by_role("button", name="Undo back to here (2)").click()
    wait_until_saved(page, 5)
    assert [o["kind"] for o in log(page, service)][-2:] == ["undo", "undo"]
    assert (
        page.evaluate("phonechainReview.current.row[3]") == "ZH"
        or page.evaluate("phonechainReview.store.counts().changed") == 1
    )
    assert rows.count() == 5
    assert rows.nth(0).inner_text().startswith("undone: boundary of ")
    assert [("(undone)" in text) for text in rows.all_inner_texts()] == [False, False, True, True, False]
    # Further ones come in while it is open; by keyboard an entry's button undoes it.
    page.locator("canvas").focus()
    page.keyboard.press("Control+y")
    wait_until_saved(page, 6)
    assert "redone: boundary of" in rows.first.inner_text()
    rows.nth(4).get_by_role("button", name="Undo", exact=True).focus()
    page.keyboard.press("Enter")
    wait_until_saved(page, 7)
    assert page.evaluate("document.activeElement.closest('.history') !== null")
    page.keyboard.press("Escape")
    page.reload()
    ready(page)
    page.keyboard.press("Shift+H")
    until(page, "document.querySelectorAll('.history li').length === 7")


def test_a_click_is_heard_and_a_boundary_is_dragged(page: Any) -> None:
    open_sample(page)
    box = page.locator("canvas").bounding_box()
    lane = page.evaluate("phonechainReview.timeline.lanes.find(lane => lane.kind === 'review')")
    x = page.evaluate("phonechainReview.timeline.xOf(phonechainReview.store.files.get(0).rows[6][2])")
    y = box["y"] + lane["top"] + 40
    page.evaluate("phonechainReview.player.element.addEventListener('playing', () => (window.heard = true))")
    page.mouse.click(box["x"] + x - 12, y)
    until(page, "window.heard === true")
    assert page.evaluate("phonechainReview.timeline.selected") == 6
    page.mouse.move(box["x"] + x, y)
    page.mouse.down()
    page.mouse.move(box["x"] + x + 9, y, steps=3)
    page.mouse.up()
    wait_until_saved(page, 1)
    entries = tier_segments(choose_tier(read(download(page)))[0])
    old = tier_segments(choose_tier(read(SAMPLE))[0])
    assert entries[6].end == entries[7].start > old[6].end
    assert [e for i, e in enumerate(entries) if i not in (6, 7)] == [o for i, o in enumerate(old) if i not in (6, 7)]


def test_a_segment_is_heard_with_context_slowly_and_over_and_over(page: Any) -> None:
    """The sound that the player has is the segment, then a quarter of a second more on both sides; a loop begins anew."""
    open_sample(page)
    page.keyboard.press("ArrowRight")
    [_, start, end, *_] = page.evaluate("phonechainReview.current.row")
    whole = page.evaluate("phonechainReview.timeline.duration")
    length = "phonechainReview.player.element.duration"
    page.keyboard.press("Tab")
    until(page, f"Math.abs({length} - {end - start}) < 0.001")
    page.keyboard.press("Shift+Tab")
    until(page, f"Math.abs({length} - {min(whole, end + 0.25) - max(0, start - 0.25)}) < 0.001")
    page.evaluate("phonechainReview.player.element.addEventListener('seeked', () => (window.again = true))")
    for key in ("Shift+D", "Shift+D", "Shift+L", "Tab"):
        page.keyboard.press(key)
    until(page, "window.again === true")
    assert page.evaluate("phonechainReview.player.element.playbackRate") == 0.5
    assert page.locator("[data-tool=loop]").get_attribute("aria-pressed") == "true"
    assert page.locator("[data-tool=speed]").locator("option:checked").inner_text() == "0.5×"
    page.keyboard.press("Escape")


def test_work_survives_a_reload_and_a_restart_in_the_middle(browser: Any, tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        with watched(browser, service) as page:
            open_sample(page)
            page.keyboard.press("Enter")
            wait_until_saved(page, 1)
            service.stop(signal.SIGKILL)
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
            page.wait_for_selector(".foot .message.bad")
            assert "Not saved" in page.locator(".foot .message").inner_text()
            service.start()
            wait_until_saved(page, 3)
            page.reload()
            ready(page)
            assert page.locator(".foot").inner_text().startswith("3 of 23 checked")
            assert len(log(page, service)) == 3
    finally:
        service.stop()


def test_two_windows_do_not_overwrite_each_other(page: Any, browser: Any, service: Service) -> None:
    open_sample(page)
    with watched(browser, service) as other:
        other.goto(page.url)
        ready(other)
        page.keyboard.press("Enter")
        wait_until_saved(page, 1)
        # The same segment, which the other window still shows as nobody's: both operations stand in the log.
        other.keyboard.type("k")
        other.keyboard.press("Enter")
        wait_until_saved(other, 2)
        assert [o["kind"] for o in log(other, service)] == ["accept", "label"]
        assert "Someone else" in other.locator(".foot .message").inner_text()


def test_a_textgrid_in_utf_16_comes_back_as_one(page: Any) -> None:
    source = SAMPLE.decode().replace('"IH"', '"ɪ̥"').encode("utf-16")
    drop(page, ("a.flac", samples.AUDIO.read_bytes()), ("a.TextGrid", source))
    ready(page)
    page.keyboard.press("1")
    wait_until_saved(page, 1)
    out = download(page)
    assert out[:2] == source[:2]
    pairs = zip(source.decode("utf-16").split("\n"), out.decode("utf-16").split("\n"), strict=True)
    assert len([1 for a, b in pairs if a != b]) == 1


def test_a_wrong_file_is_refused_in_the_services_words(page: Any) -> None:
    drop(
        page, ("a.wav", b"this is no sound"), ("a.TextGrid", SAMPLE), ("b.flac", samples.AUDIO.read_bytes()),
        ("b.TextGrid", b"a poem\nof two lines\n"), ("c.flac", samples.AUDIO.read_bytes()),
    )  # fmt: skip
    until(page, "document.querySelectorAll('.uploads .bad').length === 2")
    text = page.locator(".uploads").inner_text()
    assert "expected WAV, FLAC" in text
    assert 'expected a first line with "ooTextFile"' in text
    assert "no annotation of this name" in text
    colours = (
        "[...document.querySelectorAll('.uploads .state')].map(one => [one.classList[1], getComputedStyle(one).color])"
    )
    kinds = dict(page.evaluate(colours))
    assert len(set(kinds.values())) == len(kinds) == 2  # refused ones do not look like the others


def test_a_tier_of_words_is_announced_openly(page: Any) -> None:
    words = b"0.00 0.12 in\n0.12 0.41 being\n0.41 1.26 comparatively\n1.26 1.89 modern\n"
    drop(page, ("a.flac", samples.AUDIO.read_bytes()), ("a.lab", words))
    ready(page)
    note = page.locator(".inspector .note", has_text="looks like words")
    assert note.is_visible()
    check_with_axe(page)


def test_nothing_empty_stands_above_the_steps_of_a_first_visit(browser: Any, tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        with watched(browser, service) as page:
            page.wait_for_selector(".steps")
            title, words, steps = (
                page.locator(one).last.bounding_box() for one in (".home > h2", ".home p:has(+ .steps)", ".steps")
            )
            assert words["y"] - title["y"] - title["height"] == 16
            assert steps["y"] - words["y"] - words["height"] == 24
            page.get_by_role("link", name="Keys").click()
            button, field = page.locator("form button").bounding_box(), page.get_by_label("Name").bounding_box()
            assert button["y"] + button["height"] == field["y"] + field["height"]
    finally:
        service.stop()


def test_help_covers_nothing_of_the_timeline(page: Any) -> None:
    open_sample(page)
    page.keyboard.press("?")
    stage, panel = page.locator(".stage").bounding_box(), page.locator(".help:visible").bounding_box()
    assert panel["x"] >= stage["x"] + stage["width"]


def test_markup_in_names_and_labels_is_text(page: Any) -> None:
    evil = "<img src=x onerror=window.evil=1><b>"
    label = "<script>window.evil=1</script>"
    source = SAMPLE.decode().replace('"AH"', f'"{label}"').replace('name = "words"', f'name = "{evil}"')
    drop(page, (f"{evil}.flac", samples.AUDIO.read_bytes()), (f"{evil}.TextGrid", source.encode()))
    ready(page)
    page.keyboard.press("F2")
    page.keyboard.type("<i>x</i>")
    page.keyboard.press("Enter")
    wait_until_saved(page, 1)
    for _ in range(COUNT):
        page.keyboard.press("PageDown")
    assert page.locator(".stage h1").inner_text() == evil
    assert "<i>x</i>" in page.locator(".list-body").inner_text()
    page.goto(page.url.split("#")[0])
    page.wait_for_selector(".card")
    assert page.locator(".card-name").first.inner_text() == evil
    assert page.evaluate("window.evil") is None
    assert page.locator("main img, main script, main b, main i").count() == 0


def test_unknown_labels_are_a_group_of_their_own_below_those_ranked_by_support(page: Any) -> None:
    """Two measures are never mixed in one order: support of given labels, posterior of answers to the others."""
    source = SAMPLE.decode().replace('"AH"', '"zz9"').replace('"M"', '"zz9"').encode()
    drop(page, ("a.flac", samples.AUDIO.read_bytes()), ("a.TextGrid", source))
    ready(page)
    known, unknown = page.evaluate(
        "(file => [true, false].map(one => file.rows.filter(row => file.knows(row[0]) === one).map(row => row[0])))"
        "(phonechainReview.store.files.get(0))"
    )
    answer = page.evaluate("phonechainReview.store.files.get(0).answer")
    assert known
    assert unknown
    assert [answer["given"][id] for id in unknown] == ["zz9"] * len(unknown)
    entries = [entry["id"] for entry in page.evaluate("phonechainReview.list.entries")]
    support, best = answer["given_support"], [n[1] for n in answer["n_best"]]
    assert entries == sorted(known, key=lambda id: support[id]) + sorted(unknown, key=lambda id: best[id])
    assert sorted(known, key=lambda id: support[id]) != sorted(known, key=lambda id: answer["given_posterior"][id])
    assert page.locator(".list-columns span").last.inner_text() == "support"
    for _ in entries:
        page.keyboard.press("PageDown")
    line = page.locator(".list-group")
    assert line.inner_text() == "Labels the model does not know"
    above, below = (page.locator(f"#row-{at}").bounding_box()["y"] for at in (len(known) - 1, len(known)))
    assert above < line.bounding_box()["y"] < below
    assert below - above == 64
    last = page.locator(f"#row-{len(entries) - 1} .p").inner_text()
    assert last.split()[-1] == f"{best[entries[-1]]:.2f}"
    check_with_axe(page)


def test_a_bound_below_a_hundredth_has_one_sign(page: Any) -> None:
    open_sample(page)
    page.keyboard.type("zh")
    page.keyboard.press("Enter")
    wait_until_saved(page, 1)
    page.keyboard.press("PageUp")
    badge = page.locator(".inspector .badge").first
    assert badge.inner_text() == "p < 0.01"
    assert badge.evaluate("e => e.scrollWidth <= e.clientWidth && e.getClientRects().length === 1")


def test_a_label_without_room_is_not_cut_to_another_label(page: Any) -> None:
    """`AH` cut to `A` would read as a label of its own; a cut shows an ellipsis, or there is no label."""
    open_sample(page)
    page.evaluate(
        "(line => { window.drawn = []; const own = line.context.fillText.bind(line.context);"
        " line.context.fillText = (text, ...at) => { window.drawn.push(text); own(text, ...at); }; })"
        "(phonechainReview.timeline)"
    )
    labels = set(page.evaluate("phonechainReview.store.labelSet()"))
    short = {label[0] for label in labels if len(label) == 2} - labels
    for length in (1.9, 4, 8, 12):
        page.evaluate(f"phonechainReview.timeline.setView(0, Math.min({length}, phonechainReview.timeline.duration))")
        page.set_viewport_size({"width": int(1500 - 80 * length), "height": 900})
        page.evaluate("phonechainReview.timeline.draw()")
    until(page, "window.drawn.length > 20")
    assert not short & set(page.evaluate("window.drawn"))


def test_filters_and_deleting(page: Any) -> None:
    drop(
        page,
        *(
            (f"{n}{s}", b)
            for n in ("x", "y")
            for s, b in ((".flac", samples.AUDIO.read_bytes()), (".TextGrid", SAMPLE))
        ),
    )
    ready(page)
    page.locator("[data-filter=label]").select_option("IH")
    rows = page.locator(".list-row")
    assert set(rows.locator("span:nth-child(3)").all_inner_texts()) == {"label\nIH"}
    both = rows.count()
    page.locator("[data-filter=file]").select_option("1")
    assert 2 * rows.count() == both
    page.locator("[data-filter=label]").select_option("")
    page.locator("[data-filter=confusion]").select_option(index=1)
    pair = page.locator("[data-filter=confusion]").input_value().split("\t")
    found = page.evaluate(
        "phonechainReview.list.entries.map(phonechainReview.store.row, phonechainReview.store)"
        ".map(({file, row}) => [row[3], file.best(row)])"
    )
    assert found
    assert all(one == pair for one in found)
    page.get_by_role("link", name="Review", exact=True).click()
    page.wait_for_selector(".card")
    count = page.locator(".card").count()
    page.locator(".card-end button").first.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    until(page, f"document.querySelectorAll('.card').length === {count - 1}")


@pytest.mark.parametrize("width", [1440, 375])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_looks_as_meant(
    browser: Any, service: Service, width: int, scheme: str, tmp_path: Path
) -> None:
    """Screenshots go to the folder in SHOTS, to be looked at."""
    import os

    folder = Path(os.environ.get("SHOTS", tmp_path))
    with watched(
        browser, service, viewport={"width": width, "height": 900 if width > 400 else 812}, color_scheme=scheme
    ) as page:
        page.wait_for_selector(".drop")
        page.wait_for_load_state("networkidle")
        check_with_axe(page)
        page.screenshot(path=folder / f"home-{width}-{scheme}.png", full_page=True)
        open_sample(page)
        page.wait_for_load_state("networkidle")
        check_with_axe(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=folder / f"review-{width}-{scheme}.png", full_page=width < 400)
        page.keyboard.press("?")
        check_with_axe(page)
        page.screenshot(path=folder / f"help-{width}-{scheme}.png")


def test_tab_can_leave_the_timeline(page: Any) -> None:
    open_sample(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "CANVAS"
