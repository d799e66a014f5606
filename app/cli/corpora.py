"""Reading a corpus with a progress bar, and choosing a split of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.cli import common
from phonechain.features.errors import CorpusError

if TYPE_CHECKING:
    from phonechain.features.corpora import Corpus
    from phonechain.features.segments import Utterance

NAMED = 5
"""Files that are left out and named; of the rest only the number is printed."""


def read_corpus(root: Path, bars: common.Bars, **options: Any) -> Corpus:
    """Read a corpus; files that cannot be used are reported and left out.

    Raises:
        CorpusError: nothing in it can be used.
    """
    from phonechain.features import corpora

    corpus = corpora.read(root, progress=bars.counting("corpus"), **options)
    report_left_out(bars, [str(problem) for problem in corpus.problems])
    for notice in corpus.notices:
        bars.line(f"warning: {notice.message}")
    if not corpus.utterances:
        raise CorpusError(f"no utterances with annotations in {root}")
    return corpus


def report_left_out(bars: common.Bars, problems: list[str]) -> None:
    """A line per file, the first few of them."""
    for problem in problems[:NAMED]:
        bars.line(f"left out {problem}")
    if len(problems) > NAMED:
        bars.line(f"left out {len(problems) - NAMED} more files")


def select_split(corpus: Corpus, name: str) -> list[Utterance]:
    """The utterances of a split. Raises CorpusError, which lists the splits."""
    utterances = corpus.split(name)
    if not utterances:
        splits = ", ".join(corpus.splits()) or "none"
        raise CorpusError(f"no split named {name} in {corpus.root}; its splits: {splits}", value=name)
    return utterances
