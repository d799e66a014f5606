"""Corpora: folders of recordings and annotations -> utterances with speakers and splits. One file per layout."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from phonechain.features.audio.raw import RawFormat
from phonechain.features.corpora import folder, letters, timit
from phonechain.features.corpora.base import AUDIO_SUFFIXES, Corpus, CorpusProblem, Progress
from phonechain.features.errors import CorpusError
from phonechain.features.segment_checks import OnBadSegment

__all__ = ["AUDIO_SUFFIXES", "LAYOUTS", "Corpus", "CorpusProblem", "read"]

LAYOUTS = ("folder", "timit")


def read(
    root: Path | str,
    *,
    layout: str | None = None,
    tier: str | None = None,
    table: Path | str | None = None,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
    shift: float | Literal["start"] = 0.0,
    raw: RawFormat | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Read a corpus.

    Args:
        root: its folder.
        layout: one of LAYOUTS; None recognises it.
        tier: of the phones in each annotation; None lets `choose_tier` choose.
        table: of speakers and splits (columns `utterance`, `speaker`, `split`); None takes `utterances.tsv` if there.
        fix: repair segments by the rules of `prepare` instead of refusing the file.
        on_bad_segment: "refuse" leaves out the file of a segment that does not fit, "skip" that segment alone.
        drop: labels whose segments are left out.
        shift: seconds added to every time of every annotation, or "start": each annotation begins at 0.
        raw: format of `.raw` and `.pcm` files, sound without a header; None passes them over.
        progress: called with (files done, files in all).

    Raises:
        CorpusError: the corpus as a whole cannot be used; what is wrong with single files is in `problems`.

    Examples:
        >>> import shutil, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "amy").mkdir()
        >>> for suffix in (".flac", ".TextGrid"):
        ...     _ = shutil.copy(f"samples/LJ001-0002{suffix}", folder / "amy")
        >>> corpus = read(folder)
        >>> [(u.id, u.speaker, len(u.segments)) for u in corpus.utterances]
        [('LJ001-0002', 'amy', 23)]
        >>> corpus.problems
        []
    """
    root = Path(root)
    if layout is not None and layout not in LAYOUTS:
        raise CorpusError(f"expected one of the layouts {', '.join(LAYOUTS)}; got '{layout[:40]}'", value=layout)
    if layout == "timit" or (layout is None and tier is None and table is None and timit.find(root) is not None):
        if shift or raw is not None:
            raise CorpusError(
                "the layout timit has neither shifted times nor sound without a header: drop shift and raw"
            )
        return timit.read(root, fix=fix, on_bad_segment=on_bad_segment, drop=drop, progress=progress)
    if any((root / name).is_file() for name in letters.NAMES):
        raise CorpusError(
            f"expected recordings, got the OCR letters, which are images: {root}; phonechain.features.corpora.letters reads them"
        )
    return folder.read(
        root,
        tier=tier,
        table=Path(table) if table is not None else None,
        fix=fix,
        on_bad_segment=on_bad_segment,
        drop=drop,
        shift=shift,
        raw=raw,
        progress=progress,
    )
