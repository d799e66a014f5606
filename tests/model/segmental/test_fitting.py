"""Training an aligner: sounds of three kinds whose borders are known, with these labelled and without."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.features.audio.reader import decode
from phonechain.features.errors import CorpusError
from phonechain.features.segments import Segment, Utterance
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model.segmental import calibration
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.fitting import TranscribedRecording, cover_recording
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.transcripts import Word

RATE = 16000
BANDS = {"low": (200, 500), "mid": (900, 1600), "high": (3000, 6000)}


def _sound(random: np.random.Generator, labels: list[str], lengths: list[float]) -> np.ndarray:
    """Noise in a band for each label, next to nothing for silence."""
    parts = []
    for label, length in zip(labels, lengths, strict=True):
        n = round(length * RATE)
        spectrum = np.fft.rfft(random.normal(size=n))
        at = np.fft.rfftfreq(n, 1 / RATE)
        low, high = BANDS.get(label, (0, 8000))
        x = np.fft.irfft(spectrum * ((at >= low) & (at <= high)), n)
        parts.append(x / (x.std() + 1e-9) * (0.1 if label in BANDS else 0.001))
    return np.concatenate(parts).astype(np.float32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> list[Utterance]:
    folder = tmp_path_factory.mktemp("bands")
    random = np.random.default_rng(3)
    found = []
    for n in range(14):
        middle = [str(y) for y in random.permutation(list(BANDS))] + [str(y) for y in random.permutation(list(BANDS))]
        labels = ["sil", *[y for k, y in enumerate(middle) if k == 0 or middle[k - 1] != y], "sil"]
        lengths = [round(float(v), 3) for v in random.uniform(0.08, 0.25, len(labels))]
        path = folder / f"u{n}.wav"
        soundfile.write(path, _sound(random, labels, lengths), RATE)
        edges = np.concatenate([[0.0], np.cumsum(lengths)])
        segments = [Segment(float(a), float(b), y) for a, b, y in zip(edges[:-1], edges[1:], labels, strict=True)]
        found.append(Utterance(path.stem, path, segments))
    return found


def _aligner(epochs: int) -> PhoneAligner:
    training = SegmentalTraining(epochs=epochs, pretraining=3, batch_frames=400, rate=5e-3)
    return PhoneAligner(SegmentalSettings(units=8, dropout=0.0), training=training)


def _within(aligner: PhoneAligner, utterances: list[Utterance], tolerance: float) -> float:
    off = []
    for u in utterances:
        answer = aligner.align_phones(decode(u.audio, rate=RATE), [str(s.label) for s in u.segments])
        off += [abs(p.start - s.start) for p, s in zip(answer.phones, u.segments, strict=True)][1:]
    return float(np.mean(np.array(off) <= tolerance))


@pytest.fixture(scope="module")
def fitted(corpus) -> PhoneAligner:
    return _aligner(3).fit(corpus[:10], corpus[10:12])


def test_boundaries_are_learnt_from_labelled_ones(fitted, corpus, tmp_path):
    assert fitted.labels_ == ["high", "low", "mid", "sil"]
    assert fitted.problems_ == []
    assert _within(fitted, corpus[12:], 0.02) >= 0.9
    assert fitted.metrics_["dev_within_20_ms"] >= 0.9
    assert abs(fitted.shift_) < 0.02
    assert set(fitted.decoding_) == {"ngrams", "bonus"}
    assert fitted.metrics_["dev_phone_error"] < 0.2
    fitted.save(tmp_path / "own.safetensors")
    again = PhoneAligner.load(tmp_path / "own.safetensors")
    assert _within(again, corpus[12:], 0.02) == _within(fitted, corpus[12:], 0.02)
    assert again.decoding_ == fitted.decoding_


def test_boundaries_are_learnt_from_the_order_alone(corpus):
    said = [
        TranscribedRecording(
            u.id, u.audio, [Word(str(s.label), [Pronunciation((str(s.label),))]) for s in u.segments], phones=True
        )
        for u in corpus[:12]
    ]
    flat = _aligner(2).fit_flat(said)
    assert flat.problems_ == []
    assert flat.temperature_ / calibration.FLAT_FACTOR in calibration.FLAT_TEMPERATURES
    assert float(str(flat.metrics_["dev_phone_error"])) < 0.3
    assert _within(flat, corpus[12:], 0.03) >= 0.9


def test_words_with_silence_that_nobody_wrote_down(corpus):
    said = []
    for u in corpus[:12]:
        words = [Word(str(s.label), [Pronunciation((str(s.label),))]) for s in u.segments if s.label != "sil"]
        said.append(TranscribedRecording(u.id, u.audio, words))
    flat = _aligner(2).fit_flat(said, rounds=1)
    assert "SIL" in flat.labels_
    u = corpus[12]
    answer = flat.align(decode(u.audio, rate=RATE), _words(u))
    first = answer.words[0].start
    assert first == pytest.approx(u.segments[1].start, abs=0.05)


def _words(u: Utterance) -> list[Word]:
    return [Word(str(s.label), [Pronunciation((str(s.label),))]) for s in u.segments if s.label != "sil"]


def test_another_label_set_keeps_what_hears(fitted, corpus):
    spelled = [
        Utterance(u.id, u.audio, [Segment(s.start, s.end, str(s.label)[:1]) for s in u.segments]) for u in corpus[:10]
    ]
    training = SegmentalTraining(epochs=0, pretraining=0)
    other = PhoneAligner(SegmentalSettings(units=8), training=training).fit(spelled, [], base=fitted)
    assert other.labels_ == ["SIL", "h", "l", "m", "s"]  # none of these is a name of silence
    mine, theirs = other._require_network().state_dict(), fitted._require_network().state_dict()
    hears = [name for name in theirs if name.startswith("network.") or name in ("mean", "deviation")]
    assert len(hears) > 10
    assert all((mine[name] == theirs[name]).all() for name in hears)
    assert len(mine["head.weight"]) == 5


def test_the_same_labels_keep_every_weight(fitted, corpus):
    training = SegmentalTraining(epochs=0, pretraining=0)
    other = PhoneAligner(SegmentalSettings(units=8), training=training).fit(corpus[:10], [], base=fitted)
    mine, theirs = other._require_network().state_dict(), fitted._require_network().state_dict()
    assert all((mine[name] == theirs[name]).all() for name in theirs)


def test_a_recording_that_cannot_be_used_is_told_and_left_out(corpus, tmp_path):
    missing = Utterance("gone", tmp_path / "gone.wav", corpus[0].segments)
    found = _aligner(1).fit([*corpus[:3], missing], corpus[3:4])
    ((left, error),) = found.problems_
    assert left.id == "gone"
    assert "gone.wav" in str(error)


def test_nothing_to_train_on(corpus):
    with pytest.raises(CorpusError, match="expected labelled recordings"):
        _aligner(1).fit([Utterance("u", Path("u.wav"), [Segment(0.0, 1.0, "sil")])], [])


def test_gaps_and_neighbouring_silences_become_one():
    segments = [Segment(0.1, 0.2, "a"), Segment(0.3, 0.4, "SIL"), Segment(0.4, 0.5, None), Segment(0.5, 0.6, "b")]
    assert cover_recording(segments, 1.0, "sil") == [
        Segment(0.0, 0.1, "sil"),
        Segment(0.1, 0.2, "a"),
        Segment(0.2, 0.5, "sil"),
        Segment(0.5, 1.0, "b"),
    ]
