import hashlib
import io
import json
import pickle
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save as save_safetensors

from phonechain.features import files
from phonechain.features.errors import ModelFileError
from phonechain.model.files import modelfile
from phonechain.model.files.modelfile import Card, Header, Provenance


def header(**changes: Any) -> Header:
    base = Header(
        labels=("a", "ŋ", "SIL"),
        provenance=Provenance("2024-05-01T12:00:00+00:00", "0.1.0", "2.4.0", "phonechain train x", 7, "two speakers"),
        card=Card("test", licence="CC0", limits="nothing real"),
        features={"rate": 16000, "preemphasis": 0.97},
        model={"preset": "spn-lc-crf", "factors": [{"kind": "spn", "layers": [[2, 3]]}]},
        normaliser={"mean": "normaliser.mean", "std": "normaliser.std"},
        ngrams={"bigrams": "ngrams.bigrams"},
        calibration={"temperature": 1.25},
        metrics={"dev": {"per": 0.1}},
    )
    return replace(base, **changes)


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "normaliser.mean": torch.randn(5, generator=generator),
        "normaliser.std": torch.rand(5, generator=generator) + 0.5,
        "ngrams.bigrams": torch.tensor([[0, 1], [1, 2]]),
        "weights": torch.randn(3, 4, generator=generator),
        "empty": torch.zeros(0, 2, dtype=torch.int32),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }


def bits(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    return tensor.dtype, tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def forge(facts: Any, values: dict[str, torch.Tensor] | None = None, key: str = "phonechain") -> bytes:
    text = facts if isinstance(facts, str) else json.dumps(facts)
    return save_safetensors(tensors() if values is None else values, metadata={key: text})


def facts_of(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["phonechain"])


GOOD, _ = modelfile.encode(tensors(), header())


# ----------------------------------------------------------------------------------------------------------- round trip


def test_a_file_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    written = modelfile.write(path, tensors(), header())
    values, read = modelfile.read(path)
    assert read == header()
    assert read.version == written.version
    assert len(read.version) == 12
    assert {name: bits(t) for name, t in values.items()} == {name: bits(t) for name, t in tensors().items()}
    assert modelfile.read(path.read_bytes())[1] == read


shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def draw_tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(list(modelfile.DTYPES)))
    shape = draw(shapes)
    count = int(np.prod(shape)) * dtype.itemsize
    raw = torch.frombuffer(bytearray(draw(st.binary(min_size=count, max_size=count)) + b"\0"), dtype=torch.uint8)[
        :count
    ]
    if dtype == torch.bool:
        raw = raw % 2
    tensor = raw.view(dtype).reshape(shape) if count else torch.zeros(shape, dtype=dtype)
    return torch.where(torch.isfinite(tensor), tensor, 0) if dtype.is_floating_point else tensor


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(
    values=st.dictionaries(names, draw_tensors(), max_size=4),
    labels=st.lists(names, min_size=1, max_size=5, unique=True),
    free=st.dictionaries(names, json_values, max_size=4),
)
def test_any_tensors_and_facts_come_back(values: dict[str, torch.Tensor], labels: list[str], free: dict) -> None:
    given_header = header(labels=tuple(labels), model=free, metrics=free, normaliser={}, ngrams={})
    data, written = modelfile.encode(values, given_header)
    back, read = modelfile.read(data)
    assert read == given_header
    assert read.version == written.version
    assert {name: bits(t) for name, t in back.items()} == {name: bits(t) for name, t in values.items()}


def test_the_same_model_gives_the_same_bytes_and_any_change_another_version() -> None:
    data, first = modelfile.encode(tensors(), header())
    assert data == GOOD
    other = tensors()
    other["weights"][0, 0] = torch.nextafter(other["weights"][0, 0], torch.tensor(9.0))
    versions = {
        first.version,
        modelfile.encode(other, header())[1].version,
        modelfile.encode({**tensors(), "more": torch.zeros(1)}, header())[1].version,
        modelfile.encode({**tensors(), "weights": tensors()["weights"].reshape(4, 3)}, header())[1].version,
        modelfile.encode(tensors(), header(labels=("a", "ŋ", "sil")))[1].version,
    }
    assert len(versions) == 5


