"""`phonechain check`: every problem of a corpus by file and line, and a summary of what is in it."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import common, options
from phonechain.app.cli.aligners import count_workers, load_lone_aligner
from phonechain.features.errors import Notice
from phonechain.features.files import printable_path

if TYPE_CHECKING:
    from phonechain.app.alignment.suspects import CorpusCheck, Outcome, Suspect
    from phonechain.features.corpora import Corpus, CorpusProblem
    from phonechain.features.segments import Utterance


def check(
    corpus: options.Corpus,
    tier: options.Tier = None,
    layout: options.Layout = None,
    table: options.SpeakerTable = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Ignore what --fix repairs: unsorted segments, overlaps up to 10 ms.")
    ] = False,
    shift: options.Shift = "0",
    raw: options.Raw = None,
    audio: Annotated[
        bool, typer.Option("--audio/--no-audio", help="Decode the recordings and compare the segments with them.")
    ] = True,
    align: Annotated[
        bool, typer.Option("--align", help="Also list boundaries that look wrong, each with a better time.")
    ] = False,
    aligner: Annotated[
        str, typer.Option(help="Alignment model file for --align, or default for English.", metavar="MODEL")
    ] = common.DEFAULT,
    doubtful: Annotated[
        int | None, typer.Option(help="With --align: list the N least probable boundaries instead.", metavar="N", min=1)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List every problem in a corpus. The exit code is 1 if there are any.

    Boundaries listed by --align are suggestions, and do not change the exit code.
    """
    common.check_folder(corpus, "a corpus folder")
    reading = options.check_options(shift=shift, raw=raw)
    from phonechain.features import corpora
    from phonechain.features.corpora.base import CorpusProblem
    from phonechain.features.corpora.check import check as check_audio
    from phonechain.features.phones.twins import twins

    with common.bars(every=10.0) as bars:
        read = corpora.read(
            corpus,
            tier=tier,
            layout=layout,
            table=table,
            fix=fix,
            progress=bars.counting("annotations"),
            **reading,
        )
        problems, notices = read.problems, read.notices
        if audio:
            problems, notices = check_audio(read, progress=bars.counting("sound"))
        checked = _check_boundaries(read, aligner, bars) if align else None
    notices = [*notices, *(pair.notice() for pair in twins(read.labels()))]
    problems = [each for problem in problems for each in problem.each or (problem,)]
    found = summarise(read)
    suspects = [] if checked is None else checked.list_wrong() if doubtful is None else checked.boundaries[:doubtful]
    if as_json:
        body = {
            "corpus": printable_path(corpus),
            "problems": [{"file": printable_path(p.file), "line": p.line, "message": p.message} for p in problems],
            "warnings": [notice.as_dict() for notice in notices],
            "summary": found,
            **({} if checked is None else _boundaries_to_json(checked, suspects)),
        }
        typer.echo(json.dumps(body, ensure_ascii=False, indent=2))
    else:
        for problem in problems:
            typer.echo(str(problem))
        for suspect in suspects:
            file = suspect.utterance.annotation or suspect.utterance.audio
            typer.echo(str(CorpusProblem(file, suspect.line, str(suspect))))
        common.warn(notices)
        _print(found, printable_path(corpus), problems, notices, audio)
        if checked is not None:
            _print_boundaries(checked)
    if problems:
        raise typer.Exit(1)


def _check_boundaries(read: Corpus, model: str, bars: common.Bars) -> CorpusCheck:
    """By a process for each core where there are many utterances. Raises ModelFileError, SettingsError."""
    from phonechain.app.alignment.suspects import collect

    load_lone_aligner.cache_clear()  # the file may have changed since this process read it
    load_lone_aligner(model)
    judge, workers = partial(_judge, model), count_workers(len(read.utterances))
    with common.map_in_processes(judge, read.utterances, workers) as outcomes:
        return collect(read.utterances, outcomes, bars.counting("boundaries"))


def _judge(model: str, utterance: Utterance) -> Outcome:
    from phonechain.app.alignment.suspects import try_utterance

    return try_utterance(load_lone_aligner(model), utterance)


def _boundaries_to_json(checked: CorpusCheck, suspects: list[Suspect]) -> dict[str, Any]:
    failed = [{"file": printable_path(u.annotation or u.audio), "message": str(e)} for u, e in checked.failed]
    return {"boundaries": [_suspect_to_json(s) for s in suspects], "boundaries_not_checked": failed}


