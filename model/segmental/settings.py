"""How a segmental model is built and trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from phonechain.features.errors import SettingsError

_S = TypeVar("_S", bound="_Settings")


@dataclass(frozen=True)
class _Settings:
    def to_dict(self) -> dict[str, Any]:
        """All settings by name, JSON-serialisable."""
        return asdict(self)

    @classmethod
    def from_dict(cls: type[_S], values: Mapping[str, Any]) -> _S:
        """The inverse of `to_dict`. Raises SettingsError for a name that is no setting."""
        known = {f.name for f in fields(cls)}
        if odd := sorted(set(values) - known):
            raise SettingsError(f"expected settings among {', '.join(sorted(known))}; got {odd[0]!r}", pointer=odd[0])
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


@dataclass(frozen=True)
class SegmentalSettings(_Settings):
    """A segmental CRF.

    Attributes:
        step: grid of candidate boundaries in training and recognition (s).
        fine: grid of alignment (s).
        max_duration: longest candidate (s); what lasts longer is several pieces in a row.
        units: width of the frame network; 0 leaves it out, and the factor sees the 39 frame values and their flux alone.
        products, states: I and H of the factor.
        dropout: of the factor's channels; one mask for all candidates of a batch.
    """

    step: float = 0.02
    fine: float = 0.01
    max_duration: float = 0.4
    units: int = 96
    products: int = 1
    states: int = 2
    dropout: float = 0.2

    def __post_init__(self) -> None:
        for name, low, high in (
            ("step", 0.005, 0.1), ("fine", 0.005, 0.1), ("max_duration", 0.05, 2.0), ("units", 0, 1024),
            ("products", 1, 16), ("states", 1, 16), ("dropout", 0.0, 0.9),
        ):  # fmt: skip
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(
                    f"expected {name} between {low:g} and {high:g}, got {value:g}", pointer=name, value=value
                )


@dataclass(frozen=True)
class SegmentalTraining(_Settings):
    """How a segmental CRF is trained.

    Attributes:
        epochs, pretraining: epochs of the segmental loss; before them, of the frames' labels alone.
        batch_frames: frames in a batch, padding included.
        rate: step of AdamW, warmed up over half an epoch, then linearly to zero.
        ngram_rate: how many times larger it is for durations and bigrams.
        decay: of weights; n-grams have a tenth of it.
        frame_loss: weight of the frames' cross entropy beside the segmental loss.
        placement: weight of the loss of boundaries with the labels given (`placement`); 0 leaves it out.
        every: the segmental loss counts in every so many batches, where there is a loss of boundaries in each.
        warps: factors on the filter bank's frequencies, one drawn for each recording and epoch.
        shift: seconds added to boundaries inside, where the labels of a corpus have a known bias.
        seed: of all draws.
    """

    epochs: int = 12
    pretraining: int = 2
    batch_frames: int = 6000
    rate: float = 2e-3
    ngram_rate: float = 10.0
    decay: float = 0.05
    frame_loss: float = 0.3
    placement: float = 0.0
    every: int = 1
    warps: tuple[float, ...] = (1.0,)
    shift: float = 0.0
    seed: int = 1


@dataclass(frozen=True)
class SegmentalPreset:
    """The system that `phonechain train --preset spn-semi-crf` trains."""

    model: SegmentalSettings = SegmentalSettings()
    training: SegmentalTraining = SegmentalTraining(warps=(1.0, 0.94, 1.06))
    name: str = "spn-semi-crf"
    title: str = "segmental CRF with sum-product factors: alignment and recognition without given boundaries"


PRESET = SegmentalPreset.name
"""Name of the preset."""
