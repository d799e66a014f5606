"""Write the shipped model's card into its file: `python scripts/card.py MODEL OUT [TEST_ERROR TEST_SEGMENTS]`.

The weights stay as they are; only the header changes, and with it the version.
"""

from __future__ import annotations

import dataclasses
import sys

from phonechain.model.labeler import PhoneLabeler

CARD = {
    "name": "english",
    "licence": "MIT; trained on speechocean762, CC BY 4.0",
    "data": (
        "speechocean762 (OpenSLR 101), train split: 125 speakers of English whose first language is Mandarin, 58 of them "
        "under 18, 2497 read sentences; labels by forced alignment to the dictionary pronunciation (39 ARPAbet phones, SIL)"
    ),
    "limits": (
        "Trained on read English of Mandarin speakers, on labels that an aligner made from the dictionary: a phone that a "
        "learner mispronounced stands there under its dictionary name. Not for other languages. Boundaries are taken as "
        "given: the model cannot say that one is wrong, only that the label inside is doubtful."
    ),
}


def main(source: str, target: str, *test: str) -> None:
    labeler = PhoneLabeler.load(source)
    labeler.set_params(**CARD)
    # the recorded command line names folders of the machine that it ran on
    labeler.provenance_ = dataclasses.replace(labeler.provenance_, command="scripts/train_default.sh CORPUS OUT")
    if test:
        labeler.metrics_ = {**labeler.metrics_, "test_error": float(test[0]), "test_segments": int(test[1])}
    labeler.save(target)
    print(f"{target}: version {labeler.version_}, {labeler.parameters_} weights")


if __name__ == "__main__":
    main(*sys.argv[1:])
