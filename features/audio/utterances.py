"""The sound of an utterance: its file, decoded as the corpus says."""

from __future__ import annotations

from phonechain.features.audio.reader import Audio, decode
from phonechain.features.segments import Utterance


def decode_utterance(utterance: Utterance, *, rate: int | None = None, max_seconds: float = 3600.0) -> Audio:
    """Samples `[n]` of the utterance's channel, of a file without a header by its `raw` format.

    Args:
        rate: sample rate of the result (Hz); by default the file's own.
        max_seconds: longest sound to decode.

    Raises:
        AudioError, OSError: as `phonechain.features.audio.reader.decode`.
    """
    return decode(utterance.audio, channel=utterance.channel, rate=rate, max_seconds=max_seconds, raw=utterance.raw)
