"""Save a trained model to a model file, and load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from phonechain.features.errors import ModelFileError, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.readings import recognise
from phonechain.model.files import modelfile
from phonechain.model.files.header import ALIGNMENT_KIND, Card, Header, Provenance
from phonechain.model.networks.build import restore_network, restore_normaliser
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import TrainingSettings, from_dict, stored_model, to_dict


def halve_weights(model: PhoneModel) -> None:
    """Round the weights of a network with an encoder to 16 bits, in place, as they are stored.

    The systems of the paper keep 32 bits: their files are small, and answer as they always did.
    """
    if model.settings.encoder_kind != "none":
        with torch.no_grad():
            for weight in model.network.parameters():
                weight.copy_(weight.half().float())


def save_model(
    path: str | Path,
    model: PhoneModel,
    *,
    preset: str,
    training: TrainingSettings,
    drop: tuple[str, ...],
    card: Card,
    provenance: Provenance,
    metrics: dict[str, Any],
) -> str:
    """Write the model file atomically; returns its version.

    Raises:
        ModelFileError: see `modelfile.write`.
    """
    normaliser, labels = model.normaliser, model.labels
    half = model.settings.encoder_kind != "none"
    tensors = {}
    for name, value in model.network.state_dict().items():
        kept = value.detach().cpu()
        tensors[f"network.{name}"] = kept.half() if half and kept.is_floating_point() else kept
    for name, value in tensors.items():
        if name.endswith(("bigrams", "trigrams")):  # label indices: four times smaller than they are in memory
            tensors[name] = value.to(torch.int16 if len(labels) <= 2**15 else torch.int64)
    parts = {"mean": normaliser.mean, "std": normaliser.std}
    if len(normaliser.frame_mean):
        parts |= {"frame_mean": normaliser.frame_mean, "frame_std": normaliser.frame_std}
    tensors |= {f"normaliser.{name}": value for name, value in parts.items()}
    facts: dict[str, Any] = {
        "preset": preset, "model": to_dict(model.settings), "training": to_dict(training), "drop": list(drop),
        "phone_set": model.phone_set,
    }  # fmt: skip
    if len(normaliser.frame_mean):
        facts["level"] = normaliser.level
    header = Header(
        labels=tuple(labels),
        provenance=provenance,
        card=card,
        features=model.features.to_dict(),
        model=facts,
        normaliser={name: f"normaliser.{name}" for name in parts},
        ngrams={"bigrams": "network.bigrams", "trigrams": "network.trigrams"},
        calibration={"temperature": model.temperature},
        metrics=metrics,
    )
    return modelfile.write(path, {k: v.contiguous() for k, v in tensors.items()}, header).version


def load_model(source: str | Path | bytes, *, name: str | None = None) -> tuple[PhoneModel, TrainingSettings, Header]:
    """The model in a model file, its training settings, and the file's header. `name` is what errors call the file.

    Raises:
        ModelFileError: not a model file, damaged, or one whose parts do not fit together.
    """
    tensors, header = modelfile.read(source, name=name)
    if header.model.get("kind") == ALIGNMENT_KIND:
        shown = name or (str(source) if isinstance(source, str | Path) else "the given bytes")
        raise ModelFileError(f"expected a model that labels given segments, got {shown}, which aligns transcripts")
    try:
        facts = header.model
        settings = stored_model(facts["model"])
        training = from_dict(TrainingSettings, facts["training"])
        normaliser = restore_normaliser(tensors, settings, float(facts.get("level", 0.0)))
        labels = list(header.labels)
        model = PhoneModel(
            settings,
            FeatureSettings.from_dict(header.features),
            labels,
            normaliser,
            restore_network(settings, len(normaliser.mean), labels, tensors),
            float(header.calibration["temperature"]),
            str(facts.get("phone_set", recognise(labels))),
        )
        if not model.temperature > 0:
            raise ValueError(f"a temperature of {model.temperature}")
    except (SettingsError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"expected a model file whose parts fit together, got: {reason}") from error
    return model, training, header
