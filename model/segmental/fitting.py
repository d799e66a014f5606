"""`PhoneAligner.fit` and `fit_flat`: from recordings to a trained and calibrated aligner.

With boundaries: frames and labels, training, then the bias of the boundaries and the temperature of the posteriors from
recordings held out. Without: hidden Markov models of single phones find first boundaries (`monophone`), a model is
trained on them, finds better ones, and a model is trained on these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features.audio.utterances import decode_utterance
from phonechain.features.errors import CorpusError, PhonechainError
from phonechain.features.mfcc import FeatureSettings, frames
from phonechain.features.segments import Segment, Utterance
from phonechain.model.device import choose_device
from phonechain.model.learning.splits import hold_out
from phonechain.model.segmental import calibration, learning
from phonechain.model.segmental.learning import Epoch, Example
from phonechain.model.segmental.monophone import STATES, Chain, Monophones
from phonechain.model.segmental.network import FRAME, SemiCRF
from phonechain.model.segmental.transcripts import SILENCES, Word

if TYPE_CHECKING:
    from phonechain.model.segmental.aligner import PhoneAligner

HELD_OUT = 0.1
"""Share of the recordings that calibration is measured on."""

LONGEST = 20.0
"""Longest recording used for training (s): a batch holds all candidates of a recording at once."""

FLAT_SECONDS = 600.0
"""Seconds of sound that the hidden Markov models of a flat start are fitted to; three Gaussians per phone need no more."""

Report = Callable[[Epoch], None]


@dataclass(frozen=True)
class TranscribedRecording:
    """A recording and what is said in it. Silence may stand between words, unless the words are `phones` in order."""

    id: str
    audio: Path
    words: Sequence[Word]
    speaker: str | None = None
    phones: bool = False


@dataclass(frozen=True)
class _Recording:
    """A recording ready for training: its frames for each warp, and its segments in seconds."""

    utterance: Utterance
    tracks: Sequence[NDArray[np.floating]]
    duration: float


def fit(
    aligner: PhoneAligner,
    utterances: Sequence[Utterance],
    dev: Sequence[Utterance] | None = None,
    *,
    base: PhoneAligner | None = None,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[tuple[Utterance, PhonechainError]]:
    """Train the aligner in place from labelled boundaries; returns the recordings that could not be used, and the errors.

    Args:
        dev: recordings for calibration and the held-out loss; by default a tenth of the speakers (or recordings).
        base: an aligner to start from. Its frame network is kept, and its other weights too if its labels are the corpus's.

    Raises:
        CorpusError: nothing to train on.
    """
    if dev is None:
        utterances, dev = hold_out(utterances, HELD_OUT, aligner.training.seed)
    names = {s.label for u in utterances for s in u.segments if s.label is not None and not is_silence(s.label)}
    written = {s.label for u in utterances for s in u.segments if s.label is not None and is_silence(s.label)}
    _prepare(aligner, names, next(iter(sorted(written)), "SIL"), base)
    problems: list[tuple[Utterance, PhonechainError]] = []
    training = aligner.training
    made = _recordings(utterances, aligner, training.warps, problems)
    held = _recordings(dev, aligner, (1.0,), problems)
    _train(aligner, made, held, base, report, stop)
    calibration.calibrate(aligner, _sounds(aligner, held))
    return problems


def fit_flat(
    aligner: PhoneAligner,
    recordings: Sequence[TranscribedRecording],
    *,
    rounds: int = 2,
    base: PhoneAligner | None = None,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[tuple[Utterance, PhonechainError]]:
    """Train the aligner in place without any boundaries: align and train, `rounds` times.

    A word with several pronunciations has its first one until there is a model, which then chooses.

    Raises:
        CorpusError: nothing to train on.
    """
    names = {p for r in recordings for w in r.words for v in w.pronunciations for p in v.phones}
    quiet = next(iter(sorted(n for n in names if is_silence(n))), "SIL")
    _prepare(aligner, {n for n in names if not is_silence(n)}, quiet, base)
    problems: list[tuple[Utterance, PhonechainError]] = []
    first = [_number_phones(r, aligner) for r in recordings]
    made = _recordings([u for u, _ in first], aligner, aligner.training.warps, problems)
    optional = {u.id: o for u, o in first}
    made = _find_first_boundaries(aligner, made, optional)
    by_id = {r.id: r for r in recordings}
    for n in range(rounds):
        train, held = _split(made, aligner.training.seed)
        _train(aligner, train, held, base if n == 0 else aligner, report, stop)
        if n + 1 < rounds:
            made = [_realign(aligner, r, by_id[r.utterance.id]) for r in made]
        else:
            calibration.calibrate_flat(aligner, _sounds(aligner, held))
    return problems


# ------------------------------------------------------------------------------------------------------------ the parts


def is_silence(label: str) -> bool:
    """Whether a corpus uses this label for silence."""
    return label.casefold() in SILENCES


def cover_recording(segments: Sequence[Segment], duration: float, silence: str) -> list[Segment]:
    """Extend segments to cover the recording: silence where nothing is labelled, neighbouring silences joined."""
    out: list[Segment] = []
    for s in segments:
        end = min(s.end, duration)
        label = silence if s.label is None or is_silence(s.label) else s.label
        if end <= s.start:
            continue
        last = out[-1].end if out else 0.0
        if s.start > last + 0.005:
            if out and out[-1].label == silence:
                out[-1] = Segment(out[-1].start, s.start, silence)
            else:
                out.append(Segment(last, s.start, silence))
            last = s.start
        if out and out[-1].label == label == silence:
            out[-1] = Segment(out[-1].start, end, silence)
        else:
            out.append(Segment(last, end, label))
    if out:
        out[-1] = Segment(out[-1].start, duration, out[-1].label)
    return out


def warp_frames(samples: NDArray[np.float32], features: FeatureSettings, warp: float) -> NDArray[np.float32]:
    """Frames under a filter bank whose frequencies are multiplied by `warp`."""
    if warp == 1.0:
        return frames(samples, features)
    top = min(features.fmax * warp, features.rate / 2 - 10.0)
    return frames(samples, dataclasses.replace(features, fmin=features.fmin * warp, fmax=top))


def _prepare(aligner: PhoneAligner, names: set[str], silence: str, base: PhoneAligner | None) -> None:
    if not names:
        raise CorpusError("expected labelled recordings to train on, got none")
    aligner.labels_ = sorted({*names, silence})
    if base is not None:
        aligner.features_ = base.features_
        aligner.model = dataclasses.replace(aligner.model, units=base.model.units)
    aligner.network_, aligner.temperature_, aligner.shift_ = None, 1.0, 0.0


def _recordings(
    utterances: Sequence[Utterance],
    aligner: PhoneAligner,
    warps: Sequence[float],
    problems: list[tuple[Utterance, PhonechainError]],
) -> list[_Recording]:
    silence, known = str(aligner.silence), set(aligner.labels_)
    made = []
    for u in utterances:
        try:
            audio = decode_utterance(u, rate=aligner.features_.rate)
            segments = cover_recording(u.segments, audio.duration, silence)
            if audio.duration > LONGEST:
                raise CorpusError(
                    f"lasts {audio.duration:.1f} s; at most {LONGEST:.0f} s are trained on as one: cut it"
                )
            if not segments or {s.label for s in segments} - known:
                raise CorpusError("has no labels that the training set has")
            steps = round(audio.duration / aligner.model.step)
            if len(segments) > steps:
                raise CorpusError(f"has {len(segments)} segments in {audio.duration:.2f} s, more than fit")
            tracks = [warp_frames(audio.samples, aligner.features_, w).astype(np.float16) for w in warps]
            made.append(_Recording(dataclasses.replace(u, segments=segments), tracks, audio.duration))
        except PhonechainError as error:
            problems.append((u, error))
    return made


def _examples(aligner: PhoneAligner, recordings: Sequence[_Recording]) -> list[Example]:
    index = {y: n for n, y in enumerate(aligner.labels_)}
    return [
        Example(r.tracks, [(s.start, s.end, index[str(s.label)]) for s in r.utterance.segments]) for r in recordings
    ]


def _train(
    aligner: PhoneAligner,
    made: Sequence[_Recording],
    held: Sequence[_Recording],
    base: PhoneAligner | None,
    report: Report | None,
    stop: Callable[[], bool] | None,
) -> None:
    if not made:
        raise CorpusError("expected recordings to train on, got none that can be used")
    training, same = aligner.training, base is not None and base.labels_ == aligner.labels_
    network = learning.build(aligner.model, len(aligner.labels_), training.seed).to(choose_device(aligner.device))
    if base is not None:
        start_from(network, base._require_network(), whole=same)
    examples = _examples(aligner, made)
    history = learning.train(
        network, examples, _examples(aligner, held), training, warm=same, normalised=base is not None,
        report=report, stop=stop,
    )  # fmt: skip
    aligner.network_ = network.eval()
    losses = [e.dev_loss for e in history if e.dev_loss is not None]
    aligner.metrics_ = {"epochs": len(history), **({"dev_loss": round(losses[-1], 4)} if losses else {})}


def start_from(network: SemiCRF, base: SemiCRF, *, whole: bool) -> None:
    """Copy the frame network and its normaliser from another network; all weights if `whole`, when the labels are equal."""
    with torch.no_grad():
        if whole:
            network.load_state_dict(base.state_dict())
            return
        network.mean.copy_(base.mean)
        network.deviation.copy_(base.deviation)
        if network.network is not None and base.network is not None:
            network.network.load_state_dict(base.network.state_dict())


def _sounds(aligner: PhoneAligner, held: Sequence[_Recording]) -> calibration.HeldOut:
    return [(decode_utterance(r.utterance, rate=aligner.features_.rate), r.utterance.segments) for r in held]


def _number_phones(r: TranscribedRecording, aligner: PhoneAligner) -> tuple[Utterance, tuple[bool, ...]]:
    """The phones of a recording in order, with their numbers as placeholder times, and which of them are optional."""
    silence = str(aligner.silence)
    phones: list[str] = []
    optional: list[bool] = []
    for n, w in enumerate(r.words):
        if not r.phones:
            phones.append(silence)
            optional.append(True)
        first = [silence if is_silence(p) else p for p in w.pronunciations[0].phones]
        phones += first
        optional += [False] * len(first)
        if not r.phones and n + 1 == len(r.words):
            phones.append(silence)
            optional.append(True)
    # a hundredth of a millisecond each, so that none is empty until the first boundaries are found
    segments = [Segment(n * 1e-5, (n + 1) * 1e-5, p) for n, p in enumerate(phones)]
    return Utterance(r.id, r.audio, segments, speaker=r.speaker), tuple(optional)


def _find_first_boundaries(
    aligner: PhoneAligner, made: Sequence[_Recording], optional: dict[str, tuple[bool, ...]]
) -> list[_Recording]:
    index = {y: n for n, y in enumerate(aligner.labels_)}
    tracks, chains, kept = [], [], []
    for r in made:
        labels = [index[str(s.label)] for s in r.utterance.segments]
        may = optional[r.utterance.id]
        chain = Chain(labels, may if len(may) == len(labels) else ())
        x = np.asarray(r.tracks[0], dtype=np.float64)
        if len(x) <= len(labels) * STATES:
            continue  # too many phones for the hidden Markov models; the segmental CRF gets it in the next round
        tracks.append((x - x.mean(0)) / (x.std(0) + 1e-6))
        chains.append(chain)
        kept.append(r)
    models = Monophones(len(aligner.labels_))
    seconds = np.cumsum([len(x) * FRAME for x in tracks])
    some = max(1, int(np.searchsorted(seconds, FLAT_SECONDS)) + 1)
    models.fit(tracks[:some], chains[:some])
    found = []
    for r, at in zip(kept, models.boundaries(tracks, chains), strict=True):
        times = np.minimum(at * FRAME, r.duration)
        times[-1] = r.duration
        segments = [
            Segment(float(a), float(b), s.label)
            for a, b, s in zip(times[:-1], times[1:], r.utterance.segments, strict=True)
            if b > a + 1e-6
        ]
        found.append(dataclasses.replace(r, utterance=dataclasses.replace(r.utterance, segments=segments)))
    return found


def _split(made: Sequence[_Recording], seed: int) -> tuple[list[_Recording], list[_Recording]]:
    if len(made) < 2:
        return list(made), []
    train, held = hold_out([r.utterance for r in made], HELD_OUT, seed)
    by_id = {r.utterance.id: r for r in made}
    return [by_id[u.id] for u in train], [by_id[u.id] for u in held]


def _realign(aligner: PhoneAligner, r: _Recording, said: TranscribedRecording) -> _Recording:
    """The recording with the aligner's boundaries; where it finds none, as it was."""
    audio = decode_utterance(r.utterance, rate=aligner.features_.rate)
    try:
        if said.phones:
            answer = aligner.align_phones(audio, [w.pronunciations[0].phones[0] for w in said.words])
        else:
            answer = aligner.align(audio, said.words)
    except PhonechainError:
        return r
    segments = cover_recording(answer.segments, audio.duration, str(aligner.silence))
    return dataclasses.replace(r, utterance=dataclasses.replace(r.utterance, segments=segments))
