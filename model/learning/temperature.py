"""Temperature scaling: the temperature at which a model's posteriors are best calibrated on held-out data (Guo et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.model.device import try_batches
from phonechain.model.learning.dataset import Dataset
from phonechain.model.networks.base import SequenceNetwork


@dataclass(frozen=True)
class Temperature:
    """The temperature fitted to a dev set.

    Attributes:
        value: the one with the least negative log-likelihood; 1 where there is none.
        low, high: a 95 % interval, the wider of two: with sequences, and with segments, taken as independent; None where there
            is no such temperature.
        notice: a message where the dev set is too small to determine it, else "".
    """

    value: float
    low: float | None = None
    high: float | None = None
    notice: str = ""


def fit_temperature(model: SequenceNetwork, dev: Dataset, *, batch: int = 64) -> Temperature:
    """The temperature with the least negative log-likelihood on `dev`, by Brent's method on its logarithm, without bounds.

    Args:
        batch: sequences at once, fewer where memory is short.
    """
    return try_batches(lambda size: _fit(model, dev, size), batch, model.device)


def _fit(model: SequenceNetwork, dev: Dataset, batch: int) -> Temperature:
    from scipy import optimize  # here, for labelling does not need it, and it takes 0.4 s to import

    model.eval()
    device = model.device
    with torch.no_grad():
        batches = [
            (model.encode(b.x, b.packing, b.frames), b.y, b.packing) for b in dev.batches(batch, device=device)
        ]  # fmt: skip

    def negative_log_posteriors(log_temperature: float) -> NDArray[np.float64]:
        """[N] negative log posterior of the label of each segment, in the order of the batches."""
        if abs(log_temperature) > _FARTHEST:
            return np.full(len(dev.y), np.inf)
        found = []
        with torch.no_grad():
            for h, y, packing in batches:
                p = model.posteriors(h, packing, temperature=math.exp(log_temperature))
                found.append(-p.gather(1, y[:, None]).double().clamp_min(1e-30).log()[:, 0])
        return np.nan_to_num(torch.cat(found).cpu().numpy(), nan=np.inf)

    def total(log_temperature: float) -> float:
        return float(negative_log_posteriors(log_temperature).sum())

    try:
        low, middle, high, *_ = optimize.bracket(total, 0.0, 0.5, grow_limit=2.0, maxiter=50)
        found = optimize.minimize_scalar(total, (low, middle, high), method="brent", options={"xtol": 1e-3})
        best = float(found.x)
        before, at, after = (negative_log_posteriors(best + step) for step in (-_STEP, 0.0, _STEP))
    except torch.OutOfMemoryError:  # a RuntimeError too
        raise
    except (RuntimeError, ValueError):  # nothing to bracket: the same at every temperature
        return Temperature(
            1.0, notice=_describe_small_dev_set(dev, "their posteriors are the same at every temperature")
        )
    curvature = float((before - 2 * at + after).sum()) / _STEP**2
    slopes = (after - before) / (2 * _STEP)
    if not (abs(best) < _FARTHEST - 1 and 1e-6 < curvature < math.inf):
        return Temperature(1.0, notice=_describe_small_dev_set(dev, "the likelihood rises without end"))
    # the standard error of an M-estimate: each sequence's slope counts once, for the segments of a sequence err together; with
    # very few sequences the slopes say nothing (a single one is zero, as their sum is), so segments are counted as well
    sequence = np.concatenate([packing.time_and_sequence[1] + batch * n for n, (_, _, packing) in enumerate(batches)])
    clustered = np.bincount(sequence, slopes)
    variance = max(float((clustered**2).sum()), float((slopes**2).sum()))
    spread = 1.96 * math.sqrt(variance) / curvature
    fit = Temperature(math.exp(best), math.exp(best - spread), math.exp(min(best + spread, _FARTHEST)))
    if spread > math.log(_WIDE) or len(dev.y) < _FEW:
        between = f"it lies between {fit.low:.2g} and {fit.high:.2g}"
        return replace(fit, notice=_describe_small_dev_set(dev, between))
    return fit


def describe(temperature: float, metrics: Mapping[str, Any]) -> str:
    """How the temperature was fitted, in a sentence, from the metrics of a model file; "" for files without them.

    Examples:
        >>> describe(1.25, {"temperature_low": 1.1, "temperature_high": 1.4, "dev_segments": 5000})
        'temperature 1.25 (95 %: 1.1 to 1.4), fitted on 5000 dev segments'
        >>> describe(1.0, {"temperature_low": None, "temperature_high": None, "dev_segments": 60})
        'not fitted: dev set too small (60 segments)'
    """
    if "temperature_low" not in metrics:
        return ""
    low, high = metrics["temperature_low"], metrics.get("temperature_high")
    segments = metrics.get("dev_segments")
    if low is None or high is None:
        return "not fitted: dev set too small" + ("" if segments is None else f" ({segments} segments)")
    on = "the dev set" if segments is None else f"{segments} dev segments"
    few = ", which are too few" if high > low * _WIDE**2 else ""
    return f"temperature {temperature:.3g} (95 %: {low:.2g} to {high:.2g}), fitted on {on}{few}"


_FARTHEST, _STEP, _WIDE, _FEW = 12.0, 0.05, 1.5, 50
"""Log temperature beyond which nothing is computed; step of its numerical derivatives; widest interval, as a factor either
way, that needs no notice; number of segments below which no interval is trusted."""


def _describe_small_dev_set(dev: Dataset, why: str) -> str:
    return (
        f"the dev set ({len(dev.y)} segments in {len(dev)} sequences) is too small to fit the temperature: {why}; "
        "posteriors may be too high or too low"
    )
