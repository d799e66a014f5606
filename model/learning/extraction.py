"""From recordings to the inputs of models, once per training run: decoded, checked, and cached in a folder."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from phonechain.features.audio.reader import Audio, resample
from phonechain.features.audio.utterances import decode_utterance
from phonechain.features.augmentation import AugmentationSettings, clip
from phonechain.features.errors import CorpusError, PhonechainError, SettingsError
from phonechain.features.files import write_whole
from phonechain.features.inputs import Frames, Inputs, extract_inputs, from_array, no_inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.pooling import extract
from phonechain.features.segment_checks import prepare
from phonechain.features.segments import Segment, Utterance


@dataclass(frozen=True)
class Featurised:
    """An utterance's segments (as prepared) and the inputs of a model for them; or the error that occurred.

    Attributes:
        warped: [W, T, D] the segment features under each requested warp of the filter bank.
        clipped: [F, B] the frames of the clipped sound; [0, 0] unless requested.
    """

    utterance: Utterance
    segments: list[Segment]
    inputs: Inputs
    error: PhonechainError | None = None
    warped: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.float32))
    clipped: Frames = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))


def wrap_array(number: int, x: NDArray[np.float32], labels: Sequence[str]) -> Featurised:
    """A sequence without sound, as training takes it. Raises SettingsError for another number of labels than of rows."""
    inputs = from_array(x)
    if len(inputs) != len(labels):
        raise SettingsError(
            f"expected a label for each of the {len(inputs)} rows of sequence {number}, got {len(labels)}",
            pointer=f"y/{number}",
        )
    segments = [Segment(0.0, 0.0, label) for label in labels]
    return Featurised(Utterance(str(number), Path(f"sequence-{number}"), segments), segments, inputs)


def featurise(
    utterances: Sequence[Utterance],
    settings: FeatureSettings,
    *,
    warps: Sequence[float] = (),
    clipping: AugmentationSettings | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Featurised]:
    """Compute the inputs of a model for every utterance, in order; a bad file becomes a row with its error and no segments.

    Args:
        warps: factors of the filter bank under which the segment features are computed as well, for augmentation.
        clipping: how sound is clipped for augmentation; None for not at all.
        cache: folder for the results of exactly these files, segments and settings; a second call reads them back. Frames
            are stored at 16 bits, and are returned so by the first call too.
        progress: called with (done, total).
    """
    stored = None if cache is None else cache / f"features-{_fingerprint(utterances, settings, warps, clipping)}.npz"
    if stored is not None and stored.exists():
        return _read_cache(stored, utterances, settings)
    results: list[Featurised] = []
    workers = min(4, os.cpu_count() or 1)
    # one utterance per thread: the matrix library's own threads would only get in each other's way
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for n, result in enumerate(pool.map(lambda u: _featurise_one(u, settings, warps, clipping), utterances), 1):
                if stored is not None:
                    frames = result.inputs.frames.astype(np.float16)
                    clipped = result.clipped.astype(np.float16)
                    result = replace(result, inputs=replace(result.inputs, frames=frames), clipped=clipped)
                results.append(result)
                if progress is not None:
                    progress(n, len(utterances))
        except BaseException:  # Ctrl-C, or a progress callback that stops the run: drop the queue
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if stored is not None:
        _write_cache(stored, results)
    return results


def _featurise_one(
    utterance: Utterance, settings: FeatureSettings, warps: Sequence[float], clipping: AugmentationSettings | None
) -> Featurised:
    nothing = no_inputs(settings)
    try:
        audio = decode_utterance(utterance, rate=settings.rate)
        segments, _ = prepare(utterance.segments, audio.duration)
        made = Featurised(utterance, segments, extract_inputs(audio, segments, settings))
        if warps:
            made = replace(made, warped=np.stack([extract(audio, segments, settings, warp=w) for w in warps]))
        if clipping is not None and settings.bands:
            random = np.random.default_rng(zlib.crc32(utterance.id.encode()))
            changed = Audio(clip(resample(audio.samples, audio.rate, settings.rate), clipping, random), settings.rate)
            frames = extract_inputs(changed, segments, replace(settings, pooled=False)).frames
            made = replace(made, clipped=frames)
        return made
    except PhonechainError as error:
        return Featurised(utterance, [], nothing, error)
    except OSError as error:
        reason = f"expected a readable file, got {error.strerror or error}: {utterance.audio.name}"
        return Featurised(utterance, [], nothing, CorpusError(reason))


def _fingerprint(
    utterances: Sequence[Utterance],
    settings: FeatureSettings,
    warps: Sequence[float],
    clipping: AugmentationSettings | None,
) -> str:
    wanted: list[object] = [settings.to_dict(), list(warps)]
    if clipping is not None:
        wanted.append([clipping.clip_low, clipping.clip_high])
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode())
    for u in utterances:
        stat = u.audio.stat() if u.audio.exists() else None
        digest.update(
            os.fsencode(u.audio.resolve())
            + f" {u.channel}{f' {u.raw}' if u.raw else ''} {stat and (stat.st_size, stat.st_mtime_ns)}\n".encode()
        )
        digest.update(np.asarray([(s.start, s.end) for s in u.segments], dtype=np.float64).tobytes())
    return digest.hexdigest()[:24]


def _write_cache(path: Path, results: Sequence[Featurised]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        "segments": np.concatenate([r.inputs.segments for r in results]),
        "times": np.concatenate([r.inputs.times for r in results]),
        "frames": np.concatenate([r.inputs.frames for r in results]),
        "clipped": np.concatenate([r.clipped for r in results if r.clipped.size]) if any(
            r.clipped.size for r in results
        ) else np.zeros((0, 0), dtype=np.float16),
        "boundaries": np.asarray(
            [(s.start, s.end) for r in results for s in r.segments], dtype=np.float64
        ).reshape(-1, 2),
        "warped": np.concatenate([r.warped for r in results if r.warped.size], 1) if any(
            r.warped.size for r in results
        ) else np.zeros((0, 0, 0), dtype=np.float32),
        "lengths": np.asarray([len(r.segments) for r in results]),
        "frame_counts": np.asarray([len(r.inputs.frames) for r in results]),
        "errors": np.asarray([str(r.error or "") for r in results], dtype=np.str_),
    }  # fmt: skip

    def save(spare: Path) -> None:
        with spare.open("wb") as file:  # by name, numpy would add a suffix
            np.savez(file, **arrays)  # type: ignore[arg-type]

    write_whole(path, save)


def _read_cache(path: Path, utterances: Sequence[Utterance], settings: FeatureSettings) -> list[Featurised]:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    results, at, frame = [], 0, 0
    warped, clipped = arrays["warped"], arrays.get("clipped", np.zeros((0, 0), dtype=np.float16))
    for u, length, frames, error in zip(
        utterances, arrays["lengths"], arrays["frame_counts"], arrays["errors"], strict=True
    ):
        here, there = slice(at, at + int(length)), slice(frame, frame + int(frames))
        at, frame = here.stop, there.stop
        # boundaries may have been clipped but never reordered, so the labels stay with their segments
        segments = [
            Segment(float(a), float(b), s.label)
            for (a, b), s in zip(arrays["boundaries"][here], u.segments, strict=False)
        ]
        inputs = Inputs(arrays["segments"][here], arrays["times"][here], arrays["frames"][there], settings.frame_period)
        problem = CorpusError(str(error)) if error else None
        results.append(
            Featurised(
                u, segments, inputs, problem, warped[:, here] if warped.size else warped,
                clipped[there] if clipped.size else clipped,
            )
        )  # fmt: skip
    return results
