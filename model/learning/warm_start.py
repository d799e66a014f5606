"""Warm starts: the weights of a model, or of its encoder, as the start of a training; recovery of an interrupted training."""

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
"""Segments from which a warm start uses the full learning rate, and the least share of it for fewer segments."""


def obstacle(base: PhoneModel, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]) -> str | None:
    """Why a model with these settings and labels cannot start from all weights of `base`; None if it can.

    Features and settings have to be the same, and the labels among those of the base.
    """
    if not base.features.gives_same_frames(features):
        return "its features differ"
    if to_dict(base.settings) != to_dict(settings):
        return "its settings differ"
    known = set(base.labels)
    if new := [label for label in labels if label not in known]:
        count = f"{len(new)} of the {len(labels)} labels" if len(new) > 1 else "the label"
        return f"{count} {', '.join(new[:5])}{', ...' if new[5:] else ''} {'are' if new[1:] else 'is'} not among its {len(known)}"
    return None


def matching_expert(base: PhoneModel, settings: ModelSettings) -> PhoneModel:
    """From a product of experts, the expert with the encoder of `settings`, else the first; any other model unchanged."""
    if not base.settings.experts:
        return base
    numbers = [n for n, expert in enumerate(base.settings.experts) if expert.encoder == settings.encoder]
    return base.expert(numbers[0] if numbers else 0)


def choose_start(
    base: PhoneModel, name: str, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]
) -> tuple[Start, str]:
    """What a training can take from `base`, and a sentence that says so.

    Where at least half of the labels are the base's, and everything else is equal, the others are added to its own. An
    encoder carries over to other labels, factors and chains: what it has learnt does not depend on the names of the phones.
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
        return "encoder", f"starts from the encoder of {name}, with new weights for the rest: {why}"
    return "none", f"starts from new weights, not from {name}: {why}"


def scale_step(training: TrainingSettings, segments: int) -> TrainingSettings:
    """Settings for a warm start from all weights of a model: the learning rate grows with the number of segments.

    At the full rate, a few dozen segments undo in one epoch what the base has learnt from a hundred thousand.
    """
    if training.base_step == "full":
        return training
    share = min(1.0, max(LEAST_STEP, segments / FULL_STEP))
    return replace(training, learning_rate=max(1e-8, training.learning_rate * share))


def new_labels(base: PhoneModel, labels: Sequence[str]) -> list[str]:
    """The labels that the base does not know, in their order."""
    known = set(base.labels)
    return [label for label in labels if label not in known]


def extend_network(
    base: PhoneModel, labels: Sequence[str], data: Dataset, generator: torch.Generator
) -> SequenceNetwork:
    """The network of a CRF with new labels after its own; the scores of the known ones stay the same.

    Args:
        labels: the base's, followed by the new ones.
        data: the training data, whose label n-grams are added to the base's inventory.
        generator: for the new labels' weights.
    """
    old = base.network
    sequences = [data.labels_of(n) for n in range(len(data))]
    grams = {n: merge_ngrams(table, seen_ngrams(sequences, n)) for n, table in ((2, old.bigrams), (3, old.trigrams))}
    made = type(old)(base.settings, old.features, len(labels), bigrams=grams[2], trigrams=grams[3])
    made.reset(generator)
    made.encoder.load_state_dict(old.encoder.state_dict())
    assert isinstance(old, ConditionalRandomField)
    assert isinstance(made, ConditionalRandomField)
    kept = {1: torch.arange(old.labels)}
    for n, table in ((2, old.bigrams), (3, old.trigrams)):
        kept[n] = torch.searchsorted(encode_ngrams(grams[n], len(labels)), encode_ngrams(table, len(labels)))
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
                    outputs = count_outputs(settings.labels, made)
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


def count_outputs(n: int, network: SequenceNetwork) -> int:
    """Outputs of a factor over n labels."""
    return network.labels if n == 1 else len(network.bigrams if n == 2 else network.trigrams)


def encode_ngrams(grams: Tensor, labels: int) -> Tensor:
    """[P] a number for each n-gram [P, n], in lexicographic order."""
    found = grams.new_zeros(len(grams))
    for column in grams.unbind(1):
        found = found * labels + column
    return found


def merge_ngrams(table: Tensor, other: Tensor) -> Tensor:
    """[P, n] the n-grams of both inventories, in lexicographic order."""
    return torch.unique(torch.cat([table, other]), dim=0)


def copy_network(base: PhoneModel) -> SequenceNetwork:
    """A copy of a model's network for further training, with its weights and its n-gram inventory."""
    network = base.network
    made = type(network)(
        base.settings, len(base.normaliser.mean), len(base.labels), bigrams=network.bigrams, trigrams=network.trigrams
    )
    made.load_state_dict(network.state_dict())
    return made


def recover(model: PhoneModel, run_dir: Path) -> History | None:
    """Give a model whose training was interrupted the weights of its best complete epoch; None if there was none.

    No temperature has been fitted, so its posteriors are not calibrated.

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
