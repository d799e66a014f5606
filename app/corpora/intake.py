"""Corpora coming in: an archive, a folder or URL of the server, a list of references."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from phonechain.app.corpora import contents, manifest
from phonechain.app.corpora.manifest import Line
from phonechain.app.problems.errors import InvalidRequest, PlaceNotAllowed
from phonechain.app.storage.archives import Caps
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace
from phonechain.features import corpora
from phonechain.features.corpora import CorpusProblem, transcripts
from phonechain.features.errors import CorpusError

MOST_PROBLEMS = 1000
"""Problems that a corpus lists; `problem_count` counts all."""
MOST_LABELS = 2000
LINK = "is a link out of the allowed folders"
LONGEST_LINE = 16_384


def from_archive(
    workspace: Workspace, digest: str, name: str, options: dict[str, Any], caps: Caps, *, hidden: bool = False
) -> Corpus:
    """A corpus out of an uploaded archive, which is a blob already.

    Raises:
        ArchiveError, ArchiveTooLarge, StorageFull, CorpusError.
    """
    root = contents.unpack(workspace, digest, caps)
    return _scan(workspace, root, name, "upload", digest, options, hidden=hidden)


def from_folder(workspace: Workspace, folder: str, name: str, options: dict[str, Any], roots: Sequence[str]) -> Corpus:
    """A corpus out of a folder of the server.

    Raises:
        PlaceNotAllowed: it, or a file that it links to, is under none of the `roots`.
        CorpusError.
    """
    path = Path(check_location(folder, roots))
    return _scan(workspace, path, name, "folder", str(path), options, roots=roots)


def from_url(
    workspace: Workspace, url: str, name: str, options: dict[str, Any], roots: Sequence[str],
    hold: Callable[[str], None],
) -> Corpus:  # fmt: skip
    """A corpus out of everything under a URL that fsspec opens. `hold` is called with the name of the folder of copies.

    Raises:
        PlaceNotAllowed, CorpusError, SettingsError.
    """
    url = check_location(url, roots)
    _, _, _, fingerprint = contents.list_url(url)
    hold(fingerprint)
    root = contents.fetch(workspace, url, fingerprint)
    return _scan(workspace, root, name, "url", url, {**options, "fingerprint": fingerprint})


def from_list(
    workspace: Workspace, lines: Iterable[bytes], name: str, options: dict[str, Any], roots: Sequence[str]
) -> Corpus:
    """A corpus by reference: lines of JSON with `audio` and `annotation`, each a path or URL under one of the `roots`.

    Only the list is read: a file that is not there becomes an error row of the job that needs it.

    Raises:
        PlaceNotAllowed, CorpusError: with the line.
    """
    splits: dict[str, int] = {}
    speakers: set[str] = set()
    count = 0

    def check_lines() -> Iterator[Line]:
        nonlocal count
        ids: set[str] = set()
        for number, raw in enumerate(lines, 1):
            if raw.isspace():
                continue
            line = _parse_reference(raw, number, count, roots, alone=options.get("holds") == "sound")
            if line.id in ids:
                raise CorpusError(
                    f"line {number}: expected unique ids, got {line.id[:80]!r} again", pointer=f"line {number}"
                )
            ids.add(line.id)
            if line.speaker is not None:
                speakers.add(line.speaker)
            if line.split is not None:
                splits[line.split] = splits.get(line.split, 0) + 1
            count += 1
            yield line

    with workspace.store.writing() as file:
        for data in manifest.render(check_lines()):
            file.write(data)
    if not count:
        raise CorpusError("expected a list with at least one utterance, got none")
    return Corpus(
        id=new_id(), name=name, source="list", location="", manifest=file.digest, options=options, utterances=count,
        segments=None, labels={}, speakers=len(speakers), splits=splits, problems=[], problem_count=0, notices=[],
    )  # fmt: skip


def _parse_reference(raw: bytes, number: int, index: int, roots: Sequence[str], *, alone: bool) -> Line:
    where = f"line {number}"
    if len(raw) > LONGEST_LINE:
        raise CorpusError(f"{where}: expected at most {LONGEST_LINE} bytes, got {len(raw)}", pointer=where)
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorpusError(f"{where}: expected a JSON object, got something else", pointer=where) from None
    if not isinstance(entry, dict):
        raise CorpusError(f"{where}: expected a JSON object, got {type(entry).__name__}", pointer=where)
    for key in ("audio",) if alone else ("audio", "annotation"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise CorpusError(
                f"{where}: expected {key!r}, a path or URL, got {str(entry.get(key))[:80]}", pointer=where
            )
    for key in ("id", "speaker", "split"):
        if not isinstance(entry.get(key), str | None):
            raise CorpusError(f"{where}: expected {key!r} to be text, got {str(entry[key])[:80]}", pointer=where)
    audio = check_location(entry["audio"], roots, where)
    annotation = "" if alone else check_location(entry["annotation"], roots, where)
    name = entry.get("id") or Path(audio).stem
    return Line(index, name, audio, annotation, entry.get("speaker"), entry.get("split"))


def _scan(
    workspace: Workspace, root: Path, name: str, source: str, location: str, options: dict[str, Any], *,
    roots: Sequence[str] | None = None, hidden: bool = False,
) -> Corpus:  # fmt: skip
    if options.get("holds", "segments") != "segments":
        return _scan_recordings(workspace, root, name, source, location, options, roots=roots, hidden=hidden)
    read = corpora.read(
        root,
        layout=options.get("layout"),
        tier=options.get("tier"),
        table=_find_table(root, options.get("table"), roots),
        fix=bool(options.get("fix")),
        on_bad_segment=options.get("on_bad_segment") or "refuse",
        drop=options.get("drop") or (),
    )
    if roots is not None:
        _leave_out_links(read, roots)
    read.utterances = [u for u in read.utterances if u.annotation is not None]
    if not read.utterances:
        first = f": {_problem_to_json(read.problems[0], root)['message']}" if read.problems else ""
        raise CorpusError(f"none of the {len(read.problems)} utterances can be used{first}")
    if read.dropped:  # so that whoever reads the files again leaves out the same
        options = {**options, "drop": [*dict.fromkeys([*(options.get("drop") or ()), *read.dropped])]}
    return Corpus(
        id=new_id(), name=name, source=source, location=location, manifest=_store_manifest(workspace, read, root),
        options=options, utterances=len(read.utterances), segments=sum(len(u.segments) for u in read.utterances),
        labels=dict(list(read.labels().items())[:MOST_LABELS]), speakers=len(read.speakers()), splits=read.splits(),
        problems=[_problem_to_json(p, root) for p in read.problems[:MOST_PROBLEMS]],
        problem_count=len(read.problems),
        notices=[{**n.as_dict(), "message": n.message.replace(f"{root}{os.sep}", "")} for n in read.notices],
        hidden=hidden,
    )  # fmt: skip


def _scan_recordings(
    workspace: Workspace, root: Path, name: str, source: str, location: str, options: dict[str, Any], *,
    roots: Sequence[str] | None = None, hidden: bool = False,
) -> Corpus:  # fmt: skip
    """A corpus without segments: recordings with transcripts, or alone."""
    read = (
        transcripts.read(root, table=_find_table(root, options.get("table"), roots))
        if options["holds"] == "transcripts"
        else transcripts.read_sound(root)
    )
    if roots is not None:
        for one in [*read.recordings]:
            if not all(_is_inside(path, roots) for path in (one.audio, one.transcript) if path is not None):
                read.recordings.remove(one)
                read.problems.append(CorpusProblem(one.audio, None, LINK))
        read.problems = [p if _is_inside(p.file, roots) else CorpusProblem(p.file, None, LINK) for p in read.problems]
    if not read.recordings:
        raise CorpusError(f"none of the {len(read.problems)} recordings can be used")
    lines = (
        Line(
            n, r.id, _relative_name(r.audio, root), "" if r.transcript is None else _relative_name(r.transcript, root),
            r.speaker, r.split,
        )
        for n, r in enumerate(read.recordings)
    )  # fmt: skip
    return Corpus(
        id=new_id(), name=name, source=source, location=location, manifest=_store_lines(workspace, lines),
        options=options, utterances=len(read.recordings), segments=None, labels={},
        speakers=len({r.speaker for r in read.recordings if r.speaker is not None}),
        splits=dict(Counter(r.split for r in read.recordings if r.split is not None)),
        problems=[_problem_to_json(p, root) for p in read.problems[:MOST_PROBLEMS]],
        problem_count=len(read.problems), notices=[], hidden=hidden,
    )  # fmt: skip


def _find_table(root: Path, name: str | None, roots: Sequence[str] | None) -> Path | None:
    """The table of speakers and splits. Raises InvalidRequest where it is not inside the corpus."""
    if name is None:
        return None
    outside = os.path.isabs(name) or ".." in Path(name).parts
    if outside or (roots is not None and not _is_inside(root / name, roots)):
        raise InvalidRequest(f"expected a table inside the corpus, got {name[:80]!r}", pointer="table", value=name[:80])
    return root / name


def _leave_out_links(read: corpora.Corpus, roots: Sequence[str]) -> None:
    """Leave out files that are links to elsewhere, and what was said of their content."""
    kept, problems = [], []
    for problem in read.problems:
        inside = _is_inside(problem.file, roots)
        problems.append(problem if inside else CorpusProblem(problem.file, None, LINK))
    for utterance in read.utterances:
        if all(_is_inside(path, roots) for path in (utterance.audio, utterance.annotation) if path is not None):
            kept.append(utterance)
        else:
            problems.append(CorpusProblem(utterance.audio, None, LINK))
    read.utterances, read.problems = kept, problems


def _store_manifest(workspace: Workspace, read: corpora.Corpus, root: Path) -> str:
    lines = (
        Line(n, u.id, _relative_name(u.audio, root), _relative_name(u.annotation, root), u.speaker, u.split)
        for n, u in enumerate(read.utterances)
        if u.annotation is not None
    )
    return _store_lines(workspace, lines)


def _store_lines(workspace: Workspace, lines: Iterable[Line]) -> str:
    with workspace.store.writing() as file:
        for data in manifest.render(lines):
            file.write(data)
    return file.digest


def _relative_name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _problem_to_json(problem: CorpusProblem, root: Path) -> dict[str, Any]:
    file = problem.file.relative_to(root).as_posix() if problem.file.is_relative_to(root) else problem.file.name
    return {"file": file, "line": problem.line, "message": problem.message.replace(f"{root}{os.sep}", "")}


def check_location(name: str, roots: Sequence[str], where: str | None = None) -> str:
    """The path or URL, resolved, if it is under one of the roots.

    Raises:
        PlaceNotAllowed.
    """
    said = f"{where}: " if where else ""
    refusal = PlaceNotAllowed(
        f"{said}not under a folder or URL that the service allows: {name[:120]!r}",
        pointer=where or "location", value=name[:120],
    )  # fmt: skip
    if "://" in name:
        plain = name.split("?")[0]
        # Servers and clients decode %2e; `::` chains file systems of fsspec.
        steps = re.split(r"[/\\]", _decode_all(plain))
        if ".." in steps or "::" in name or not any("://" in root and _is_below(plain, root) for root in roots):
            raise refusal
        return name
    if not os.path.isabs(name) or "\0" in name or ".." in Path(name).parts:
        raise refusal
    path = Path(name)
    if not _is_inside(path, roots):
        raise refusal
    return os.path.join(os.path.realpath(path.parent), path.name)


def _decode_all(text: str) -> str:
    while (decoded := unquote(text)) != text:
        text = decoded
    return text


def _is_inside(path: Path, roots: Sequence[str]) -> bool:
    """Whether the file, links followed, is under a root that is a folder."""
    real = os.path.realpath(path) if os.path.islink(path) else os.path.join(os.path.realpath(path.parent), path.name)
    return any("://" not in root and _is_below(real, os.path.realpath(root)) for root in roots)


def _is_below(name: str, root: str) -> bool:
    return name == root.rstrip("/") or name.startswith(root.rstrip("/") + "/")
