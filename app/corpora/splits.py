"""Which utterances of a corpus a training or an evaluation uses: the one place for the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from phonechain.app.problems.errors import InvalidRequest
from phonechain.features.errors import CorpusError
from phonechain.features.segments import Utterance


def choose_training(known: Collection[str], split: str | None, dev: str | None) -> tuple[str | None, str | None]:
    """(split to train on, split to stop and calibrate by): as asked, else `train` and `dev` where the corpus has them."""
    return split or ("train" if "train" in known else None), dev or ("dev" if "dev" in known else None)


def choose_test(known: Collection[str], split: str | None) -> str | None:
    """The split to evaluate on: as asked, else `test` where the corpus has it."""
    return split if split is not None else ("test" if "test" in known else None)


def check(known: Collection[str], **asked: str | None) -> None:
    """Raises InvalidRequest where a split that a request names is none of the corpus's; it lists those."""
    for member, name in asked.items():
        if name is not None and name not in known:
            names = ", ".join(sorted(known)) or "no splits"
            raise InvalidRequest(
                f"{member}: no split named {name[:80]!r}; the corpus has {names}", pointer=member, value=name[:80]
            )


def drop_held_out(utterances: Iterable[Utterance]) -> list[Utterance]:
    """What a training without a split of its own uses: everything but `dev` and `test`."""
    return [u for u in utterances if u.split not in ("dev", "test")]


def select(utterances: Iterable[Utterance], name: str) -> list[Utterance]:
    """The utterances of a split. Raises CorpusError, which lists the splits."""
    utterances = list(utterances)
    found = [u for u in utterances if u.split == name]
    if not found:
        names = ", ".join(sorted({u.split for u in utterances if u.split})) or "none"
        raise CorpusError(f"no split named {name[:80]}; the corpus has {names}", pointer="split", value=name[:80])
    return found
