"""How fast the page is with an hour of sound and 30,000 segments, in headless chromium on this machine.

    python benchmarks/page.py

Opening is the time from the address to the list, the timeline and its waveform; frames are counted by
requestAnimationFrame while the timeline is panned and zoomed by its own methods for 5 s, and the slowest second is the one of all
seconds that begin at a frame which has the fewest; painting is the time of the canvas alone, in milliseconds. First paint is the
browser's own entry, with a cold cache; bytes are those of the network, compressed. Memory is that of the JavaScript heap and the
resident pages of the renderer's process, after all of it.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from playwright.sync_api import sync_playwright

from phonechain.app import samples
from phonechain.app.http.routes.page import files
from phonechain.features.annotation import Annotation, Tier, read, tier_segments, write
from phonechain.features.segments import Segment

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.page.conftest import CHROMIUM, Service

SECONDS, COPIES = 3600.0, 1305

DRIVE = """async ([kind, seconds]) => {
  const view = phonechainReview.timeline;
  const stamps = [], paints = [];
  const end = performance.now() + 1000 * seconds;
  view.frames = {count: 0, slowest: 0};
  let step = 0;
  await new Promise((done) => {
    const frame = (now) => {
      stamps.push(now);
      const begun = performance.now();
      if (now > end) return done();
      const span = view.end - view.begin;
      if (kind === 'zoom') view.zoom(step++ % 120 < 60 ? 0.93 : 1 / 0.93, view.duration / 2 + 3);
      else view.pan(0.02 * span * (view.end >= view.duration ? -1000 : 1));
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  let slowest = Infinity;
  for (let i = 0, j = 0; i < stamps.length; i++) {
    while (stamps[i] - stamps[j] > 1000) j++;
    if (stamps[i] - stamps[0] > 1000) slowest = Math.min(slowest, i - j);
  }
  return {fps: (stamps.length - 1) / ((stamps[stamps.length - 1] - stamps[0]) / 1000), slowest, paint: view.frames.slowest};
}"""


def hour() -> tuple[bytes, bytes]:
    """(FLAC, TextGrid): the sample over and over, each time with a silence of its own after it."""
    sound, rate = soundfile.read(io.BytesIO(samples.AUDIO.read_bytes()), dtype="float32")
    period = SECONDS / COPIES
    piece = np.zeros(round(period * rate), dtype="float32")
    piece[: len(sound)] = sound[: len(piece)]
    tiers = {tier.name: tier for tier in read(samples.SEGMENTS.read_bytes()).tiers}
    out = io.BytesIO()
    soundfile.write(out, np.tile(piece, COPIES), rate, format="FLAC")
    period = len(piece) / rate
    made = []
    for name, tier in tiers.items():
        entries = [
            Segment(n * period + s.start, n * period + s.end, s.label)
            for n in range(COPIES)
            for s in [*tier_segments(tier), Segment(tier.entries[-1].end, period, "SIL")]
        ]
        made.append(Tier(name, "interval", entries))
    return out.getvalue(), write(Annotation(made, "textgrid", 0, COPIES * period), "textgrid")


def post(url: str, body: bytes, kind: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}), timeout=900) as answer:
        return json.load(answer)


def upload(service: Service) -> str:
    """The id of a review of an hour."""
    id = post(f"{service.url}reviews", b'{"name": "an hour"}', "application/json")["id"]
    mark = uuid.uuid4().hex
    body = b""
    for field, name, data in (("audio", "hour.flac", (made := hour())[0]), ("segments", "hour.TextGrid", made[1])):
        body += f'--{mark}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'.encode()
        body += data + b"\r\n"
    begun = time.monotonic()
    added = post(
        f"{service.url}reviews/{id}/files", body + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"
    )
    print(f"taking in {added['duration']:.0f} s with {added['segments']} segments: {time.monotonic() - begun:.1f} s")
    return str(id)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        service = Service(Path(folder))
        service.start()
        try:
            measure(service, playwright)
        finally:
            service.stop()


def measure(service: Service, playwright: Any) -> None:
    """First paint, opening, panning, zooming, memory."""
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--enable-precise-memory-info"]
    )
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(service.url)
    page.wait_for_selector(".drop")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    print(f"first contentful paint, cold cache: {paint:.0f} ms")
    sent = page.evaluate("performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)")
    whole = sum(len(packed if packed is not None else data) for data, packed, _ in files().values())
    print(f"first view: {sent / 1000:.0f} kB; all files of the page: {whole / 1000:.0f} kB compressed")
    id = upload(service)
    page.set_default_timeout(120_000)
    for _ in range(3):
        page.goto("about:blank")
        begun = time.monotonic()
        page.goto(f"{service.url}#/review/{id}")
        page.wait_for_selector(".list-row.chosen")
        while not page.evaluate("phonechainReview.timeline.peaks.length"):
            time.sleep(0.01)
        print(f"opening: {time.monotonic() - begun:.2f} s")
    for kind, span in (("pan", 2.0), ("pan", 20.0), ("pan", 300.0), ("pan", 1800.0), ("zoom", 30.0), ("zoom", 3600.0)):
        page.evaluate(f"phonechainReview.timeline.setView(100, {100 + span})")
        time.sleep(1)
        found = page.evaluate(DRIVE, [kind, 5])
        print(
            f"{kind} from {span:.0f} s in view: {found['fps']:.0f} frames/s, slowest second {found['slowest']}, "
            f"slowest painting {found['paint']:.1f} ms"
        )
    memory = page.evaluate("performance.memory.usedJSHeapSize / 2**20")
    print(f"JavaScript heap: {memory:.0f} MiB; the renderer's process: {renderer_memory(browser):.0f} MiB")
    browser.close()


def renderer_memory(browser: Any) -> float:
    """Resident memory of the largest renderer (MiB)."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = []
    for process in found:
        if process["type"] == "renderer":
            status = Path(f"/proc/{process['id']}/status").read_text()
            sizes.append(int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024)
    return max(sizes)


if __name__ == "__main__":
    main()
