"""Every format: what we write reads back with the same times and labels, to the format's own precision."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.annotation import (
    FORMATS,
    Annotation,
    Tier,
    add_labels,
    choose_tier,
    omitted_tiers,
    read,
    tier_segments,
    write,
)
from phonechain.features.errors import AnnotationError
from phonechain.features.segments import Segment

STEP = {
    "emu": 1 / 16000,
    "vtt": 1e-3,
    "srt": 1e-3,
    "eaf": 1e-3,
    "timit": 1 / 16000,
    "par": 1 / 16000,
    "htk": 1e-7,
    "mlf": 1e-7,
    "ctm": 1e-9,
}
"""Seconds to which a format rounds, where it does."""
GAPS_FILLED = {"emu", "textgrid", "textgrid-short", "textgrid-binary", "xlabel", "buckeye"}
"""Formats in which a gap is an interval without a label."""
LOSES_BLANK = {
    "vtt",
    "srt",
    "timit",
    "htk",
    "mlf",
    "ctm",
    "xlabel",
    "buckeye",
    "par",
    "audacity",
    "csv",
    "tsv",
    "label-studio",
}
"""Formats in which a label's outer blanks are not kept."""
NO_SCORES = {"timit", "audacity", "vtt", "srt"}
"""Formats without a place for the posterior of an answer."""
HOLDS_ALL_TIERS = {"emu", "textgrid", "textgrid-short", "textgrid-binary", "eaf", "csv", "tsv", "label-studio", "json"}

plain = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=4)
xsampa = st.sampled_from(
    ['"', '"a', "r\\", "'", "t'", '""', "///", ".", "#", "!", "<p:>", "@", "0", "1.5", "-", "+", "{", "~"]
)
ipa = st.sampled_from(["ə", "t͡ʃ", "ã", "a\u0303", "ˈa", "ɪː", "p̚", "漢", "𝼆"])
labels = st.one_of(st.none(), st.sampled_from(["aa", "SIL", "h#"]), plain, xsampa, ipa)


@st.composite
def tiers(draw, label=labels, touching=False, step=1e-4, name="phones"):
    edges = sorted(draw(st.sets(st.integers(0, 100_000), min_size=2, max_size=9)))
    spans = list(pairwise(edges))
    if touching:
        spans = [(0, edges[0]), *spans] if edges[0] else spans
    else:
        spans = [span for span in spans if draw(st.integers(0, 3))] or spans[:1]
    return Tier(name, "interval", [Segment(a * step, b * step, draw(label)) for a, b in spans])


def same(ours, back, step, where=""):
    ours = [(s.start, s.end, s.label or None) for s in tier_segments(ours)]
    back = [(s.start, s.end, s.label or None) for s in tier_segments(back)]
    if where in GAPS_FILLED:
        back = [s for s in back if s[2] is not None]
        ours = [s for s in ours if s[2] is not None]
    assert [s[2] for s in back] == [s[2] for s in ours]
    for mine, theirs in zip(ours, back, strict=True):
        assert theirs[0] == pytest.approx(mine[0], abs=step)
        assert theirs[1] == pytest.approx(mine[1], abs=step)


def attempt(function, *args):
    try:
        return function(*args), None
    except AnnotationError as refusal:
        return None, refusal


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_tier(name, data):
    # A whole millisecond step, so that rounding never makes an interval empty.
    tier = data.draw(tiers(step=1e-3))
    if name in ("par", "emu") and any(s.end - s.start < 1 / 16000 for s in tier.entries):
        return
    written, refusal = attempt(write, Annotation([tier], "json"), name)
    if refusal:
        # Formats without quoting say which label they cannot hold.
        assert "hold" in str(refusal)
        assert name in LOSES_BLANK
        return
    suffix = FORMATS[name].suffixes[0]
    back = read(written, name=f"a{suffix}", format=name, rate=16000)
    same(tier, choose_tier(back)[0], STEP.get(name, 1e-12) / 2 + 1e-12, name)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_we_write_is_recognised_by_its_content(name, data):
    count = data.draw(st.integers(3, 8))
    tier = Tier(
        "phones", "interval", [Segment(i / 10, (i + 1) / 10, data.draw(st.sampled_from("aeiou"))) for i in range(count)]
    )
    back = read(write(Annotation([tier], "json"), name))
    family = {"textgrid-short": "textgrid", "mlf": "mlf", "buckeye": "xlabel"}
    assert family.get(back.format, back.format) == family.get(name, name)
    same(tier, choose_tier(back)[0], 1e-3)


