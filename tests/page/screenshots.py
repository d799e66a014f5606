"""Pictures of every view, with the guide's samples: `python -m tests.page.screenshots [FOLDER] [VIEW...]`.

They are written at 1440 and 375 px, light and dark, to `docs/screenshots` or FOLDER, as PNG of 128 colours. With AXE set,
each view is checked by axe before its picture is taken, and no view may be wider than its window.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

from phonechain.app import samples
from tests.page.conftest import CHROMIUM, Service, watched
from tests.page.test_review import check_with_axe, ready

TOO_WIDE = """document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll-x")).map((e) => e.className).slice(0, 5)"""
OUT = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
SIZES = {"1440": (1440, 900), "375": (375, 812)}
SCHEMES = ("light", "dark")


class World:
    """A service with a corpus, a review of it that was begun, a training of each, and an alignment job."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.corpus = self.ask("POST", "corpora?name=reader", self.zip(), "application/zip")["id"]
        self.training = self.job(
            kind="train", corpus=self.corpus, name="reader", preset="lc-crf", training={"epochs": 12}
        )
        self.review = self.ask("POST", "reviews", {"name": "reader"})["id"]
        for place in (*range(4), *range(13, 17)):
            self.ask("POST", f"reviews/{self.review}/files", {"corpus": self.corpus, "place": place})
        rows = self.ask("GET", f"reviews/{self.review}/files/0/segments")["segments"]
        accept = [{"op": "accept", "file": 0, "segment": row[0]} for row in rows[:20]]
        change = [{"op": "label", "file": 0, "segment": rows[21][0], "label": "AH"}]
        self.ask("POST", f"reviews/{self.review}/operations", {"revision": 0, "operations": accept + change})
        copy = self.ask("POST", f"reviews/{self.review}/corpus", {})["id"]
        self.job(kind="train", corpus=copy, name="reader", base="default", fold=True, training={"epochs": 2})
        self.accept(revision=len(accept) + 1)
        copy = self.ask("POST", f"reviews/{self.review}/corpus", {})["id"]
        self.second = self.job(
            kind="train", corpus=copy, name="reader", base="default", fold=True, training={"epochs": 2}
        )
        self.label = self.job(kind="label", corpus=self.corpus)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.service.url}{path}", data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def accept(self, revision: int) -> None:
        """Accept every segment of the second file."""
        rows = self.ask("GET", f"reviews/{self.review}/files/1/segments")["segments"]
        operations = [{"op": "accept", "file": 1, "segment": row[0]} for row in rows]
        self.ask("POST", f"reviews/{self.review}/operations", {"revision": revision, "operations": operations})

    def zip(self) -> bytes:
        """The samples' reader, with the labels of which some are wrong on purpose, as two speakers."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for n, path in enumerate(sorted(samples.FOLDER.glob("planted/*.TextGrid"))):
                sound = samples.FOLDER / "reader" / f"{path.stem}.ogg"
                archive.write(path, f"part {n % 2 + 1}/{path.name}")
                archive.write(sound, f"part {n % 2 + 1}/{sound.name}")
        return out.getvalue()

    def job(self, **asked: Any) -> str:
        """The id of a job that has ended well."""
        id = str(self.ask("POST", "jobs", asked)["id"])
        for _ in range(1200):
            job = self.ask("GET", f"jobs/{id}")
            if job["state"] == "succeeded":
                return id
            assert job["state"] in ("queued", "running"), job
            time.sleep(0.5)
        raise AssertionError(f"job {id} takes too long")


def open_review(page: Any, world: World) -> None:
    page.goto(f"{world.service.url}#/review/{world.review}")
    ready(page)


def open_help(page: Any, world: World) -> None:
    open_review(page, world)
    page.keyboard.press("?")


def open_history(page: Any, world: World) -> None:
    open_review(page, world)
    page.keyboard.press("Shift+H")
    page.wait_for_selector(".history li")


def open_align(page: Any, world: World) -> None:
    page.goto(f"{world.service.url}#/align")
    page.reload()  # where this view is shown already, the sample would be in it twice
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_selector(".uploads li")


def open_aligned(page: Any, world: World) -> None:
    open_align(page, world)
    page.locator(".home > .row > .primary").click()
    ready(page)


def open_training(page: Any, world: World) -> None:
    page.goto(f"{world.service.url}#/jobs/{world.training}")
    page.wait_for_selector(".evaluation")
    page.wait_for_selector(".plot .line")
    page.locator(".evaluation summary").click()
    page.locator(".evaluation td button.phone").first.click()  # the most frequent confusion; any one cell may be empty
    page.wait_for_selector(".cell td, .cell h4")


def open_models(page: Any, world: World) -> None:
    page.goto(f"{world.service.url}#/models")
    page.locator("summary").first.click()
    page.wait_for_selector(".facts dt")


def at(path: str, selector: str) -> Callable[[Any, World], None]:
    def go(page: Any, world: World) -> None:
        page.goto(f"{world.service.url}#/{re.sub('{(.*?)}', lambda name: getattr(world, name[1]), path)}")
        page.wait_for_selector(selector)

    return go


VIEWS: dict[str, Callable[[Any, World], None]] = {
    "home": at("", ".card"),
    "review": open_review,
    "keys-of-the-review": open_help,
    "history": open_history,
    "align": open_align,
    "aligned": open_aligned,
    "corpora": at("train", ".card"),
    "corpus": at("train/{corpus}", ".merge, .stack table"),
    "training": open_training,
    "next": at("next/{review}", ".columns"),
    "jobs": at("jobs", ".card"),
    "job": at("jobs/{label}", ".facts"),
    "models": open_models,
    "keys": at("keys", "form"),
}


def main() -> None:
    """Take them all, or those that are named."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    chosen = sys.argv[2:] or list(VIEWS)
    out.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        service = Service(Path(folder))
        service.start()
        try:
            world = World(service)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for size, (width, height) in SIZES.items():
                for scheme in SCHEMES:
                    viewport = {"width": width, "height": height}
                    with watched(browser, service, viewport=viewport, color_scheme=scheme) as page:
                        for name in chosen:
                            try:
                                take(page, world, name, out / f"{name}-{size}-{scheme}.png")
                            except (AssertionError, PlaywrightError) as error:  # the others are taken all the same
                                failed.append(f"{name}-{size}-{scheme}: {str(error)[:1000]}")
            browser.close()
        finally:
            service.stop()
    if failed:
        sys.exit("\n".join(failed))


def take(page: Any, world: World, name: str, path: Path) -> None:
    """Open a view, check it, and keep its picture. Raises AssertionError, playwright's Error."""
    VIEWS[name](page, world)
    page.wait_for_timeout(800)  # pictures and sounds; a list of jobs never stops asking
    keep(page, path)
    check_with_axe(page)
    wide = page.evaluate(TOO_WIDE)
    assert not wide, wide


def keep(page: Any, path: Path) -> None:
    """The whole page, up to three windows high, in few colours."""
    size = page.viewport_size
    height = min(page.evaluate("document.documentElement.scrollHeight"), 3 * size["height"])
    clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
    whole = not page.locator(".foot").count()  # the foot of a review stays at the foot of the window
    image = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip) if whole else page.screenshot())).convert(
        "RGB"
    )
    image.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
