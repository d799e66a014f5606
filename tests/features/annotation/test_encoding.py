"""Encodings and line ends: what people's editors leave behind."""

import pytest

from phonechain.features.annotation import FORMATS, READABLE, Annotation, Format, Tier, choose_tier, read, write
from phonechain.features.annotation.encoding import decode
from phonechain.features.errors import AnnotationError, UnrecognisedAnnotation
from phonechain.features.segments import Segment

IPA = "0.0\t0.5\tt͡ʃə\n0.5\t0.9\tɲ\n"
FRENCH = "0.0\t0.5\té\n0.5\t0.9\tñandú\n0.9\t1.2\tgarçon\n"


def labels(annotation):
    return [s.label for s in annotation.tiers[0].entries]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings_are_read_without_a_notice(encoding):
    back = read(IPA.encode(encoding))
    assert labels(back) == ["t͡ʃə", "ɲ"]
    assert back.notices == ()


@pytest.mark.parametrize(("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_utf_16_with_a_mark(mark, encoding):
    back = read(mark + IPA.encode(encoding))
    assert labels(back) == ["t͡ʃə", "ɲ"]
    assert back.encoding == encoding


@pytest.mark.parametrize(
    ("encoding", "name"), [("latin-1", "Latin-1"), ("mac-roman", "MacRoman"), ("cp1252", "Windows-1252")]
)
def test_eight_bit_encodings_are_guessed_with_a_notice(encoding, name):
    text = FRENCH + ("1.2\t1.3\t“oui”\n" if encoding == "cp1252" else "")
    back = read(text.encode(encoding))
    assert labels(back)[:3] == ["é", "ñandú", "garçon"]
    assert [n.code for n in back.notices] == ["encoding-guessed"]
    assert name in back.notices[0].message


def test_an_encoding_can_be_said():
    assert labels(read("0.0\t0.5\tš\n".encode("iso-8859-2"), encoding="iso-8859-2")) == ["š"]
    with pytest.raises(AnnotationError, match="name of a text encoding"):
        read(IPA.encode(), encoding="utf-99")
    with pytest.raises(AnnotationError, match="ASCII"):
        read(IPA.encode(), encoding="ascii")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end(end):
    assert labels(read(IPA.replace("\n", end).encode())) == ["t͡ʃə", "ɲ"]


def test_broken_unicode_behind_a_mark_is_refused_with_its_place():
    with pytest.raises(AnnotationError, match="at 3"):
        decode(b"\xef\xbb\xbf\xff0.0\t1.0\ta\n")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00", "a WAV recording"),
        (b"PK\x03\x04\x14\x00\x08\x00\x08\x00", "a zip archive"),
        (b"\x7fELF\x02\x01\x01\x00\x00", r"binary data \(a zero byte at 7\)"),
        (b"and then she said hello\n", "text without times"),
    ],
)
def test_what_is_no_annotation_is_refused_by_what_it_is(data, what):
    with pytest.raises(UnrecognisedAnnotation, match=what):
        read(data, name="a.lab")


@pytest.mark.parametrize("certainty", [1, 2, 3])
def test_a_binary_format_is_asked_wherever_it_is_listed(monkeypatch, certainty):
    def sniff(source):
        return certainty if source.data.startswith(b"TRAP\0") else 0

    def parse(source):
        return Annotation([Tier("phones", "interval", [Segment(0.0, 1.0, "a")])], "trap")

    form = Format("trap", "Trap", (".trap",), "application/octet-stream", sniff, parse)
    monkeypatch.setitem(READABLE, "trap", form)  # after every format of text
    assert labels(read(b"TRAP\0\1\2")) == ["a"]
    with pytest.raises(UnrecognisedAnnotation, match="a zero byte at 4"):
        read(b"TREK\0\1\2", name="a.trap")


def test_text_that_may_be_anything_is_told_by_its_beginning():
    with pytest.raises(UnrecognisedAnnotation, match="begins with '10 green bottles'"):
        read(b"10 green bottles\n", name="a.txt")


@pytest.mark.parametrize("data", [b"", b" \n\r\n"])
def test_an_empty_file_is_refused(data):
    with pytest.raises(UnrecognisedAnnotation, match="empty file"):
        read(data, name="a.TextGrid")


def test_a_spelling_is_kept_whatever_its_composition():
    for spelling in ("\u00e3", "a\u0303"):
        assert labels(read(f"0.0\t0.5\t{spelling}\n".encode())) == [spelling]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_a_zero_character_in_damaged_text_can_be_written_again(encoding):
    annotation = read("start,end,label\n0,1,a\0b\n".encode(encoding), name="a.csv")
    assert annotation.tiers[0].entries[0].label == "a\ufffdb"
    for form in FORMATS:
        again = read(write(annotation, form), format=form)
        assert [s.label for s in choose_tier(again)[0].entries] == ["a\ufffdb"]
