"""Tables of English abbreviations and symbols, with keys in lower case."""

from __future__ import annotations

ABBREVIATIONS = {
    "mr.": "mister", "mrs.": "missus", "ms.": "miz", "dr.": "doctor", "dr": "doctor", "prof.": "professor",
    "jr.": "junior", "sr.": "senior", "vs.": "versus", "vs": "versus", "etc.": "et cetera", "etc": "et cetera",
    "e.g.": "for example", "i.e.": "that is", "vol.": "volume", "co.": "company", "inc.": "incorporated",
    "ltd.": "limited", "corp.": "corporation", "ave.": "avenue", "blvd.": "boulevard", "rd.": "road",
    "approx.": "approximately", "dept.": "department", "gen.": "general", "gov.": "governor", "hon.": "honorable",
    "rev.": "reverend", "sen.": "senator", "capt.": "captain", "col.": "colonel", "lt.": "lieutenant", "sgt.": "sergeant",
    "maj.": "major", "messrs.": "messers", "esq.": "esquire", "mt.": "mount", "ft.": "fort", "ext.": "extension",
    "apt.": "apartment", "okay": "okay", "'n'": "'n", "a.k.a.": "also known as",
}  # fmt: skip
"""Expanded everywhere."""

BEFORE_NUMBERS = {
    "no.": "number", "nos.": "numbers", "p.": "page", "pp.": "pages", "ch.": "chapter", "fig.": "figure", "sec.": "section",
}  # fmt: skip
"""Expanded only before a number."""

MONTHS = {
    "jan.": "january", "feb.": "february", "mar.": "march", "apr.": "april", "aug.": "august", "sep.": "september",
    "sept.": "september", "oct.": "october", "nov.": "november", "dec.": "december",
}  # fmt: skip
"""Expanded only beside a number, for Jan and Dec are names."""

UNITS = {
    "km/h": "kilometers per hour", "m/s": "meters per second", "mph": "miles per hour", "km": "kilometers", "kg": "kilograms",
    "cm": "centimeters", "mm": "millimeters", "m": "meters", "g": "grams", "mg": "milligrams", "ml": "milliliters",
    "lbs": "pounds", "lb": "pounds", "oz": "ounces", "mi": "miles", "ft": "feet", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "kb": "kilobytes", "mb": "megabytes", "gb": "gigabytes", "db": "decibels",
    "kw": "kilowatts", "hrs": "hours", "hr": "hours", "mins": "minutes", "min": "minutes", "ms": "milliseconds",
    "°c": "degrees celsius", "°f": "degrees fahrenheit", "°": "degrees", "bn": "billion",
}  # fmt: skip
"""Expanded only after a number."""

SYMBOLS = {"&": "and", "%": "percent", "+": "plus", "=": "equals", "@": "at", "°": "degrees", "×": "times"}

NUMBERED = frozenset((
    "chapter", "part", "volume", "act", "scene", "section", "book", "war", "phase", "type", "title", "figure", "appendix",
    "class", "article", "stage", "level", "round", "table", "super", "bowl", "game", "mark", "version", "episode", "grade",
    "rocky", "page", "no",
))  # fmt: skip
"""Words after which a Roman numeral is a cardinal."""

COUNTED = frozenset(("the", "a", "an", "of", "in", "and", "to", "world", "apollo", "saturn"))
"""Words after which it is not a ruler's either, though they may begin with a capital."""
