"""`phonechain jobs ...`: training, labelling and evaluation by a service, from the command line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import common
from phonechain.app.cli.label import checked_options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.client import Client

jobs = typer.Typer(help="Jobs of a service: start them, watch them, fetch what they made.", no_args_is_help=True)
Url = Annotated[str, typer.Option("--url", envvar="PHONECHAIN_URL", help="Address of the service.")]
Key = Annotated[str | None, typer.Option("--key", envvar="PHONECHAIN_KEY", help="API key, if the service wants one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Stay and show the progress until the job has ended.")]
Id = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job.")]
CORPUS = "Id of a corpus, a folder (packed and sent), or a zip or tar file."
URL = "http://127.0.0.1:8000"


def _client(url: str, key: str | None) -> Client:
    from phonechain.app.client import Client

    return Client(url, key=key)


def _corpus(client: Client, wanted: str, **given: str | None) -> str:
    """The id of a corpus; a folder or archive of this machine is sent first, with the options that are given."""
    path = Path(wanted)
    options = {name: value for name, value in given.items() if value is not None}
    if path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            print(f"packing {path}", file=sys.stderr)
            archive = shutil.make_archive(str(Path(folder) / "corpus"), "tar", path)
            made = client.upload_corpus(archive, name=path.resolve().name, **options)
    elif path.is_file():
        made = client.upload_corpus(path, name=path.stem, **options)
    else:
        return wanted
    print(f"corpus {made['id']}: {made['utterances']} utterances, {made['segments']} segments", file=sys.stderr)
    for problem in made["problems"][:5]:
        print(f"left out {problem['file']}: {problem['message']}", file=sys.stderr)
    return str(made["id"])


def _begun(client: Client, job: dict[str, Any], wait: bool, as_json: bool) -> None:
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
    state: Annotated[list[str] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    most: Annotated[int, typer.Option("--most", "-n", help="How many to list.", min=1)] = 20,
    url: Url = URL, key: Key = None, as_json: Json = False,
) -> None:  # fmt: skip
    """List the newest jobs."""
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
    corpus: Annotated[str, typer.Argument(help=CORPUS)],
    name: Annotated[str, typer.Option(help="Name of the model that is made.")],
    preset: Annotated[str, typer.Option(help="The system to train.")] = "spn-lc-crf",
    base: Annotated[str | None, typer.Option(metavar="MODEL", help="A model of the service to go on from.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A training setting; may be repeated.")
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Tier of the phones in the annotations.")] = None,
    wait: Wait = False, url: Url = URL, key: Key = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Train a model."""
    changes = {}
    for change in set_ or []:
        setting, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(f"--set: expected KEY=VALUE, got {change!r}")
        changes[setting.strip().removeprefix("training.")] = value
    with _client(url, key) as client:
        id = _corpus(client, corpus, tier=tier)
        job = client.start(kind="train", corpus=id, name=name, preset=preset, base=base, training=changes or None)
        _begun(client, job, wait, as_json)


@jobs.command("label")
def label(
    corpus: Annotated[str, typer.Argument(help=CORPUS)],
    model: Annotated[str, typer.Option("--model", "-m", help="Name, NAME@VERSION or alias.")] = "default",
    format: Annotated[list[str] | None, typer.Option(help="Annotation format; may be repeated.")] = None,
    tier: Annotated[str | None, typer.Option(help="Tier that holds the segments.")] = None,
    n_best: Annotated[int, typer.Option(help="Labels to list for each segment.", min=1)] = 1,
    fix: Annotated[bool, typer.Option("--fix", help="Sort segments and remove overlaps of up to 10 ms.")] = False,
    on_bad_segment: Annotated[
        str | None,
        typer.Option(
            help="refuse: a segment that does not fit refuses its file; skip: it alone gets no label; "
            "else what the corpus was taken in with."
        ),
    ] = None,
    gaps: Annotated[
        str,
        typer.Option(help="across: the chain runs on where segments do not touch; break: not over a gap of --max-gap."),
    ] = "across",
    max_gap: Annotated[float, typer.Option(help="Seconds; a longer gap breaks the chain with --gaps break.")] = 0.2,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Wait, and write the result here.")] = None,
    wait: Wait = False, url: Url = URL, key: Key = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Label a corpus."""
    checked_options(gaps=gaps, max_gap=max_gap, on_bad_segment=on_bad_segment or "refuse")
    options = {"fix": fix, "on_bad_segment": on_bad_segment, "gaps": gaps, "max_gap": max_gap}
    with _client(url, key) as client:
        id = _corpus(client, corpus, tier=tier, on_bad_segment=on_bad_segment, fix="true" if fix else None)
        formats = {"formats": format} if format else {}
        job = client.start(kind="label", corpus=id, model=model, n_best=n_best, tier=tier, **options, **formats)
        try:
            _begun(client, job, wait or out is not None, as_json)
        finally:
            if out is not None:
                _fetched(client, job["id"], out, "corpus")


@jobs.command("evaluate")
def evaluate(
    corpus: Annotated[str, typer.Argument(help=CORPUS)],
    model: Annotated[str, typer.Option("--model", "-m", help="Name, NAME@VERSION or alias.")] = "default",
    split: Annotated[str | None, typer.Option(help="Split to score; else test, or everything.")] = None,
    wait: Wait = False, url: Url = URL, key: Key = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Score a model on a corpus."""
    with _client(url, key) as client:
        job = client.start(kind="evaluate", corpus=_corpus(client, corpus), model=model, split=split)
        _begun(client, job, wait, as_json)


@jobs.command("watch")
def watch(id: Id, url: Url = URL, key: Key = None, as_json: Json = False) -> None:
    """Show the progress of a job until it has ended."""
    with _client(url, key) as client:
        _begun(client, {"id": id}, True, as_json)


@jobs.command("cancel")
def cancel(id: Id, url: Url = URL, key: Key = None) -> None:
    """End a job early; what was finished stays."""
    with _client(url, key) as client:
        client.cancel(id)
        typer.echo(f"{id} {client.wait(id, 0.2)['state']}")


@jobs.command("errors")
def errors(id: Id, url: Url = URL, key: Key = None, as_json: Json = False) -> None:
    """List the files that could not be used."""
    with _client(url, key) as client:
        for row in client.errors(id):
            typer.echo(json.dumps(row, ensure_ascii=False) if as_json else f"{row['utterance']}: {row['detail']}")


@jobs.command("result")
def result(
    id: Id,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; its suffix says which rows: .zip .jsonl .csv")],
    sort: Annotated[str, typer.Option(help="corpus, doubt, or given (doubt in the given labels).")] = "corpus",
    url: Url = URL, key: Key = None,
) -> None:  # fmt: skip
    """Fetch what a job has made."""
    with _client(url, key) as client:
        _fetched(client, id, out, sort)


def _fetched(client: Client, id: str, out: Path, sort: str) -> None:
    if out.is_dir():
        raise SettingsError(f"expected a file to write, got {out}, which is a folder", value=str(out))
    kind = {".jsonl": "jsonl", ".csv": "csv"}.get(out.suffix.lower(), "zip")
    client.result(id, out, format=kind, sort=sort)
    print(f"wrote {out} ({os.path.getsize(out)} bytes)", file=sys.stderr)
