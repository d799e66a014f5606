"""A recording of more than a minute: sentences of a reader, one without text, one without sound."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.app.alignment.transcripts import pronouncer_of
from phonechain.features.annotation import read
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import TranscriptError
from phonechain.features.segments import Segment
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental import long
from phonechain.model.segmental.aligner import PhoneAligner, Word
from phonechain.model.segmental.answers import Alignment

RATE = 16000
NO_TEXT, NO_SOUND = 4, 9
"""Sentences of which one half is left out."""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its place in the sound (s), and the starts of its words as it is aligned by itself (s)."""

    text: list[Word]
    start: float
    end: float
    starts: list[float]
    labels: list[Segment]


@pytest.fixture(scope="module")
def aligner() -> PhoneAligner:
    return PhoneAligner.load(pretrained_path(ALIGNMENT))


@pytest.fixture(scope="module")
def spoken(aligner: PhoneAligner) -> tuple[Audio, list[Sentence]]:
    sounds, found, at = [], [], 0.0
    for n, path in enumerate(sorted((samples.FOLDER / "reader").glob("*.ogg"))[:14]):
        audio = decode(path, rate=RATE)
        tiers = read(path.with_suffix(".TextGrid").read_bytes(), name=path.stem).tiers
        phones = [str(s.label) for t in tiers if t.name == "phones" for s in t.entries if s.label not in (None, "SIL")]
        parts = [tuple(phones[k : k + 4]) for k in range(0, len(phones), 4)]  # the words are not at hand
        text = [Word(f"{path.stem}-{k}", [Pronunciation(part)]) for k, part in enumerate(parts)]
        starts = [at + w.start for w in aligner.align(audio, text).words]
        end = at if n == NO_SOUND else at + len(audio.samples) / RATE
        labels = [Segment(at + s.start, at + s.end, s.label) for t in tiers if t.name == "phones" for s in t.entries]
        found.append(Sentence(text, at, end, starts, labels))
        if n != NO_SOUND:
            sounds.append(audio.samples)
        at = end
    return Audio(np.concatenate(sounds), RATE), found


@pytest.fixture(scope="module")
def pieces() -> list[float]:
    """Durations of what the model sees at a time."""
    return []


@pytest.fixture(scope="module")
def answer(aligner: PhoneAligner, spoken: tuple[Audio, list[Sentence]], pieces: list[float]) -> Alignment:
    audio, sentences = spoken
    assert audio.duration > 65
    encode = aligner._encode

    def count(sound: Audio, **how: bool) -> Any:
        pieces.append(sound.duration)
        return encode(sound, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligner, "_encode", count)
        return aligner.align(audio, [w for n, s in enumerate(sentences) if n != NO_TEXT for w in s.text])


def test_the_other_words_are_where_each_sentence_has_them_by_itself(answer, spoken):
    kept = [s for n, s in enumerate(spoken[1]) if n not in (NO_TEXT, NO_SOUND)]
    starts = np.array([t for s in kept for t in s.starts])
    found = np.array([w.start for w in answer.words])
    near = np.abs(found[:, None] - starts).min(0)
    assert np.mean(near <= 0.02) > 0.92
    assert len(answer.words) == pytest.approx(len(starts), abs=6)


def test_what_does_not_match_is_marked_and_has_no_alignment(answer, spoken):
    lost, unsaid = spoken[1][NO_TEXT], spoken[1][NO_SOUND]
    sound, text = answer.unmatched
    assert (sound.start, sound.end) == (pytest.approx(lost.start, abs=1.0), pytest.approx(lost.end, abs=1.0))
    assert len(sound.text.split()) < 4
    assert text.start == pytest.approx(unsaid.start, abs=1.0)
    assert text.end < text.start + 1.0
    said = [w.word for w in unsaid.text]
    assert len([w for w in text.text.split() if w in said]) > 0.7 * len(said)
    assert [n.code for n in answer.notices] == ["transcript-unmatched"] * 2
    middles = [(p.start + p.end) / 2 for p in answer.phones]
    assert not any(u.start + 1e-6 < t < u.end - 1e-6 for t in middles for u in answer.unmatched)


def test_phones_and_words_are_in_order_and_fit_together(answer, aligner):
    for one, following in itertools.pairwise(answer.phones):
        assert one.start < one.end <= following.start + 1e-9
        assert not (one.label == following.label == aligner.silence and following.start - one.end < 1e-6)
    for n, word in enumerate(answer.words):
        own = answer.phones[slice(*word.phones)]
        assert (own[0].start, own[-1].end) == (pytest.approx(word.start), pytest.approx(word.end))
        assert {p.word for p in own} == {n}
        assert [p.label for p in own] == [p.rstrip("012") for p in word.pronunciation]
    assert answer.phones[0].start == 0.0
    assert answer.phones[-1].end == pytest.approx(answer.duration)


