"""A corpus to distil from, whose dev speakers the teacher has not seen: `python scripts/mix_corpus.py CORPUS OUT [VOICES]`.

OUT gets links to the train split of CORPUS and to the files of VOICES, a folder of synthetic speech with a folder for each voice
(`experiments.synthetic`), and the table `utterances.tsv`. The speakers that `scripts/train_default.sh` holds out for calibration
are the split dev, all others train: what is trained on OUT is chosen and calibrated on the same speakers as its teacher.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from phonechain.features import corpora
from phonechain.model.learning.splits import hold_out

HELD_OUT, SEED = 0.03, 1
"""As the teacher's training had them."""


def main(corpus: str, out: str, voices: str = "") -> None:
    """Write the folder."""
    target = Path(out)
    read = corpora.read(Path(corpus).resolve())
    train, dev = hold_out(read.split("train"), HELD_OUT, SEED)
    rows = [
        (u.audio, u.annotation, u.speaker or "", split)
        for split, part in (("train", train), ("dev", dev))
        for u in part
    ]
    if voices:
        spoken = corpora.read(Path(voices).resolve()).utterances
        rows += [(u.audio, u.annotation, u.audio.parent.name, "train") for u in spoken]
    lines = ["utterance\tspeaker\tsplit"]
    for audio, annotation, speaker, split in rows:
        folder = target / split / speaker
        folder.mkdir(parents=True, exist_ok=True)
        for file in (audio, annotation):
            if file is not None and not (folder / file.name).exists():
                os.symlink(file, folder / file.name)
        lines.append(f"{split}/{speaker}/{audio.stem}\t{speaker}\t{split}")
    (target / "utterances.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"{target}: {len(train)} utterances to train on, {len(rows) - len(train) - len(dev)} synthetic ones, {len(dev)} of dev"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
