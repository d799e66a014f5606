"""The store of finished cells, and RESULTS.md."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from experiments import cells, report, tables
from phonechain.model.settings import replace


def result(key: str, error: float, **more: Any) -> dict[str, Any]:
    return {
        "key": key, "error": error, "errors": round(1000 * error), "segments": 1000, "dev_error": None, "parameters": 1234,
        "seconds": 60.0, "cpu_seconds": 30.0, "seed": 1, "commit": "abc", **more,
    }  # fmt: skip


def test_results_are_kept_across_runs_and_tables(tmp_path: Path) -> None:
    store = report.Store(tmp_path)
    store.add("one", result("a", 0.1))
    store.add("two", result("b", 0.2))
    again = report.Store(tmp_path)
    assert again.get("a") == result("a", 0.1)
    assert again.get("b") == result("b", 0.2)
    assert again.get("c") is None


def test_a_line_cut_short_by_a_kill_costs_that_cell_only(tmp_path: Path) -> None:
    report.Store(tmp_path).add("one", result("a", 0.1))
    with (tmp_path / "one.jsonl").open("a") as file:
        file.write('{"key": "b", "err')
    store = report.Store(tmp_path)
    assert store.get("b") is None
    store.add("one", result("c", 0.3))
    again = report.Store(tmp_path)
    assert again.get("a") is not None
    assert again.get("c") is not None


RUNS = Path(report.__file__).parent / "runs"


LETTERS = "4583ee0d27192e25"


def test_every_system_of_the_letters_finds_its_ten_folds_among_the_stored_rows() -> None:
    """Most were computed when models had fewer settings, under keys of that time."""
    store = report.Store(RUNS)
    for experiment in tables.read("ocr-summary", "letters").experiments:
        if experiment.augment:  # added since
            continue
        candidates = list(experiment.candidates())
        if experiment.choose:
            assert all(store.get(cells.digest(c, LETTERS, "dev")) for c in candidates), experiment.name
        assert any(all(store.get(cells.digest(c, LETTERS, f)) for f in "0123456789") for c in candidates), (
            experiment.name
        )


def test_a_newer_row_of_a_cell_counts_instead_of_an_older_one(tmp_path: Path) -> None:
    old = json.loads((RUNS / "timit-summary.jsonl").read_text().splitlines()[0])
    new = {**old, "created": "2027-01-01T05:00:00+00:00", "errors": 1}
    store = report.Store(tmp_path)
    store.add("a", new)
    store.add("b", old)
    assert report.Store(tmp_path).get(cells.stored_key(old)) == new


def test_a_row_of_an_earlier_version_is_found_by_the_settings_it_would_have_today(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (RUNS / "ocr-summary.jsonl").read_text().splitlines()]
    old = next(r for r in rows if r["name"].startswith("SPN-MEMM") and r["fold"] == "2")
    assert "speaker_normalised" in old["model"]
    assert "encoder" not in old["model"]
    assert "augmentation" not in old["training"]
    report.Store(tmp_path).add("ocr-summary", old)
    store = report.Store(tmp_path)
    experiment = next(e for e in tables.read("ocr-summary", "letters").experiments if e.name.startswith("SPN-MEMM"))
    assert store.get(cells.digest(experiment, LETTERS, "2")) == old
    longer = dataclasses.replace(experiment, training=replace(experiment.training, {"epochs": 13}))
    for other, corpus, fold in ((longer, LETTERS, "2"), (experiment, "another", "2"), (experiment, LETTERS, "1")):
        assert store.get(cells.digest(other, corpus, fold)) is None


def table() -> tables.Table:
    values = {
        "title": "A table", "corpora": ["letters"], "reference": "the paper's table x",
        "system": [{"name": "CRF", "preset": "lc-crf", "paper": 14.2}, {"name": "CNF", "preset": "cnf"}],
    }  # fmt: skip
    return tables.parse("t", values, "letters")


def test_a_section_has_our_mean_beside_the_papers_number() -> None:
    first, second = table().experiments
    rows = [
        report.Row(first, [result("a", 0.10), result("b", 0.13)], {"l2": 0.001}, 10),
        report.Row(second, [], {}, 10),
    ]
    lines = report.section(table(), "letter.data.gz", rows, "python -m experiments t").splitlines()
    assert lines[0] == "## t on letter.data.gz"
    assert "`python -m experiments t`" in lines
    assert lines[-2] == "| CRF | 14.2 | **11.50** | 10.00 to 13.00 | 2/10 | 1 234 | 2.0 | l2 0.001 |"
    assert lines[-1].startswith("| CNF |  | – |")
    assert len({line.count("|") for line in lines[-4:]}) == 1
    assert any("Seed 1; commit abc" in line for line in lines)
    assert any(line.startswith("Rows without a figure were not computed") for line in lines)


def test_one_test_set_has_an_interval_and_a_dev_column() -> None:
    first, _ = table().experiments
    rows = [report.Row(first, [result("a", 0.3, dev_error=0.25)], {}, 1)]
    last = report.section(table(), "speech", rows, "x").splitlines()[-1]
    assert "**30.00** | 25.00 | 27.2 to 32.9 | 1/1" in last


@pytest.mark.parametrize(("errors", "n"), [(0, 50), (50, 50), (13, 50)])
def test_wilsons_interval_holds_the_share(errors: int, n: int) -> None:
    low, high = report.wilson(errors, n)
    assert 0.0 <= low <= errors / n <= high <= 1.0
    assert high - low < 0.3


def test_a_section_replaces_its_like_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    report.write(path, "## b on x\n\nold b\n")
    report.write(path, "## a on x\n\nfirst a\n")
    report.write(path, "## b on x\n\nnew b\n")
    text = path.read_text()
    assert text.startswith("# Results")
    assert text.index("first a") < text.index("new b")
    assert "old b" not in text
    report.write(path, "## a on x\n\nfirst a\n")
    assert path.read_text() == text
