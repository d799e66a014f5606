"""Numbers in a transcript as English words: sums of money, years, times, fractions, Roman numerals.

num2words knows how a number is said in a language; what is here knows what kind of number a token is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from phonechain.features.errors import TranscriptError

Form = Literal["cardinal", "ordinal", "year"]

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "sen", "sen"),
}  # fmt: skip

SCALES = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion", "tn": "trillion"}

MONEY = re.compile(
    rf"([$£€¥])({NUMBER})(?:\s*(hundred|thousand|million|billion|trillion)\b|(bn|tn|k|m|b)\b)?", re.IGNORECASE
)

FRACTIONS = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip

_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 8: "eighth", 10: "tenth"}

_ROMAN = re.compile(r"(?=[XVI])(X{0,3})(IX|IV|V?I{0,3})")


def say(number: int | float, form: Form, language: str) -> list[str]:
    """A number in words.

    Raises:
        TranscriptError: a language whose numbers are not known, or a number beyond speech.
    """
    from num2words import num2words  # 0.1 s to import, and few transcripts have numbers

    try:
        said = num2words(number, lang=language, to=form)
    except (NotImplementedError, OverflowError, ValueError, TypeError, KeyError, IndexError):
        raise TranscriptError(
            f"expected numbers that can be read out in {language!r}, got {str(number)[:40]}: write it in words",
            pointer="text", value=str(number)[:40],
        ) from None  # fmt: skip
    return [w for w in re.split(r"[\s,-]+", said.lower()) if w]


def plain(text: str, language: str) -> list[str]:
    """A number that matches `NUMBER`, in words."""
    bare = text.replace(",", "")
    if bare.startswith("."):
        return (
            say(float(bare), "cardinal", language)[1:]
            if language.startswith("en")
            else say(float(bare), "cardinal", language)
        )
    return say(float(bare) if "." in bare else int(bare), "cardinal", language)


def money(match: re.Match[str]) -> str:
    """A sum that matches `MONEY`, in words: the number, the currency, then the cents."""
    one, many, cent, cents = CURRENCIES[match[1]]
    bare = match[2].replace(",", "")
    whole, _, part = bare.partition(".")
    scale = (match[3] or SCALES.get((match[4] or "").lower(), "")).lower()
    if scale:
        return " ".join([*plain(bare, "en"), scale, many])
    words = (
        [] if not int(whole or 0) and part else [*say(int(whole), "cardinal", "en"), one if int(whole) == 1 else many]
    )
    if part and (count := int(part[:2].ljust(2, "0"))):
        words += ["and"] if words else []
        words += [*say(count, "cardinal", "en"), cent if count == 1 else cents]
    return " ".join(words or ["zero", many])


def fraction(token: str) -> list[str] | None:
    """A fraction alone or after a whole number ("3/4", "2½", "1 1/2" is two tokens); None for anything else."""
    for sign, written in FRACTIONS.items():
        token = token.replace(sign, f" {written}")
    match = re.fullmatch(r"\s*(?:(\d+) )?(\d{1,2})/(\d{1,2})", token)
    if match is None or int(match[3]) not in _PARTS or not 0 < int(match[2]) < int(match[3]):
        return None
    count, part = int(match[2]), _PARTS[int(match[3])]
    halves = "halves" if part == "half" else part + "s"
    if match[1] is not None:
        share = ["a", part] if count == 1 else [*say(count, "cardinal", "en"), halves]
        return [*say(int(match[1]), "cardinal", "en"), "and", *share]
    return [*say(count, "cardinal", "en"), part if count == 1 else halves]


def roman(token: str) -> int | None:
    """The value of a Roman numeral of two letters and more, up to 39; None for anything else.

    >>> roman("XIV"), roman("II"), roman("I"), roman("MIX")
    (14, 2, None, None)
    """
    if len(token) < 2 or _ROMAN.fullmatch(token) is None:
        return None
    values = [{"I": 1, "V": 5, "X": 10}[c] for c in token]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def english(token: str) -> Iterator[str] | None:
    """A token with a special reading in English, such as a year or a time; None for plain numbers and anything else."""
    if match := re.fullmatch(r"(\d{1,2}):([0-5]\d)", token):
        return iter(_time(int(match[1]), int(match[2])))
    if match := re.fullmatch(r"(\d[\d,]*)(?:st|nd|rd|th)", token, re.IGNORECASE):
        return iter(say(int(match[1].replace(",", "")), "ordinal", "en"))
    if match := re.fullmatch(r"(1\d|20)(\d\d)('?s?)", token):
        return iter(_year(match[1] + match[2], plural=bool(match[3])))
    if match := re.fullmatch(r"'?([2-9]0)'?s", token):
        return iter([say(int(match[1]), "cardinal", "en")[0][:-1] + "ies"])
    if re.fullmatch(r"\d{3}(-\d{3})?-\d{4}", token):  # a telephone number
        return (say(int(c), "cardinal", "en")[0] for c in token if c != "-")
    if (match := re.fullmatch(r"(\d{1,4})-(\d{1,4})", token)) and int(match[1]) < int(match[2]):
        return iter([*_either(match[1]), "to", *_either(match[2])])
    if match := re.fullmatch(r"(\d)'(\d{1,2})\"?", token):  # a height
        return iter([*say(int(match[1]), "cardinal", "en"), "foot", *say(int(match[2]), "cardinal", "en")])
    return None


def _either(token: str) -> list[str]:
    found = english(token)
    return list(found) if found is not None else say(int(token), "cardinal", "en")


def _time(hours: int, minutes: int) -> list[str]:
    words = say(hours, "cardinal", "en")
    if not minutes:
        return [*words, "o'clock"]
    return [*words, *(["oh"] if minutes < 10 else []), *say(minutes, "cardinal", "en")]


def _year(digits: str, *, plural: bool) -> list[str]:
    words = say(int(digits), "cardinal" if digits == "1000" else "year", "en")
    if digits.startswith("10") and digits[2] != "0":
        words = ["ten", *say(int(digits[2:]), "cardinal", "en")]
    if plural:
        words[-1] = words[-1][:-1] + "ies" if words[-1].endswith("y") else words[-1] + "s"
    return words
