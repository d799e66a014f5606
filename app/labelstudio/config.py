"""The labelling interface of a Label Studio project: which control has the phones, and where the sound is.

Source: the Label Studio documentation, tags Audio, Labels and TextArea.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.parsers import expat

from phonechain.features.errors import AnnotationError

LONGEST = 1_000_000
"""Characters of a configuration."""
_SOUND = ("audio", "audioplus")
_CONTROL = "labels"


@dataclass(frozen=True, slots=True)
class Interface:
    """What a prediction has to name.

    Attributes:
        control: `name` of the Labels control that regions belong to.
        sound: `name` of the Audio object that they lie on.
        data: member of a task's data with the sound's address, from `value="$data"`.
        labels: those that the control offers; empty where it takes them from the task.
    """

    control: str
    sound: str
    data: str
    labels: tuple[str, ...]


def parse(text: str) -> Interface:
    """The first Labels control on an Audio object.

    Raises:
        AnnotationError: no XML, or no such control.
    """
    if len(text) > LONGEST:
        raise AnnotationError(
            f"expected a labelling interface of at most {LONGEST} characters, got {len(text)}",
            pointer="label_config", value=len(text), limit=LONGEST,
        )  # fmt: skip
    sounds: dict[str, str] = {}
    controls: list[tuple[str, str, list[str]]] = []
    open_: list[str] = []

    def start(tag: str, given: dict[str, str]) -> None:
        kind = tag.lower()
        open_.append(kind)
        if kind in _SOUND:
            sounds[given.get("name", "")] = given.get("value", "").lstrip("$")
        elif kind == _CONTROL:
            controls.append((given.get("name", ""), given.get("toName", ""), []))
        elif kind == "label" and _CONTROL in open_ and controls:
            controls[-1][2].append(given.get("alias") or given.get("value", ""))

    def end(_: str) -> None:
        open_.pop()

    def no_types(*_: object) -> None:
        raise AnnotationError("expected a labelling interface without a document type", pointer="label_config")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = no_types  # no entities, so nothing that grows
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise AnnotationError(
            f"expected the labelling interface as XML, got {expat.errors.messages[error.code]} in line {error.lineno}",
            pointer="label_config",
        ) from None
    for name, to, labels in controls:
        if to in sounds:
            return Interface(name, to, sounds[to], tuple(labels))
    raise AnnotationError(
        'expected a labelling interface with <Audio name="audio" value="$audio"/> and <Labels toName="audio">, got '
        + (f"Labels for {', '.join(to or 'nothing' for _, to, _ in controls)}" if controls else "no Labels"),
        pointer="label_config",
    )
