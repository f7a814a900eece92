from __future__ import annotations

import os
import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import pytest

from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.gguf.ggml_types import FILE_TYPES, TENSOR_TYPES
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.gguf.gguf_reader import ValueType

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder, Tensor

Change = Callable[["GGUFBuilder", Callable[..., "Tensor"]], Any]


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], GGUFHeader]:
    path = tmp_path / "model.gguf"

    def read_bytes(content: bytes) -> GGUFHeader:
        path.write_bytes(content)
        return read_header(path)

    return read_bytes


Read = Callable[[bytes], GGUFHeader]


def assert_same_as_reference(path: Path) -> None:
    ours, theirs = read_header(path), gguf.GGUFReader(path)
    expected = {
        name: field for name, field in theirs.fields.items() if not name.startswith("GGUF.")
    }
    assert set(expected) == {*ours.metadata, *ours.arrays}
    for name, value in ours.metadata.items():
        assert value == expected[name].contents()
    for name, (kind, length) in ours.arrays.items():
        assert kind == expected[name].types[1]
        assert length == len(expected[name].data)
    assert [
        (tensor.name, tensor.shape, tensor.type, tensor.offset, tensor.bytes)
        for tensor in ours.tensors
    ] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, int(t.data_offset), int(t.n_bytes))
        for t in theirs.tensors
    ]


def test_header_equals_the_reference_readers(tiny: GGUFBuilder, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny.set("llama.rope.sections", 9, [1, 2, 3], 5).build())
    assert_same_as_reference(path)


@pytest.mark.slow
@pytest.mark.model
def test_real_header_equals_the_reference_readers(smollm2_path: Path) -> None:
    assert_same_as_reference(smollm2_path)


@pytest.mark.model
def test_real_file_properties(smollm2_path: Path) -> None:
    header = read_header(smollm2_path)
    assert header.parameters == 134515008
    assert header.quantization == "Q4_1"
    assert header.context == 8192
    assert header.vocab_size == 49152
    assert header.kv_head_counts == (3,) * 30
    assert header.key_length == header.value_length == 64
    assert header.has_chat_template


def test_header_properties(tiny: GGUFBuilder, read: Read) -> None:
    header = read(tiny.build())
    assert header.version == 3
    assert header.architecture == "llama"
    assert header.name == "Tiny"
    assert header.licence == "apache-2.0"
    assert header.parameters == 64 * 6 + 64 * 64 + 64
    assert header.tensor_bytes == (64 * 6 + 64 * 64) * 20 // 32 + 64 * 4
    assert header.quantization == "Q4_1"
    assert header.context == 2048
    assert header.block_count == 2
    assert header.embedding_length == 64
    assert header.feed_forward_length == 128
    assert header.head_counts == (4, 4)
    assert header.kv_head_counts == (2, 2)
    assert header.key_length == header.value_length == 16
    assert header.sliding_window == 0
    assert header.vocab_size == 6
    assert header.chat_template == "{{ messages[0]['content'] }}"
    assert header.arrays["tokenizer.ggml.tokens"] == (ValueType.STRING, 6)


def test_head_counts_may_differ_by_layer(tiny: GGUFBuilder, read: Read) -> None:
    tiny.set("llama.attention.head_count_kv", 9, [0, 4], 5)
    tiny.set("llama.attention.key_length", 4, 32).set("llama.attention.value_length", 4, 24)
    header = read(tiny.build())
    assert header.kv_head_counts == (0, 4)
    assert (header.key_length, header.value_length) == (32, 24)


def test_quantization_without_file_type_is_that_of_most_bytes(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], read: Read
) -> None:
    del tiny.metadata["general.file_type"]
    tiny.tensors = [
        new_tensor("a", (256, 10), 14),
        new_tensor("b", (32, 4), 0),
        new_tensor("c", (32, 4), 0),
    ]
    assert read(tiny.build()).quantization == "Q6_K"


def test_version_2_is_read(tiny: GGUFBuilder, read: Read) -> None:
    tiny.version = 2
    assert read(tiny.build()).version == 2


def test_text_that_is_not_utf8_is_accepted(tiny: GGUFBuilder, read: Read) -> None:
    assert read(tiny.set("general.name", 8, b"caf\xe9").build()).name == "caf\ufffd"


def test_very_long_text_is_skipped(tiny: GGUFBuilder, read: Read) -> None:
    header = read(tiny.set("tokenizer.huggingface.json", 8, "x" * (3 << 20)).build())
    assert "tokenizer.huggingface.json" not in header.metadata
    assert header.name == "Tiny"


