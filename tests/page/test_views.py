"""Jobs, models and keys in the browser, and signing in."""

from __future__ import annotations

import io
import json
import os
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.model import pretrained_path
from tests.page.conftest import Service, watched
from tests.page.test_review import check_with_axe, until

pytestmark = [pytest.mark.slow]
KEY = "an admin key of the tests"


def ask(service: Service, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    request = urllib.request.Request(service.url + path, body, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def corpus(service: Service) -> str:
    """The id of a corpus of two utterances, one of them broken."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("s1/a", "s1/b"):
            archive.writestr(
                f"{name}.flac", samples.AUDIO.read_bytes() if name == "s1/a" else b"no sound <b>at all</b>"
            )
            archive.writestr(f"{name}.TextGrid", samples.SEGMENTS.read_bytes())
    return str(ask(service, "POST", "corpora?name=two", out.getvalue(), "application/zip")["id"])


def test_a_job_is_followed_to_its_result(page: Any, service: Service) -> None:
    made = ask(service, "POST", "jobs", json.dumps({"kind": "label", "corpus": corpus(service)}).encode())
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="Labelling").first.click()
    page.wait_for_selector(".state-succeeded", timeout=120_000)
    check_with_axe(page)
    assert "<b>at all</b>" in page.locator("table").inner_text()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the result").click()
    assert Path(waiting.value.path()).stat().st_size > 100
    page.screenshot(path=Path(os.environ.get("SHOTS", "/tmp")) / "job.png", full_page=True)
    page.goto(f"{service.url}#/jobs")
    page.wait_for_selector(".card")
    check_with_axe(page)
    assert made["id"] in page.locator(".card").first.get_attribute("href")


def test_a_model_shows_its_card(page: Any) -> None:
    page.get_by_role("link", name="Models").click()
    page.locator("summary").first.click()
    page.wait_for_selector(".facts dt")
    check_with_axe(page)
    page.screenshot(path=Path(os.environ.get("SHOTS", "/tmp")) / "models.png")
    assert "speechocean762" in page.locator(".panel").first.inner_text()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").first.click()
    assert waiting.value.suggested_filename.endswith(".safetensors")
    assert "labels segments" in page.locator(".panel").first.inner_text()
    page.get_by_label("Show").select_option("alignment")
    only = page.locator(".panel")
    only.get_by_text("aligns and recognises").first.wait_for()
    assert page.get_by_role("heading", name="english-alignment").is_visible()
    assert all("labels segments" not in text for text in only.all_inner_texts())


def test_a_model_is_uploaded_made_the_default_and_deleted(page: Any, service: Service) -> None:
    def article() -> Any:
        return page.locator("article", has=page.get_by_role("heading", name="of-a-test"))

    page.get_by_role("link", name="Models").click()
    page.wait_for_selector(".panel")
    page.set_input_files(
        "input[type=file]",
        {
            "name": "of-a-test.safetensors",
            "mimeType": "application/octet-stream",
            "buffer": pretrained_path().read_bytes(),
        },
    )
    article().wait_for(timeout=60_000)
    article().get_by_role("button", name="Make it the default").click()
    article().locator(".mark", has_text="default").wait_for()
    assert [a["name"] for a in ask(service, "GET", "models")["aliases"] if a["alias"] == "default"] == ["of-a-test"]
    article().get_by_role("button", name="Delete").click()
    article().get_by_role("button", name="Keep").click()
    article().get_by_role("button", name="Delete").click()
    assert "Delete of-a-test@" in article().inner_text()
    article().get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_timeout(500)
    check_with_axe(page)
    page.set_input_files("input[type=file]", {"name": "x.safetensors", "mimeType": "text/plain", "buffer": b"no model"})
    page.wait_for_selector(".bad")
    assert "expected" in page.locator(".bad").inner_text()


def test_a_key_is_asked_for_and_kept_nowhere(browser: Any, tmp_path: Path) -> None:
    service = Service(tmp_path, PHONECHAIN_ADMIN_KEY=KEY)
    service.start()
    try:
        with watched(browser, service) as page:
            page.wait_for_selector("#key")
            check_with_axe(page)
            page.fill("#key", "another key that is wrong")
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_selector(".bad")
            assert "key" in page.locator(".bad").inner_text()
            page.fill("#key", KEY)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("button", name="Try the sample").click()
            page.wait_for_selector(".review .list-row.chosen")
            until(page, "phonechainReview.timeline.peaks.length > 0")
            page.keyboard.press("Tab")
            until(page, "phonechainReview.player.url !== ''")  # the sound comes with the key too
            page.get_by_role("link", name="Keys").click()
            page.locator("form input").fill("<b>someone</b>")
            page.get_by_role("button", name="Make a key").click()
            page.wait_for_selector(".secret")
            check_with_axe(page)
            assert page.locator("td").first.inner_text() == "<b>someone</b>"
            page.get_by_role("button", name="Revoke the key").click()
            page.wait_for_selector("td:has-text('revoked')")
            kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
            assert KEY not in kept
            page.reload()
            page.wait_for_selector("#key")
    finally:
        service.stop()


def test_a_review_is_trained_on(page: Any) -> None:
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_selector(".review .list-row.chosen")
    assert page.get_by_role("button", name="Train").is_disabled()
    page.keyboard.press("Enter")
    until(page, "phonechainReview.store.revision === 1")
    page.get_by_role("button", name="Train").click()
    page.wait_for_selector(".job-head")
    assert "Training" in page.locator("h1").inner_text()
    page.wait_for_selector(".state-succeeded", timeout=240_000)  # a part of the one recording is held out
    page.screenshot(path=Path(os.environ.get("SHOTS", "/tmp")) / "train.png", full_page=True)
