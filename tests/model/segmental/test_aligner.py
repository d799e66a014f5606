"""The shipped alignment model on the sample, whose labels pocketsphinx made; and a small model trained here."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import ModelFileError, PhoneSetError, SegmentError, SettingsError, TranscriptError
from phonechain.features.segments import Segment
from phonechain.features.words.dictionary import Pronunciation, english
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner, Word

ARPABET_FOR_SILENCE = "SIL"


@pytest.fixture(scope="module")
def aligner() -> PhoneAligner:
    return PhoneAligner.load(pretrained_path(ALIGNMENT))


@pytest.fixture(scope="module")
def audio(aligner: PhoneAligner) -> Audio:
    return decode(samples.AUDIO, rate=aligner.features_.rate)


@pytest.fixture(scope="module")
def reference() -> list[Segment]:
    annotation = read(samples.SEGMENTS.read_bytes(), name=samples.SEGMENTS.name)
    return tier_segments(choose_tier(annotation)[0])


def words(text: str) -> list[Word]:
    return [Word(w, english().lookup(w)) for w in text.split()]


def test_words_and_phones_of_the_sample(aligner, audio, reference):
    answer = aligner.align(audio, words("in being comparatively modern"))
    assert [w.word for w in answer.words] == ["in", "being", "comparatively", "modern"]
    assert answer.notices == ()
    phones = answer.phones
    assert phones[0].start == 0.0
    assert phones[-1].end == pytest.approx(audio.duration)
    for one, following in itertools.pairwise(phones):
        assert one.end == following.start
        assert one.start < one.end
    assert all(p.start_low <= p.start <= p.start_high and 0 <= p.within <= 1 and 0 <= p.posterior <= 1 for p in phones)
    for n, word in enumerate(answer.words):
        own = phones[word.phones[0] : word.phones[1]]
        assert [p.label for p in own] == [p.rstrip("012") for p in word.pronunciation]
        assert (own[0].start, own[-1].end) == (word.start, word.end)
        assert {p.word for p in own} == {n}
    spoken = [s for s in reference if s.label is not None and aligner.spell(s.label) != "SIL"]
    found = [p for p in phones if p.label != "SIL"]
    if [p.label for p in found] == [aligner.spell(str(s.label)) for s in spoken]:
        off = [abs(p.start - s.start) for p, s in zip(found, spoken, strict=True)]
        assert np.mean(off) < 0.03


def test_another_transcript_is_told_to_be_improbable_and_scores_less(aligner, audio):
    right = aligner.align(audio, words("in being comparatively modern"))
    wrong = aligner.align(audio, words("she sold seashells"))
    assert wrong.log_posterior_per_phone < right.log_posterior_per_phone - 2
    (notice,) = wrong.notices
    assert notice.code == "transcript-improbable"
    assert "fits worst at word" in notice.message


def test_the_pronunciation_that_was_said_is_chosen(aligner, audio):
    variants = [Pronunciation(("SH", "UW", "SH", "UW")), Pronunciation(("B", "IY1", "IH0", "NG"))]
    answer = aligner.align(audio, [*words("in"), Word("being", variants), *words("comparatively modern")])
    assert answer.words[1].pronunciation == ("B", "IY1", "IH0", "NG")
    assert answer.words[1].posterior > 0.95


def test_phones_in_order_get_boundaries(aligner, audio, reference):
    labels = [s.label or "SIL" for s in reference]
    answer = aligner.align_phones(audio, labels)
    assert [p.label for p in answer.phones] == [aligner.spell(y) for y in labels]
    off = [abs(p.start - s.start) for p, s in zip(answer.phones, reference, strict=True)]
    assert np.median(off) < 0.02


def test_boundaries_that_are_off_come_nearer(aligner, audio, reference):
    random = np.random.default_rng(3)
    starts = np.array([s.start for s in reference])
    moved = np.maximum.accumulate(starts + np.r_[0, random.normal(0, 0.03, len(starts) - 1)])
    ends = [*moved[1:], audio.duration]
    noisy = [Segment(a, b, s.label) for a, b, s in zip(moved, ends, reference, strict=True)]
    answer = aligner.refine(audio, noisy)
    assert [p.given_start for p in answer.phones] == pytest.approx(list(moved))
    after = np.array([p.start for p in answer.phones]) - starts
    assert np.abs(after).mean() < 0.7 * np.abs(moved - starts).mean()
    assert np.abs([p.start - g for p, g in zip(answer.phones, moved, strict=True)]).max() <= 0.1 + 0.02


def test_sound_alone_gives_phones(aligner, audio):
    answer = aligner.recognize(audio)
    labels = [p.label for p in answer.phones]
    assert 10 < len(labels) < 40
    assert answer.phones[-1].end == pytest.approx(audio.duration)
    assert (
        len(set(labels) & {"IH", "N", "B", "IY", "NG", "K", "AH", "M", "P", "EH", "R", "T", "V", "L", "AA", "D", "ER"})
        > 8
    )


def test_what_cannot_be_aligned_is_one_readable_line(aligner, audio, reference):
    with pytest.raises(TranscriptError, match="expected words to align, got none"):
        aligner.align(audio, [])
    with pytest.raises(TranscriptError, match=r"too long for the sound: \d+ phones at least in 1\.90 s"):
        aligner.align(audio, words("comparatively " * 20))
    with pytest.raises(PhoneSetError, match=r"phones that the model knows \(AA AE .*\), got XX ZZ"):
        aligner.align_phones(audio, ["AA", "ZZ", "XX"])
    silent = replace(audio, samples=np.zeros(61 * 16000, np.float32), source_samples=None)
    with pytest.raises(TranscriptError, match="does not match the sound: 0 of 1 phones are where they can be heard"):
        aligner.align_phones(silent, ["AA", "SIL"])
    with pytest.raises(SettingsError, match="lasts 7201 s; at most 7200 s"):
        aligner.recognize(replace(audio, samples=np.zeros(7201 * 10, np.float32), rate=10, source_samples=None))
    with pytest.raises(SegmentError, match="before the one before it ends"):
        aligner.refine(audio, [reference[1], reference[0]])
    with pytest.raises(SettingsError, match="call fit or load"):
        PhoneAligner().recognize(audio)


def test_silence_and_stress_are_spelled_in_many_ways(aligner):
    assert [aligner.spell(p) for p in ("sil", "", "pau", "AH0", "ah1", "xx")] == ["SIL", "SIL", "SIL", "AH", "AH", None]


def test_a_model_of_another_kind_is_refused(aligner, tmp_path):
    with pytest.raises(ModelFileError, match=r"expected an alignment model, got .*, which labels given segments"):
        PhoneAligner.load(pretrained_path())
    again = PhoneAligner.load(aligner.save(tmp_path / "a.safetensors") and tmp_path / "a.safetensors")
    assert again.labels_ == aligner.labels_
    assert (again.temperature_, again.shift_, again.decoding_) == (
        aligner.temperature_,
        aligner.shift_,
        aligner.decoding_,
    )


def test_sound_of_a_few_milliseconds_and_silence(aligner):
    for count in (1, 200, 16000):
        answer = aligner.recognize(Audio(np.zeros(count, np.float32), 16000))
        assert answer.phones[-1].end == pytest.approx(count / 16000)
        assert all(np.isfinite([p.start, p.within, p.posterior]).all() for p in answer.phones)
