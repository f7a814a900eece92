"""`ingle verify` on damaged and hostile files: each ends with a one-line error."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.daemon.main import main

WriteSmallLlama = Callable[..., Path]
Damage = Callable[[bytearray], bytes | bytearray]

TENSOR_COUNT, KEY_COUNT = 8, 16


def patch_tensor(
    name: str,
    *,
    shape: tuple[int, ...] | None = None,
    kind: int | None = None,
    offset: int | None = None,
) -> Damage:
    """Change the header's entry of a tensor."""

    def damage(data: bytearray) -> bytearray:
        place = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
        (dimensions,) = struct.unpack_from("<I", data, place)
        if shape is not None:
            assert len(shape) == dimensions
            struct.pack_into(f"<{dimensions}Q", data, place + 4, *shape)
        place += 4 + 8 * dimensions
        if kind is not None:
            struct.pack_into("<I", data, place, kind)
        if offset is not None:
            struct.pack_into("<Q", data, place + 4, offset)
        return data

    return damage


def patch_number(key: str, value: int) -> Damage:
    """Change a 32-bit number of the metadata."""

    def damage(data: bytearray) -> bytearray:
        place = data.index(struct.pack("<Q", len(key)) + key.encode()) + 8 + len(key) + 4
        struct.pack_into("<I", data, place, value)
        return data

    return damage


def patch_count(place: int, value: int) -> Damage:
    def damage(data: bytearray) -> bytearray:
        struct.pack_into("<Q", data, place, value)
        return data

    return damage


def replace(old: bytes, new: bytes) -> Damage:
    assert len(old) == len(new)
    return lambda data: bytes(data).replace(old, new)


CASES: dict[str, tuple[Damage, str]] = {
    "empty": (lambda data: b"", "is empty"),
    "text": (lambda data: b"# not a model\n" * 9, "is not a GGUF file"),
    "cut in the header": (lambda data: data[:700], "truncated"),
    "cut in the weights": (lambda data: data[:-5000], "is truncated"),
    "absurd tensor count": (patch_count(TENSOR_COUNT, 1 << 60), ""),
    "absurd key count": (patch_count(KEY_COUNT, 1 << 60), ""),
    "unknown type": (patch_tensor("output.weight", kind=99), "unknown ggml type 99"),
    "another type": (patch_tensor("output.weight", kind=24), "as I8, which only llama.cpp"),
    "overlap": (patch_tensor("output.weight", offset=0), "overlap"),
    "far away": (patch_tensor("output.weight", offset=1 << 40), "truncated"),
    "wrong shape": (patch_tensor("blk.0.attn_q.weight", shape=(32, 128)), "blk.0.attn_q.weight"),
    "huge shape": (patch_tensor("blk.0.attn_q.weight", shape=(1 << 40, 1 << 40)), "the shape"),
    "missing tensor": (replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"), "ffn_up.weight"),
    "unknown family": (replace(b"llama", b"lluma"), "does not know"),
    "no heads": (patch_number("llama.attention.head_count", 0), ""),
    "odd heads": (patch_number("llama.attention.head_count", 7), ""),
    "more layers": (patch_number("llama.block_count", 3), "blk.2."),
    "other context": (patch_number("llama.context_length", 1), ""),
    "wide feed": (patch_number("llama.feed_forward_length", 1 << 30), ""),
}


def verify(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the command's error line, and check that nothing else is printed."""
    status = main(["verify", str(path)])
    captured = capsys.readouterr()
    assert status == 1, captured
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert 1 <= len(lines) <= 2, captured.err
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith(".")
    assert "Traceback" not in captured.err
    assert "The process that compares" not in captured.err
    return captured.err


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_damaged_file_is_a_one_line_error(
    case: str,
    tmp_path: Path,
    write_small_llama: WriteSmallLlama,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage, words = CASES[case]
    path = write_small_llama(tmp_path / "model.gguf")
    path.write_bytes(damage(bytearray(path.read_bytes())))
    assert words in verify(path, capsys)


@pytest.mark.slow
def test_nan_weights_are_a_one_line_error(
    tmp_path: Path, write_small_llama: WriteSmallLlama, capsys: pytest.CaptureFixture[str]
) -> None:
    def poison(name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values * np.float32("nan") if name == "output_norm.weight" else values

    path = write_small_llama(tmp_path / "nan.gguf", change=poison)
    assert "are not numbers." in verify(path, capsys)
