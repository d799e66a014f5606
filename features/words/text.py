"""A transcript as it would be read aloud: words without punctuation, with numbers and abbreviations as words.

For English, numbers, years, ordinals, sums of money, fractions, times of day and percentages become words (`numerals`), common
abbreviations are expanded, and other capitals are spelled out unless the dictionary has them. For other languages only
punctuation is removed, and numbers are read if num2words knows the language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from phonechain.features.errors import TranscriptError
from phonechain.features.words import numerals
from phonechain.features.words.abbreviations import (
    ABBREVIATIONS,
    BEFORE_NUMBERS,
    COUNTED,
    MONTHS,
    NUMBERED,
    SYMBOLS,
    UNITS,
)

MAX_CHARACTERS = 200_000
"""Longest transcript: about four hours of speech."""

_EDGE = re.compile(r"^[^\w$£€¥&%+=@°'#½⅓⅔¼¾⅛⅜⅝⅞.-]+|^[.-]+(?=[^\d.])|[^\w%'°\"½⅓⅔¼¾⅛⅜⅝⅞]+$")
_QUOTES = {0x2019: "'", 0x2018: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-", 0x2032: "'", 0x2033: '"', 0x2212: "-"}
_SITE = re.compile(r"[\w.+-]*@?[\w-]+(\.[\w-]+)*\.(com|org|net|edu|gov|info|io|uk|de|fr|eu)(/[\w/.-]*)?", re.IGNORECASE)

Known = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word as spoken; `written` is its token in the transcript, without punctuation."""

    word: str
    written: str


@dataclass(frozen=True, slots=True)
class _Token:
    """A token with its neighbours, empty at the ends."""

    text: str
    before: str
    after: str

    @property
    def follows_number(self) -> bool:
        return bool(re.search(r"\d[^\w]*$", self.before))

    @property
    def precedes_number(self) -> bool:
        return bool(re.match(r"[^\w$]*\d", self.after))


def words_of(text: str, *, language: str = "en", known: Known = lambda word: False) -> list[SpokenWord]:
    """The words of a transcript in order.

    Args:
        text: as written.
        language: a code ("en", "de"); languages other than English have plain numbers only.
        known: whether the dictionary has a word; such a word is never split.

    Raises:
        TranscriptError: no words in it, or more than MAX_CHARACTERS.
    """
    if len(text) > MAX_CHARACTERS:
        raise TranscriptError(
            f"expected a transcript of at most {MAX_CHARACTERS} characters, got {len(text)}",
            pointer="text", value=len(text), limit=MAX_CHARACTERS,
        )  # fmt: skip
    english = language.split("-")[0].casefold() == "en"
    text = unicodedata.normalize("NFC", text).translate(_QUOTES)
    if english:
        text = numerals.MONEY.sub(lambda m: f" {numerals.money(m)} ", text)
    tokens = [t for t in re.split(r"[\s\u2013\u2014…]+|--+", text) if t]
    out: list[SpokenWord] = []
    for n, token in enumerate(tokens):
        written = _EDGE.sub("", token).strip("\"'") or token
        place = _Token(token, tokens[n - 1] if n else "", tokens[n + 1] if n + 1 < len(tokens) else "")
        words = _english(place, known) if english else _plain(token, language, known)
        out += [SpokenWord(word, written) for word in words]
    if not out:
        raise TranscriptError("expected words in the transcript, got none", pointer="text")
    return out


def _english(token: _Token, known: Known) -> Iterator[str]:
    """The words of a token in its context."""
    outer = token.text.strip("\"'()[]{},;:!?") if not token.text.startswith("'") else token.text.strip('"()[]{},;:!?')
    for form in (outer.lower(), outer.lower().rstrip("'.")):
        if (words := _abbreviation(form, outer, token, known)) is not None:
            yield from words.split()
            return
    bare = (
        _EDGE.sub("", token.text).replace('"', "") if not re.search(r"\d\"", token.text) else _EDGE.sub("", token.text)
    )
    if (value := numerals.roman(bare)) is not None and not _is_word(bare, token, known):
        yield from _roman(value, token)
        return
    if (parts := numerals.fraction(bare)) is not None:
        if token.before.isdigit():
            parts = ["and", *(["a", *parts[1:]] if parts[0] == "one" else parts)]
        yield from parts
        return
    if known(bare.lower()) and not bare.isdigit():
        yield bare.lower()
    elif _SITE.fullmatch(bare) and not known(bare.lower()):
        yield from _site(bare, known)
    elif re.fullmatch(r"[A-Z]{1,3}(&[A-Z]{1,3})+", bare):  # AT&T
        yield from " and ".join(" ".join(part.lower()) for part in bare.split("&")).split()
    elif "/" in bare:
        for part in bare.split("/"):
            yield from _english(_Token(part, "", ""), known) if part else ()
    else:
        yield from _plain(bare, "en", known)


