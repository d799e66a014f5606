"""`phonechain.compare`: two systems, each a model or the answers it gave, on one corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path

from phonechain.app.corpora import splits
from phonechain.app.evaluation.answers import read_answers
from phonechain.features import corpora
from phonechain.features.corpora import Corpus
from phonechain.features.errors import CorpusError, ModelFileError
from phonechain.features.segments import Utterance
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.training import Progress
from phonechain.model.phone_model import Decoding
from phonechain.model.scoring.comparison import (
    Marks,
    SystemComparison,
    Unit,
    compare_marks,
    mark_answers,
    mark_labeler,
)

ANSWER_SUFFIXES = (".csv", ".jsonl", ".ndjson")
"""Suffixes of files that are answers, where a model file is as welcome."""


def compare(
    a: PhoneLabeler | str | PathLike[str],
    b: PhoneLabeler | str | PathLike[str],
    corpus: Corpus | str | PathLike[str] | Sequence[Utterance],
    *,
    split: str | None = None,
    over: Unit | None = None,
    drop: Collection[str] = (),
    mapping: Mapping[str, str | None] | None = None,
    decode: Decoding = "posterior",
    normalise: str | None = None,
    seed: int = 1,
    device: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    problem: Callable[[str], None] | None = None,
) -> SystemComparison:
    """Compare the errors of two systems on a corpus: whether b makes fewer than a, and how certain that is.

    Args:
        a, b: a labeler, the path of a model file or the name of a shipped model, or the path of answers: a folder that
            `phonechain label` wrote, or the result of a labelling job (unpacked, CSV or JSON lines).
        corpus: labelled; its folder, or what `read_corpus` gives.
        split: of the corpus; by default `test` where it has one, else everything.
        over: "speaker" or "utterance", whose errors are counted together; by default speakers where all are known.
        drop: labels that are left out.
        mapping: given label -> label of the systems, None for "not scored", where no folding finds it.
        decode, normalise: of models; see `PhoneLabeler.label` and `score`.
        seed: of the bootstrap.
        device: where models given by path or name compute; see `PhoneLabeler.load`.
        progress: called while models label.
        problem: called with a line for each file that could not be used.

    Raises:
        CorpusError: nothing to compare on, or answers that cannot be read.
        ModelFileError: neither a model nor answers.
        PhoneSetError: the map names a label that a system does not have.
    """
    root: Path | None = None
    if isinstance(corpus, (str, PathLike)):
        corpus = corpora.read(fspath(corpus))
    if isinstance(corpus, Corpus):
        root = corpus.root
        name = splits.choose_test(corpus.splits(), split)
        utterances = corpus.utterances if name is None else corpus.split(name)
        if not utterances:
            raise CorpusError(
                f"no split named {name}; the corpus has {', '.join(corpus.splits()) or 'none'}", value=name
            )
    else:
        utterances = list(corpus) if split is None else splits.select(corpus, split)
    tell = problem or (lambda line: None)
    sides: list[Marks] = []
    for system in (a, b):
        if not isinstance(system, PhoneLabeler) and (found := _answers_path(fspath(system))) is not None:
            answers, unread = read_answers(found, utterances, root)
            for line in unread:
                tell(line)
            sides.append(mark_answers(str(system), answers, utterances, drop=drop, mapping=mapping))
            continue
        labeler = system if isinstance(system, PhoneLabeler) else _load(fspath(system), device)
        title = labeler.name if isinstance(system, PhoneLabeler) else str(system)
        marks = mark_labeler(
            f"{title} ({labeler.version_})" if labeler.version_ else title,
            labeler, utterances, drop=drop, mapping=mapping, decode=decode, normalise=normalise, progress=progress,
        )  # fmt: skip
        for row in marks.problems:
            tell(f"{row['utterance']}: {row['message']}")
        sides.append(marks)
    return compare_marks(sides[0], sides[1], utterances, over=over, drop=drop, seed=seed)


def _answers_path(system: str) -> Path | None:
    """The path where it is one of answers; None for a model."""
    path = Path(system)
    return path if path.is_dir() or path.suffix.lower() in ANSWER_SUFFIXES else None


def _load(model: str, device: str) -> PhoneLabeler:
    path = Path(model)
    if path.exists():
        return PhoneLabeler.load(path, device=device)
    if path.name != model or path.suffix:
        raise ModelFileError(
            f"expected a model file, or a file or folder of answers; {model} does not exist", value=model
        )
    return PhoneLabeler.load(pretrained_path(model), device=device)
