"""Model files that were written before the house was rebuilt (version 0.1.0) still load, and answer as they did.

`saved/` holds two small models of random data, with the answers of the code that wrote them: features `x0` to `x2`
[T, 92]; for each model posteriors and best sequences of the first utterance alone and of all three in one batch.

On the machine that wrote them the packed answers are equal bit for bit; elsewhere a matrix library may round otherwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phonechain.model.labeler import PhoneLabeler

SAVED = Path(__file__).parent / "saved"

ROUNDING = 1e-6
"""Of posteriors in single precision; a lone sequence of second order runs by another way than it did (chain/single.py)."""


@pytest.mark.parametrize("name", ["order-1", "order-2"])
@pytest.mark.parametrize(("batch", "chosen"), [("lone", (0,)), ("packed", (0, 1, 2))])
def test_answers_are_as_they_were(name: str, batch: str, chosen: tuple[int, ...]) -> None:
    labeler = PhoneLabeler.load(SAVED / f"{name}.safetensors")
    with np.load(SAVED / "answers.npz") as stored:
        posteriors, best = labeler.posteriors([stored[f"x{n}"] for n in chosen], viterbi=True)
        for n, p, sequence in zip(chosen, posteriors, best, strict=True):
            before = stored[f"{name}-{batch}-{n}-posteriors"]
            np.testing.assert_allclose(p, before, rtol=0, atol=ROUNDING)
            np.testing.assert_array_equal(sequence, stored[f"{name}-{batch}-{n}-viterbi"])
    assert labeler.labels_ == ["AA", "IY", "S", "SIL", "T"]
