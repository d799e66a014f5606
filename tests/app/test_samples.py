"""The sample that ships with the package."""

from __future__ import annotations

from pathlib import Path

from phonechain.app import samples
from phonechain.features import annotation as notation
from phonechain.features.audio.reader import decode

ROOT = Path(__file__).parents[2]


def test_the_folder_at_the_root_is_the_packages_own() -> None:
    assert (ROOT / "samples" / samples.AUDIO.name).samefile(samples.AUDIO)


def test_both_annotations_say_the_same() -> None:
    textgrid = notation.read(samples.SEGMENTS.read_bytes())
    lab = notation.read(samples.SEGMENTS.with_suffix(".lab").read_bytes(), name="a.lab")
    phones = textgrid.tier("phones")
    assert phones is not None
    assert [s.label for s in phones.entries] == [s.label for s in lab.tiers[0].entries]
    for a, b in zip(phones.entries, lab.tiers[0].entries, strict=True):
        assert abs(a.start - b.start) < 1e-6
        assert abs(a.end - b.end) < 1e-6


def test_words_begin_and_end_with_phones() -> None:
    textgrid = notation.read(samples.SEGMENTS.read_bytes())
    phones, words = textgrid.tier("phones"), textgrid.tier("words")
    assert phones is not None
    assert words is not None
    assert " ".join(w.label or "" for w in words.entries) + "." == samples.TEXT
    edges = {s.start for s in phones.entries} | {s.end for s in phones.entries}
    assert all(w.start in edges and w.end in edges for w in words.entries)


def test_the_recording_is_as_its_readme_says() -> None:
    sound = decode(samples.AUDIO)
    assert (sound.rate, sound.channels, sound.format.split()[0]) == (22050, 1, "FLAC")
    assert abs(sound.duration - 1.9) < 0.01
    readme = (samples.FOLDER / "README.md").read_text("utf-8")
    assert "public domain" in readme
