"""The model file: one `.safetensors` with everything needed to use a model, and no code.

Layout (https://huggingface.co/docs/safetensors, "Format"): 8 bytes with the length of the header, little endian; the
header, JSON; the tensors' bytes. Phonechain's own facts are one JSON string in the header's metadata, under the key
`phonechain`: one key, because the library writes several keys in random order, and a model saved twice should give the
same bytes twice.

A file's `version` is the beginning of a SHA-256 over its tensors and its facts, checked on reading: two files of the
same version hold the same model, and a file that was changed says so. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from phonechain.features.errors import ModelFileError
from phonechain.features.files import write_whole
from phonechain.model.files.header import Card, Header, Provenance, from_facts, kind_of, to_facts

__all__ = ["Card", "Header", "Provenance", "encode", "read", "write"]

FORMAT_VERSION = 1
SUFFIX = ".safetensors"

MAX_BYTES = 256 * 2**20
"""Largest model file that is read by default."""
MAX_HEADER_BYTES = 4 * 2**20
MAX_TENSORS = 10_000

DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
"""The element types allowed in a model file."""

_KEY = "phonechain"
_FOREIGN = (  # beginnings of files that people mistake for model files
    (rb"PK\x03\x04", "a zip archive, as torch.save writes (it can hold pickles, which are never loaded)"),
    (rb"\x80[\x02-\x05]", "a Python pickle (pickles are never loaded)"),
    (rb"\x1f\x8b", "a gzip file"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (rb"\x93NUMPY", "a NumPy array file"),
    (rb"(RIFF|NIST_1A|fLaC|OggS|ID3)", "an audio file"),
)


def write(path: str | Path, tensors: Mapping[str, torch.Tensor], header: Header) -> Header:
    """Write a model file atomically.

    Returns the header with its version. Raises ModelFileError for what `read` would refuse, and where the disk does.
    """
    data, header = encode(tensors, header)
    try:
        write_whole(path, lambda spare: spare.write_bytes(data))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"expected to write {path}, got: {reason}", pointer=str(path)) from error
    return header


def encode(tensors: Mapping[str, torch.Tensor], header: Header) -> tuple[bytes, Header]:
    """The bytes of a model file, and the header with its version. The same model gives the same bytes."""
    kept = {name: _plain(tensor) for name, tensor in tensors.items()}
    facts = to_facts(header)
    _check_tensors(kept, from_facts(facts))  # what cannot be read is not written
    facts = json.loads(_dumps(facts))  # tuples become lists here as they do in the file
    digest = _digest(kept, facts)
    text = _dumps({"format_version": FORMAT_VERSION, "sha256": digest, **facts})
    data = save_safetensors(kept, metadata={_KEY: text})
    for what, size, limit in (
        ("bytes of header", int.from_bytes(data[:8], "little"), MAX_HEADER_BYTES),
        ("bytes in a model file", len(data), MAX_BYTES),
    ):
        if size > limit:
            raise ModelFileError(f"expected at most {limit} {what}, got {size}", value=size, limit=limit)
    return data, replace(from_facts(facts), version=digest[:12])


def read(
    source: str | Path | bytes | bytearray, *, max_bytes: int = MAX_BYTES, name: str | None = None
) -> tuple[dict[str, torch.Tensor], Header]:
    """The tensors (on the CPU) and the header of a model file, given as a path or as its bytes; `name` is what errors call it.

    Raises ModelFileError for anything but an undamaged model file of this format version.
    """
    data, name = _bytes(source, max_bytes, name)
    facts = _own_facts(data, name)
    try:
        tensors = load_safetensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"expected an undamaged model file, got {name} with broken tensors: {error}") from error
    digest = _pop(facts, "sha256", name)
    header = from_facts(facts)
    _check_tensors(tensors, header)
    found = _digest(tensors, facts)
    if digest != found:
        raise ModelFileError(
            f"expected the content of {name} to be what was written (version {str(digest)[:12]}), got {found[:12]}: "
            "the file was changed or damaged",
            value=found[:12],
        )
    return tensors, replace(header, version=found[:12])


def read_header(source: str | Path, *, name: str | None = None) -> Header:
    """The header of a model file without its tensors, which are neither read nor compared with its digest.

    Raises ModelFileError for anything but a whole model file of this format version.
    """
    name = name or str(source)
    try:
        with Path(source).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            facts = _own_facts(data, name)
    except (OSError, ValueError) as error:  # ValueError: an empty file, a null byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"expected a model file, got {name!r}: {reason}", pointer=name) from error
    digest = _pop(facts, "sha256", name)
    return replace(from_facts(facts), version=str(digest)[:12])


# ------------------------------------------------------------------------------------------------------------ container


def _bytes(source: str | Path | bytes | bytearray, max_bytes: int, name: str | None = None) -> tuple[bytes, str]:
    if isinstance(source, (bytes, bytearray)):
        data, size, name = bytes(source), len(source), name or "the given bytes"
    else:
        name = name or str(source)
        try:
            size = Path(source).stat().st_size  # before reading: a huge file is refused, not loaded
            data = b"" if size > max_bytes else Path(source).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelFileError(f"expected a model file, got {name!r}: {reason}", pointer=name) from error
    if size > max_bytes:
        raise ModelFileError(
            f"expected a model file of at most {max_bytes} bytes, got {name} with {size}", value=size, limit=max_bytes
        )
    return data, name


def _own_facts(data: bytes | mmap.mmap, name: str) -> dict[str, Any]:
    """Phonechain's header from that of the container; the error for any other file says what it is."""
    wanted = f"expected a Phonechain model file ({SUFFIX})"
    if not data:
        raise ModelFileError(f"{wanted}, got {name}, which is empty")
    # A header of 640 bytes begins like a pickle, so its length and brace are looked at before the other beginnings.
    length, brace = int.from_bytes(data[:8], "little"), data[8:9] == b"{"
    if not brace or length >> 32:
        for magic, what in _FOREIGN:
            if re.match(magic, data):
                raise ModelFileError(f"{wanted}, got {name}, which is {what}")
    if not brace:
        raise ModelFileError(f"{wanted}, got {name}, which begins with {data[:8].hex(' ')}")
    if length > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"{wanted} with a header of at most {MAX_HEADER_BYTES} bytes, got {name}, whose header claims {length}",
            value=length,
            limit=MAX_HEADER_BYTES,
        )
    if length > len(data) - 8:
        raise ModelFileError(f"expected {8 + length} bytes of header in {name}, got {len(data)}: the file is truncated")
    container = _loads(data[8 : 8 + length], f"the header of {name}")
    own = container.get("__metadata__")
    if not isinstance(own, dict) or not isinstance(own.get(_KEY), str):
        raise ModelFileError(f"{wanted}, got {name}: a safetensors file that Phonechain did not write")
    facts = _loads(own[_KEY], f"the facts of {name}")
    version = _pop(facts, "format_version", name)
    if isinstance(version, bool) or version != FORMAT_VERSION:
        raise ModelFileError(
            f"{name} was written by format version {str(version)[:20]}, this Phonechain reads {FORMAT_VERSION}",
            value=str(version)[:20],
            limit=FORMAT_VERSION,
        )
    _check_extent(container, length, len(data), name)
    return facts


