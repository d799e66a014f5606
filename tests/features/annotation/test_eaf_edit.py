"""One tier of an ELAN file edited in place, against what the reader and the XML say of the result."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from phonechain.features.annotation import read
from phonechain.features.annotation.eaf_edit import Row, edit_tier
from phonechain.features.segments import Segment

SOURCE = b"""<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="someone" DATE="2020-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
  <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
    <MEDIA_DESCRIPTOR MEDIA_URL="file:///x.wav" MIME_TYPE="audio/x-wav" TIME_ORIGIN="100"/>
    <PROPERTY NAME="lastUsedAnnotationId">41</PROPERTY>
  </HEADER>
  <!-- a remark -->
  <TIME_ORDER>
    <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="0"/>
    <TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="200"/>
    <TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="500"/>
    <TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="900"/>
  </TIME_ORDER>
  <TIER LINGUISTIC_TYPE_REF="ph" PARTICIPANT="P" TIER_ID="phones">
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a3" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4"><ANNOTATION_VALUE>c</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>a</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts2" TIME_SLOT_REF2="ts3"><ANNOTATION_VALUE>b</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  </TIER>
  <TIER LINGUISTIC_TYPE_REF="w" TIER_ID="words">
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts3"><ANNOTATION_VALUE>word &amp; more</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  </TIER>
  <TIER LINGUISTIC_TYPE_REF="n" PARENT_REF="phones" TIER_ID="notes">
    <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a5" ANNOTATION_REF="a3"><ANNOTATION_VALUE>about c</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
  </TIER>
  <LINGUISTIC_TYPE CONTROLLED_VOCABULARY_REF="cv" LINGUISTIC_TYPE_ID="ph" TIME_ALIGNABLE="true"/>
  <CONTROLLED_VOCABULARY CV_ID="cv"><CV_ENTRY_ML CVE_ID="x"><CVE_VALUE>a</CVE_VALUE></CV_ENTRY_ML></CONTROLLED_VOCABULARY>
</ANNOTATION_DOCUMENT>
"""  # noqa: E501
AS_READ: list[Row] = [(0, 0.1, 0.3, "a"), (1, 0.3, 0.6, "b"), (2, 0.6, 1.0, "c")]


def edit(rows: list[Row], source: bytes = SOURCE) -> bytes:
    out = edit_tier(source, 0, rows)
    assert out is not None
    return out


def canonical(data: bytes) -> str:
    return ElementTree.canonicalize(data.decode(), strip_text=True, with_comments=True)


def test_the_source_is_what_the_rows_say() -> None:
    assert [(i, s.start, s.end, s.label) for i, s in enumerate(read(SOURCE).tiers[0].entries)] == AS_READ


def test_without_a_change_the_document_is_the_same() -> None:
    assert canonical(edit(AS_READ)) == canonical(SOURCE)


def test_a_label_is_all_that_changes() -> None:
    out = edit([AS_READ[0], (1, 0.3, 0.6, "<x>"), AS_READ[2]])
    assert canonical(out) == canonical(SOURCE.replace(b">b<", b">&lt;x&gt;<"))


def test_a_boundary_moves_alone() -> None:
    out = read(edit([(0, 0.1, 0.25, "a"), (1, 0.25, 0.6, "b"), AS_READ[2]]))
    assert out.tiers[0].entries == [Segment(0.1, 0.25, "a"), Segment(0.25, 0.6, "b"), Segment(0.6, 1.0, "c")]
    assert out.tiers[1:] == read(SOURCE).tiers[1:]
    slots = re.findall(rb'TIME_VALUE="(\d+)"', edit([(0, 0.1, 0.25, "a"), (1, 0.25, 0.6, "b"), AS_READ[2]]))
    assert slots == [b"0", b"150", b"200", b"500", b"900"]  # one new slot, shared, in its place


def test_a_split_makes_one_annotation() -> None:
    out = edit([AS_READ[0], (1, 0.3, 0.45, "b"), (3, 0.45, 0.6, "new"), AS_READ[2]])
    assert [(s.start, s.end, s.label) for s in read(out).tiers[0].entries] == [
        (0.1, 0.3, "a"), (0.3, 0.45, "b"), (0.45, 0.6, "new"), (0.6, 1.0, "c"),
    ]  # fmt: skip
    assert b'ANNOTATION_ID="a42"' in out
    assert b">42</PROPERTY>" in out


def test_what_refers_to_a_merged_annotation_refers_to_what_is_left() -> None:
    out = edit([AS_READ[0], (1, 0.3, 1.0, "b")])
    assert b'ANNOTATION_REF="a2"' in out
    assert b'ANNOTATION_ID="a3"' not in out
    back = read(out)
    assert back.tiers[2].entries == [Segment(0.3, 1.0, "about c")]


def test_what_has_no_time_of_its_own_is_left_to_the_writer() -> None:
    assert edit_tier(SOURCE, 2, [(0, 0.6, 1.0, "x")]) is None
    assert edit_tier(SOURCE.replace(b' TIME_VALUE="200"', b""), 0, AS_READ) is None
