"""What notebooks show: HTML in which labels are text and sound can be heard, and a notebook that runs."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain import notebook
from phonechain.features import notebook as markup
from phonechain.features.audio.reader import Audio
from phonechain.model.answers import LabelledSegment
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Alignment, Recognition

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "first-steps.ipynb"
EVIL = "<script>evil()</script>"
SOUND = Audio(np.linspace(-0.5, 0.5, 16_000, dtype=np.float32), 16_000)


def sounds(html: str) -> list[tuple[np.ndarray, int]]:
    """The sound of every player in a page."""
    found = re.findall(r'src="data:audio/wav;base64,([^"]+)"', html)
    return [soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="float32") for data in found]


def label_sample(start: float, p: float, given: float | None = None) -> LabelledSegment:
    return LabelledSegment(start, start + 0.1, EVIL, p, [(EVIL, p)], given=EVIL, given_posterior=given, given_rank=1)


def test_sound_is_heard_as_it_is() -> None:
    ((samples, rate),) = sounds(SOUND._repr_html_())
    assert rate == 16_000
    assert samples == pytest.approx(SOUND.samples, abs=2**-15)


def test_a_long_sound_is_cut_and_says_so() -> None:
    html = Audio(np.zeros(8000 * 90, np.float32), 8000)._repr_html_()
    ((samples, rate),) = sounds(html)
    assert (len(samples) / rate, "the first 60 s" in html, "90.000 s" in html) == (60, True, True)
    ((samples, rate),) = sounds(markup.player(np.zeros(192_000, np.float32), 192_000))
    assert len(samples) / rate == pytest.approx(1, abs=1e-3)
    assert rate <= 48_000


def test_the_doubtful_come_first_with_their_own_sound() -> None:
    answers = [label_sample(0.1, 0.9, 0.8), label_sample(0.3, 0.6), label_sample(0.5, 0.9, 0.1)]
    shown = notebook.listen(SOUND, answers, count=2, around=0.05)
    assert [s.start for s in shown.doubtful()] == [0.5, 0.3]
    whole, first, second = sounds(shown._repr_html_())
    assert len(whole[0]) == 16_000
    assert first[0] == pytest.approx(SOUND.samples[7200:10_400], abs=2**-15)
    assert second[0] == pytest.approx(SOUND.samples[4000:7200], abs=2**-15)
    with pytest.raises(ValueError, match="expected a count from 1 to 200"):
        notebook.listen(SOUND, answers, count=0)


def test_labels_are_text_everywhere() -> None:
    phones = (AlignedPhone(EVIL, 0.0, 0.2, 0.0, 0.01, 0.9, 0.5),)
    word = AlignedWord(EVIL, EVIL, 0.0, 0.2, (EVIL,), 1.0, (0, 1))
    for shown in (
        label_sample(0.1, 0.5, 0.2),
        notebook.listen(SOUND, [label_sample(0.1, 0.5, 0.2)]),
        Alignment(phones, (word,), 1.0, -1.0),
        Recognition(phones, 1.0),
    ):
        html = shown._repr_html_()
        assert "&lt;script&gt;" in html
        assert "<script" not in html


def test_a_table_ends_and_counts_the_rest() -> None:
    html = markup.table(("a",), [(str(n),) for n in range(markup.MAX_ROWS + 3)])
    assert (html.count("<tr>"), "and 3 more" in html) == (markup.MAX_ROWS + 1, True)


@pytest.mark.parametrize(("p", "text"), [(0.0, "0.00"), (1.0, "1.00"), (0.456, "0.46")])
def test_certainty_is_a_number_on_a_colour(p: float, text: str) -> None:
    assert text in markup.certainty(p)
    assert "background:rgb(" in markup.certainty(p)
    assert markup.certainty(None) == ""


@pytest.mark.slow
def test_the_notebook_runs() -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    run = client.NotebookClient(nbformat.read(NOTEBOOK, as_version=4), timeout=600).execute()
    outputs = [output for cell in run.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [str(o["data"]["text/html"]) for o in outputs if "text/html" in o.get("data", {})]
    assert sum(len(sounds(page)) for page in pages) >= 1 + 1 + 5
    assert any("comparatively" in page for page in pages)
    assert any("image/png" in o.get("data", {}) for o in outputs)  # the picture
    assert not any(cell.get("outputs") for cell in nbformat.read(NOTEBOOK, as_version=4).cells)  # kept without outputs