@pytest.mark.slow
def test_large_vocabulary_takes_little_memory(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tokens = [f"token{number}" for number in range(262_144)]
    tiny.set("tokenizer.ggml.tokens", 9, tokens)
    tiny.set("tokenizer.ggml.token_type", 9, [1] * len(tokens), 5)
    path = tmp_path / "large.gguf"
    path.write_bytes(tiny.build())
    tracemalloc.start()
    header = read_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header.vocab_size == 262_144
    assert peak < 8 << 20


def test_every_truncation_is_detected(tiny: GGUFBuilder, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny.build())
    header_length, size = len(tiny.header()), path.stat().st_size
    assert max(tensor.offset + tensor.bytes for tensor in read_header(path).tensors) == size
    for length in (*range(size - 1, header_length, -97), *range(header_length, -1, -1)):
        os.truncate(path, length)
        with pytest.raises(InvalidModel):
            read_header(path)


@pytest.mark.model
def test_truncated_real_file_is_rejected(smollm2_path: Path, tmp_path: Path) -> None:
    # A sparse file of the right size stands in for the data.
    header_bytes = smollm2_path.read_bytes()[: read_header(smollm2_path).tensors[0].offset]
    size = smollm2_path.stat().st_size
    path = tmp_path / "cut.gguf"
    path.write_bytes(header_bytes)
    os.truncate(path, size)
    read_header(path)
    places = [0, 3, 8, 24, 1000, len(header_bytes) // 2, len(header_bytes) - 1, size // 2, size - 1]
    for place in sorted([*places, len(header_bytes)], reverse=True):
        os.truncate(path, place)
        with pytest.raises(InvalidModel, match=r"truncated|empty|not a GGUF"):
            read_header(path)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_headers_raise_only_model_errors(tiny: GGUFBuilder, read: Read, seed: int) -> None:
    content = tiny.build()
    header_length = len(tiny.header())
    source = random.Random(seed)
    refused = 0
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(source.choice((1, 1, 2, 8))):
            place = source.randrange(header_length)
            size = source.choice((1, 1, 4, 8))
            value = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
            changed[place : place + size] = bytes([value]) * size
        try:
            read(bytes(changed[: len(content)]))
        except (InvalidModel, UnsupportedModel):
            refused += 1
    assert refused > 50


def test_random_bytes_are_rejected(read: Read) -> None:
    source = random.Random(1)
    for prefix in (b"", b"GGUF", b"GGUF\x03\0\0\0"):
        for size in (0, 1, 16, 100, 5000):
            with pytest.raises((InvalidModel, UnsupportedModel)):
                read(prefix + source.randbytes(size))


def claims(**counts: int) -> Change:
    def change(tiny: GGUFBuilder, tensor: Callable[..., Tensor]) -> None:
        for name, value in counts.items():
            setattr(tiny, name, value)

    return change


BAD: dict[str, Change] = {
    "wrong magic": lambda tiny, tensor: setattr(tiny, "magic", b"GGML"),
    "tensor count too large": claims(tensor_count=1 << 20),
    "tensor count beyond 64 bit products": claims(tensor_count=(1 << 64) - 1),
    "key count too large": claims(key_count=1 << 40),
    "one key too many": lambda tiny, tensor: setattr(tiny, "key_count", len(tiny.metadata) + 1),
    "one tensor too many": claims(tensor_count=4),
    "duplicate key": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(
            tiny,
            "extra_keys",
            struct.pack("<Q", 12) + b"general.name" + struct.pack("<IQ", 8, 1) + b"x",
        ),
    ),
    "empty key": lambda tiny, tensor: tiny.set("", 4, 1),
    "key of 70,000 bytes": lambda tiny, tensor: tiny.set("k" * 70_000, 4, 1),
    "text longer than the file": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(tiny, "extra_keys", struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 1 << 60)),
    ),
    "array longer than the file": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(
            tiny, "extra_keys", struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 12, 1 << 61)
        ),
    ),
    "text array longer than the file": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(
            tiny, "extra_keys", struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 1 << 61)
        ),
    ),
    "unknown value type": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(tiny, "extra_keys", struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 13, 1)),
    ),
    "truth value of 2": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(tiny, "extra_keys", struct.pack("<Q", 1) + b"k" + struct.pack("<IB", 7, 2)),
    ),
    "alignment 0": lambda tiny, tensor: tiny.set("general.alignment", 4, 0),
    "alignment 48": lambda tiny, tensor: tiny.set("general.alignment", 4, 48),
    "alignment 2 GiB": lambda tiny, tensor: tiny.set("general.alignment", 4, 1 << 31),
    "alignment of text": lambda tiny, tensor: tiny.set("general.alignment", 8, "32"),
    "five dimensions": lambda tiny, tensor: tiny.tensors.append(tensor("t", (1, 1, 1, 1, 1))),
    "four billion dimensions": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1,), dimensions=(1 << 32) - 1)
    ),
    "dimension 0": lambda tiny, tensor: tiny.tensors.append(tensor("t", (32, 0))),
    "product over 64 bits": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1 << 32, 1 << 32, 1 << 32), offset=0)
    ),
    "product that wraps to 0": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1 << 32, 1 << 32), offset=0)
    ),
    "rows of half a block": lambda tiny, tensor: tiny.tensors.append(tensor("t", (48,), 3)),
    "offset not aligned": lambda tiny, tensor: tiny.tensors.append(tensor("t", (1,), offset=4)),
    "offset behind the file": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1,), offset=1 << 40)
    ),
    "offset at the end of 64 bits": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1,), offset=(1 << 64) - 32)
    ),
    "extent behind the file": lambda tiny, tensor: tiny.tensors.append(
        tensor("t", (1 << 20,), offset=4096)
    ),
    "overlap": lambda tiny, tensor: tiny.tensors.append(tensor("t", (8,), offset=32)),
    "same tensor twice": lambda tiny, tensor: tiny.tensors.append(
        tensor("output_norm.weight", (64,))
    ),
    "tensor name of 64 bytes": lambda tiny, tensor: tiny.tensors.append(tensor("t" * 64, (8,))),
    "tensor without a name": lambda tiny, tensor: tiny.tensors.append(tensor("", (8,))),
    "no architecture": lambda tiny, tensor: tiny.metadata.pop("general.architecture"),
    "architecture with control characters": lambda tiny, tensor: tiny.set(
        "general.architecture", 8, "lla\x1b[2Jma"
    ),
    "architecture as a number": lambda tiny, tensor: tiny.set("general.architecture", 4, 1),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_files_are_rejected(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], tmp_path: Path, name: str
) -> None:
    BAD[name](tiny, new_tensor)
    path = tmp_path / "bad.gguf"
    # Built without data if an invalid shape would require too much of it.
    header = tiny.header()
    path.write_bytes(header + bytes(-len(header) % 32 + 8192))
    with pytest.raises(InvalidModel) as caught:
        read_header(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


UNSUPPORTED: dict[str, Change] = {
    "version 1": claims(version=1),
    "version 4": claims(version=4),
    "big endian": claims(version=3 << 24),
    "withdrawn tensor type": lambda tiny, tensor: tiny.tensors.append(tensor("t", (32,), 4)),
    "tensor type of the future": lambda tiny, tensor: tiny.tensors.append(tensor("t", (32,), 999)),
    "nested arrays": lambda tiny, tensor: (
        setattr(tiny, "key_count", len(tiny.metadata) + 1),
        setattr(
            tiny,
            "extra_keys",
            struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 1) + bytes(12),
        ),
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_variants_are_named(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], read: Read, name: str
) -> None:
    UNSUPPORTED[name](tiny, new_tensor)
    with pytest.raises(UnsupportedModel):
        read(tiny.build())


def test_unknown_tensor_type_is_in_the_message(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], read: Read
) -> None:
    tiny.tensors.append(new_tensor("odd", (32,), 777))
    with pytest.raises(UnsupportedModel, match="777"):
        read(tiny.build())


