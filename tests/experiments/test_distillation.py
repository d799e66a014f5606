"""The four cells that tell a teacher and synthetic voices apart, and the section that is written."""

from __future__ import annotations

from experiments.distillation import CELLS, ENCODER, make_labeler, section
from phonechain.model.presets import preset


def test_a_cell_is_the_preset_at_other_widths() -> None:
    system, base = make_labeler(passes=8, seed=3).system, preset("blstm-ho-lc-crf")
    assert (system.training.epochs, system.training.seed) == (8, 3)
    assert {k for k, v in vars(system.model.encoder).items() if v != vars(base.model.encoder)[k]} == set(ENCODER)
    assert system.model.factors == base.model.factors
    assert system.training.augmentation == base.training.augmentation


def test_rows_are_in_the_order_of_the_cells() -> None:
    row = {"passes": 8, "dev": 0.25, "utterances": 2417, "parameters": 500_000, "cpu": 61.2, "commit": "abc"}
    rows = [
        {**row, "name": name, "errors": {"home": e, "away": 0.4}, "ece": {"home": 0.01, "away": 0.05}}
        for name, e in (("both", 0.2), ("labels alone", 0.3))
    ]
    lines = section(rows).splitlines()
    assert "8 passes" in lines[3]
    assert lines[-4] == "| learnt from | dev | home | ECE | away | ECE | utterances | weights | CPU s | commit |"
    assert lines[-2:] == [
        "| labels alone | 25.0 | 30.0 | 1.0 | 40.0 | 5.0 | 2,417 | 500,000 | 61 | abc |",
        "| both | 25.0 | 20.0 | 1.0 | 40.0 | 5.0 | 2,417 | 500,000 | 61 | abc |",
    ]
    assert set(CELLS.values()) == {(a, b) for a in (False, True) for b in (False, True)}
