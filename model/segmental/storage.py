"""Save an aligner to a model file, and restore it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from phonechain.features.errors import ModelFileError, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.device import choose_device
from phonechain.model.files import modelfile
from phonechain.model.files.header import ALIGNMENT_KIND
from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining

if TYPE_CHECKING:
    from phonechain.model.segmental.aligner import PhoneAligner


def save(aligner: PhoneAligner, path: str | Path) -> str:
    """Write the model file atomically; returns its version."""
    network = aligner._require_network()
    tensors = {f"network.{k}": v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    header = modelfile.Header(
        labels=tuple(aligner.labels_), provenance=aligner.provenance_, card=aligner.card,
        features=aligner.features_.to_dict(),
        model={"kind": ALIGNMENT_KIND, "model": aligner.model.to_dict(), "training": aligner.training.to_dict()},
        calibration={"temperature": aligner.temperature_, "shift": aligner.shift_, "decoding": aligner.decoding_},
        metrics=aligner.metrics_,
    )  # fmt: skip
    return modelfile.write(path, tensors, header).version


def restore(aligner: PhoneAligner, source: str | Path | bytes, *, name: str | None = None) -> None:
    """Give a new aligner everything in a model file, which errors call `name` if given, else by its path.

    Raises:
        ModelFileError: not a model file, a damaged one, or not an alignment model.
        SettingsError: a device that torch does not have.
    """
    device = choose_device(aligner.device)
    tensors, header = modelfile.read(source, name=name)
    if header.model.get("kind") != ALIGNMENT_KIND:
        given = name or (str(source) if isinstance(source, str | Path) else "the given bytes")
        raise ModelFileError(f"expected an alignment model, got {given}, which labels given segments")
    try:
        aligner.model = SegmentalSettings.from_dict(header.model["model"])
        aligner.training = SegmentalTraining.from_dict(header.model["training"])
        aligner.features_, aligner.card = FeatureSettings.from_dict(header.features), header.card
        aligner.labels_ = list(header.labels)
        network = SemiCRF(aligner.model, len(aligner.labels_))
        network.load_state_dict({k.removeprefix("network."): v.float() for k, v in tensors.items()})
        aligner.network_ = network.eval().to(device)
        aligner.temperature_ = float(header.calibration["temperature"])
        aligner.shift_ = float(header.calibration["shift"])
        aligner.decoding_ = {str(k): float(v) for k, v in header.calibration["decoding"].items()}
    except (SettingsError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"expected a model file whose parts fit together, got: {reason}") from error
    aligner.metrics_, aligner.provenance_, aligner.version_ = header.metrics, header.provenance, header.version
