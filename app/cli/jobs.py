"""`phonechain jobs ...`: train, label, align and evaluate with a service."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phonechain.app.cli import common, options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.client import Client

jobs = typer.Typer(help="Start, watch and fetch jobs of a service.", no_args_is_help=True)
Url = Annotated[str, typer.Option("--url", envvar="PHONECHAIN_URL", help="Address of the service.")]
Key = Annotated[
    str | None, typer.Option("--key", envvar="PHONECHAIN_KEY", help="API key, if the service requires one.")
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the job ends, showing its progress.")]
Id = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job.")]
Format = Annotated[list[str] | None, typer.Option(help="Annotation format of the result; repeatable.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Wait for the job and write its result to this file.")]
CORPUS = "Id of a corpus, or a folder, zip or tar file to upload."
URL = "http://127.0.0.1:8000"


def _client(url: str, key: str | None) -> Client:
    from phonechain.app.client import Client

    return Client(url, key=key)


def _corpus_id(client: Client, corpus: str, **settings: str | None) -> str:
    """The id of a corpus; a local folder or archive is uploaded first, with these settings."""
    path = Path(corpus)
    given = {name: value for name, value in settings.items() if value is not None}
    if path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            print(f"packing {path}", file=sys.stderr)
            archive = shutil.make_archive(str(Path(folder) / "corpus"), "tar", path)
            made = client.upload_corpus(archive, name=path.resolve().name, **given)
    elif path.is_file():
        made = client.upload_corpus(path, name=path.stem, **given)
    else:
        return corpus
    counted = "" if made["segments"] is None else f", {made['segments']} segments"
    print(f"corpus {made['id']}: {made['utterances']} utterances{counted}", file=sys.stderr)
    for problem in made["problems"][:5]:
        print(f"left out {problem['file']}: {problem['message']}", file=sys.stderr)
    return str(made["id"])


def _report_start(client: Client, job: dict[str, Any], wait: bool, as_json: bool) -> None:
    if wait:
        _watch(client, job["id"])
        job = client.job(job["id"])
    if as_json:
        typer.echo(json.dumps(job, ensure_ascii=False, indent=2))
    else:
        typer.echo(f"{job['id']} {job['state']}")
    if wait and job["state"] != "succeeded":
        raise typer.Exit(1)


def _watch(client: Client, id: str) -> None:
    with common.bars() as bars:
        for event in client.events(id):
            at = event["progress"]
            if at["total"]:
                loss = at["metrics"].get("loss")
                note = at["message"] or (f"loss {loss:.3f}" if loss is not None else "")
                bars.update(f"{at['stage']} ({at['unit']})", at["done"], at["total"], note)
            if event["type"] == "state":
                error = event.get("error") or {}
                bars.line(f"{event['state']}{': ' + error['detail'] if error.get('detail') else ''}")


@jobs.command("list")
def list_(
    state: Annotated[list[str] | None, typer.Option(help="List only jobs in this state; repeatable.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="List only jobs of this kind; repeatable.")] = None,
    most: Annotated[int, typer.Option("--most", "-n", help="Number of jobs to list.", min=1)] = 20,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """List jobs, newest first."""
    filters = {k: v for k, v in (("state", state), ("kind", kind)) if v}
    with _client(url, key) as client:
        found = [job for _, job in zip(range(most), client.list_jobs(**filters), strict=False)]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    table = common.table("job", "kind", "state", ("done", "right"), "", "created")
    for job in found:
        at = job["progress"]
        done = f"{at['done']}/{at['total']}" if at["total"] else ""
        table.add_row(job["id"], job["kind"], job["state"], done, at["unit"], job["created"])
    common.console().print(table)


@jobs.command("show")
def show(id: Id, url: Url = URL, key: Key = None) -> None:
    """Print a job as JSON."""
    with _client(url, key) as client:
        typer.echo(json.dumps(client.job(id), ensure_ascii=False, indent=2))


@jobs.command("train")
def train(
    corpus: Annotated[str, typer.Argument(help=CORPUS, metavar="CORPUS")],
    name: Annotated[str, typer.Option(help="Name of the new model.")],
    preset: Annotated[str, typer.Option(help="System to train; `phonechain presets` lists them.")] = "spn-lc-crf",
    base: Annotated[str | None, typer.Option(metavar="MODEL", help="The service's model to start from.")] = None,
    teacher: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The service's model from whose answers to learn as well.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a training setting, as in phonechain train --help; repeatable.",
        ),
    ] = None,
    tier: options.Tier = None,
    wait: Wait = False,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """Train a model."""
    changes = {}
    for change in set_ or []:
        setting, value = options.split_assignment(change)
        changes[setting.removeprefix("training.")] = value
    with _client(url, key) as client:
        id = _corpus_id(client, corpus, tier=tier)
        job = client.start(
            kind="train", corpus=id, name=name, preset=preset, base=base, teacher=teacher, training=changes or None
        )
        _report_start(client, job, wait, as_json)


@jobs.command("label")
def label(
    corpus: Annotated[str, typer.Argument(help=CORPUS, metavar="CORPUS")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model: NAME, NAME@VERSION or an alias.")] = "default",
    format: Format = None,
    tier: options.Tier = None,
    n_best: Annotated[int, typer.Option(help="Number of labels to list per segment.", min=1)] = 1,
    all_speakers: options.AllSpeakers = False,
    sequences: Annotated[
        int, typer.Option(help="Add the N most probable label sequences, with probabilities.", metavar="N", min=0)
    ] = 0,
    words: Annotated[
        bool, typer.Option("--words", help="Add the probability that all labels of each word are right.")
    ] = False,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Add the posteriors of the model's hidden variables (JSON lines).")
    ] = False,
    fix: options.Fix = False,
    on_bad_segment: Annotated[
        str | None,
        typer.Option(
            help="For a bad segment: refuse its whole file, or skip it, leaving it without a label. Default: as chosen "
            "when the corpus was uploaded."
        ),
    ] = None,
    gaps: options.Gaps = "across",
    max_gap: options.MaxGap = 0.2,
    precision: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Precision in which the model multiplies. Default: the service's setting."),
    ] = None,
    out: Out = None,
    wait: Wait = False,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """Label a corpus."""
    options.check_options(gaps=gaps, max_gap=max_gap, on_bad_segment=on_bad_segment or "refuse")
    labelling = {
        "fix": fix, "on_bad_segment": on_bad_segment, "gaps": gaps, "max_gap": max_gap, "all_speakers": all_speakers,
        "sequences": sequences, "words": words, "hidden": hidden, "precision": precision,
    }  # fmt: skip
    with _client(url, key) as client:
        id = _corpus_id(client, corpus, tier=tier, on_bad_segment=on_bad_segment, fix="true" if fix else None)
        asked = {"kind": "label", "corpus": id, "model": model, "n_best": n_best, "tier": tier, **labelling}
        _run_split(client, asked, format, out, wait, as_json)


def _run_split(
    client: Client, asked: dict[str, Any], formats: list[str] | None, out: Path | None, wait: bool, as_json: bool
) -> None:
    """Start a job whose result is files and rows, and fetch that where it is asked for, also of a job that failed."""
    job = client.start(**asked | ({"formats": formats} if formats else {}))
    try:
        _report_start(client, job, wait or out is not None, as_json)
    finally:
        if out is not None:
            _fetch(client, job["id"], out, "corpus")


LabelWith = Annotated[
    str | None,
    typer.Option(help="Labelling model for the segments found: NAME, NAME@VERSION or an alias.", metavar="MODEL"),
]
Aligner = Annotated[
    str,
    typer.Option("--model", "-m", help="Stored alignment model: NAME, NAME@VERSION or an alias; default for English."),
]


@jobs.command("align")
def align(
    corpus: Annotated[str, typer.Argument(help=CORPUS, metavar="CORPUS")],
    model: Aligner = "default",
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine the boundaries of annotations instead of finding new ones.")
    ] = False,
    spread: options.Spread = 0.03,
    dictionary: options.Pronunciations = None,
    phones: Annotated[
        bool, typer.Option("--phones", help="The transcripts consist of phones separated by spaces.")
    ] = False,
    language: options.Language = "en",
    label_with: LabelWith = None,
    oov: Annotated[
        str | None,
        typer.Option(
            help="For words missing from the dictionary: guess, or refuse the transcript.",
            metavar="guess|refuse",
        ),
    ] = None,
    tier: options.Tier = None,
    channel: options.Channel = "mix",
    format: Format = None,
    out: Out = None,
    wait: Wait = False,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """Align a corpus with its transcripts."""
    own = None if dictionary is None else _dictionary_text(dictionary)
    asked = {
        "refine": refine, "spread": spread, "phones": phones, "language": language, "oov": oov, "tier": tier,
        "channel": channel, "dictionary": own, "model": model, "label_with": label_with,
    }  # fmt: skip
    with _client(url, key) as client:
        id = _corpus_id(client, corpus, tier=tier, holds=None if refine else "transcripts")
        _run_split(client, {"kind": "align", "corpus": id, **asked}, format, out, wait, as_json)


def _dictionary_text(path: Path) -> str:
    """A dictionary file as text, checked before anything is sent. Raises SettingsError, AnnotationSyntaxError."""
    from phonechain.features.annotation.encoding import decode
    from phonechain.features.words import dictionary
    from phonechain.features.words.espeak import PREFIX

    if str(path).startswith(PREFIX):
        raise SettingsError(f"expected a dictionary file for a job, got {path}: the service does not run espeak-ng")
    dictionary.read(path)
    return decode(path.read_bytes())[0]


@jobs.command("recognize")
def recognize(
    corpus: Annotated[str, typer.Argument(help=CORPUS, metavar="CORPUS")],
    model: Aligner = "default",
    channel: options.Channel = "mix",
    label_with: LabelWith = None,
    format: Format = None,
    out: Out = None,
    wait: Wait = False,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """Find the phones of recordings without transcripts (experimental)."""
    with _client(url, key) as client:
        id = _corpus_id(client, corpus, holds="sound")
        _run_split(
            client,
            {"kind": "recognize", "corpus": id, "channel": channel, "model": model, "label_with": label_with},
            format, out, wait, as_json,
        )  # fmt: skip


@jobs.command("evaluate")
def evaluate(
    corpus: Annotated[str, typer.Argument(help=CORPUS, metavar="CORPUS")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model: NAME, NAME@VERSION or an alias.")] = "default",
    split: Annotated[str | None, typer.Option(help="Split to score. Default: test, or everything.")] = None,
    wait: Wait = False,
    url: Url = URL,
    key: Key = None,
    as_json: options.Json = False,
) -> None:
    """Score a model on a corpus."""
    with _client(url, key) as client:
        job = client.start(kind="evaluate", corpus=_corpus_id(client, corpus), model=model, split=split)
        _report_start(client, job, wait, as_json)


@jobs.command("watch")
def watch(id: Id, url: Url = URL, key: Key = None, as_json: options.Json = False) -> None:
    """Show the progress of a job until it ends."""
    with _client(url, key) as client:
        _report_start(client, {"id": id}, True, as_json)


@jobs.command("cancel")
def cancel(id: Id, url: Url = URL, key: Key = None) -> None:
    """Cancel a job. Finished parts are kept."""
    with _client(url, key) as client:
        client.cancel(id)
        typer.echo(f"{id} {client.wait(id, 0.2)['state']}")


@jobs.command("errors")
def errors(id: Id, url: Url = URL, key: Key = None, as_json: options.Json = False) -> None:
    """List the files that a job could not use."""
    with _client(url, key) as client:
        for row in client.errors(id):
            typer.echo(json.dumps(row, ensure_ascii=False) if as_json else f"{row['utterance']}: {row['detail']}")


@jobs.command("result")
def result(
    id: Id,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .zip, .jsonl or .csv.")],
    sort: Annotated[
        str,
        typer.Option(
            help="Order of the segments: corpus, doubt (least certain answer first) or given (least certain given label first)."
        ),
    ] = "corpus",
    url: Url = URL,
    key: Key = None,
) -> None:
    """Download the result of a job."""
    with _client(url, key) as client:
        _fetch(client, id, out, sort)


def _fetch(client: Client, id: str, out: Path, sort: str) -> None:
    if out.is_dir():
        raise SettingsError(f"expected a file to write, got the folder {out}", value=str(out))
    kind = {".jsonl": "jsonl", ".csv": "csv"}.get(out.suffix.lower(), "zip")
    client.result(id, out, format=kind, sort=sort)
    print(f"wrote {out} ({os.path.getsize(out)} bytes)", file=sys.stderr)
