"""Which tier is meant, and what of it becomes segments."""

import pytest

from phonechain.features.annotation import Annotation, Tier, choose_tier, tier_segments
from phonechain.features.errors import NoSegments, UnknownTier
from phonechain.features.segments import Segment

WORDS = Tier("words", "interval", [Segment(0, 1, "hello"), Segment(1, 1.4, "you")])
SOUNDS = Tier("sounds", "interval", [Segment(i / 10, (i + 1) / 10, "a") for i in range(10)])
TONES = Tier("tones", "point", [Segment(0.5, 0.5, "H*")])


def tier_named(*names):
    return Annotation([Tier(n, "interval", [Segment(0, 1, "x")]) for n in names], "json")


@pytest.mark.parametrize(
    ("names", "chosen", "told"),
    [
        (["words", "phones"], "phones", False),
        (["phone", "Phones"], "Phones", True),
        (["ORT", "KAN", "MAU"], "MAU", False),
        (["Words", "PHONETIC", "x"], "PHONETIC", False),
        (["segments", "phone"], "phone", True),
        (["mary - words", "mary - phones"], "mary - phones", True),
        (["words", "phones phonechain", "phones posterior", "phones"], "phones", False),
    ],
)
def test_known_names_are_preferred_and_told_where_others_fit(names, chosen, told):
    tier, notices = choose_tier(tier_named(*names))
    assert tier.name == chosen
    assert [n.code for n in notices] == ["tier-guessed"] * told
    assert all(f"'{chosen}'" in notice.message for notice in notices)


def test_else_the_tier_with_most_short_intervals():
    tier, notices = choose_tier(Annotation([WORDS, SOUNDS, TONES], "json"))
    assert tier is SOUNDS
    assert "most short intervals" in notices[0].message
    assert "'words'" in notices[0].message


def test_an_only_tier_is_no_guess():
    assert choose_tier(Annotation([SOUNDS, TONES], "json")) == (SOUNDS, ())


def test_a_named_tier_is_taken_without_notice():
    assert choose_tier(Annotation([WORDS, SOUNDS], "json"), "words") == (WORDS, ())
    assert choose_tier(Annotation([WORDS, SOUNDS], "json"), "WORDS") == (WORDS, ())
    assert choose_tier(tier_named("s\u00e3o", "x"), "sa\u0303o")[0].name == "s\u00e3o"


def test_an_unknown_tier_is_refused_with_the_list():
    with pytest.raises(
        UnknownTier,
        match=r"'sound', got tiers 'words' \(2 intervals\), 'sounds' \(10 intervals\), 'tones' \(1 points\); is it 'sounds'\?",
    ) as caught:
        choose_tier(Annotation([WORDS, SOUNDS, TONES], "json"), "sound")
    assert caught.value.details["tiers"] == ["words", "sounds", "tones"]
    with pytest.raises(UnknownTier, match="holds points"):
        choose_tier(Annotation([WORDS, TONES], "json"), "tones")


def test_repeated_names_take_the_first_and_say_so_and_a_number_decides():
    grid = tier_named("phones", "x", "phones")
    tier, notices = choose_tier(grid, "phones")
    assert tier is grid.tiers[0]
    assert [n.code for n in notices] == ["tier-repeated"]
    assert choose_tier(grid, "3")[0] is grid.tiers[2]


def test_no_tier_of_intervals():
    with pytest.raises(NoSegments, match=r"tier 'tones' \(1 points\)"):
        choose_tier(Annotation([TONES], "json"))
    with pytest.raises(NoSegments, match="no tiers"):
        choose_tier(Annotation([], "json"))


def test_labels_lose_their_blanks_and_nothing_else():
    tier = Tier(
        "t", "interval", [Segment(0, 1, " a\u0303\n"), Segment(1, 2, ""), Segment(2, 3, "  "), Segment(3, 4, None)]
    )
    assert [s.label for s in tier_segments(tier)] == ["a\u0303", None, None, None]
