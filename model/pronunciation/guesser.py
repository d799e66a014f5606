"""Guessed pronunciations: the most probable chunks of a word's letters by a chain over letters, with their probabilities.

A guesser's file is an npz archive, packed by xz: units and, by order, n-grams as differences of sorted keys in planes of
bytes, logarithms in steps. Nothing in it is unpickled.
"""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import ModelFileError
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model.pronunciation import ngrams
from phonechain.model.pronunciation.correspondence import Chunk
from phonechain.model.pronunciation.letters import spell
from phonechain.model.pronunciation.ngrams import BITS, START, STEP, Chain

BEAM = 24
"""Beginnings of a word that are kept at each letter."""

MAX_BYTES = 64 * 2**20
"""Largest guesser, unpacked."""


class PronunciationGuesser:
    """Phones of words that a dictionary lacks.

    Args:
        units: letter and chunk of each unit from 1 on; unit 0 begins and ends words.
        chain: n-grams of units.
        facts: what a person should know: data, licence, errors on held-out words.
    """

    def __init__(
        self, units: Sequence[tuple[str, Chunk]], chain: Chain, facts: dict[str, object] | None = None
    ) -> None:
        self.units, self.chain, self.facts = list(units), chain, facts or {}
        self._of: dict[str, NDArray[np.int64]] = {}
        for letter in {a for a, _ in self.units}:
            self._of[letter] = np.array([n for n, (a, _) in enumerate(self.units, 1) if a == letter], dtype=np.int64)

    def guess(self, word: str, *, variants: int = 3, least: float = 0.1) -> list[Pronunciation]:
        """Its pronunciations, the most probable first; none where its letters are not the chain's.

        Args:
            variants: most that are given.
            least: those less probable than this share of the first are left out.

        >>> english().guess("googling")[0].phones
        ('G', 'UW', 'G', 'AH', 'L', 'IH', 'NG')
        """
        letters = spell(word)
        if letters is None or any(a not in self._of for a in letters):
            return []
        found: dict[Chunk, float] = {}
        for phones, log in self._search(letters):
            if phones:
                found[phones] = found.get(phones, 0.0) + float(np.exp(log))
        ranked = sorted(found.items(), key=lambda pair: -pair[1])[:variants]
        return [Pronunciation(p, share / ranked[0][1]) for p, share in ranked if share >= least * ranked[0][1]]

    def _search(self, letters: str) -> list[tuple[Chunk, float]]:
        """(phones, log probability relative to the best) of the paths that a beam keeps, the best first."""
        history = np.zeros(1, dtype=np.int64)
        log = np.zeros(1)
        paths = np.zeros((1, 0), dtype=np.int64)
        keep = ngrams.mask(self.chain.order - 1)
        for letter in letters:
            units = self._of[letter]
            before = np.repeat(np.arange(len(log)), len(units))
            unit = np.tile(units, len(log))
            score = log[before] + self.chain.log_probability(history[before], unit)
            best = np.argsort(-score, kind="stable")[:BEAM]
            log, before, unit = score[best], before[best], unit[best]
            history = (history[before] << BITS | unit) & keep
            paths = np.concatenate([paths[before], unit[:, None]], 1)
        log = log + self.chain.log_probability(history, np.full(len(log), START, dtype=np.int64))
        order = np.argsort(-log, kind="stable")
        return [
            (tuple(p for u in paths[n] for p in self.units[u - 1][1]), float(log[n] - log[order[0]])) for n in order
        ]

    def save(self, path: str | Path) -> None:
        """Write the file."""
        arrays: dict[str, NDArray[np.generic]] = {
            "facts": np.frombuffer(json.dumps({"units": self.units, **self.facts}).encode(), dtype=np.uint8)
        }
        for n, (keys, logs, backoffs) in enumerate(
            zip(self.chain.keys, self.chain.logs, self.chain.backoffs, strict=True), 1
        ):
            steps = np.diff(keys, prepend=0).astype("<i8")
            arrays[f"keys{n}"] = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T)
            arrays[f"logs{n}"] = np.clip(np.round(-logs / STEP), 0, 255).astype(np.uint8)
            arrays[f"backoffs{n}"] = np.clip(np.round(backoffs / STEP), -127, 127).astype(np.int8)
        out = io.BytesIO()
        np.savez(out, **arrays)  # type: ignore[arg-type]
        Path(path).write_bytes(lzma.compress(out.getvalue(), preset=9 | lzma.PRESET_EXTREME))

    @classmethod
    def load(cls, source: str | Path | bytes) -> PronunciationGuesser:
        """The guesser in a file. Raises ModelFileError."""
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        try:
            unpacker = lzma.LZMADecompressor(memlimit=256 * 2**20)
            whole = unpacker.decompress(data, MAX_BYTES)
            if not unpacker.eof:
                raise ValueError(f"more than {MAX_BYTES} bytes, or a file that was cut")
            with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
                facts = json.loads(arrays["facts"].tobytes())
                units = [(str(a), tuple(str(p) for p in chunk)) for a, chunk in facts.pop("units")]
                keys, logs, backoffs = [], [], []
                for n in range(1, sum(name.startswith("keys") for name in arrays) + 1):
                    planes = np.ascontiguousarray(arrays[f"keys{n}"].T)
                    keys.append(np.cumsum(planes.view("<i8")[:, 0]).astype(np.int64))
                    logs.append(arrays[f"logs{n}"].astype(np.float64) * -STEP)
                    backoffs.append(arrays[f"backoffs{n}"].astype(np.float64) * STEP)
        except (lzma.LZMAError, ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ModelFileError(f"expected a guesser of pronunciations, got another file: {error}") from error
        return cls(units, Chain(tuple(keys), tuple(logs), tuple(backoffs)), facts)


@lru_cache(maxsize=1)
def english() -> PronunciationGuesser:
    """The shipped guesser, trained on CMUdict, loaded once."""
    file = resources.files("phonechain.model").joinpath("pronunciation", "english.xz")
    return PronunciationGuesser.load(file.read_bytes())
