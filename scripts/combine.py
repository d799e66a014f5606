"""Make one model of several that were trained on the same corpus: `python scripts/combine.py OUT CORPUS MODEL MODEL...`.

Their chain is a product of experts. It is calibrated on the speakers of CORPUS that none of them was trained on: the share that
their training held out, drawn by its seed, which has to be the same for all. These are few, so the temperature is the upper end of
its 95 % interval, not its middle: answers to speakers that are harder than they should still be honest.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from phonechain.features import corpora
from phonechain.model.combination import combine
from phonechain.model.files import storage
from phonechain.model.files.storage import load_model
from phonechain.model.learning.dataset import dataset
from phonechain.model.learning.extraction import featurise
from phonechain.model.learning.splits import hold_out
from phonechain.model.learning.temperature import fit_temperature
from phonechain.model.learning.training import dev_error


def main(out: str, corpus: str, *sources: str) -> None:
    """Combine, calibrate, write."""
    loaded = [load_model(source) for source in sources]
    trainings, headers = [t for _, t, _ in loaded], [h for _, _, h in loaded]
    if len({(t.held_out, t.seed) for t in trainings}) > 1:
        raise SystemExit("expected models that held out the same speakers, got other shares or seeds")
    model = combine([m for m, _, _ in loaded])
    drop = tuple(str(label) for label in headers[0].model.get("drop", ()))
    _, dev = hold_out(corpora.read(Path(corpus)).split("train"), trainings[0].held_out, trainings[0].seed)
    held = dataset(featurise(dev, model.features), model.labels, model.normaliser, drop=drop, features=model.features)
    fitted = fit_temperature(model.network, held)
    model.temperature = fitted.high or fitted.value
    error = dev_error(model.network, held)[0]
    metrics = {
        "dev_error": error, "dev_segments": len(held.y), "temperature_low": fitted.low, "temperature_high": fitted.high,
        "train_segments": headers[0].metrics.get("train_segments"),
    }  # fmt: skip
    version = storage.save_model(
        out, model, preset=str(headers[0].model.get("preset", "")), training=trainings[0], drop=drop,
        card=headers[0].card, provenance=dataclasses.replace(headers[0].provenance, command=""), metrics=metrics,
    )  # fmt: skip
    found = f"temperature {model.temperature:.2f} ({fitted.value:.2f})"
    print(f"{out}: {model.parameters} weights, dev error {100 * error:.2f} %, {found}, {version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