def _suspect_to_json(suspect: Suspect) -> dict[str, Any]:
    return {
        "file": printable_path(suspect.utterance.annotation or suspect.utterance.audio), "line": suspect.line,
        "utterance": suspect.utterance.id, "segment": suspect.segment, "start": suspect.start, "label": suspect.label,
        "before": suspect.before, "within_20_ms": round(suspect.right, 6), "better_start": suspect.better,
        "better_within_20_ms": round(suspect.certainty, 6),
    }  # fmt: skip


def _print_boundaries(checked: CorpusCheck) -> None:
    from phonechain.app.alignment.suspects import WRONG

    count = len(checked.boundaries)
    typer.echo(
        f"boundaries: {len(checked.list_wrong())} of {count} look wrong (less than {100 * WRONG:g} % within 20 ms)"
    )
    if checked.failed:
        utterance, error = checked.failed[0]
        file = printable_path(utterance.annotation or utterance.audio)
        recordings = common.count_noun(len(checked.failed), "recording")
        common.warn(
            [Notice("boundaries-not-checked", f"boundaries of {recordings} not checked, the first {file}: {error}")]
        )


def summarise(corpus: Corpus) -> dict[str, Any]:
    """The contents of a corpus, JSON-serialisable: counts, hours, labels and speakers by frequency."""
    segments = [s for u in corpus.utterances for s in u.segments]
    labelled = Counter(s.label for s in segments)
    by_split: dict[str, dict[str, int]] = {}
    for u in corpus.utterances:
        row = by_split.setdefault(u.split or "", {"utterances": 0, "segments": 0})
        row["utterances"] += 1
        row["segments"] += len(u.segments)
    return {
        "layout": corpus.layout,
        "utterances": len(corpus.utterances),
        "hours": round(math.fsum(_count_seconds(u) for u in corpus.utterances) / 3600, 4),
        "segments": len(segments),
        "segment_hours": round(math.fsum(s.end - s.start for s in segments) / 3600, 4),
        "unlabelled": labelled.pop(None, 0),
        "labels": dict(labelled.most_common()),
        "speakers": corpus.speakers(),
        "splits": {name: row for name, row in by_split.items() if name},
    }


def _count_seconds(utterance: Utterance) -> float:
    """Duration by the header, else up to the end of the last segment."""
    import soundfile

    try:
        if utterance.raw is not None:
            return utterance.raw.duration(utterance.audio.stat().st_size)
        return float(soundfile.info(os.fsencode(utterance.audio)).duration)
    except (soundfile.LibsndfileError, OSError, RuntimeError):
        return max((s.end for s in utterance.segments), default=0.0)


def _print(
    found: dict[str, Any], title: str, problems: list[CorpusProblem], notices: list[Notice], audio: bool
) -> None:
    typer.echo(title)  # not as the table's title, which would wrap a path
    table = common.table("", ("", "right"), "")
    table.show_header = False
    heard = "audio decoded" if audio else "audio not checked"
    table.add_row("problems", str(len(problems)), f"{len(notices)} kinds of warning; {heard}")
    table.add_row("utterances", str(found["utterances"]), f"{found['hours']:.2f} hours, layout {found['layout']}")
    spoken = f"{found['segment_hours']:.2f} hours"
    if found["unlabelled"]:
        spoken += f"; {found['unlabelled']} without a label"
    table.add_row("segments", str(found["segments"]), spoken)
    table.add_row("labels", str(len(found["labels"])), _format_counts(found["labels"]))
    table.add_row(
        "speakers", str(len(found["speakers"])) if found["speakers"] else "unknown", _format_most(found["speakers"])
    )
    for name, row in found["splits"].items():
        table.add_row(f"split {name}", str(row["utterances"]), f"utterances, {row['segments']} segments")
    common.console().print(table)


def _format_counts(counts: dict[str, int]) -> str:
    return "  ".join(f"{name} {count}" for name, count in counts.items())


def _format_most(counts: dict[str, int]) -> str:
    if not counts:
        return ""
    values = sorted(counts.values())
    return f"with {values[0]} to {values[-1]} utterances each" if values[0] != values[-1] else f"{values[0]} each"
