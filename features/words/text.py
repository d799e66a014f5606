"""A transcript as a reader would speak it: words without punctuation, numbers and abbreviations in words.

English is known: numbers, years, ordinals, sums of money, times of day and per cent become words (num2words), common
abbreviations are read out, other capitals are spelled where the dictionary does not have them. Of other languages only
punctuation is taken off; numbers there are read if num2words knows the language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from phonechain.features.errors import TranscriptError

MAX_CHARACTERS = 200_000
"""Longest transcript, some four hours of speech."""

ABBREVIATIONS = {
    "mr.": "mister", "mrs.": "missus", "ms.": "miz", "dr.": "doctor", "prof.": "professor", "st.": "saint",
    "jr.": "junior", "sr.": "senior", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is",
    "no.": "number", "vol.": "volume", "co.": "company", "inc.": "incorporated", "ltd.": "limited", "ave.": "avenue",
    "approx.": "approximately", "dept.": "department", "est.": "established", "gen.": "general", "gov.": "governor",
    "hon.": "honorable", "rev.": "reverend", "sen.": "senator", "capt.": "captain", "col.": "colonel", "lt.": "lieutenant",
    "sgt.": "sergeant", "maj.": "major", "messrs.": "messers", "esq.": "esquire", "jan.": "january", "feb.": "february",
    "aug.": "august", "sept.": "september", "oct.": "october", "nov.": "november", "dec.": "december", "okay": "okay",
    "&": "and", "%": "percent", "+": "plus", "=": "equals", "@": "at", "°": "degrees", "km": "kilometers", "kg": "kilograms",
    "cm": "centimeters", "mm": "millimeters", "mph": "miles per hour",
}  # fmt: skip

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "sen", "sen"),
}  # fmt: skip

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONEY = re.compile(rf"([$£€¥])({_NUMBER})(?:\s*(hundred|thousand|million|billion|trillion))?", re.IGNORECASE)
_EDGE = re.compile(r"^[^\w$£€¥&%+=@°'#-]+|[^\w%'°]+$")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word as spoken; `written` is the token of the transcript that it comes from, punctuation taken off."""

    word: str
    written: str


def words_of(text: str, *, language: str = "en", known: Callable[[str], bool] = lambda word: False) -> list[Spoken]:
    """The words of a transcript in order.

    Args:
        text: as written.
        language: a code ("en", "de"); only English knows more than plain numbers.
        known: whether the dictionary has a word; such a word is never taken apart.

    Raises:
        TranscriptError: no words in it, or more than MAX_CHARACTERS.
    """
    if len(text) > MAX_CHARACTERS:
        raise TranscriptError(
            f"expected a transcript of at most {MAX_CHARACTERS} characters, got {len(text)}",
            pointer="text", value=len(text), limit=MAX_CHARACTERS,
        )  # fmt: skip
    out: list[Spoken] = []
    text = unicodedata.normalize("NFC", text).translate(
        {0x2019: "'", 0x2018: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-"}
    )
    if language.split("-")[0] == "en":
        text = _MONEY.sub(lambda m: f" {_money(m)} ", text)
    for token in re.split(r"[\s\u2013\u2014/…]+|--+", text):
        if not token:
            continue
        written = _EDGE.sub("", token) or token
        out += [Spoken(word, written) for word in _spoken(token, language, known)]
    if not out:
        raise TranscriptError("expected words in the transcript, got none", pointer="text")
    return out


def _spoken(token: str, language: str, known: Callable[[str], bool]) -> Iterator[str]:
    english = language.split("-")[0] == "en"
    bare = _EDGE.sub("", token)
    lower = bare.lower()
    if known(lower) and not lower.isdigit():
        yield lower
        return
    if english:
        for form in (token.lower().strip("\"'()[]{},;:!?"), lower):
            if form in ABBREVIATIONS:
                yield from ABBREVIATIONS[form].split()
                return
    if not any(c.isalnum() for c in bare):
        return
    if any(c.isdigit() for c in bare):
        yield from _numbers(bare, language, known)
        return
    stripped = lower.strip("'")
    if english and re.fullmatch(r"(?:[a-z]\.)+[a-z]?", stripped):  # U.S.A
        yield from stripped.replace(".", "")
    elif english and bare.isupper() and 2 <= len(bare) <= 5 and not known(stripped) and not re.search("[AEIOUY]", bare):
        yield from stripped
    elif "-" in stripped or "." in stripped or "_" in stripped:
        for part in re.split(r"[-._]+", stripped):
            if part:
                yield from _spoken(part, language, known)
    elif stripped:
        yield re.sub(r"[^\w']", "", stripped) or stripped


def _numbers(token: str, language: str, known: Callable[[str], bool]) -> Iterator[str]:
    english = language.split("-")[0] == "en"
    if english and (match := re.fullmatch(r"(\d{1,2}):([0-5]\d)", token)):
        yield from _words(int(match[1]), "cardinal", language)
        minutes = int(match[2])
        if minutes:
            yield from ("oh",) if minutes < 10 else ()
            yield from _words(minutes, "cardinal", language)
        else:
            yield "o'clock"
        return
    if english and (match := re.fullmatch(r"(\d+)(?:st|nd|rd|th)", token, re.IGNORECASE)):
        yield from _words(int(match[1]), "ordinal", language)
        return
    if english and (match := re.fullmatch(r"(1[1-9]|20)(\d\d)(s?)", token)):
        words = _words(int(match[1] + match[2]), "year", language)
        yield from words[:-1]
        last = words[-1]
        yield (last[:-1] + "ies" if last.endswith("y") else last + "s") if match[3] else last
        return
    if english and (match := re.fullmatch(r"'?([2-9]0)'?s", token)):
        yield _words(int(match[1]), "cardinal", language)[0][:-1] + "ies"
        return
    if re.fullmatch(_NUMBER, token):
        plain = token.replace(",", "")
        yield from _words(float(plain) if "." in plain else int(plain), "cardinal", language)
        return
    for part in re.findall(rf"{_NUMBER}|%|[^\W\d_]+(?:'[^\W\d_]+)?", token):
        if part == "%":
            yield "percent"
        elif part[0].isdigit():
            plain = part.replace(",", "")
            yield from _words(float(plain) if "." in plain else int(plain), "cardinal", language)
        else:
            yield from _spoken(part, language, known)


def _money(match: re.Match[str]) -> str:
    one, many, cent, cents = CURRENCIES[match[1]]
    plain = match[2].replace(",", "")
    whole, _, part = plain.partition(".")
    if match[3]:
        return " ".join([*_words(float(plain) if part else int(plain), "cardinal", "en"), match[3], many])
    words = [*_words(int(whole), "cardinal", "en"), one if int(whole) == 1 else many]
    if part and int(part[:2].ljust(2, "0")):
        count = int(part[:2].ljust(2, "0"))
        words += ["and", *_words(count, "cardinal", "en"), cent if count == 1 else cents]
    return " ".join(words)


def _words(number: int | float, form: str, language: str) -> list[str]:
    """Raises TranscriptError for a language whose numbers are not known, and for numbers beyond speech."""
    from num2words import num2words  # 0.1 s to import, and few transcripts have numbers

    try:
        said = num2words(number, lang=language, to=form)
    except (NotImplementedError, OverflowError, ValueError, TypeError, KeyError, IndexError):
        raise TranscriptError(
            f"expected numbers that can be read out in {language!r}, got {str(number)[:40]}: write it in words",
            pointer="text", value=str(number)[:40],
        ) from None  # fmt: skip
    return [w for w in re.split(r"[\s,-]+", said.lower()) if w]