@pytest.mark.parametrize("name", sorted(HOLDS_ALL_TIERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_several_tiers(name, data):
    label = st.sampled_from(["a", "ə", None, "two words", 'say "so"', "a,b", "x;y"])
    ours = [data.draw(tiers(label, step=1e-3, name=f"t{i}")) for i in range(data.draw(st.integers(1, 3)))]
    times = sorted(data.draw(st.sets(st.integers(0, 90_000), min_size=1, max_size=4)))
    marks = [Segment(t / 1000, t / 1000, data.draw(st.sampled_from(["H*", "L%"]))) for t in times]
    ours.append(Tier("tones", "point", marks))
    back = read(write(Annotation(ours, "json"), name), format=name)
    assert [t.name for t in back.tiers] == [t.name for t in ours]
    assert [t.kind for t in back.tiers] == [t.kind for t in ours]
    for mine, theirs in zip(ours, back.tiers, strict=True):
        same(mine, theirs, STEP.get(name, 1e-12), name)


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_is_kept_as_far_as_the_format_can(name):
    words = Tier("words", "interval", [Segment(0.0, 0.3, "hi")])
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.3, "aɪ")])
    answered = add_labels(Annotation([words, phones], "json", end=0.3), "phones", ["h", "ɔɪ"], [0.75, None])
    assert [t.name for t in answered.tiers] == ["words", "phones", "phones phonechain", "phones posterior"]
    written = write(answered, name)
    back = read(written, format=name)
    found = {s.label for t in back.tiers for s in t.entries}
    assert {"h", "ɔɪ"} <= found
    if name not in NO_SCORES:
        assert "0.7500" in found
    if not FORMATS[name].flat:
        assert {"hi", "aɪ"} <= found
        same(phones, choose_tier(back)[0], 1e-3)
    if name in HOLDS_ALL_TIERS:
        assert [t.name for t in back.tiers] == [t.name for t in answered.tiers]
    else:
        # One tier per file: the answer, except where tiers with the same intervals fit beside it.
        expected = ["h", "aɪ"] if name in ("par", "xlabel", "buckeye") else ["h", "ɔɪ"]
        assert [s.label for s in choose_tier(back)[0].entries] == expected


def test_adding_labels_twice_keeps_the_first_answer():
    a = Annotation([Tier("phones", "interval", [Segment(0, 1, "a")])], "json")
    a = add_labels(add_labels(a, "phones", ["b"], [0.5]), "phones", ["c"], [0.6])
    assert [t.name for t in a.tiers][1:] == [
        "phones phonechain",
        "phones posterior",
        "phones phonechain (2)",
        "phones posterior (2)",
    ]
    assert write(a, "ctm") == b"recording 1 0 1 c 0.6000\n"


def test_counts_that_differ_are_refused():
    a = Annotation([Tier("phones", "interval", [Segment(0, 1, "a")])], "json")
    with pytest.raises(AnnotationError, match="expected 1 labels and posteriors"):
        add_labels(a, "phones", ["b", "c"], [0.5, 0.5])


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_left_out_is_named(name):
    words = Tier("words", "interval", [Segment(0.0, 0.3, "hi")])
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.3, "aɪ")])
    tones = Tier("tones", "point", [Segment(0.2, 0.2, "H*")])
    answered = add_labels(Annotation([words, phones, tones], "json"), "phones", ["h", "ɔɪ"], [0.75, 0.5])
    expected = [] if name in HOLDS_ALL_TIERS else ["tones"] if name == "par" else ["words", "tones"]
    assert omitted_tiers(answered, name) == expected
    found = {s.label for t in read(write(answered, name), format=name).tiers for s in t.entries}
    assert ("hi" in found) == ("words" not in expected)
    assert ("H*" in found) == ("tones" not in expected)


def test_an_answer_with_times_of_its_own_is_what_a_flat_format_gets():
    """A segment that was clipped to the sound keeps its old end in the tier that was given."""
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.305, "aɪ")])
    clipped = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.3, "aɪ")])
    answered = add_labels(Annotation([phones], "json"), clipped, ["h", "ɔɪ"], [0.75, 0.5])
    for name in ("ctm", "htk", "mlf", "timit", "audacity"):
        back = choose_tier(read(write(answered, name), format=name))[0]
        assert [(s.end, s.label) for s in back.entries] == [(0.1, "h"), (0.3, "ɔɪ")]
