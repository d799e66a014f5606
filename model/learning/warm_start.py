"""Going on from a model: its weights, or its encoder's, as the start of a training; and what a broken-off training had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from phonechain.features.mfcc import FeatureSettings
from phonechain.model.learning.checkpoint import CHECKPOINT, History, best_so_far
from phonechain.model.learning.dataset import Dataset
from phonechain.model.networks.base import Factor, SequenceNetwork
from phonechain.model.networks.build import seen_ngrams
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import ModelSettings, TrainingSettings, to_dict

Start = Literal["all", "labels", "encoder", "none"]

FULL_STEP, LEAST_STEP = 20_000, 0.05
"""Segments from which on weights that are good already are moved by a full step, and the least share of it."""


def obstacle(base: PhoneModel, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]) -> str | None:
    """Why not all weights of `base` can be where a model with these settings starts to learn `labels`; None if they can.

    The features and the settings of the model have to be the same, and the labels among those of the base.
    """
    if not base.features.gives_same_frames(features):
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

    Where at least half of the labels are the base's, and all else is equal, the others are added to its own. An encoder
    carries over to other labels, factors and chains: it has learnt to hear, not what the phones are called.
    """
    why = obstacle(base, settings, features, labels)
    if why is None:
        return "all", f"starts from {name}"
    new = new_labels(base, labels)
    same = base.features.gives_same_frames(features) and to_dict(base.settings) == to_dict(settings)
    if same and settings.chain == "crf" and 2 * len(new) <= len(labels):
        return "labels", f"starts from {name}, with new labels: {why}"
    kept = base.settings.encoder
    if kept.kind != "none" and kept == settings.encoder and base.features.gives_same_frames(features):
        return "encoder", f"starts from the encoder of {name}, all else anew: {why}"
    return "none", f"starts anew, not from {name}: {why}"


def scale_step(training: TrainingSettings, segments: int) -> TrainingSettings:
    """Settings for going on from all weights of a model with so much material: its step grows with it.

    A few dozen segments at the full step undo in an epoch what the base was taught with a hundred thousand.
    """
    if training.base_step == "full":
        return training
    share = min(1.0, max(LEAST_STEP, segments / FULL_STEP))
    return replace(training, learning_rate=max(1e-8, training.learning_rate * share))


def new_labels(base: PhoneModel, labels: Sequence[str]) -> list[str]:
    """Those that the base does not know, in their order."""
    known = set(base.labels)
    return [label for label in labels if label not in known]


def extend_network(
    base: PhoneModel, labels: Sequence[str], data: Dataset, generator: torch.Generator
) -> SequenceNetwork:
    """The network of a CRF with further labels after its own: for those that it knows it scores as before.

    Args:
        labels: the base's, and then the new ones.
        data: what is trained on, whose label n-grams join the base's inventory.
        generator: of the new labels' weights.
    """
    old = base.network
    sequences = [data.labels_of(n) for n in range(len(data))]
    grams = {n: union(table, seen_ngrams(sequences, n)) for n, table in ((2, old.bigrams), (3, old.trigrams))}
    made = type(old)(base.settings, old.features, len(labels), bigrams=grams[2], trigrams=grams[3])
    made.reset(generator)
    made.encoder.load_state_dict(old.encoder.state_dict())
    assert isinstance(old, ConditionalRandomField)
    assert isinstance(made, ConditionalRandomField)
    kept = {1: torch.arange(old.labels)}
    for n, table in ((2, old.bigrams), (3, old.trigrams)):
        kept[n] = torch.searchsorted(codes(grams[n], len(labels)), codes(table, len(labels)))
    factors = list(zip(old.factor_settings, old.factors, strict=True))
    with torch.no_grad():
        for settings, factor in zip(made.factor_settings, made.factors, strict=True):
            known = next((f for given, f in factors if given is settings or given == settings), None)
            if known is None:  # the base has seen no n-grams of that length
                continue
            assert isinstance(factor, Factor)
            before = dict(known.named_parameters())
            for name, weight in factor.named_parameters():
                if name in factor.shared:
                    weight.copy_(before[name])
                else:
                    outputs = labels_or_grams(settings.labels, made)
                    rows = before[name].reshape(len(kept[settings.labels]), -1)
                    weight.view(outputs, -1)[kept[settings.labels]] = rows
        for n, new, before_it in (
            (2, made.bigram_weight, old.bigram_weight), (3, made.trigram_weight, old.trigram_weight)
        ):  # fmt: skip
            if new is not None and before_it is not None:
                if before_it.dim() == n:
                    new[(slice(old.labels),) * n] = before_it
                else:
                    new[kept[n]] = before_it
    return made


def labels_or_grams(n: int, network: SequenceNetwork) -> int:
    """Outputs of a factor over n labels."""
    return network.labels if n == 1 else len(network.bigrams if n == 2 else network.trigrams)


def codes(grams: Tensor, labels: int) -> Tensor:
    """[P] a number for each n-gram [P, n], in lexicographic order."""
    found = grams.new_zeros(len(grams))
    for column in grams.unbind(1):
        found = found * labels + column
    return found


def union(table: Tensor, other: Tensor) -> Tensor:
    """[P, n] the n-grams of both inventories, in lexicographic order."""
    return torch.unique(torch.cat([table, other]), dim=0)


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
