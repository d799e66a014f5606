"""Train, whole: a corpus dropped, looked into and heard, spellings merged, trained, and the sounds behind a confusion."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.app.jobs import speech
from tests.page.conftest import Service, watched
from tests.page.test_align import shot
from tests.page.test_review import check_with_axe, open_sample, until, wait_until_saved
from tests.page.test_views import ask

pytestmark = [pytest.mark.slow]
ENDED = 600_000


def files(folder: Path, count: int = 6) -> Path:
    """A corpus whose second annotation is broken, and whose third spells a label with a character that nobody sees."""
    speech.folder(folder, count)
    labels = sorted(folder.rglob("*.lab"))
    labels[1].write_bytes(b"no annotation <b>at all</b>")
    labels[2].write_bytes(labels[2].read_bytes().replace(b" IH", " IH\u200b".encode()))
    return folder


def wait_for_sound(page: Any) -> None:
    """Wait for a sound to play after `page` was told to note it."""
    until(page, "window.heard > 0")


@pytest.fixture
def dropped(page: Any, tmp_path: Path) -> Any:
    """The view of a corpus that was chosen as a folder."""
    page.evaluate(
        "HTMLMediaElement.prototype.play = (play => function () { window.heard++; return play.call(this); })"
        "(HTMLMediaElement.prototype.play); window.heard = 0"
    )
    page.get_by_role("link", name="Train").click()
    page.get_by_text("Drop a corpus here").wait_for()  # the first view takes folders too
    page.set_input_files("input[data-folder]", str(files(tmp_path / "my <b>corpus")))
    page.wait_for_selector(".merge", timeout=120_000)
    return page


def test_a_corpus_is_looked_into(dropped: Any) -> None:
    page = dropped
    check_with_axe(page)
    shot(page, "corpus-real")
    assert page.locator("h1").inner_text() == "my <b>corpus"
    assert page.locator("main b").count() == 0
    problems = page.locator("section", has_text="Problems: 1").first
    assert "expected" in problems.inner_text()
    problems.locator(".hear").first.click()  # the recording whose annotation is broken
    wait_for_sound(page)
    labels = page.locator("section", has_text="labels in").last
    row = labels.locator("tr", has=page.get_by_role("rowheader", name="N", exact=True)).first
    row.locator(".hear").click()
    until(page, "window.heard > 1")
    assert "U+200B" in page.locator(".merge").first.inner_text()


def test_a_corpus_is_opened_as_a_review(dropped: Any) -> None:
    page = dropped
    page.get_by_role("button", name="Find the labels that are wrong").click()
    page.wait_for_selector(".review .list-row.chosen", timeout=60_000)
    assert page.evaluate("phonechainReview.store.files.size") == 5  # the broken one is no part of the corpus
    assert page.evaluate("[...phonechainReview.store.files.values()].every((file) => file.meta.format === 'htk')")


def test_it_is_trained_and_confusions_are_heard(dropped: Any, service: Service) -> None:
    page = dropped
    page.locator(".merge input[type=checkbox]").first.check()
    page.get_by_label("Start from").select_option("")
    page.get_by_role("combobox", name="System", exact=True).select_option("lc-crf")
    page.get_by_label("Epochs").fill("3")
    page.get_by_label("Name of the model").fill("from-the-page")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector(".job-head")
    page.wait_for_selector(".plot .line", timeout=ENDED)  # the live curve
    page.wait_for_selector(".evaluation", timeout=ENDED)
    check_with_axe(page)
    id = page.evaluate("location.hash").rsplit("/", 1)[-1]
    job = ask(service, "GET", f"jobs/{id}")
    assert job["request"]["map"] == {"IH\u200b": "IH"}
    assert "IH\u200b" not in ask(service, "GET", "models/from-the-page")["label_set"]
    found = ask(service, "GET", f"jobs/{id}/evaluation")
    assert f"{100 * found['per']:.1f} %" in page.locator(".figures").inner_text()
    # The matrix by keyboard, to a cell with something in it; behind it are as many sounds as it counts.
    page.locator(".matrix").focus()
    names, matrix = found["labels"], found["confusion_matrix"]
    used = [i for i in range(len(names)) if sum(matrix[i]) or any(row[i] for row in matrix)]
    down, right = next((r, c) for r, i in enumerate(used) for c, j in enumerate(used) if matrix[i][j])
    count = matrix[used[down]][used[right]]
    for key, times in (("ArrowDown", down), ("ArrowRight", right)):
        for _ in range(times):
            page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector(".cell td")
    assert page.locator(".cell tbody tr").count() == min(100, count)
    assert str(count) in page.locator(".cell h4").inner_text()
    page.evaluate("window.heard = 0")
    page.locator(".cell .hear").first.click()
    wait_for_sound(page)
    shot(page, "trained")
    # Used at once.
    page.get_by_role("link", name="Label files with it").click()
    page.wait_for_selector(".drop")
    until(page, "document.querySelector('.options-row select').value === 'from-the-page'")
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_selector(".review .list-row.chosen")
    assert page.evaluate("phonechainReview.store.files.get(0).meta.model.name") == "from-the-page"


def test_what_comes_next_after_a_review(page: Any) -> None:
    open_sample(page)
    page.keyboard.press("Enter")
    wait_until_saved(page, 1)
    page.locator("[data-foot=next]").click()
    page.wait_for_selector(".columns")
    check_with_axe(page)
    assert "No training of this review" in page.locator("main").inner_text()
    assert page.locator("tbody tr td").first.inner_text() == "LJ001-0002"
    page.get_by_role("button", name="Train again with my corrections").click()
    page.wait_for_selector(".state-succeeded", timeout=ENDED)
    page.go_back()
    page.wait_for_selector(".plot .dot", timeout=60_000)
    check_with_axe(page)
    shot(page, "next-real")
    page.locator("tbody tr td a").first.click()
    page.wait_for_selector(".review .list-row.chosen")


@pytest.mark.parametrize("width", [1440, 375])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_as_meant(browser: Any, service: Service, width: int, scheme: str, tmp_path: Path) -> None:
    data = speech.zip_folder(files(tmp_path / "c", 3))
    request = urllib.request.Request(f"{service.url}corpora?name=looks", data, {"Content-Type": "application/zip"})
    id = json.load(urllib.request.urlopen(request))["id"]
    with watched(browser, service, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        for view, selector in (("train", ".card"), (f"train/{id}", ".merge")):
            page.goto(f"{service.url}#/{view}")
            page.wait_for_selector(selector)
            page.wait_for_load_state("networkidle")
            check_with_axe(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            shot(page, f"{view.split('/')[0]}{len(view.split('/'))}-{width}-{scheme}")


def test_a_name_with_a_blank_is_refused_with_the_rule(dropped: Any) -> None:
    page = dropped
    name = page.get_by_label("Name of the model")
    name.fill("my model")
    message = name.evaluate("e => e.validationMessage")
    assert "no blanks" in message
    assert "my-model" in message
    name.fill("my-model")
    assert name.evaluate("e => e.validationMessage") == ""


def test_an_axis_of_epochs_has_whole_numbers(page: Any) -> None:
    script = (
        "import('./page/js/charts.js').then(({ticks}) => [ticks(1, 3, 6, 1), ticks(0, 2, 6, 1), ticks(0, 40, 6, 1)])"
    )
    assert page.evaluate(script) == [[1, 2, 3], [0, 1, 2], [0, 10, 20, 30, 40]]
    assert page.evaluate(script.replace(", 1)", ")"))[0][:2] == [1, 1.5]
