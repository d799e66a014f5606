"""The shape of the house: which way imports run, what is never imported, how long files are, what has a docstring."""

import ast
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("features", "model", "app")
SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
LONGEST, LONG = 500, 400
SHORT = 8  # lines of a method that may go without a docstring
PROTOCOL = {
    "forward",
    "backward",
    "sniff",
}  # torch's classes, and phonechain.features.annotation.base, say what they do
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

ALLOWED = {"features": {"features"}, "model": {"features", "model"}, "app": {"features", "model", "app"}}
PREFIX = "phonechain."
WEB = {
    "aiohttp", "alembic", "dask", "distributed", "fastapi", "flask", "httpx", "pydantic", "pydantic_settings",
    "requests", "rich", "sqlalchemy", "starlette", "typer", "uvicorn",
}  # fmt: skip
FORBIDDEN = {
    "features": WEB | {"torch", "safetensors", "torchcrf", "torch_struct"},
    "model": WEB | {"torchcrf", "torch_struct"},
    "app": {"torchcrf", "torch_struct"},
}
UNPICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), name(path))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever it stands in the file; relative ones made absolute."""
    here = ("phonechain", *path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(here[: len(here) - node.level + 1]) if node.level else []
            yield node.lineno, ".".join([*base, *([node.module] if node.module else [])])
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("__import__", "import_module", "importlib.import_module")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def public(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, name, and whether it says what it is, of each public function, class and longer public method."""
    for node in tree(path).body:
        if isinstance(node, DEFINITIONS) and not node.name.startswith("_"):
            yield node.lineno, node.name, speaks(node) or node.name.split("_")[0] in PROTOCOL
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, DEFINITIONS) and not method.name.startswith("_") and length(method) > SHORT:
                    yield method.lineno, f"{node.name}.{method.name}", speaks(method) or method.name in PROTOCOL


def speaks(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A docstring; or a route's description in its decorator; or an error's place in the drawing of the tree."""
    described = any(
        k.arg in ("description", "summary") for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords
    )
    is_error = isinstance(node, ast.ClassDef) and any(ast.unparse(b) in errors() for b in node.bases)
    return described or ast.get_docstring(node) is not None or (is_error and length(node) <= SHORT)


@cache
def errors() -> frozenset[str]:
    """Names of the classes in the two modules of errors."""
    return frozenset(
        node.name
        for path in (ROOT / "features" / "errors.py", ROOT / "app" / "problems" / "errors.py")
        if path.exists()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef)
    )


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_there_are_sources_to_look_at() -> None:
    assert {package(p) for p in SOURCES} == set(PACKAGES)
    assert any(module == "phonechain.features.errors" for p in SOURCES for _, module in imports(p))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_run_one_way(path: Path) -> None:
    own = {"features", "model", "app", "tests", "experiments", "benchmarks"}
    wrong = [
        f"{name(path)}:{line} imports {module}"
        for line, module in imports(path)
        if module.removeprefix(PREFIX).split(".")[0] in own - ALLOWED[package(path)]
    ]
    assert not wrong, "\n".join(wrong)


EVERYTHING = [
    p for p in sorted(ROOT.rglob("*.py")) if not {".venv", "phonechain", "build"} & set(p.relative_to(ROOT).parts)
]


@pytest.mark.parametrize("path", EVERYTHING, ids=name)
def test_the_layers_are_imported_under_one_name(path: Path) -> None:
    """`model` at top level would be another module than `phonechain.model`, with classes of its own."""
    wrong = [f"{line} imports {module}" for line, module in imports(path) if module.split(".")[0] in PACKAGES]
    assert not wrong, "\n".join(f"{name(path)}:{w}" for w in wrong)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_layer_imports_only_what_belongs_there(path: Path) -> None:
    wrong = [
        f"{name(path)}:{line} imports {module}"
        for line, module in imports(path)
        if module.split(".")[0] in FORBIDDEN[package(path)]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_nothing_is_ever_unpickled(path: Path) -> None:
    wrong = [f"{line} imports {module}" for line, module in imports(path) if module.split(".")[0] in UNPICKLERS]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            allows = any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords)
            if called in ("torch.load", "torch.jit.load", "eval", "exec") or allows:
                wrong.append(f"{node.lineno} calls {called}")
        elif isinstance(node, ast.ImportFrom) and node.module == "torch" and any(a.name == "load" for a in node.names):
            wrong.append(f"{node.lineno} imports torch.load")
    assert not wrong, "\n".join(f"{name(path)}:{w}" for w in wrong)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_everything_public_has_a_docstring(path: Path) -> None:
    silent = [f"{name(path)}:{line} {what}" for line, what, said in public(path) if not said]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_file_is_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{name(path)} has {lines} lines, at most {LONGEST}: look for the seam"
    if lines > LONG:
        warnings.warn(f"{name(path)} has {lines} lines: above {LONG}, look for the seam", stacklevel=1)


def test_no_imports_run_in_a_circle() -> None:
    """Imports inside functions count as well; only those for type checkers do not."""
    circles = find_circles({dotted(path): run_time_imports(path) for path in SOURCES})
    assert not circles, "\n".join(" -> ".join(circle) for circle in circles)


def test_few_modules_stand_at_the_top_of_app() -> None:
    assert len(list((ROOT / "app").glob("*.py"))) <= 8


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("phonechain", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def run_time_imports(path: Path) -> set[str]:
    """Dotted names that may be modules: `from a import b` means a.b as well, which need not be one."""
    module = tree(path)
    typing = {
        inner
        for node in ast.walk(module)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(module):
        if node in typing:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def find_circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """The ways in which a module comes to import itself, one for each module from which one begins."""
    edges = {
        module: {
            known for name in names if (known := name if name in imported else name.rpartition(".")[0]) in imported
        }
        - {module}
        for module, names in imported.items()
    }
    done: set[str] = set()
    circles = []

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            circles.append([*way[way.index(module) :], module])
        elif module not in done:
            for other in sorted(edges[module]):
                visit(other, [*way, module])
            done.add(module)

    for module in sorted(edges):
        visit(module, [])
    return circles


# ------------------------------------------------------------------------------------- the checks themselves can fail


def test_a_circle_is_found() -> None:
    assert find_circles({"a": {"b.name"}, "b": {"c"}, "c": {"a.name", "os"}, "d": {"a"}}) == [["a", "b", "c", "a"]]
    assert not find_circles({"a": {"b"}, "b": {"c"}, "c": set()})


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch.nn", "torch.nn"),
        ("def f():\n    from fastapi import FastAPI", "fastapi"),
        ("import importlib\nimportlib.import_module('phonechain.app.main')", "phonechain.app.main"),
        ("from ..model import chain", "phonechain.features.model"),
        ("from . import x", "phonechain.features.sub"),
    ],
)
def test_imports_are_found_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, found: str
) -> None:
    path = tmp_path / "features" / "sub" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert found in [module for _, module in imports(path)]


def test_a_silent_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "    def long(self):\n" + "        x = 1\n" * SHORT
    path = tmp_path / "x.py"
    path.write_text(f'class A:\n    "said"\n    def f(self): ...\n{long}def _g(): ...\ndef h(): ...\n')
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert [(what, said) for _, what, said in public(path)] == [("A", True), ("A.long", False), ("h", False)]
