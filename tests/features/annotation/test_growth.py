"""Reading takes work in proportion to the entries, whatever the format; `benchmarks/annotation.py` has the seconds."""

import pytest

from phonechain.features.annotation import FORMATS, Annotation, Tier, choose_tier, read, write
from phonechain.features.segments import Segment
from tests.features.calls import calls

COUNT = 400


def grid(count: int) -> Annotation:
    """One tier of that many intervals, with labels of every kind."""
    labels = ["aa", "ə", "SIL", "t͡ʃ"]
    tier = Tier("phones", "interval", [Segment(i * 0.08, (i + 1) * 0.08, labels[i % 4]) for i in range(count)])
    return Annotation([tier], "json")


@pytest.mark.parametrize("form", FORMATS)
def test_four_times_the_intervals_take_four_times_the_calls(form: str) -> None:
    few, many = write(grid(COUNT), form), write(grid(4 * COUNT), form)
    assert len(choose_tier(read(many, format=form))[0].entries) >= COUNT  # silence is not written in all of them
    assert calls(lambda: read(many, format=form)) < 4.5 * calls(lambda: read(few, format=form))
