"""Planted errors: boundaries moved by 50 ms, found again by `phonechain check --align`.

    python -m experiments.moved_boundaries FOLDER --count 60

Of the boundaries of a corpus with good labels, --share are moved by --move either way, as far as the neighbours leave 15 ms.
All boundaries are then ranked by how improbable their place is; as many as were moved are taken. Precision is the share of
those that had been moved. One line of JSON for each --spread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from phonechain.app.alignment.suspects import SPREAD, WINDOW, check_corpus
from phonechain.features import corpora
from phonechain.features.segments import Segment, Utterance
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner

LEAST = 0.015
"""Seconds that a phone keeps at least."""


def plant(
    utterances: Sequence[Utterance], share: float, move: float, seed: int = 5
) -> tuple[list[Utterance], set[tuple[str, int]]]:
    """(utterances with moved boundaries, which ones: utterance and index of the segment that begins there)."""
    random = np.random.default_rng(seed)
    able = []
    for n, u in enumerate(utterances):
        for k in range(1, len(u.segments)):
            a, b = u.segments[k - 1], u.segments[k]
            ways = [d for d in (-move, move) if a.start + LEAST <= b.start + d <= b.end - LEAST]
            if ways and abs(a.end - b.start) < 1e-3:
                able.append((n, k, float(random.choice(ways))))
    total = sum(len(u.segments) - 1 for u in utterances)
    wanted = round(share * total)
    changed = {n: list(u.segments) for n, u in enumerate(utterances)}
    moved: set[tuple[str, int]] = set()
    for at in random.permutation(len(able)):
        n, k, by = able[at]
        if len(moved) == wanted:
            break
        if (utterances[n].id, k - 1) in moved or (utterances[n].id, k + 1) in moved:  # neighbours stay as they are
            continue
        a, b = changed[n][k - 1], changed[n][k]
        changed[n][k - 1 : k + 1] = [Segment(a.start, a.end + by, a.label), Segment(b.start + by, b.end, b.label)]
        moved.add((utterances[n].id, k))
    return [replace(u, segments=changed[n]) for n, u in enumerate(utterances)], moved


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, default=pretrained_path(ALIGNMENT))
    parser.add_argument("--split")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--move", type=float, default=0.05)
    parser.add_argument("--spread", type=float, nargs="+", default=[SPREAD])
    parser.add_argument("--window", type=float, default=WINDOW)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    aligner = PhoneAligner.load(given.model)
    found = [u for u in corpora.read(given.folder).utterances if given.split in (None, u.split)]
    found = [u for u in found if all(s.label is None or aligner.spell(s.label) is not None for s in u.segments)]
    found = [found[n] for n in np.random.default_rng(7).permutation(len(found))][: given.count or None]
    planted, moved = plant(found, given.share, given.move)
    for spread in given.spread:
        checked = check_corpus(aligner, planted, spread=spread, window=given.window)
        worst = checked.boundaries[: len(moved)]
        hits = sum((s.utterance.id, s.segment) in moved for s in worst)
        wrong = checked.list_wrong()
        told = sum((s.utterance.id, s.segment) in moved for s in wrong)
        near = sum(abs(s.better - s.utterance.segments[s.segment].start) > 0.02 for s in worst)
        print(json.dumps({
            "spread": spread, "utterances": len(found), "boundaries": len(checked.boundaries), "moved": len(moved),
            "precision_at_their_number": round(100 * hits / max(1, len(moved)), 1), "better_place_is_elsewhere": near,
            "listed": len(wrong), "listed_that_were_moved": told, "not_checked": len(checked.failed),
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
