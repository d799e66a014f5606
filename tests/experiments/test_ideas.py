"""The table of ideas: what each changes in its preset, and the section that is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.ideas import IDEAS, Idea, section
from phonechain.model.presets import preset


@pytest.mark.parametrize("idea", IDEAS, ids=lambda i: f"{i.preset}, {i.name}")
def test_an_idea_changes_what_it_says_and_nothing_else(idea: Idea) -> None:
    base, system = preset(idea.preset), idea.labeler(seed=3).system
    assert system.training.seed == 3
    for name, value in idea.training.items():
        assert getattr(system.training, name) == value
    for name, value in idea.augmentation.items():
        assert getattr(system.training.augmentation, name) == value
    assert system.model.encoder == replace(base.model.encoder, **idea.encoder)
    for n, (before, after) in enumerate(zip(base.model.factors, system.model.factors, strict=True)):
        assert {k for k, v in vars(after).items() if v != vars(before)[k]} <= set(idea.factors.get(n, {}))
    if not (idea.factors or idea.model or idea.encoder):
        assert system.model == base.model


def test_ideas_have_names_of_their_own() -> None:
    assert len({(i.preset, i.name) for i in IDEAS}) == len(IDEAS)


def test_rows_are_in_the_order_of_the_ideas_and_test_errors_only_where_they_were_looked_at() -> None:
    rows = [
        {"preset": p, "name": n, "dev": [0.25, 0.24], "parameters": 1000, "epochs": 7, "cpu": 61.2, "commit": "abc"}
        for p, n in (
            ("spn-ho-lc-crf", IDEAS[-2].name),
            ("blstm-seg-lc-crf", IDEAS[1].name),
            ("blstm-seg-lc-crf", IDEAS[0].name),
        )
    ]
    rows[1] |= {"test": [0.3]}
    lines = section(rows).splitlines()[-3:]
    assert lines == [
        f"| `blstm-seg-lc-crf` | {IDEAS[0].name} | 25.00, 24.00 |  | 1,000 | 7 | 61 | abc |",
        f"| `blstm-seg-lc-crf` | {IDEAS[1].name} | 25.00, 24.00 | 30.00 | 1,000 | 7 | 61 | abc |",
        f"| `spn-ho-lc-crf` | {IDEAS[-2].name} | 25.00, 24.00 |  | 1,000 | 7 | 61 | abc |",
    ]
