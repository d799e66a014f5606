"""Write a shipped model's card into its file: `python scripts/card.py NAME MODEL OUT [TEST_ERROR TEST_SEGMENTS]`.

The weights stay as they are; only the header changes, and with it the version.
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
LIMITS = (
    "Trained on read English of Mandarin speakers, on labels that an aligner made from the dictionary: a phone that a learner "
    "mispronounced stands there under its dictionary name. Not for other languages. Boundaries are taken as given: the model "
    "cannot say that one is wrong, only that the label inside is doubtful."
)
DESCRIPTIONS = {
    "english": "The default: a wide and a narrow recurrent network over frames and segments, "
    "under SPNs and one CRF of second order",
    "paper": "The paper's own system (SPN-HO-LC-CRF) on the 92 features of three segments",
    "small": "The narrow one of the default's two networks by itself, for browsers and phones",
    "segments": "A recurrent network over segments, given by their 92 features, under an SPN and a CRF of second order",
}


def main(name: str, source: str, target: str, *test: str) -> None:
    tensors, header = modelfile.read(source)
    card = Card(name, DESCRIPTIONS[name], LICENCE, DATA, LIMITS)
    # the recorded command line names folders of the machine that it ran on
    provenance = dataclasses.replace(header.provenance, command="scripts/train_default.sh CORPUS OUT")
    metrics = dict(header.metrics)
    if test:
        metrics |= {"test_error": float(test[0]), "test_segments": int(test[1])}
    written = modelfile.write(
        target, tensors, dataclasses.replace(header, card=card, provenance=provenance, metrics=metrics)
    )
    print(f"{target}: version {written.version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