def test_no_more_than_a_window_is_looked_at(answer, pieces):
    assert len(pieces) > 4
    assert max(pieces) <= long.LONGEST


def test_recognition_goes_on_over_the_windows(aligner, spoken, answer):
    found = aligner.recognize(spoken[0])
    assert found.phones[0].start == 0.0
    assert found.phones[-1].end == pytest.approx(spoken[0].duration)
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(found.phones))
    count = sum(p.label != "SIL" for p in answer.phones)
    assert 0.8 * count < sum(p.label != "SIL" for p in found.phones) < 1.3 * count


def test_given_boundaries_come_nearer_over_the_windows(aligner, spoken, pieces):
    audio, sentences = spoken
    labels = [s for n, sentence in enumerate(sentences) if n != NO_SOUND for s in sentence.labels]
    true = np.array([s.start for s in labels])
    moved = np.maximum.accumulate(true + np.r_[0.0, np.random.default_rng(1).normal(0.0, 0.03, len(true) - 1)])
    moved = np.minimum(moved, audio.duration - 0.01)
    given = [Segment(a, b, s.label) for a, b, s in zip(moved, [*moved[1:], audio.duration], labels, strict=True)]
    found = aligner.refine(audio, given).phones
    assert [p.given_start for p in found] == pytest.approx(list(moved), abs=1e-5)
    assert [p.label for p in found] == [aligner.spell(s.label or "") for s in given]
    off = np.array([p.start for p in found]) - true
    assert np.abs(off).mean() < 0.6 * np.abs(moved - true).mean()
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(found))


def test_text_of_something_else_is_refused(aligner, spoken):
    words = pronouncer_of(None).words("she sells sea shells by the shore of a lake in June; " * 12)
    with pytest.raises(TranscriptError, match=r"does not match the sound: \d+ of 144 words"):
        aligner.align(spoken[0], words)


def test_phones_in_order_are_found_over_the_windows(aligner, spoken):
    audio, sentences = spoken
    kept = [s for n, sentence in enumerate(sentences) if n not in (NO_TEXT, NO_SOUND) for s in sentence.labels]
    given = [str(s.label) for n, s in enumerate(kept) if not (n and s.label == kept[n - 1].label == "SIL")]
    found = aligner.align_phones(audio, given)
    assert found.words == ()
    lost = sum(len(u.text.split()) for u in found.unmatched)
    assert lost < 0.03 * len(given)
    wanted = iter([y for y in given if y != "SIL"])
    labels = [p.label for p in found.phones if p.label != "SIL"]
    assert all(y in wanted for y in labels)  # in this order
    assert len(labels) == len([y for y in given if y != "SIL"]) - lost
    assert len(found.phones) == pytest.approx(len(given) - lost, abs=3)
    true = np.array([s.start for s in kept])
    near = np.abs(np.array([p.start for p in found.phones])[:, None] - true).min(1)
    assert np.mean(near <= 0.03) > 0.85
    [sound] = [u for u in found.unmatched if u.end - u.start > 1]
    assert sound.start == pytest.approx(sentences[NO_TEXT].start, abs=1.0)


def test_boundaries_without_a_silence_are_refined_too(aligner, spoken):
    labels = [s for n, sentence in enumerate(spoken[1]) if n != NO_SOUND for s in sentence.labels if s.label != "SIL"]
    ends = [s.start for s in labels[1:]] + [spoken[0].duration]
    given = [Segment(s.start if n else 0.0, end, s.label) for n, (s, end) in enumerate(zip(labels, ends, strict=True))]
    found = aligner.refine(spoken[0], given).phones
    assert [p.label for p in found] == [s.label for s in given]
    assert [p.given_start for p in found] == pytest.approx([s.start for s in given], abs=1e-5)
    one = aligner.refine(spoken[0], [Segment(0.0, spoken[0].duration, "SIL")]).phones
    assert [(p.label, p.start, p.end) for p in one] == [("SIL", 0.0, pytest.approx(spoken[0].duration))]


def test_between_windows_work_is_told_and_can_be_ended(aligner, spoken):
    labels = [s for n, sentence in enumerate(spoken[1]) if n != NO_SOUND for s in sentence.labels]
    words = [w for s in spoken[1] for w in s.text]

    class Enough(Exception):
        pass

    def end(share: float) -> None:
        shares.append(share)
        if share >= 0.3:
            raise Enough

    for work in (
        lambda: aligner.align(spoken[0], words, progress=end),
        lambda: aligner.align_phones(spoken[0], [str(s.label) for s in labels], progress=end),
        lambda: aligner.refine(spoken[0], labels, progress=end),
        lambda: aligner.recognize(spoken[0], progress=end),
    ):
        shares: list[float] = []
        with pytest.raises(Enough):
            work()
        assert len(shares) > 1
        assert shares == sorted(shares)
