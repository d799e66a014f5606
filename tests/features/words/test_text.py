"""Transcripts as they are spoken."""

import pytest

from phonechain.features.errors import TranscriptError
from phonechain.features.words.dictionary import english
from phonechain.features.words.text import words_of


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("We're being, COMPARATIVELY modern!", "we're being comparatively modern"),
        ("“Don’t,” she said — twice.", "don't she said twice"),
        ("Dr. Smith paid $5.20 for 3 apples.", "dr smith paid five dollars and twenty cents for three apples"),
        ("In 1984 and the 1920s", "in nineteen eighty four and the nineteen twenties"),
        ("the 21st of May at 10:05", "the twenty first of may at ten oh five"),
        ("1,234 people, 3.5%", "one thousand two hundred and thirty four people three point five percent"),
        ("e.g. the U.S.A. & the BBC", "for example the u s a and the bbc"),
        ("a well-known mother-in-law", "a well-known mother-in-law"),
        ("$2 million", "two million dollars"),
        ("rock 'n' roll", "rock n roll"),
        ("3x4", "three x four"),
        ("Mt. Zzq vs. the '90s", "mt zzq vs the nineties"),
        ("a never-heard-of KZX", "a never heard of k z x"),
    ],
)
def test_english_is_read_out(text, spoken):
    dictionary = english()
    assert [w.word for w in words_of(text, known=dictionary.__contains__)] == spoken.split()


def test_each_word_knows_the_token_it_comes_from():
    found = words_of("It cost 42 (forty-two)!")
    assert [w.written for w in found] == ["It", "cost", "42", "42", "forty-two", "forty-two"]


def test_other_languages_keep_their_letters():
    assert [w.word for w in words_of("Привет, мир! Grüße: 21", language="de")] == [
        "привет", "мир", "grüße", "einundzwanzig"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "  \n", "... — !"])
def test_a_transcript_without_words_is_refused(text):
    with pytest.raises(TranscriptError, match="expected words in the transcript, got none"):
        words_of(text)


def test_a_transcript_of_a_day_is_refused():
    with pytest.raises(TranscriptError, match="at most 200000 characters"):
        words_of("a " * 200_000)


def test_numbers_in_a_language_that_nobody_taught_are_named():
    with pytest.raises(TranscriptError, match="write it in words"):
        words_of("7", language="xx")