def test_millions_of_empty_strings_are_rejected(tiny: GGUFBuilder, tmp_path: Path) -> None:
    count = 5_000_000
    tiny.key_count = len(tiny.metadata) + 1
    tiny.extra_keys = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, count)
    path = tmp_path / "long.gguf"
    path.write_bytes(tiny.header())
    os.truncate(path, len(tiny.header()) + 8 * count)
    with pytest.raises(InvalidModel, match="texts"):
        read_header(path)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="There is no file"):
        read_header(tmp_path / "none.gguf")


def test_path_with_nul_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "a\0b")


def test_folder_and_fifo_are_rejected(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo):
        with pytest.raises(InvalidModel, match="not a regular file"):
            read_header(path)


def test_type_tables_equal_the_reference() -> None:
    sizes = {kind.value: size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    # The package counts two 32-bit scales for Q8_1; in ggml-common.h they are halves.
    sizes[gguf.GGMLQuantizationType.Q8_1.value] = (32, 36)
    assert sizes == {
        number: (kind.block_elements, kind.block_bytes)
        for number, kind in TENSOR_TYPES.items()
        if number in sizes
    }
    known = {kind.value for kind in gguf.LlamaFileType} - {gguf.LlamaFileType.GUESSED.value}
    assert known <= set(FILE_TYPES)
