"""Whatever the bytes, a reader gives an annotation or one of our errors, soon; and what it gave can be written again.

The long form is the same with more: `python -m tests.features.annotation.test_fuzz SEED COUNT`.
"""

import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phonechain.features.annotation import FORMATS, add_labels, choose_tier, read, tier_segments, write
from phonechain.features.errors import PhonechainError
from phonechain.features.segment_checks import prepare
from tests.features.annotation.mutations import mutations
from tests.features.fuzz import Watch

NAMES = (
    "a.srt",
    "a.rttm",
    "a.jsonl",
    "a_annot.json",
    "a.lab",
    "a.TextGrid",
    "a.txt",
    "a.json",
    "a.csv",
    "a.phn",
    "a.phones",
    "a.ctm",
    None,
)
TEXTGRID = b'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'


def check_readable(error):
    assert 10 < len(str(error)) < 2000
    assert "\n" not in str(error)


def survive(data, name):
    """Everything the service would do with it; True if it was an annotation."""
    try:
        annotation = read(data, name=name)
        tier, _ = choose_tier(annotation)
    except PhonechainError as error:
        check_readable(error)
        return False
    segments = tier_segments(tier)
    try:
        prepare(segments, 0.6, fix=True)
    except PhonechainError as error:
        check_readable(error)
    usual = all(max(abs(s.start), abs(s.end)) < 1e9 for t in annotation.tiers for s in t.entries)
    answered = add_labels(annotation, tier, ["x"] * len(segments), [0.5] * len(segments))
    for form in FORMATS:
        try:
            written = write(answered, form)
        except PhonechainError:
            continue
        # A CSV has a limit to its cells, and counts of small units have more digits than seconds.
        if written and len(data) < 100_000 and usual:
            read(written, format=form)
    return True


def run(seed, count, *, tell=False):
    watch = Watch("annotations", seed, count, tell=tell)
    for k, data in enumerate(mutations(seed, count)):
        with watch.over(k, data):
            watch.good += survive(data, NAMES[k % len(NAMES)])
    watch.end()
    return watch.good


@pytest.mark.parametrize("seed", range(3))
def test_mutated_files(seed):
    # Enough of them are still annotations for the writers to be tried as well.
    assert run(seed, 300) > 30


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(NAMES))
@example(b"\xff\xfe\x00\xd8", None)
@example(b"ooTextFile", None)
@example(b"ooBinaryFile\x08TextGrid", None)
def test_any_bytes(data, name):
    survive(data, name)


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=100), st.sampled_from(sorted(FORMATS)))
def test_any_text_in_any_format(text, form):
    try:
        read(text.encode(), format=form, rate=16000)
    except PhonechainError as error:
        check_readable(error)


LONG_RUNS = [
    (TEXTGRID + b"0 1 <exists> 1 ", b"x", 400_000, b""),
    (TEXTGRID + b"0 1 <exists> 1 ", b'" ', 200_000, b""),
    (TEXTGRID + b'0 1 <exists> 1 "IntervalTier" "', b'""', 200_000, b""),
    (TEXTGRID, b"! ", 200_000, b""),
    (b"0 1000000 ", b'"\\', 200_000, b"\n"),
    (b"0 1000000 a", b" 1 b", 100_000, b"\n"),
    (b"start,end", b",", 200_000, b"\n"),
    (b"0.0\t1.0\t", b"a", 400_000, b""),
    (b"#\n", b" ", 400_000, b"1 1 a\n"),
    (b"MAU: ", b"1 ", 200_000, b""),
    (b'{"tiers": {', b'"a": {', 50_000, b""),
    (b"<ANNOTATION_DOCUMENT>", b"<TIER>", 60_000, b""),
    (b"", b"x^y-z+", 60_000, b"=a"),
]
"""(before, unit, count, after): a file with one thing repeated. `benchmarks/annotation.py` times them."""


@pytest.mark.parametrize(("before", "unit", "count", "after"), LONG_RUNS, ids=range(len(LONG_RUNS)))
def test_long_runs(before, unit, count, after):
    survive(before + unit * count + after, None)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), tell=True)
