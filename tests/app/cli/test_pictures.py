"""`label --plot`, `phonechain.plot` and `evaluate --report`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from phonechain import plot
from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.features.annotation import Tier
from phonechain.features.audio.reader import Audio
from phonechain.features.errors import SettingsError
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment
from phonechain.model.answers import LabelledSegment
from phonechain.model.scoring.evaluation import ScoredSegments
from phonechain.model.scoring.report import render

pytest.importorskip("matplotlib")
RATE = 16000


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """(exit code, what was printed) of the command line in this process."""
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(list(arguments)))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out + printed.err


def tone(frequency: float, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(int(seconds * RATE)) / RATE).astype(np.float32)


@pytest.mark.parametrize("frequency", [500.0, 1000.0, 3000.0])
def test_a_tone_is_where_its_frequency_is(frequency: float) -> None:
    power = plot.spectrogram(tone(frequency), RATE)
    assert power.shape[1] == 500
    hertz = np.linspace(0, 8000, power.shape[0])
    assert hertz[power[:, 250].argmax()] == pytest.approx(frequency, abs=40)


def test_a_click_is_when_it_was() -> None:
    samples_ = np.zeros(RATE, dtype=np.float32)
    samples_[4800] = 1.0
    assert plot.spectrogram(samples_, RATE).sum(axis=0).argmax() == pytest.approx(300, abs=5)


def test_lanes_hold_labels_given_and_answered() -> None:
    labelled = [
        LabelledSegment(0.0, 0.2, "A", 0.9, [("A", 0.9)], "$x_1$", 0.1, 2),
        LabelledSegment(0.2, 0.5, "ɪ", 0.3, [("ɪ", 0.3)], "ɪ", 0.3, 1),
    ]
    words = Tier("words", "interval", [Segment(0, 0.5, "wörd")])
    figure = plot.utterance(Audio(tone(300), RATE), labelled, tiers=[words], title="a")
    texts = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert texts[2] == ["wörd"]
    assert texts[3] == [r"\$x_1\$", "0.10", "ɪ", "0.30"]
    assert texts[4] == ["A", "0.90", "ɪ", "0.30"]
    figure.canvas.draw()
    assert "8" in [text.get_text() for text in figure.axes[1].get_yticklabels()]  # kHz
    assert "0.4" in [text.get_text() for text in figure.axes[4].get_xticklabels()]  # s


def test_a_stretch_has_to_be_one() -> None:
    audio = Audio(np.zeros(130 * 1000, dtype=np.float32), 1000)
    with pytest.raises(SettingsError, match="at most 120 s"):
        plot.utterance(audio, [])
    with pytest.raises(SettingsError, match="inside"):
        plot.utterance(audio, [], start=200.0)


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_command_draws(tmp_path: Path, suffix: str, magic: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"a.{suffix}"
    code, said = run(capsys, "label", str(samples.AUDIO), str(samples.SEGMENTS), "--plot", str(out))
    assert code == 0, said
    assert out.read_bytes().startswith(magic)


def test_the_command_says_what_it_cannot_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "label", str(samples.AUDIO), str(samples.SEGMENTS), "--plot", str(tmp_path / "a.doc"))
    assert code == 2
    assert ".png, .svg, .pdf" in said


def make_scored(labels: list[str], speakers: list[str | None]) -> ScoredSegments:
    count = len(speakers)
    random = np.random.default_rng(1)
    posterior = random.dirichlet(np.ones(len(labels)), count).astype(np.float32)
    true = random.integers(0, len(labels), count)
    return ScoredSegments(
        labels, true, [labels[n] for n in true], posterior, posterior.argmax(axis=1), ["u"] * count, speakers,
        LabelSet(tuple(labels)).compare(labels), {}, {}, 0, [{"utterance": "<u>", "message": "<b>bad</b>"}],
        random.uniform(0.01, 0.5, count),
    )  # fmt: skip


def test_a_report_is_one_file_of_figures_and_text() -> None:
    labels = ["<script>", "b & c", "ɪ"]
    found = make_scored(labels, [f"s{n % 3}" for n in range(200)])
    text = render(found, "<i>title</i>")
    body = re.sub(r"<meta[^>]*>", "", text.removeprefix("<!doctype html>\n"))
    root = ElementTree.fromstring(body)  # well formed, so that no label has become markup
    assert root.find("body/h1").text == "<i>title</i>"  # type: ignore[union-attr]
    assert not re.search(r"<script|https?://|\bsrc=|@import|url\(", text)
    cells = [cell.text for cell in root.iter("td")]
    assert {"<script>", "b & c", "s0", "s1", "s2", "not read: <u>", "<b>bad</b>"} <= set(cells)
    summary = found.summarise()
    assert f"{100 * summary.per:.1f} % ({summary.errors})" in cells
    bins = [[c.text for c in row] for row in root.iter("tr") if len(row) == 5 and " to " in (row[0].text or "")]
    assert sum(int(row[1] or 0) for row in bins) == 200
    known = [b.interval is not None and b.interval.low is not None for b in summary.reliability]
    assert [" to " in (row[4] or "") for row in bins] == known
    assert text.count('<path class="bar"') == sum(known) > 5
    rows = [[c.text for c in row] for row in root.iter("tr") if len(row) == 4 and (row[0].text or "").endswith("ms")]
    assert found.durations is not None
    assert sum(int(row[1] or 0) for row in rows) == int((found.durations < 0.4).sum())


def test_a_report_without_speakers_or_durations_leaves_them_out() -> None:
    from dataclasses import replace

    text = render(replace(make_scored(["a", "b"], [None] * 50), durations=None), "t")
    assert "By speaker" not in text
    assert "By duration" not in text