def _abbreviation(form: str, outer: str, token: _Token, known: Known) -> str | None:
    """The expansion of an abbreviation in its context; None if the token is none."""
    after_number, before_number = token.follows_number, token.precedes_number
    if match := re.fullmatch(rf"(-?(?:{numerals.NUMBER}))({'|'.join(map(re.escape, UNITS))})\.?", form):
        sign = "minus " if match[1].startswith("-") else ""
        return f"{sign}{' '.join(numerals.plain(match[1].lstrip('-'), 'en'))} {UNITS[match[2]]}"
    if after_number and form.rstrip(".") in UNITS and not (form == "in" or outer.isupper()):
        return UNITS[form.rstrip(".")]
    if form.startswith("#") and form[1:].isdigit():
        return f"number {' '.join(numerals.plain(form[1:], 'en'))}"
    if form in MONTHS and outer[:1].isupper() and (before_number or after_number):
        return MONTHS[form]
    if form in BEFORE_NUMBERS:
        return BEFORE_NUMBERS[form] if before_number else None
    if form == "st.":
        return "saint" if token.after[:1].isupper() and token.before[:1].islower() | (not token.before) else None
    return ABBREVIATIONS.get(form, SYMBOLS.get(form))


def _is_word(bare: str, token: _Token, known: Known) -> bool:
    """Whether letters that could be a Roman numeral are a word."""
    before = token.before.strip(".,;:").casefold()
    return known(bare.lower()) and before not in NUMBERED and not before.istitle() and not token.before[:1].isupper()


def _roman(value: int, token: _Token) -> list[str]:
    """Ordinals of centuries and rulers, cardinals of chapters and the rest."""
    before, after = token.before.strip(".,;:"), token.after.strip(".,;:'s").casefold()
    if after in ("centur", "century", "centurie"):
        return numerals.say(value, "ordinal", "en")
    if before[:1].isupper() and before.casefold() not in NUMBERED and before.casefold() not in COUNTED:
        return ["the", *numerals.say(value, "ordinal", "en")]
    return numerals.say(value, "cardinal", "en")


def _site(bare: str, known: Known) -> Iterator[str]:
    """An address as it is read aloud: dot, at, slash, and www as letters."""
    for part in re.split(r"([.@/])", bare):
        if part in (".", "@", "/"):
            yield {".": "dot", "@": "at", "/": "slash"}[part]
        elif part.lower() == "www":
            yield from ("double", "u") * 3
        elif part:
            yield from _plain(part, "en", known)


def _plain(token: str, language: str, known: Known) -> Iterator[str]:
    english = language.split("-")[0].casefold() == "en"
    bare = _EDGE.sub("", token).strip('"')
    lower = bare.lower()
    if known(lower) and not lower.isdigit():
        yield lower
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
    elif re.search(r"[-._/]", stripped):
        for part in re.split(r"[-._/]+", stripped):
            if part:
                yield from _plain(part, language, known)
    elif stripped:
        word = re.sub(r"[^\w']", "", stripped) or stripped
        accentless = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
        yield accentless if english and not known(word) and known(accentless) else word


def _numbers(token: str, language: str, known: Known) -> Iterator[str]:
    english = language.split("-")[0].casefold() == "en"
    if english and (words := numerals.english(token)) is not None:
        yield from words
        return
    if english and re.fullmatch(rf"-(?:{numerals.NUMBER})%?", token):
        yield "minus"
        token = token[1:]
    if re.fullmatch(numerals.NUMBER, token):
        yield from numerals.plain(token, language)
        return
    for part in re.findall(
        rf"(?:19|20)\d\ds?|\d+(?:st|nd|rd|th)\b|{numerals.NUMBER}|[%+=×]|[^\W\d_]+(?:'[^\W\d_]+)?", token
    ):
        if english and part in SYMBOLS:
            yield SYMBOLS[part]
        elif english and (words := numerals.english(part)) is not None:
            yield from words
        elif re.fullmatch(numerals.NUMBER, part):
            yield from numerals.plain(part, language)
        elif part.isalpha() or "'" in part:
            yield from _plain(part, language, known)
