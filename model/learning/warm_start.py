"""Going on from a model: its weights, or its encoder's, as the start of a training; and what a broken-off training had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from phonechain.features.mfcc import FeatureSettings
from phonechain.model.learning.checkpoint import CHECKPOINT, History, best_so_far
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import ModelSettings, to_dict

Start = Literal["all", "encoder", "none"]


def obstacle(base: PhoneModel, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]) -> str | None:
    """Why not all weights of `base` can be where a model with these settings starts to learn `labels`; None if they can.

    The features and the settings of the model have to be the same, and the labels among those of the base.
    """
    if base.features.to_dict() != features.to_dict():
        return "its features are others"
    if to_dict(base.settings) != to_dict(settings):
        return "its settings are others"
    known = set(base.labels)
    if new := [label for label in labels if label not in known]:
        count = f"{len(new)} of the {len(labels)} labels" if len(new) > 1 else "the label"
        return f"{count} {', '.join(new[:5])}{', ...' if new[5:] else ''} {'are' if new[1:] else 'is'} not among its {len(known)}"
    return None


def matching_expert(base: PhoneModel, settings: ModelSettings) -> PhoneModel:
    """Of a product of experts the one with the encoder of `settings`, else the first; another model as it is."""
    if not base.settings.experts:
        return base
    numbers = [n for n, expert in enumerate(base.settings.experts) if expert.encoder == settings.encoder]
    return base.expert(numbers[0] if numbers else 0)


def choose_start(
    base: PhoneModel, name: str, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]
) -> tuple[Start, str]:
    """What of `base` can be the start of a training, and a sentence that says so.

    An encoder carries over to other labels, factors and chains: it has learnt to hear, not what the phones are called.
    """
    why = obstacle(base, settings, features, labels)
    if why is None:
        return "all", f"starts from {name}"
    kept = base.settings.encoder
    if kept.kind != "none" and kept == settings.encoder and base.features == features:
        return "encoder", f"starts from the encoder of {name}, all else anew: {why}"
    return "none", f"starts anew, not from {name}: {why}"


def copy_network(base: PhoneModel) -> SequenceNetwork:
    """The network of a model once more, to be trained on: with its weights and its n-gram inventory."""
    network = base.network
    made = type(network)(
        base.settings, len(base.normaliser.mean), len(base.labels), bigrams=network.bigrams, trigrams=network.trigrams
    )
    made.load_state_dict(network.state_dict())
    return made


def recover(model: PhoneModel, run_dir: Path) -> History | None:
    """Give a model whose training was broken off the weights of its best whole epoch; None if there was none.

    Nothing was fitted to the dev set after it, so its posteriors are not calibrated.

    Raises:
        TrainingError: the checkpoint cannot be read.
    """
    if not (run_dir / CHECKPOINT).exists():
        return None
    weights, history = best_so_far(run_dir / CHECKPOINT)
    model.network.auxiliary = None
    model.network.load_state_dict(weights)
    model.network.eval()
    model.temperature = 1.0
    return history
