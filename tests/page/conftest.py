"""Debian's chromium and a service of its own; skipped where either a browser or playwright is missing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE = os.environ.get("AXE")
"""A copy of axe-core's axe.min.js; `scripts/vendor_page.sh tools` fetches it."""


class Service:
    """`phonechain serve` in a process, which can be stopped and started again on its port and its folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = folder / "service.log"
        self.environment = {**os.environ, "PHONECHAIN_DATA": str(folder / "data"), "OMP_NUM_THREADS": "1", **settings}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "phonechain.app.cli", "serve", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}health/live", timeout=1).close()
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.2)
            else:
                return
        raise AssertionError(f"the service did not start: {self.log.read_text()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("service"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs chromium (CHROMIUM=PATH, or in PATH)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    """A page at 1440 px; afterwards nothing may have gone wrong in it, nor been asked of anyone but the service."""
    with watched(browser, service) as page:
        yield page


class watched:
    """A page whose errors and foreign requests fail the test at its end."""

    def __init__(self, browser: Any, service: Service, **context: Any) -> None:
        options = {"viewport": {"width": 1440, "height": 900}, "accept_downloads": True, "reduced_motion": "reduce"}
        self.context = browser.new_context(**{**options, **context})
        self.service = service
        self.wrong: list[str] = []

    def __enter__(self) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self._said(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self._asked(request.url))
        page.goto(self.service.url)
        return page

    def __exit__(self, kind: Any, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert not self.wrong, self.wrong

    def _said(self, text: str) -> None:
        if "Failed to load resource" not in text:  # a refusal of the service, which tests provoke
            self.wrong.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.service.url, "blob:", "data:")):
            self.wrong.append(f"asked for {url}")
