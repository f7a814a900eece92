"""Every class of invalid GGUF file that llama.cpp's own reader test constructs.

Source of the classes: the `HANDCRAFTED_*` names of tests/test-gguf.cpp in llama.cpp.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import read_file_header, read_header

UINT32, INT32, TEXT = 4, 5, 8
F32, Q8_0 = 0, 8
Pair = tuple[bytes, int, bytes]
Tensor = tuple[bytes, tuple[int, ...], int, int]


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


@dataclass(frozen=True)
class File:
    """A valid file of two metadata pairs, unless fields are replaced."""

    magic: bytes = b"GGUF"
    version: int = 3
    pairs: tuple[Pair, ...] = ((b"some.number", UINT32, u32(7)), (b"some.text", TEXT, text(b"x")))
    tensors: tuple[Tensor, ...] = ()
    pair_count: int | None = None
    tensor_count: int | None = None
    name_length: int | None = None
    key_length: int | None = None
    dimensions: int | None = None
    alignment: int = 32
    data: int = 0

    def content(self) -> bytes:
        pairs = len(self.pairs) if self.pair_count is None else self.pair_count
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        parts = [self.magic, struct.pack("<IQQ", self.version, tensors, pairs)]
        for key, kind, value in self.pairs:
            length = len(key) if self.key_length is None else self.key_length
            parts += [struct.pack("<Q", length), key, u32(kind), value]
        for name, shape, kind, offset in self.tensors:
            length = len(name) if self.name_length is None else self.name_length
            parts += [struct.pack("<Q", length), name]
            parts.append(u32(len(shape) if self.dimensions is None else self.dimensions))
            parts.append(struct.pack(f"<{len(shape)}Q", *(side % 2**64 for side in shape)))
            parts.append(struct.pack("<IQ", kind, offset))
        header = b"".join(parts)
        return header + bytes(-len(header) % self.alignment) + bytes(self.data)


def aligned_to(value: bytes, kind: int = UINT32) -> tuple[Pair, ...]:
    return (*File().pairs, (b"general.alignment", kind, value))


PAIR = ((b"a", (8,), F32, 0), (b"b", (8,), F32, 32))
WITH_TENSORS = File(tensors=PAIR, data=64)
EMPTY = File(pairs=())


def shaped(*shape: int, kind: int = F32) -> File:
    return replace(WITH_TENSORS, tensors=((b"a", shape, kind, 0),))


BAD = {
    "HEADER_BAD_MAGIC": File(magic=b"\x00\x01\x02\x03"),
    "HEADER_BAD_VERSION_0": File(version=0),
    "HEADER_BAD_VERSION_1": File(version=1),
    "HEADER_BAD_VERSION_FUTURE": File(version=4),
    "HEADER_BAD_N_TENSORS": File(tensor_count=2**64 - 1),
    "HEADER_BAD_N_KV": File(pair_count=2**64 - 1),
    "KV_BAD_KEY_SIZE": File(key_length=2**64 - 1),
    "KV_EMPTY_KEY": File(pairs=((b"", UINT32, u32(1)),)),
    "KV_BAD_TYPE": File(pairs=((b"k", 99, u32(1)),)),
    "KV_DUPLICATE_KEY": File(pairs=((b"k", UINT32, u32(1)), (b"k", UINT32, u32(2)))),
    "KV_BAD_ALIGN": File(pairs=aligned_to(u32(13))),
    "KV_WRONG_TYPE_ALIGN": File(pairs=aligned_to(text(b"32"), TEXT)),
    "TENSORS_BAD_NAME_SIZE": replace(WITH_TENSORS, name_length=2**64 - 1),
    "TENSORS_BAD_N_DIMS": replace(WITH_TENSORS, dimensions=5),
    "TENSORS_BAD_SHAPE": shaped(-1),
    "TENSORS_ZERO_DIM": shaped(8, 0),
    "TENSORS_NE_TOO_BIG": shaped(2**40, 2**40, 2**40),
    "TENSORS_NBYTES_TOO_BIG": shaped(2**62),
    "TENSORS_NBYTES_PAD_WRAP": shaped(2**62 - 1),
    "TENSORS_BAD_TYPE": shaped(8, kind=1000),
    "TENSORS_BAD_OFFSET": replace(WITH_TENSORS, tensors=((b"a", (8,), F32, 2**63),)),
    "TENSORS_DUPLICATE_NAME": replace(WITH_TENSORS, tensors=(PAIR[0], (b"a", (8,), F32, 32))),
    "TENSORS_BAD_ALIGN": replace(WITH_TENSORS, tensors=((b"a", (8,), F32, 4),)),
    "TENSORS_INCONSISTENT_ALIGN": replace(
        WITH_TENSORS, pairs=aligned_to(u32(64)), alignment=32, data=128
    ),
    "DATA_NOT_ENOUGH_DATA": replace(WITH_TENSORS, data=40),
    "DATA_BAD_ALIGN": replace(WITH_TENSORS, pairs=aligned_to(u32(0))),
    "DATA_INCONSISTENT_ALIGN": replace(
        WITH_TENSORS, pairs=aligned_to(u32(4096)), tensors=(PAIR[0], (b"b", (8,), F32, 64))
    ),
    "DATA_MEM_SIZE_OVERFLOW": shaped(2**63 - 1),
}
VALID = {
    "HEADER_EMPTY": EMPTY,
    "KV_SUCCESS": File(),
    "TENSORS_SUCCESS": WITH_TENSORS,
    "TENSORS_CUSTOM_ALIGN": replace(
        WITH_TENSORS,
        pairs=aligned_to(u32(128)),
        tensors=(PAIR[0], (b"b", (8,), F32, 128)),
        alignment=128,
        data=160,
    ),
    "DATA_SUCCESS": replace(WITH_TENSORS, tensors=((b"q", (32, 2), Q8_0, 0),), data=68),
    "DATA_CUSTOM_ALIGN": replace(WITH_TENSORS, pairs=aligned_to(u32(32)), data=64),
}


def test_all_classes_of_llama_cpp_are_covered() -> None:
    assert len(BAD) + len(VALID) == 34


@pytest.mark.parametrize("name", BAD)
def test_invalid_file_is_refused_by_the_header_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(BAD[name].content())
    with pytest.raises(ModelError) as caught:
        read_file_header(path)
    assert caught.value.hint


@pytest.mark.parametrize("name", VALID)
def test_valid_file_without_a_model_is_read_but_not_loaded(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(VALID[name].content())
    assert len(read_file_header(path).tensors) == len(VALID[name].tensors)
    with pytest.raises(ModelError, match="architecture"):
        read_header(path)


def test_daemon_answers_every_file_with_an_error_sentence(
    target_daemon: Any, tmp_path: Path, answered_within: float
) -> None:
    for name, file in {**BAD, **VALID}.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(file.content())
        answer = target_daemon.ask(path)
        answer.assert_typed()
        assert answer.status < 500, (name, answer)
        assert answer.seconds < answered_within, name
    target_daemon.assert_lives()


def test_describing_a_file_needs_no_engine(target_daemon: Any, tmp_path: Path) -> None:
    """`ingle show` uses it: describing a file must not run native code."""
    path = tmp_path / "model.gguf"
    path.write_bytes(BAD["TENSORS_NE_TOO_BIG"].content())
    name = str(path).replace("/", "%2F")
    response = target_daemon.http.get(f"/ingle/v1/models/{name}")
    assert response.status_code in (400, 404, 422), response.text
    assert response.json()["error"]["message"]
