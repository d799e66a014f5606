"""Build a network from settings, with new weights or with the tensors of a model file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from phonechain.features.errors import SettingsError
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ConditionalRandomField, FactorModel
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.networks.product import ProductOfExperts
from phonechain.model.settings import ModelSettings

CHAINS: dict[str, type[FactorModel]] = {"crf": ConditionalRandomField, "memm": MaximumEntropyMarkovModel}


def build(settings: ModelSettings, features: int, labels: Sequence[str], data: Dataset | None) -> SequenceNetwork:
    """The chain that `settings` describe, with the n-gram inventory of `data`.

    Raises:
        SettingsError: experts, which are trained one by one.
    """
    if settings.experts:
        raise SettingsError(
            "a product of experts cannot be trained: train each, then combine them (phonechain.model.combination)",
            pointer="model/experts",
        )
    sequences = [] if data is None else [data.labels_of(n) for n in range(len(data))]
    return CHAINS[settings.chain](
        settings, features, len(labels), bigrams=seen_ngrams(sequences, 2), trigrams=seen_ngrams(sequences, 3)
    )


def seen_ngrams(sequences: Iterable[np.ndarray], n: int) -> Tensor:
    """[P, n] the different label n-grams of the sequences (arrays of label indices), in lexicographic order.

    Labels of -1 are gaps: no n-gram goes across them.
    """
    found = [np.lib.stride_tricks.sliding_window_view(y, n) for y in sequences if len(y) >= n]
    if not found:
        return torch.zeros(0, n, dtype=torch.long)
    different = np.unique(np.concatenate(found), axis=0).astype(np.int64)
    return torch.from_numpy(different[(different >= 0).all(1)])


def restore_normaliser(tensors: Mapping[str, Tensor], settings: ModelSettings, level: float = 0.0) -> Normaliser:
    """The normaliser in a model file; ValueError where it cannot be one."""
    made = []
    for mean_name, std_name in (("mean", "std"), ("frame_mean", "frame_std")):
        mean, std = (tensors.get(f"normaliser.{n}", torch.zeros(0)) for n in (mean_name, std_name))
        if mean.shape != std.shape or mean.dim() != 1 or not bool((std > 0).all()):
            raise ValueError(
                f"a normaliser of shapes {tuple(mean.shape)} and {tuple(std.shape)}, or deviations not above 0"
            )
        made.append((mean.float(), std.float()))
    if len(made[1][0]) != settings.bands:
        raise ValueError(f"a normaliser of {len(made[1][0])} bands for an encoder that reads {settings.bands}")
    return Normaliser(*made[0], settings.normalise, *made[1], level)


def restore_network(
    settings: ModelSettings, features: int, labels: Sequence[str], tensors: Mapping[str, Tensor]
) -> SequenceNetwork:
    """The network in a model file, ready to label; KeyError, ValueError or RuntimeError where its parts do not fit.

    Args:
        features: D, features of a segment.
    """
    weights = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
    y = len(labels)
    if settings.experts:
        members = []
        for k, expert in enumerate(settings.experts):
            own = {n.removeprefix(f"members.{k}."): v for n, v in weights.items() if n.startswith(f"members.{k}.")}
            pooled = expert.encoder.kind != "frames" or expert.encoder.pooled
            part = restore_network(
                expert, features if pooled else 0, labels, {f"network.{n}": v for n, v in own.items()}
            )
            members.append(cast(ConditionalRandomField, part))
        known = tuple(f"members.{k}." for k in range(len(settings.experts)))
        stray = [n for n in weights if not n.startswith(known) and n not in ("bigrams", "trigrams")]
        if stray:
            raise ValueError(f"weights that belong to no expert: {', '.join(stray[:5])}")
        return ProductOfExperts(settings, features, y, members).eval()
    for name, n in (("bigrams", 2), ("trigrams", 3)):
        table = weights[name] = weights[name].long()
        if (
            table.dim() != 2
            or table.shape[1] != n
            or (len(table) and not (0 <= int(table.min()) <= int(table.max()) < y))
        ):
            raise ValueError(f"{name} of shape {tuple(table.shape)}, or with labels outside 0..{y - 1}")
    network = CHAINS[settings.chain](settings, features, y, bigrams=weights["bigrams"], trigrams=weights["trigrams"])
    network.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in weights.items()})
    return network.eval()
