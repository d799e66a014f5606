"""`phonechain.align` and `phonechain.recognize`: a recording and its words in one call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from phonechain.app.alignment import pipeline
from phonechain.app.alignment.transcripts import OutOfVocabulary, pronouncer_of
from phonechain.features.annotation import Annotation
from phonechain.features.audio.reader import Audio
from phonechain.features.words import espeak
from phonechain.features.words.dictionary import Dictionary
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Alignment, Recognition


def align(
    audio: Path | str | bytes | Audio,
    transcript: str | Annotation,
    *,
    model: PhoneAligner | Path | str | None = None,
    dictionary: Dictionary | Path | None = None,
    phones: bool = False,
    refine: bool = False,
    oov: OutOfVocabulary | None = None,
) -> Alignment:
    """Align the words and phones of a transcript, with the certainty of every boundary.

    Args:
        audio: a sound file, its bytes, or what `read_audio` gives.
        transcript: text, or an annotation whose words or phones to align.
        model: an alignment model; the English one by default.
        dictionary: pronunciations, or their file, or `Path("espeak-ng:ru")` for that program; CMUdict by default.
        phones: the transcript consists of phones separated by spaces.
        oov: guess the pronunciation of words missing from the dictionary, or refuse them; by default guess with CMUdict.
        refine: move the boundaries of the annotation to where they fit best nearby.

    Raises:
        PhonechainError: whatever is wrong with the sound, the words or their phones.

    >>> from phonechain.app import samples
    >>> answer = align(samples.AUDIO, "in being comparatively modern")
    >>> [word.word for word in answer.words]
    ['in', 'being', 'comparatively', 'modern']
    """
    aligner = _get_aligner(model)
    own = espeak.read(dictionary) if isinstance(dictionary, Path) else dictionary
    pronouncer = pronouncer_of(own, phones=phones, oov=oov)
    return pipeline.align(aligner, _read_sound(audio, aligner), transcript, pronouncer, refine=refine).alignment


def recognize(audio: Path | str | bytes | Audio, *, model: PhoneAligner | Path | str | None = None) -> Recognition:
    """Phones and their boundaries from sound alone. Experimental: the model's card says how many are wrong.

    Raises:
        PhonechainError: the sound cannot be used.
    """
    aligner = _get_aligner(model)
    return pipeline.recognize(aligner, _read_sound(audio, aligner))


def _read_sound(audio: Path | str | bytes | Audio, aligner: PhoneAligner) -> Audio:
    if isinstance(audio, Audio):
        return audio
    return pipeline.read_audio(Path(audio) if isinstance(audio, str) else audio, aligner)


def _get_aligner(model: PhoneAligner | Path | str | None) -> PhoneAligner:
    if isinstance(model, PhoneAligner):
        return model
    return _load(Path(model) if model is not None else pretrained_path(ALIGNMENT))


@lru_cache(maxsize=2)
def _load(path: Path) -> PhoneAligner:
    return PhoneAligner.load(path)
