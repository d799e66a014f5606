"""The XML of an ELAN file: its slots, tiers and annotations, unchanged.

XML with a document type is refused, so that there are no entities to expand or to fetch; ELAN writes none. Runs of slots
and annotations in ELAN's own spelling are most of a file and are taken by an expression each; a parser reads the rest,
or everything where a file is spelled otherwise.
"""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from phonechain.features.annotation.base import MAX_TIERS, check_count, excerpt
from phonechain.features.errors import AnnotationSyntaxError

Aligned = tuple[str, str, str, str]
"""id, first slot, second slot, text"""
Referring = tuple[str, str, str, str]
"""id, the annotation that it refers to, the one before it in a subdivision or "", text"""

_VALUE = r"[^\"<>&\n\t\x00-\x1f]*"
_SLOT = re.compile(rf'<TIME_SLOT TIME_SLOT_ID="({_VALUE})" TIME_VALUE="(-?[0-9]{{1,14}})" ?/>\s*')
_ALIGNED = re.compile(
    rf'<ANNOTATION>\s*<ALIGNABLE_ANNOTATION ANNOTATION_ID="({_VALUE})" TIME_SLOT_REF1="({_VALUE})" TIME_SLOT_REF2="({_VALUE})">'
    r"\s*<ANNOTATION_VALUE>([^<>&\x00-\x08\x0b-\x1f\ufffe\uffff]*)</ANNOTATION_VALUE>"
    r"\s*</ALIGNABLE_ANNOTATION>\s*</ANNOTATION>\s*"
)


class Document:
    """The contents of the XML.

    Attributes:
        slots: milliseconds on the time line by slot; None for a slot without a value.
        titles: of the tiers; `aligned` and `referring` have a list of annotations for each.
        media: (MIME type, TIME_ORIGIN as text, line) of each recording that is linked.

    Raises:
        AnnotationSyntaxError: with the line.
    """

    def __init__(self, text: str) -> None:
        if not self._plain(text):
            check_count(text.count("<") // 8)  # an annotation has about that many tags; bounds what is kept below
            self._parse(text)

    def _plain(self, text: str) -> bool:
        """Match what ELAN itself writes by expressions, and parse the rest; False if something may have been missed."""
        head, *bodies = text.split("<TIER ")
        # One pass gives the matches and what is between them: text, groups, text, groups, ..., text.
        slots, tiers = _SLOT.split(head), [_ALIGNED.split(body) for body in bodies]
        rest = "<TIER ".join(["".join(slots[::3]), *("".join(parts[::5]) for parts in tiers)])
        # No comments and no CDATA, which could contain text that looks like tags.
        if "<!" in rest or "<TIME_SLOT" in rest or "<ALIGNABLE_ANNOTATION" in rest:
            return False
        check_count(sum(len(parts) // 5 for parts in tiers) + rest.count("<") // 8)
        try:
            self._parse(rest)
        except AnnotationSyntaxError:  # its line is told when everything is parsed
            return False
        self.slots.update(zip(slots[1::3], map(int, slots[2::3]), strict=True))
        if len(tiers) != len(self.titles):
            return False
        self.aligned[:] = [
            list(zip(parts[1::5], parts[2::5], parts[3::5], parts[4::5], strict=True)) for parts in tiers
        ]
        return True

    def _parse(self, text: str) -> None:
        self.slots: dict[str, float | None] = {}
        self.titles: list[str] = []
        self.aligned: list[list[Aligned]] = []
        self.referring: list[list[Referring]] = []
        self.media: list[tuple[str, str, int]] = []
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        self._listen(parser)
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            said = f"expected XML, got {expat.errors.messages[error.code]} (column {error.offset + 1})"
            raise AnnotationSyntaxError(said, line=error.lineno) from None

    def _listen(self, parser: expat.XMLParserType) -> None:
        """Set the handlers: closures, for speed, since they are called for every tag."""
        said: list[str] = []
        last: dict[str, str] = {}
        rooted = False

        def start(name: str, given: dict[str, str]) -> None:
            nonlocal last, rooted
            if name == "TIME_SLOT":
                value = given.get("TIME_VALUE")
                if "TIME_SLOT_ID" not in given or not (value is None or re.fullmatch("-?[0-9]{1,14}", value)):
                    refuse("expected a TIME_SLOT with an id and a time in milliseconds, got " + list_attributes(given))
                self.slots[given["TIME_SLOT_ID"]] = None if value is None else int(value)
            elif name in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION"):
                if not self.titles:
                    refuse("expected an annotation inside a TIER, got one outside")
                last = given
            elif name == "ANNOTATION_VALUE":
                parser.CharacterDataHandler = said.append
            elif name == "TIER":
                if len(self.titles) == MAX_TIERS:
                    refuse(f"expected at most {MAX_TIERS} tiers, got more")
                self.titles.append(given.get("TIER_ID") or f"tier {len(self.titles) + 1}")
                self.aligned.append([])
                self.referring.append([])
            elif name == "MEDIA_DESCRIPTOR":
                self.media.append((given.get("MIME_TYPE", ""), given.get("TIME_ORIGIN", "0"), parser.CurrentLineNumber))
            elif not rooted and name != "ANNOTATION_DOCUMENT":
                refuse(f"expected an ANNOTATION_DOCUMENT, got {excerpt(name)}")
            rooted = True

        def end(name: str) -> None:
            if name == "ANNOTATION_VALUE":
                parser.CharacterDataHandler = None
            elif name == "ALIGNABLE_ANNOTATION":
                get = last.get
                slots = get("TIME_SLOT_REF1", ""), get("TIME_SLOT_REF2", "")
                self.aligned[-1].append((get("ANNOTATION_ID", ""), *slots, "".join(said)))
                said.clear()
            elif name == "REF_ANNOTATION":
                get = last.get
                parent, before = get("ANNOTATION_REF", ""), get("PREVIOUS_ANNOTATION", "")
                self.referring[-1].append((get("ANNOTATION_ID", ""), parent, before, "".join(said)))
                said.clear()

        def doctype(name: str, *_: object) -> None:
            refuse(f"expected XML without a document type, got one for {excerpt(name)}")

        def list_attributes(given: dict[str, str]) -> str:
            return ", ".join(f"{k}={excerpt(v)}" for k, v in given.items()) or "neither"

        def refuse(message: str) -> NoReturn:
            raise AnnotationSyntaxError(message, line=parser.CurrentLineNumber)

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.StartDoctypeDeclHandler = doctype
