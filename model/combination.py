"""Combine separately trained models into one, a product of experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phonechain.features.errors import SettingsError
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.networks.product import ProductOfExperts
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import ModelSettings


def combine(models: Sequence[PhoneModel]) -> PhoneModel:
    """One model whose chain has the log-potentials of all, at the sum of their temperatures until it is calibrated again.

    Raises:
        SettingsError: fewer than two models, a chain that is not a CRF, different labels, or different front ends, normalisers or
            normalisation where both read the same inputs.
    """
    if len(models) < 2:
        raise SettingsError(f"expected two models or more to combine, got {len(models)}")
    first = models[0]
    networks = [m.network for m in models]
    if not all(type(n) is ConditionalRandomField for n in networks):
        raise SettingsError("expected CRFs, got a model with another chain")
    if any(m.labels != first.labels for m in models):
        raise SettingsError("expected models of the same labels in the same order")
    if any(m.settings.normalise != first.settings.normalise for m in models):
        raise SettingsError("expected models with the same normalisation")
    bands = max(m.features.bands for m in models)
    features = replace(first.features, pooled=any(m.features.pooled for m in models), bands=bands)
    normaliser = Normaliser(first.normaliser.mean, first.normaliser.std, first.settings.normalise)
    for m in models:
        own, at = m.normaliser, replace(m.features, pooled=features.pooled, bands=bands)
        if not at.gives_same_frames(features) or m.features.bands not in (0, bands):
            raise SettingsError("expected models with the same front end")
        for name, of_frames in (("mean", False), ("frame_mean", True)):
            mine, known = getattr(own, name), getattr(normaliser, name)
            if not len(mine):
                continue
            if len(known) and not bool((mine == known).all()):
                raise SettingsError("expected models trained on the same corpus: their normalisers differ")
            if of_frames:
                normaliser = replace(normaliser, frame_mean=own.frame_mean, frame_std=own.frame_std, level=own.level)
            else:
                normaliser = replace(normaliser, mean=own.mean, std=own.std)
    settings = ModelSettings(normalise=first.settings.normalise, experts=tuple(m.settings for m in models))
    crfs = [n for n in networks if isinstance(n, ConditionalRandomField)]
    network = ProductOfExperts(settings, len(normaliser.mean), len(first.labels), crfs).eval()
    temperature = sum(m.temperature for m in models)
    return PhoneModel(settings, features, first.labels, normaliser, network, temperature, first.phone_set)
