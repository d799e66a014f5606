"""The settings files of the tables, and how settings are laid over one another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import tables
from phonechain.features.errors import SettingsError

TABLE = {
    "title": "A table",
    "corpora": ["letters", "speech"],
    "defaults": {"factor": {"segments": 1}, "training": {"epochs": 3}, "speech": {"training": {"epochs": 7}}},
    "system": [
        {"name": "CRF", "preset": "spn-lc-crf", "cells": [{"layers": 1, "paper": 8.0}, {"layers": 3, "states": 2}]},
        {"name": "MEMM", "preset": "spn-memm", "paper": 9.0, "cells": [{"history": 4}]},
        {
            "name": "HO", "preset": "spn-ho-lc-crf", "factor2": {"dropout": 0.7}, "model": {"trigram": "dense"},
            "choose": {"l2": [0.1, 0.2], "learning_rate": [0.5]}, "letters": {"factor": {"dropout": 0.05}},
        },
    ],
}  # fmt: skip


def test_settings_are_laid_over_one_another() -> None:
    letters, speech = (tables.parse("t", TABLE, corpus).experiments for corpus in ("letters", "speech"))
    assert [e.name for e in letters] == ["CRF L=1", "CRF L=3 H=2", "MEMM M-1=4", "HO"]
    assert [e.paper for e in letters] == [8.0, None, 9.0, None]
    assert {e.training.epochs for e in letters} == {3}
    assert {e.training.epochs for e in speech} == {7}
    assert (letters[1].model.factors[0].layers, letters[1].model.factors[0].states) == (3, 2)
    assert letters[2].model.history == 4
    ho = letters[3]
    assert [f.dropout for f in ho.model.factors] == [0.05, 0.7]
    assert speech[3].model.factors[0].dropout != 0.05
    assert ho.model.trigram == "dense"
    assert ho.model.factors[0].segments == 1
    assert ho.model.factors[1].segments == 2


def test_candidates_are_all_the_combinations() -> None:
    ho = tables.parse("t", TABLE, "letters").experiments[3]
    found = [(c.training.l2, c.training.learning_rate, c.choose) for c in ho.candidates()]
    assert found == [(0.1, 0.5, {}), (0.2, 0.5, {})]


def test_settings_of_the_model_can_be_chosen_too() -> None:
    table = {
        **TABLE,
        "system": [{"name": "x", "preset": "spn-memm", "choose": {"input_scale": [1.0, 0.5], "l2": [0.1]}}],
    }
    [one] = tables.parse("t", table, "letters").experiments
    found = list(one.candidates())
    assert [(c.model.input_scale, c.training.l2) for c in found] == [(1.0, 0.1), (0.5, 0.1)]
    assert [c.value("input_scale") for c in found] == [1.0, 0.5]
    assert found[0].value("l2") == 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sytsem": []}, "got 'sytsem'"),
        ({"system": [{"name": "x", "preset": "nope"}]}, "expected one of the presets"),
        ({"system": [{"name": "x", "preset": "lc-crf", "modle": {}}]}, "got 'modle'"),
        ({"system": [{"name": "x", "preset": "lc-crf", "training": {"epoch": 3}}]}, "got epoch"),
    ],
)
def test_a_wrong_key_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        tables.parse("t", {**TABLE, **change}, "letters")


def test_an_unknown_table_and_a_corpus_that_does_not_fit_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"ocr-summary.*got 'nope'"):
        tables.read("nope", "letters")
    with pytest.raises(SettingsError, match="got speech"):
        tables.read("ocr-summary", "speech")


def test_the_papers_seven_tables_are_there_and_name_its_numbers() -> None:
    sizes = {n: len(tables.read(n, tables.corpora(n)[0]).experiments) for n in tables.names()}
    assert sizes.keys() == {
        "ocr-memm-crf", "ocr-ho-memm", "ocr-summary", "timit-first-order", "timit-spn-ho-lc-crf", "timit-ho-hu-crf",
        "timit-summary", "ocr-encoders",  # the last is none of the paper's
    }  # fmt: skip
    assert (sizes["ocr-memm-crf"], sizes["ocr-ho-memm"]) == (24, 36)
    assert (sizes["timit-first-order"], sizes["timit-spn-ho-lc-crf"], sizes["timit-ho-hu-crf"]) == (36, 12, 7)


def test_the_papers_numbers_are_those_in_the_paper() -> None:
    """Its source stands beside the checkout where there is one."""
    source = Path(__file__).resolve().parents[3] / "shared" / "paper" / "spn-sequence-labeling.tex"
    if not source.exists():
        pytest.skip("the paper's source is not beside the checkout")
    numbers = set(re.findall(r"\d+\.\d+", source.read_text(encoding="utf-8")))
    for name in tables.names():
        for e in tables.read(name, tables.corpora(name)[0]).experiments:
            for value in (e.paper, e.paper_dev):
                assert value is None or {f"{value:.2f}", f"{value:.1f}"} & numbers, (name, e.name, value)
