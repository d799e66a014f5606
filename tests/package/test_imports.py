"""What is loaded when: a start takes as long as its imports, so nothing is imported before somebody needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phonechain.app import samples

SELDOM = {
    "alembic", "cryptography", "dask", "distributed", "fsspec", "httpx", "librosa", "markdown_it", "matplotlib", "numba",
    "num2words", "pandas", "psycopg", "scipy", "sklearn", "standardwebhooks", "triton",
}  # fmt: skip
"""Packages that only some requests, commands or jobs need."""

SERVER = {
    "fastapi",
    "httpx",
    "prometheus_client",
    "pydantic_settings",
    "sqlalchemy",
    "starlette",
    "tenacity",
    "uvicorn",
}
"""What a command that labels a file has no use for."""

SERVE = """
import asyncio
from phonechain.app import environment
from phonechain.app.main import create_app
import phonechain.app.cli.serve, phonechain.app.http.server

async def serve():
    services = create_app(environment.load()).state.services
    await services.start()  # labels the sample with every model
    print(*sorted(sys.modules), file=sys.__stdout__)
    await services.stop()

asyncio.run(serve())
"""


def loaded_modules(code: str, folder: Path) -> set[str]:
    """The modules that are there once `code` has run in a fresh interpreter. It prints them, or they are printed after."""
    end = "" if "sys.modules" in code else "\nprint(*sorted(sys.modules), file=sys.__stdout__)"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PHONECHAIN_DATA": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}{end}"], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def label(audio: Path, out: Path) -> str:
    arguments = ["label", str(audio), str(samples.SEGMENTS), "--out", str(out)]
    return f"from phonechain.app.cli import main\nassert main({arguments!r}) == 0"


def test_the_package_alone_loads_nothing(tmp_path: Path) -> None:
    assert not packages(loaded_modules("import phonechain", tmp_path)) & (
        SELDOM | SERVER | {"numpy", "pydantic", "torch"}
    )


@pytest.mark.parametrize("form", ["json", "TextGrid"])
def test_labelling_a_file_loads_neither_server_nor_what_it_seldom_needs(tmp_path: Path, form: str) -> None:
    modules = loaded_modules(label(samples.AUDIO, tmp_path / f"out.{form}"), tmp_path)
    assert "torch" in modules
    assert not packages(modules) & (SELDOM | SERVER | {"rich"})
    assert not {name for name in modules if name.startswith(("phonechain.app.http", "phonechain.app.storage"))}
    assert "av" not in modules, "libsndfile reads FLAC"


def test_the_service_starts_without_what_it_seldom_needs(tmp_path: Path) -> None:
    modules = loaded_modules(SERVE, tmp_path)
    assert {"torch", "fastapi", "sqlalchemy"} <= modules
    assert not packages(modules) & (SELDOM | {"av"})
    assert not {name for name in modules if name.startswith(("phonechain.app.client", "torch._dynamo"))}
