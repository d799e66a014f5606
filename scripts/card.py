"""Write a shipped model's card into its file: `python scripts/card.py NAME MODEL OUT [TEST_ERROR TEST_SEGMENTS]`.

The weights stay as they are; only the header changes, and with it the version. The default's temperature becomes the upper end of
its 95 % interval: it was fitted to four speakers, and answers to speakers that are harder should still be honest.
"""

from __future__ import annotations

import dataclasses
import sys

from phonechain.model.files import modelfile
from phonechain.model.files.header import Card

LICENCE = "MIT; trained on speechocean762, CC BY 4.0"
DATA = (
    "speechocean762 (OpenSLR 101), train split: 125 speakers of English whose first language is Mandarin, 58 of them under 18, "
    "2497 read sentences; labels by forced alignment to the dictionary pronunciation (39 ARPAbet phones, SIL)"
)
SYNTHETIC = (
    "; and 679 sentences of synthetic voices (flite rms and awb, festival ked, four of flite kal16), "
    "with the synthesiser's labels"
)
LIMITS = (
    "Trained on read English of Mandarin speakers, on labels that an aligner made from the dictionary: a phone that a learner "
    "mispronounced stands there under its dictionary name. Not for other languages. Boundaries are taken as given: the model "
    "cannot say that one is wrong, only that the label inside is doubtful."
)
DESCRIPTIONS = {
    "english": "The default: a recurrent network over frames and segments under an SPN and a CRF of second order, "
    "which learnt from two such networks in one chain",
    "product": "A wide and a narrow recurrent network over frames and segments, under SPNs and one CRF of second order: "
    "the default of before, from which the present one learnt",
    "paper": "The paper's own system (SPN-HO-LC-CRF) on the 92 features of three segments",
    "small": "A narrow recurrent network over frames and segments, for browsers and phones; one of the two that taught the default",
    "segments": "A recurrent network over segments, given by their 92 features, under an SPN and a CRF of second order",
}


def main(name: str, source: str, target: str, *test: str) -> None:
    tensors, header = modelfile.read(source)
    card = Card(name, DESCRIPTIONS[name], LICENCE, DATA + (SYNTHETIC if name == "english" else ""), LIMITS)
    # the recorded command line names folders of the machine that it ran on
    provenance = dataclasses.replace(header.provenance, command="scripts/train_default.sh CORPUS OUT")
    metrics = dict(header.metrics)
    if test:
        metrics |= {"test_error": float(test[0]), "test_segments": int(test[1])}
    calibration = header.calibration
    if name == "english":  # of four speakers: the upper end of the interval, as scripts/combine.py takes it
        calibration = {"temperature": metrics["temperature_high"]}
    changed = dataclasses.replace(header, card=card, provenance=provenance, metrics=metrics, calibration=calibration)
    written = modelfile.write(target, tensors, changed)
    print(f"{target}: version {written.version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
