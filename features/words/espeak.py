"""Pronunciations by espeak-ng, a program that speaks about a hundred languages, where it is installed.

It is run, not linked: GPL. A dictionary by the name of `espeak-ng:VOICE` asks it for each word; phones are its IPA without stress,
for voices of English ARPAbet, as the English models have it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from phonechain.features.errors import SettingsError
from phonechain.features.phones import notation, sets
from phonechain.features.words import dictionary
from phonechain.features.words.dictionary import Dictionary, Pronunciation

PREFIX = "espeak-ng:"
"""How a dictionary of this kind is named in place of a file."""

SECONDS = 10.0
"""Longest time that a word may take."""

_VOICE = re.compile(r"[A-Za-z]{2,3}[A-Za-z0-9+-]{0,27}")
_OTHER_VOICE = re.compile(r"\([a-z-]+\)")
_STRESS = str.maketrans("", "", "ˈˌ")


def read(source: Path) -> Dictionary:
    """A dictionary file, or what espeak-ng says where the path is `espeak-ng:VOICE`. Raises as `dictionary.read`."""
    if str(source).startswith(PREFIX):
        return EspeakDictionary(str(source).removeprefix(PREFIX))
    return dictionary.read(source)


class EspeakDictionary(Dictionary):
    """Any word that has a letter.

    Args:
        voice: of `espeak-ng --voices`, such as `ru` or `en-us`.

    Raises:
        SettingsError: no such program, or no such voice.
    """

    def __init__(self, voice: str) -> None:
        super().__init__({}, f"{PREFIX}{voice}"[:60])
        if not _VOICE.fullmatch(voice):
            raise SettingsError(f"expected a voice of espeak-ng, such as ru, got {voice[:40]!r}", value=voice[:40])
        if (program := shutil.which("espeak-ng")) is None:
            raise SettingsError("espeak-ng is not installed: install the program, or give a dictionary file")
        self.voice = voice
        self._ask = lru_cache(maxsize=100_000)(lambda word: _pronounce(program, voice, word))
        self._ask("a")

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and any(c.isalpha() for c in word)

    def lookup(self, word: str) -> list[Pronunciation]:
        """One pronunciation; none where espeak-ng says nothing."""
        phones = self._ask(word) if word in self else ()
        return [Pronunciation(phones)] if phones else []


def _pronounce(program: str, voice: str, word: str) -> tuple[str, ...]:
    """The phones of a word. Raises SettingsError."""
    command = [program, "-q", "--ipa", "--sep=_", "-v", voice, "--stdin"]
    try:
        done = subprocess.run(command, input=word.encode(), capture_output=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        reason = said.decode("utf-8", "replace").strip().splitlines() or [type(error).__name__]
        raise SettingsError(f"espeak-ng with the voice {voice!r}: {reason[-1][:200]}", value=voice) from None
    text = _OTHER_VOICE.sub(" ", done.stdout.decode("utf-8", "replace")).translate(_STRESS)
    phones = [p for p in re.split(r"[\s_]+", text) if p]
    return tuple(_arpabet(phones) if voice.startswith("en") else phones)


def _arpabet(phones: list[str]) -> list[str]:
    """English IPA as ARPAbet; what has none stays."""
    found = []
    for p in phones:
        label = notation.english_ipa(p)
        if label != sets.DROPPED:
            found.append((label and sets.fold(label, "ipa", "arpabet")) or p)
    return found