def _check_extent(container: dict[str, Any], length: int, size: int, name: str) -> None:
    """Check the file's length: the library reports a truncated file as incomplete metadata; this says what is missing."""
    entries = {key: entry for key, entry in container.items() if key != "__metadata__"}
    ends = [0]
    for key, entry in entries.items():
        offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
        if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int for o in offsets)):
            raise ModelFileError(f"expected two offsets for the tensor {key[:80]!r} in {name}, got {str(offsets)[:80]}")
        ends.append(offsets[1])
    expected = 8 + length + max(ends)
    if expected > size:
        raise ModelFileError(f"expected {expected} bytes in {name}, got {size}: the file is truncated", value=size)


def _loads(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object strictly: UTF-8, no NaN, no duplicate keys."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key is there twice")
        return dict(pairs)

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"expected JSON in {what}, got an error: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"expected a JSON object in {what}, got {kind_of(value)}")
    return value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


# -------------------------------------------------------------------------------------------------------------- content


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Detached, dense, on the CPU; copied where tensors might share memory, which the format does not allow."""
    if not isinstance(tensor, torch.Tensor):
        raise ModelFileError(f"expected tensors in a model file, got {kind_of(tensor)}")
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)


def _digest(tensors: Mapping[str, torch.Tensor], facts: dict[str, Any]) -> str:
    """SHA-256 over the facts and every tensor's name, type, shape and bytes, in the order of the names."""
    sha = hashlib.sha256(_dumps(facts).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        sha.update(f"\n{_dumps(name)} {DTYPES[tensor.dtype]} {list(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _check_tensors(tensors: Mapping[str, torch.Tensor], header: Header) -> None:
    if len(tensors) > MAX_TENSORS:
        raise ModelFileError(f"expected at most {MAX_TENSORS} tensors, got {len(tensors)}", limit=MAX_TENSORS)
    for name, tensor in tensors.items():
        where = f"the tensor {name!r}"
        if not (name and name.isprintable() and len(name) <= 500) or name == "__metadata__":
            raise ModelFileError(f"expected a printable name for each tensor, got {name[:80]!r}")
        if tensor.dtype not in DTYPES:
            raise ModelFileError(
                f"expected {where} to hold one of {', '.join(DTYPES.values())}, got {str(tensor.dtype)[6:]}",
                pointer=name,
            )
        if tensor.is_floating_point():
            bad = tensor.numel() - int(torch.isfinite(tensor).sum())
            if bad:
                raise ModelFileError(
                    f"expected finite numbers in {where}, got {bad} of {tensor.numel()} that are not",
                    pointer=name,
                    value=bad,
                )
    for group in ("normaliser", "ngrams"):
        for role, name in getattr(header, group).items():
            if name not in tensors:
                raise ModelFileError(
                    f"expected the tensor {name!r} ({group}, {role}) in the model file, got none of that name",
                    pointer=f"{group}/{role}",
                )


def _pop(facts: dict[str, Any], key: str, name: str) -> Any:
    if key not in facts:
        raise ModelFileError(f"expected {key} among the facts of {name}, got none", pointer=key)
    return facts.pop(key)
