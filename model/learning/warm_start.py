"""Going on from a model: its weights as the start of a training, and what a training that was broken off had so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from phonechain.model.files.modelfile import Provenance
from phonechain.model.learning.training import CHECKPOINT, best_so_far
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.settings import to_dict

if TYPE_CHECKING:
    from phonechain.model.labeler import PhoneLabeler


def obstacle(base: PhoneLabeler, wanted: PhoneLabeler, labels: Sequence[str]) -> str | None:
    """Why the weights of `base` cannot be where `wanted` starts to learn `labels`; None if they can.

    The features and the settings of the model have to be the same, and the labels among those of the base.
    """
    if base.network_ is None or base.normaliser_ is None:
        return "it has no weights"
    if base.features_.to_dict() != wanted.features_.to_dict():
        return "its features are others"
    if to_dict(base.model) != to_dict(wanted.model):
        return "its settings are others"
    known = set(base.labels_)
    if new := [label for label in labels if label not in known]:
        count = f"{len(new)} of the {len(labels)} labels" if len(new) > 1 else "the label"
        return f"{count} {', '.join(new[:5])}{', ...' if new[5:] else ''} {'are' if new[1:] else 'is'} not among its {len(known)}"
    return None


def copied(base: PhoneLabeler) -> SequenceNetwork:
    """The network of a labeler once more, to be trained on: with its weights and its n-gram inventory."""
    network, normaliser = base.network_, base.normaliser_
    assert network is not None
    assert normaliser is not None
    made = type(network)(
        base.model, len(normaliser.mean), len(base.labels_), bigrams=network.bigrams, trigrams=network.trigrams
    )
    made.load_state_dict(network.state_dict())
    return made


def named(base: PhoneLabeler) -> str:
    """What a person calls a model."""
    return f"{base.card.name or 'a model'}{f'@{base.version_}' if base.version_ else ''}"


def recover(labeler: PhoneLabeler, run_dir: Path) -> bool:
    """Give a labeler whose `fit` was broken off the weights of its best whole epoch; False if there was none.

    Nothing was fitted to the dev set after it, so its posteriors are not calibrated; its card says so.

    Raises:
        TrainingError: the checkpoint cannot be read.
    """
    if labeler.network_ is None or labeler.normaliser_ is None or not (run_dir / CHECKPOINT).exists():
        return False
    weights, history = best_so_far(run_dir / CHECKPOINT)
    labeler.network_.load_state_dict(weights)
    labeler.network_.eval()
    labeler.history_, labeler.temperature_ = history, 1.0
    labeler.metrics_ = {
        "dev_error": history.best_error, "best_epoch": history.best_epoch, "epochs": len(history.epochs),
    }  # fmt: skip
    said = f"Training was broken off after epoch {len(history.epochs)}; the posteriors are not calibrated."
    labeler.card = replace(labeler.card, limits=f"{labeler.card.limits} {said}".strip())
    labeler.provenance_ = Provenance.now(seed=labeler.training.seed)
    return True
