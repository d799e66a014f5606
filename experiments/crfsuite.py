"""CRFsuite (Okazaki 2007) on the same normalised features, as a peer: a linear chain of first order, L-BFGS with an L2 penalty."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import SettingsError
from phonechain.model.learning.dataset import Dataset


def train_and_label(
    train: Dataset, test: Dataset, labels: int, *, c2: float = 1.0, iterations: int = 100
) -> tuple[NDArray[np.int64], int]:
    """Labels [N] of the test set, and how many weights the model has.

    Args:
        c2: strength of the L2 penalty, CRFsuite's default.

    Raises:
        SettingsError: python-crfsuite is not installed.
    """
    try:
        import pycrfsuite
    except ImportError:
        raise SettingsError(
            "expected the package python-crfsuite for this row, got none: pip install python-crfsuite"
        ) from None
    names = [str(n) for n in range(train.x.shape[1])]

    def items(data: Dataset, sequence: int) -> object:
        rows = data.x[data.starts[sequence] : data.starts[sequence + 1]]
        # an attribute's value scales its weight; the constant one is the bias
        return pycrfsuite.ItemSequence([{**dict(zip(names, row.tolist(), strict=True)), "1": 1.0} for row in rows])

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {"c2": c2, "max_iterations": iterations, "feature.possible_transitions": True, "feature.possible_states": True}
    )
    for s in range(len(train)):
        trainer.append(items(train, s), [str(y) for y in train.labels_of(s)])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crfsuite.model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        answer = [int(y) for s in range(len(test)) for y in tagger.tag(items(test, s))]
        tagger.close()
    return np.asarray(answer, dtype=np.int64), labels * (train.x.shape[1] + 1) + labels * labels
