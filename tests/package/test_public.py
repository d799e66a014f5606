"""`import phonechain`: light, complete, and typed."""

import subprocess
import sys
from pathlib import Path

import pytest

import phonechain

ROOT = Path(__file__).resolve().parents[2]
PROMISED = {
    "Client", "PhoneLabeler", "Segment", "Utterance", "read_annotation", "read_audio", "read_corpus",
}  # fmt: skip

USER = """
from pathlib import Path

import phonechain
from phonechain import PhoneLabeler, Segment, Utterance


def label(sound: Path, annotation: Path) -> list[tuple[str, float]]:
    labeler = PhoneLabeler.load(phonechain.pretrained_path())
    segments: list[Segment] = phonechain.read_segments(annotation)
    answer = labeler.label(phonechain.read_audio(sound), segments, n_best=3)
    return [(segment.label, segment.posterior) for segment in answer]


def learn(folder: str) -> PhoneLabeler:
    corpus = phonechain.read_corpus(folder)
    utterances: list[Utterance] = corpus.utterances
    return PhoneLabeler("spn-lc-crf").fit(utterances)


def tiers(data: bytes) -> list[str]:
    return [tier.name for tier in phonechain.read_annotation(data, format="ctm").tiers]


with phonechain.Client("http://127.0.0.1:8000") as client:
    print(client.job("1"), phonechain.__version__)
"""


def python(code: str, *flags: str) -> str:
    done = subprocess.run([sys.executable, *flags, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_is_there() -> None:
    assert set(phonechain.__all__) >= PROMISED
    for name in phonechain.__all__:
        assert getattr(phonechain, name).__doc__, name
    assert set(dir(phonechain)) >= {*phonechain.__all__, "__version__"}
    assert phonechain.__version__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = phonechain.nothing  # type: ignore[attr-defined]


def test_the_import_alone_is_light() -> None:
    """The health check of a container imports it every few seconds."""
    loaded = python(
        "import sys; before = set(sys.modules); import phonechain; print(*sorted(set(sys.modules) - before))"
    )
    assert loaded == "phonechain"


def test_pictures_are_an_attribute() -> None:
    assert python("import phonechain; print(phonechain.plot.utterance.__module__)") == "phonechain.plot"


def test_reading_needs_no_torch() -> None:
    assert python("import sys, phonechain; phonechain.read_annotation; print('torch' in sys.modules)") == "False"


def test_a_name_is_the_class_of_its_layer() -> None:
    from phonechain.features.segments import Segment

    assert phonechain.Segment is Segment


@pytest.mark.slow
def test_mypy_strict_accepts_a_users_script(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(USER)
    checked = mypy(script)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    script.write_text(USER + "\nphonechain.read_segments(3)\nphonechain.nothing\nPhoneLabeler(presets=1)\n")
    refused = mypy(script)
    wrong = [line for line in refused.stdout.splitlines() if ": error:" in line]
    assert len(wrong) == 3, refused.stdout


def mypy(script: Path) -> subprocess.CompletedProcess[str]:
    """`mypy --strict`, as a user runs it: with none of this checkout's settings but its cache."""
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        *cache,
        str(script),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