def test_views_parameters_and_shared_memory_are_written_as_plain_tensors() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    values = {"t": base.T, "half": base[:, ::2], "p": torch.nn.Parameter(base), "same": base}
    back, _ = modelfile.read(modelfile.encode(values, header(normaliser={}, ngrams={}))[0])
    for name, value in values.items():
        assert torch.equal(back[name], value.detach())
        assert not back[name].requires_grad


def test_tuples_among_the_settings_come_back_as_lists_from_write_too(tmp_path: Path) -> None:
    written = modelfile.write(tmp_path / "m", tensors(), header(model={"layers": (2, 3)}))
    assert written.model == modelfile.read(tmp_path / "m")[1].model == {"layers": [2, 3]}


# -------------------------------------------------------------------------------------------------------------- writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"the old model")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        modelfile.write(path, tensors(), header())
    assert path.read_bytes() == b"the old model"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_as_readable_as_any_other_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    modelfile.write(tmp_path / "m", tensors(), header())
    mode = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "m")]
    assert mode[0] == mode[1]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="No such file"):
        modelfile.write(tmp_path / "none" / "m", tensors(), header())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": ()}, "1 to 400 labels, got 0"),
        ({"labels": ("a", "b", "a")}, "each label once, got a more than once"),
        ({"labels": ("a", "")}, "empty string"),
        ({"labels": ("a", 3)}, "expected text in labels/1, got a value of type int"),
        ({"labels": ("\ud800",)}, "half a surrogate pair"),
        ({"metrics": {"per": float("nan")}}, "finite number in metrics/per, got nan"),
        ({"metrics": {"per": object()}}, "JSON value in metrics/per, got a value of type object"),
        ({"metrics": {1: 2}}, "expected text in the keys of metrics"),
        ({"model": ["not", "an", "object"]}, "expected an object in model, got a list"),
        ({"normaliser": {"mean": "absent"}}, "tensor 'absent'"),
        ({"ngrams": {"bigrams": 4}}, "expected text in ngrams/bigrams"),
        ({"provenance": Provenance("yesterday")}, "ISO 8601 time, got 'yesterday'"),
        ({"provenance": Provenance("2024-05-01", seed=True)}, "whole number in provenance/seed"),
        ({"card": Card("x", licence=None)}, "text in card/licence, got null"),  # type: ignore[arg-type]
        ({"metrics": {"text": "x" * 100_001}}, "at most 100000 characters"),
    ],
)
def test_what_could_not_be_read_is_not_written(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        modelfile.encode(tensors(), header(**changed))


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    with pytest.raises(ModelFileError, match="at most 12 levels"):
        modelfile.encode(tensors(), header(metrics={"x": deep}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_both_ways(value: float) -> None:
    bad = tensors()
    bad["weights"][1, 2] = value
    with pytest.raises(ModelFileError, match="finite numbers in the tensor 'weights', got 1 of 12"):
        modelfile.encode(bad, header())
    with pytest.raises(ModelFileError, match="finite numbers in the tensor 'weights', got 1 of 12"):
        modelfile.read(forge(facts_of(GOOD), bad))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int8, torch.float8_e4m3fn])
def test_other_element_types_are_refused_both_ways(dtype: torch.dtype) -> None:
    values = {**tensors(), "odd": torch.zeros(2, dtype=dtype)}
    with pytest.raises(ModelFileError, match=r"the tensor 'odd' to hold one of float64.* got"):
        modelfile.encode(values, header())
    with pytest.raises(ModelFileError, match=r"the tensor 'odd' to hold one of float64.* got"):
        modelfile.read(forge(facts_of(GOOD), values))


# -------------------------------------------------------------------------------------------------------------- reading


class Bomb:
    """Unpickling this leaves a mark."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_is_named_and_not_loaded(protocol: int) -> None:
    with pytest.raises(ModelFileError, match=r"which is a Python pickle \(pickles are never loaded"):
        modelfile.read(pickle.dumps(Bomb(), protocol))


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_save_writes_is_named(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    torch.save({"weights": torch.zeros(3)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ModelFileError, match="as torch.save writes" if zipped else "a Python pickle") as caught:
        modelfile.read(path)
    assert "model.pt" in str(caught.value)


def test_a_header_whose_length_looks_like_a_pickle_is_read() -> None:
    for padding in range(2000):
        data, _ = modelfile.encode(tensors(), header(metrics={"text": "x" * padding}))
        if data[:1] == b"\x80":
            assert modelfile.read(data)[1].metrics == {"text": "x" * padding}
            return
    pytest.fail("no header began with 0x80")


def test_arrays_and_sounds_are_named() -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    with pytest.raises(ModelFileError, match="a NumPy array file"):
        modelfile.read(file.getvalue())
    with pytest.raises(ModelFileError, match="an audio file"):
        modelfile.read(b"RIFF\x24\x00\x00\x00WAVEfmt ")


def test_another_format_version_is_named() -> None:
    facts = {**facts_of(GOOD), "format_version": 3, "something new": []}
    with pytest.raises(ModelFileError, match="written by format version 3, this Phonechain reads 1"):
        modelfile.read(forge(facts))


@pytest.mark.parametrize("version", [True, "1", None, [1], 1.5, -1])
def test_a_format_version_that_is_no_number_is_refused(version: Any) -> None:
    with pytest.raises(ModelFileError, match="format version"):
        modelfile.read(forge({**facts_of(GOOD), "format_version": version}))


def test_a_foreign_safetensors_file_is_named() -> None:
    for data in (save_safetensors(tensors()), forge("{}", key="other")):
        with pytest.raises(ModelFileError, match="a safetensors file that Phonechain did not write"):
            modelfile.read(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "which is empty"),
        (b"\x10", "begins with 10"),
        (b"\x00" * 100, "begins with 00 00"),
        ((2**40).to_bytes(8, "little") + b"{}", "header of at most 4194304 bytes, got .* claims 1099511627776"),
        (b"\xff" * 8 + b"{}", "claims 18446744073709551615"),
        ((100).to_bytes(8, "little") + b"{}", "truncated"),
        ((2).to_bytes(8, "little") + b"{]", "expected JSON in the header"),
        ((2).to_bytes(8, "little") + b"{}", "did not write"),
        ((14).to_bytes(8, "little") + b'{"a":1,"a":NaN', "expected JSON in the header"),
        ((17).to_bytes(8, "little") + b'{"a":{},"a":null}', "a key is there twice"),
        ((40_000).to_bytes(8, "little") + b'{"a":' + b"[" * 39_995, "expected JSON in the header"),
    ],
)
def test_broken_containers_are_one_sentence(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        modelfile.read(data)


@pytest.mark.parametrize("end", [1, 7, 9, 100, len(GOOD) // 2, len(GOOD) - 1])
def test_a_truncated_file_says_so(end: int) -> None:
    with pytest.raises(ModelFileError, match="truncated" if end > 8 else "begins with"):
        modelfile.read(GOOD[:end])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(ModelFileError, match="broken tensors"):
        modelfile.read(GOOD + b"\0")


def test_the_size_is_capped_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(2**40)  # sparse; reading it would not end well
    with pytest.raises(ModelFileError, match=f"at most {modelfile.MAX_BYTES} bytes, got .* with {2**40}"):
        modelfile.read(path)
    with pytest.raises(ModelFileError, match="at most 10 bytes"):
        modelfile.read(GOOD, max_bytes=10)


@pytest.mark.parametrize("path", ["none.safetensors", ".", "a\0b"])
def test_a_path_that_cannot_be_read_is_one_sentence(tmp_path: Path, path: str) -> None:
    with pytest.raises(ModelFileError, match="expected a model file, got"):
        modelfile.read(str(tmp_path / path))


def test_a_changed_weight_and_a_changed_fact_are_noticed() -> None:
    weights = tensors()
    weights["weights"][0, 0] += 1
    with pytest.raises(ModelFileError, match="changed or damaged"):
        modelfile.read(forge(facts_of(GOOD), weights))
    with pytest.raises(ModelFileError, match="changed or damaged"):
        modelfile.read(forge({**facts_of(GOOD), "metrics": {"per": 0.0}}))
    with pytest.raises(ModelFileError, match="changed or damaged"):
        modelfile.read(forge({**facts_of(GOOD), "sha256": None}))


def test_a_missing_and_an_unknown_fact_are_named() -> None:
    for field in ("labels", "card", "provenance", "model", "sha256", "format_version"):
        facts = facts_of(GOOD)
        del facts[field]
        with pytest.raises(ModelFileError, match=field):
            modelfile.read(forge(facts))
    with pytest.raises(ModelFileError, match="surprise"):
        modelfile.read(forge({**facts_of(GOOD), "surprise": 1}))


wrong_types = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(sorted(facts_of(GOOD))), value=wrong_types | st.dictionaries(st.text(), wrong_types))
def test_a_fact_of_another_type_or_value_never_passes(field: str, value: Any) -> None:
    facts = facts_of(GOOD)
    if value == facts[field]:
        return
    with pytest.raises(ModelFileError):
        modelfile.read(forge({**facts, field: value}))


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(["card", "provenance"]), part=st.data(), value=wrong_types)
def test_a_consistent_file_with_wrong_types_inside_never_passes(field: str, part: st.DataObject, value: Any) -> None:
    """The digest is made to agree, as a stranger could: the types alone have to be refused."""
    facts = facts_of(GOOD)
    name = part.draw(st.sampled_from(sorted(facts[field])))
    facts[field][name] = value
    del facts["sha256"], facts["format_version"]
    digest = modelfile._digest(tensors(), facts)
    data = forge({**facts, "sha256": digest, "format_version": 1})
    fits = {"seed": type(value) is int or value is None, "commit": isinstance(value, str) or value is None}
    try:
        _, read = modelfile.read(data)
    except ModelFileError:
        return
    assert fits.get(name, isinstance(value, str))
    assert getattr(getattr(read, field), name) == value


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_bytes_are_refused_or_mean_the_same(data: st.DataObject) -> None:
    mutated = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        # the container's header is where the parsers are, so most of the damage goes there
        place = data.draw(st.integers(0, 400) | st.integers(0, len(mutated) - 1))
        action = data.draw(st.sampled_from(["set", "flip", "delete", "insert"]))
        if action == "set":
            mutated[place] = data.draw(st.integers(0, 255))
        elif action == "flip":
            mutated[place] ^= 1 << data.draw(st.integers(0, 7))
        elif action == "delete":
            del mutated[place]
        else:
            mutated.insert(place, data.draw(st.integers(0, 255)))
    try:
        values, read = modelfile.read(mutated)
    except ModelFileError:
        return
    assert read == header()
    assert {name: bits(t) for name, t in values.items()} == {name: bits(t) for name, t in tensors().items()}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: len(b).to_bytes(8, "little") + b"{" + b))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFileError):
        modelfile.read(data)


def test_the_version_is_a_digest_that_anyone_can_compute() -> None:
    data, written = modelfile.encode({"w": torch.tensor([1.0, 2.0])}, header(normaliser={}, ngrams={}))
    facts = facts_of(data)
    digest = facts.pop("sha256")
    del facts["format_version"]
    text = json.dumps(facts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(text.encode() + b'\n"w" float32 [2]\n' + np.array([1, 2], "<f4").tobytes()).hexdigest()
    assert digest == expected
    assert written.version == expected[:12]


def test_provenance_of_now_is_complete() -> None:
    made = Provenance.now(command="phonechain train", seed=3, corpus="c")
    assert made.torch == torch.__version__
    assert made.created.endswith("+00:00")
    assert modelfile.read(modelfile.encode(tensors(), header(provenance=made))[0])[1].provenance == made
