"""The command line. Each command is one file; what they share is in `common`.

Nothing heavy is imported before a command needs it: `phonechain --help` answers at once.
"""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from phonechain.app.cli import (
    align,
    check,
    cluster,
    compare,
    convert,
    db,
    demo,
    evaluate,
    jobs,
    label,
    models,
    phones,
    presets,
    samples,
    serve,
    train,
)
from phonechain.app.problems.wording import reword
from phonechain.features.errors import PhonechainError
from phonechain.features.files import printable_path

PROGRAM = "phonechain"
BAD_INPUT = 2
BUG = 1
INTERRUPTED = 130
BROKEN_PIPE = 141

app = typer.Typer(
    name=PROGRAM,
    help="Labels the phones of speech, and says how sure it is of each.",
    add_completion=False,
    rich_markup_mode=None,  # rich takes twice as long to import as everything else here
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options that stand before the command."""
    if version:
        from phonechain.app.version import version as installed

        typer.echo(f"{PROGRAM} {installed()}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("label")(label.label)
app.command("align")(align.align)
app.command("recognize")(align.recognize)
app.command("train", cls=train.TrainCommand)(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("check")(check.check)
app.command("convert")(convert.convert)
app.command("models")(models.models)
app.command("phones")(phones.phones)
app.command("presets")(presets.presets)
app.command("demo")(demo.demo)
app.command("samples")(samples.samples)
app.command("serve")(serve.serve)
app.command("worker")(cluster.worker)
app.command("scheduler")(cluster.scheduler)
app.add_typer(jobs.jobs, name="jobs")
app.add_typer(db.db, name="db")
app.add_typer(db.keys, name="keys")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 for a bug, 2 for bad input, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    # Modules are made of objects that stay: looking through them is a tenth of a start.
    gc.set_threshold(50_000, 20, 20)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # nor does the end of the process look through them
    _write_any_name()
    try:
        code = typer.main.get_command(app).main(
            [argument for argument in given if argument != "--debug"],
            prog_name=PROGRAM,
            standalone_mode=False,
            obj=given,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except PhonechainError as error:
        return _fail(str(error), BAD_INPUT, debug)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED, debug=False)
    except BrokenPipeError:
        return _handle_broken_pipe()
    except OSError as error:
        return _fail(_os_error(error), BAD_INPUT, debug)
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            return _fail(_usage_error(error), BAD_INPUT, debug=False)
        if debug:
            raise
        where = f"{type(error).__name__}: {error}"
        return _fail(f"unexpected error (please report it): {where}; --debug shows the traceback", BUG, debug)


def _write_any_name() -> None:
    """Names of files that the terminal's encoding cannot write are written with escapes."""
    codecs.register_error("phonechain-names", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="phonechain-names")


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, end = codecs.backslashreplace_errors(error)
    escaped = printable_path(error.object[error.start : error.end])
    return (escaped if escaped.isascii() else text), end


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"{PROGRAM}: {' '.join(message.split())}", file=sys.stderr)
    return code


def _usage_error(error: Any) -> str:
    """An error of usage in typer's words, and the command whose help says more."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    name = PROGRAM if context is None else context.command_path
    if context is not None and message.startswith("Usage"):  # the name of a group by itself
        message = f"expected a command after {name}: {', '.join(context.command.commands)}"
    return f"{_strip_period(reword(message))} (see {name} --help)"


def _strip_period(text: str) -> str:
    return text.rstrip(". \n")


def _os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _handle_broken_pipe() -> int:
    """The reader of standard output has gone; without this Python would complain again when it flushes at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return BROKEN_PIPE
