"""Pronunciations by espeak-ng, where it is installed."""

import shutil
from pathlib import Path

import pytest

from phonechain.features.errors import SettingsError
from phonechain.features.words import espeak

needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


def phones(voice: str, word: str) -> list[str]:
    [found] = espeak.read(Path(f"espeak-ng:{voice}")).lookup(word)
    return list(found.phones)


@needs_espeak
def test_words_of_a_language_have_its_phones_without_stress():
    assert phones("ru", "собака")[0] == "s"
    assert len(phones("ru", "собака")) == 6
    assert not set("ˈˌ_ ") & set("".join(phones("ru", "собака")))


@needs_espeak
def test_english_is_arpabet():
    assert phones("en-us", "modern") == ["M", "AA", "D", "ER", "N"]
    assert phones("en-us", "being") == ["B", "IY", "IH", "NG"]


@needs_espeak
def test_what_has_no_letter_is_no_word():
    ru = espeak.read(Path("espeak-ng:ru"))
    assert "..." not in ru
    assert ru.lookup("...") == []
    assert "собака" in ru


@needs_espeak
def test_a_voice_that_is_not_there():
    with pytest.raises(SettingsError, match="espeak-ng with the voice 'xx'"):
        espeak.read(Path("espeak-ng:xx"))


@pytest.mark.parametrize("voice", ["-w/tmp/x", "", "ru; ls", "../ru"])
def test_what_cannot_be_a_voice_is_never_run(voice: str):
    with pytest.raises(SettingsError, match="expected a voice of espeak-ng"):
        espeak.EspeakDictionary(voice)


def test_without_the_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SettingsError, match="espeak-ng is not installed"):
        espeak.EspeakDictionary("ru")
