"""HTML of sound and answers for notebooks, with the sound embedded, so that it plays wherever the page is opened."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
import soundfile
from numpy.typing import NDArray

PLAYER_SECONDS = 60.0
"""Longest embedded sound (s): 2.6 MB of text at 16 kHz."""
MAX_ROWS = 200
"""Most rows of a table; a notebook stores all that it has shown."""
PLAYER_RATE = 16_000
"""Highest sample rate of embedded sound (Hz)."""
_SCALE = ((0, 34, 78), (79, 89, 107), (125, 129, 120), (203, 194, 95), (254, 232, 56))
"""Cividis (Nunez, Anderton, Renslow 2018) in five steps."""


def player(samples: NDArray[np.float32], rate: int, *, label: str = "sound") -> str:
    """An audio element with embedded sound `samples` `[n]` at `rate` Hz, at most `PLAYER_SECONDS` of it."""
    step = max(1, -(-rate // PLAYER_RATE)) if rate > 3 * PLAYER_RATE else 1
    kept = samples[: round(PLAYER_SECONDS * rate)]
    out = io.BytesIO()
    if step > 1:  # studio rates: a mean of neighbours is enough to listen to
        kept = kept[: len(kept) // step * step].reshape(-1, step).mean(axis=1)
    soundfile.write(out, np.clip(kept, -1.0, 1.0), rate // step, format="WAV", subtype="PCM_16")
    data = base64.b64encode(out.getvalue()).decode("ascii")
    cut = len(samples) > round(PLAYER_SECONDS * rate)
    said = f" <small>the first {PLAYER_SECONDS:.0f} s</small>" if cut else ""
    return (
        f'<audio controls preload="none" aria-label="{escape(label)}" src="data:audio/wav;base64,{data}"></audio>{said}'
    )


def certainty(p: float | None) -> str:
    """A probability as a number on its colour; nothing for None."""
    if p is None:
        return ""
    place = min(max(p, 0.0), 1.0) * (len(_SCALE) - 1)
    low, high = _SCALE[int(place)], _SCALE[min(int(place) + 1, len(_SCALE) - 1)]
    color = [round(a + (b - a) * (place % 1)) for a, b in zip(low, high, strict=True)]
    ink = "#fff" if 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] < 110 else "#000"
    return f'<span style="background:rgb({color[0]},{color[1]},{color[2]});color:{ink};padding:0 .4em">{p:.2f}</span>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells; at most `MAX_ROWS` rows, and the number of the others."""
    listed = list(rows)
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in listed[:MAX_ROWS])
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    more = f"<p>and {len(listed) - MAX_ROWS} more</p>" if len(listed) > MAX_ROWS else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>{more}"
