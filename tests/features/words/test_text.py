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
        ("Dr. Smith paid $5.20 for 3 apples.", "doctor smith paid five dollars and twenty cents for three apples"),
        ("In 1984 and the 1920s", "in nineteen eighty four and the nineteen twenties"),
        ("the 21st of May at 10:05", "the twenty first of may at ten oh five"),
        ("1,234 people, 3.5%", "one thousand two hundred and thirty four people three point five percent"),
        ("e.g. the U.S.A. & the BBC", "for example the u s a and the bbc"),
        ("a well-known mother-in-law", "a well-known mother-in-law"),
        ("$2 million", "two million dollars"),
        ("3x4", "three x four"),
        ("Mt. Zzq vs. the '90s", "mount zzq versus the nineties"),
        ("a never-heard-of KZX", "a never heard of k z x"),
        (
            "Dr. Smith's 3rd of May 1995 cost $4.50, i.e. 20%",
            "doctor smith's third of may nineteen ninety five cost four dollars and fifty cents that is twenty percent",
        ),
        ("It's 5:30 p.m. on Dec. 25th.", "it's five thirty p m on december twenty fifth"),
        ("The U.S. and the U.K. met NATO in '98.", "the u.s and the u k met nato in ninety eight"),
        ("Chapter IV, pp. 12-15.", "chapter four pages twelve to fifteen"),
        (
            "He paid £1,250.75 for 2½ cups.",
            "he paid one thousand two hundred and fifty pounds and seventy five pence for two and a half cups",
        ),
        ("Call 555-1234, ext. 9.", "call five five five one two three four extension nine"),
        ("The 1960s were great; the '90s too.", "the nineteen sixties were great the nineties too"),
        ("Mr. & Mrs. O'Neill's dog's bone", "mister and missus o'neill's dog's bone"),
        ("She said: \"Don't—won't—can't!\"", "she said don't won't can't"),
        ("3.14159 is pi.", "three point one four one five nine is pi"),
        ("Temperature: -5°C or 23°F", "temperature minus five degrees celsius or twenty three degrees fahrenheit"),
        ("Room 101, 2nd floor", "room one hundred and one second floor"),
        ("I'd've gone, y'all.", "i'd've gone y'all"),
        ("apples, pears, etc.", "apples pears et cetera"),
        ("The CEO of IBM & AT&T", "the ceo of ibm and a t and t"),
        ("No. 5, said St. James: no.", "number five said saint james no"),
        ("$1 and $2 and $0.99", "one dollar and two dollars and ninety nine cents"),
        ("€3.5 million vs. $2bn", "three point five million euros versus two billion dollars"),
        ("1/2 cup, 3/4 mile", "one half cup three quarters mile"),
        ("12:00 and 12:05", "twelve o'clock and twelve oh five"),
        (
            "The years 2000, 2008, 1900, 1066, 2024",
            "the years two thousand two thousand and eight nineteen hundred ten sixty six twenty twenty four",
        ),
        ("1,000,000 people", "one million people"),
        ("5 km/h; 10 kg; 3cm", "five kilometers per hour ten kilograms three centimeters"),
        ("co-operate, re-enter, well-known", "co operate re enter well-known"),
        ("naïve café résumé", "naive cafe resume"),
        ("50% off!!! #1", "fifty percent off number one"),
        ("HELLO WORLD", "hello world"),
        ("www.example.com and a.b@c.org", "double u double u double u dot example dot com and a dot b at c dot org"),
        ("10th, 21st, 22nd, 33rd", "tenth twenty first twenty second thirty third"),
        ("XIV century; King Henry VIII; World War II", "fourteenth century king henry the eighth world war two"),
        ("7 a.m. sharp", "seven a m sharp"),
        ("0.5 and .5", "zero point five and point five"),
        ("100 m", "one hundred meters"),
        ("COVID-19", "covid nineteen"),
        ("3D and 4K", "three d and four k"),
        ("rock 'n' roll", "rock 'n roll"),
        ("'Twas the night", "'twas the night"),
        ("the 18th-century house", "the eighteenth century house"),
        ("Jan. 3, 2021; Jan sang", "january three twenty twenty one jan sang"),
        ("He's 6'2\" tall", "he's six foot two tall"),
        ("24/7", "twenty four seven"),
        ("9-1-1", "nine one one"),
        ("1st Lt. Jones", "first lieutenant jones"),
        ("2+2=4", "two plus two equals four"),
        ("50-60 people", "fifty to sixty people"),
        ("Mt. Everest, Ft. Worth", "mount everest fort worth"),
    ],
)
def test_english_is_read_out(text, spoken):
    dictionary = english()
    assert [w.word for w in words_of(text, known=dictionary.__contains__)] == spoken.split()


@pytest.mark.parametrize(
    "text",
    [
        "½",
        "-",
        "--",
        "#",
        "...",
        "$",
        "1/0",
        "IX",
        "'",
        '"',
        "&",
        "a/",
        "//",
        "°",
        "-.",
        "1.2.3.4",
        "$.",
        "1:99",
        "0/0",
    ],
)
def test_odd_tokens_break_nothing(text):
    found = words_of("x " + text)
    assert found[0].word == "x"
    assert all(w.word and not w.word.isspace() for w in found)


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
