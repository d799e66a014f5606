"""Formats that distinguish the channels of a recording (CTM, RTTM): choose a channel, and map it to the sound's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from phonechain.features.annotation.base import Annotation, Source, Tier, excerpt, nfc, pick
from phonechain.features.errors import AnnotationError, Notice

Rows = TypeVar("Rows")


def channel_number(channel: str, all_channels: Collection[str]) -> int | None:
    """The channel of the sound, from 0, that `1`, `2`, `A` or `B` is.

    None for a `1` alone, which most tools write of any sound.
    """
    if channel == "1" and len(all_channels) == 1:
        return None
    if channel.isdecimal() and len(channel) < 4:
        return max(0, int(channel) - 1)
    return ord(channel.upper()) - ord("A") if len(channel) == 1 and channel.upper() in "ABCDEFGH" else None


def pick_channel(source: Source, recordings: Mapping[str, Collection[str]]) -> tuple[str, str, tuple[Notice, ...]]:
    """(recording, channel, a Notice where there were several channels) that are meant.

    A recording is asked for by its name, or by name, blank and channel; a channel by `source.options.channel`.

    Raises:
        AnnotationError: what is asked for is not there, or it is not said which recording is meant.
    """
    asked = source.options.utterance
    for name, channels in recordings.items():
        for channel in channels:
            if asked is not None and nfc(asked) == nfc(f"{name} {channel}"):
                return name, channel, ()
    name = pick(source, list(recordings))
    channels = sorted(recordings[name])
    wanted = source.options.channel
    if len(channels) == 1:
        return name, channels[0], ()
    listed = ", ".join(excerpt(c) for c in channels[:8])
    if wanted is not None:
        for channel in channels:
            if channel_number(channel, channels) == wanted:
                return name, channel, ()
        raise AnnotationError(
            f"expected labels for channel {wanted} of {excerpt(name)}, got channels {listed}",
            pointer="channel",
            value=wanted,
        )
    message = f"recording {excerpt(name)} has the channels {listed}; took {excerpt(channels[0])}"
    notice = Notice("annotation-channels", message, "channel", channels[0])
    return name, channels[0], (notice,)


def read_one(
    source: Source, recordings: Mapping[str, Mapping[str, Rows]], tiers: Callable[[Rows], list[Tier]], format: str
) -> Annotation:
    """Read one recording, and if it has several channels one of them. `recordings` has the rows by recording and channel.

    Raises:
        AnnotationError: the recording or channel that is meant is not there, or it is not said which is.
    """
    name, channel, notices = pick_channel(source, recordings)
    annotation = source.annotation(tiers(recordings[name][channel]), format, notices=notices)
    annotation.channel = channel_number(channel, recordings[name])
    return annotation


def read_each(
    source: Source, recordings: Mapping[str, Mapping[str, Rows]], tiers: Callable[[Rows], list[Tier]], format: str
) -> dict[str, Annotation]:
    """Every recording by its name; for channels other than the first, the name is followed by a blank and the channel."""
    out: dict[str, Annotation] = {}
    for name, channels in recordings.items():
        for k, (channel, rows) in enumerate(sorted(channels.items())):
            annotation = source.annotation(tiers(rows), format)
            annotation.channel = channel_number(channel, channels)
            out[name if k == 0 else f"{name} {channel}"] = annotation
    return out
