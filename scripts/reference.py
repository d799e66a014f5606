"""Writes the guide's pages of reference from what they are about: commands, formats, problems, settings, the interface.

python scripts/reference.py            write them into app/guide
python scripts/reference.py --check    exit 1 where one is not as it would be written
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from phonechain.app.cli import app as cli
from phonechain.app.labelling.conversion import convert
from phonechain.app.main import create_app
from phonechain.app.problems.types import TYPES
from phonechain.app.settings import PREFIX, Settings
from phonechain.features.annotation import READABLE, Annotation, Tier
from phonechain.features.errors import PhonechainError
from phonechain.features.segments import Segment

GUIDE = Path(__file__).resolve().parents[1] / "app" / "guide"

_HOLDS = {
    "all": "every tier",
    "intervals": "every tier of intervals",
    "same": "one tier, and those with the same intervals",
    "one": "one tier",
}


_TYPES = {
    "<int>": "N", "<int range>": "N", "<float>": "NUMBER", "<float range>": "NUMBER", "<path>": "PATH",
    "<list[str]>": "TEXT", "<str>": "TEXT",
}  # fmt: skip


def main() -> None:
    """Write, or compare."""
    made = pages()
    if "--check" not in sys.argv[1:]:
        for name, text in made.items():
            (GUIDE / name).write_text(text, "utf-8")
    elif stale := [name for name, text in made.items() if (GUIDE / name).read_text("utf-8") != text]:
        sys.exit(f"not as the code has it: {', '.join(stale)}; run python scripts/reference.py")


def pages() -> dict[str, str]:
    """Each page by the name of its file."""
    made = {
        "commands.md": commands(),
        "formats.md": formats(),
        "problems.md": problems(),
        "settings.md": settings(),
        "interface.md": interface(),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield from (
        "# Commands",
        "",
        "`phonechain COMMAND --help` prints the same text. Arguments in brackets are optional.",
    )
    root = get_command(cli)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        for inner, one in getattr(command, "commands", {"": command}).items():
            yield from _command(f"{name} {inner}".strip(), one)


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(["phonechain", name, *(_metavar(p) for p in arguments), *(["[OPTIONS]"] if options else [])])
    yield from ("", f"## {name}", "", "```text", usage, "```", "", plain(command.help or ""))
    rows = [(_metavar(p), plain(p.help or "")) for p in arguments]
    rows += [(_names(p, typer.Context(command)), _with_default(p)) for p in options if not p.hidden]
    if rows:
        yield from ("", "| | |", "|---|---|")
        yield from (f"| `{cell(names)}` | {cell(text)} |" for names, text in rows)


def _metavar(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _with_default(option: Any) -> str:
    text = plain(option.help or "")
    if option.default in (None, False, "", [], ()) or "efault" in text:
        return text
    return f"{text} Default: {option.default}."


def _names(option: Any, context: typer.Context) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    takes_value = not (option.is_flag or getattr(option, "count", False))
    return f"{names} {option.metavar or _TYPES.get(option.display_type(context), 'TEXT')}" if takes_value else names


def formats() -> Iterator[str]:
    """Every annotation format: what it has room for, and what a test annotation lost in it."""
    yield from (
        "# Annotation formats", "",
        "Formats are recognised by content; the suffix only breaks ties. `phonechain convert FILE --to NAME` writes every format "
        "below that is marked as written, and warns of what it cannot keep; so does downloading from a review. A file that is "
        "written back in its own format keeps everything that was not changed, including its encoding.", "",
        "*Lost* lists the codes of the warnings for an annotation with two interval tiers with different boundaries, a point "
        "tier, labels with spaces and IPA, and segments without a label.", "",
        "| name | format | suffixes | written | room for | lost |", "|---|---|---|---|---|---|",
    )  # fmt: skip
    for name, form in READABLE.items():
        suffixes = " ".join(f"`{suffix}`" for suffix in form.suffixes)
        written = "yes" if form.write is not None else "read only"
        holds = _HOLDS[form.holds] if form.write is not None else ""
        yield f"| `{name}` | {cell(form.title)} | {suffixes} | {written} | {holds} | {_losses(name)} |"
    yield from (
        "", "`tiers-lost`: the format has no room for a tier. The warnings themselves explain the other codes. TIMIT counts in "
        "samples: for files without a recording beside them, give the sample rate with `--rate`. CTM, MLF and other files with "
        "several recordings need `--utterance` if no recording is named like the sound file.",
    )  # fmt: skip


def _probe() -> Annotation:
    words = [Segment(0.0, 0.5, "two words"), Segment(0.5, 0.8, None), Segment(0.8, 1.0, "ça")]
    phones = [Segment(i / 10, (i + 1) / 10, label) for i, label in enumerate(["t", "uː", None, "w", "ɜː", "d", "z"])]
    points = [Segment(0.25, 0.25, "H*"), Segment(0.9, 0.9, "L%")]
    return Annotation(
        [Tier("words", "interval", words), Tier("phones", "interval", phones), Tier("tones", "point", points)],
        "textgrid", 0.0, 1.0,
    )  # fmt: skip


def _losses(name: str) -> str:
    if READABLE[name].write is None:
        return ""
    try:
        notices = convert(_probe(), name).notices
    except PhonechainError as error:
        return f"refused: {cell(str(error))}"
    return ", ".join(f"`{code}`" for code in sorted({notice.code for notice in notices})) or "nothing"


def problems() -> Iterator[str]:
    """Every type of problem."""
    yield from (
        "# Problems", "",
        "Every error answer of the service is a problem document (RFC 9457). `type` is the address `/problems/TYPE` in the same "
        "service. `detail` says what was expected and what was received; `pointer`, `parameter` or `line` says where. If there "
        "are several errors, `errors` lists them all. The command line prints the same message in one line.", "",
    )  # fmt: skip
    for kind in sorted(TYPES.values(), key=lambda one: one.slug):
        yield from (f"## {kind.slug}", "", f"{kind.status}. {kind.title}. {plain(kind.text)}", "")


def settings() -> Iterator[str]:
    """Every setting of the service."""
    yield from (
        "# Settings", "",
        "Environment variables of `phonechain serve`, read once at start-up. With an invalid value the service does not start, "
        "and prints one line that names the variable. [Run the service](operator.md) says which settings matter most.", "",
        "| variable | default | unit | meaning |", "|---|---|---|---|",
    )  # fmt: skip
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        unit = extra.get("unit", "") if isinstance(extra, dict) else ""
        default = "" if field.default in (None, "") else f"`{_default(field.default)}`"
        yield f"| `{PREFIX}{name.upper()}` | {default} | {unit} | {cell(field.description or '')} |"


def _default(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def interface() -> Iterator[str]:
    """Every route of the service."""
    yield from (
        "# The interface", "",
        "A running service describes every request and answer at `/docs`, and for programs at `/openapi.json`. "
        "[Pronunciation over HTTP](pronunciation.md) shows requests in curl, Python and TypeScript; [Problems](problems.md) lists "
        "the types of errors.",
    )  # fmt: skip
    described = create_app(Settings()).openapi()
    texts = {tag["name"]: tag.get("description", "") for tag in described.get("tags", ())}
    routes: dict[str, list[tuple[str, str, str]]] = {}
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            if method in ("get", "post", "put", "patch", "delete"):
                tag = (route.get("tags") or ["other"])[0]
                routes.setdefault(tag, []).append((method.upper(), path, route.get("summary", "")))
    for tag, rows in routes.items():
        yield from ("", f"## {tag}", "", texts.get(tag, ""), "", "| request | |", "|---|---|")
        yield from (f"| `{method} {path}` | {cell(summary)} |" for method, path, summary in rows)


def plain(text: str) -> str:
    """Help as one paragraph for each of its own, without what would be markup."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\f|\x08", text)]
    return "\n\n".join(part.replace("<", "\\<") for part in paragraphs if part)


def cell(text: str) -> str:
    """Text that fits into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    main()
