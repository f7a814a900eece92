"""The header of a GGUF file, read without trusting its bytes.

Sources: the GGUF specification in the ggml repository, and gguf.cpp for the limits llama.cpp sets.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from ..errors import InvalidModel, UnsupportedModel
from ..file_stamp import FileStamp
from ..model_file import open_model_file
from .ggml_types import FILE_TYPES, TENSOR_TYPES
from .gguf_hyperparameters import check_hyperparameters
from .gguf_reader import MAX_KEYS, SCALARS, HeaderFile, HeaderReader, ValueType
from .gguf_shards import join_shards

_MAGIC = b"GGUF"
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 16
_MAX_TENSORS = 1 << 18
_MAX_DIMENSIONS = 4
_MAX_TENSOR_NAME = 63  # GGML_MAX_NAME less its NUL
_MAX_ELEMENTS = 1 << 50
# Arrays up to this length are hyper-parameters a layer; longer ones belong to the tokenizer.
_MAX_PER_LAYER = 1024
_GUESSED_FILE_TYPE = 1024


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape` is in ggml's order (row length first), `offset` from the file's start.

    `file` counts the files of a model in several.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    bytes: int
    file: int = 0


@dataclass(frozen=True)
class GGUFHeader:
    """The checked header of one file, or of all files of a model in several.

    `metadata` has the scalars and strings, `arrays` the element type and length of every array,
    `per_layer` the contents of short arrays of integers or truth values.
    """

    path: Path
    version: int
    metadata: Mapping[str, int | float | bool | str]
    arrays: Mapping[str, tuple[ValueType, int]]
    per_layer: Mapping[str, tuple[int, ...]]
    tensors: tuple[TensorInfo, ...]
    shards: tuple[Path, ...] = ()
    stamps: tuple[FileStamp, ...] = ()
    """The state of the files when they were read."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the tensors, in order."""
        return self.shards or (self.path,)

    def text(self, key: str) -> str | None:
        """The string under `key`, if there is one."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """The integer under `{architecture}.key`, if there is one."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def architecture(self) -> str:
        """The family of the model, such as `llama`, which prefixes its hyper-parameters."""
        return self.text("general.architecture") or ""

    @property
    def name(self) -> str:
        """The name in the metadata, else that of the file."""
        return self.text("general.name") or self.path.stem

    @property
    def licence(self) -> str | None:
        """The licence the file states."""
        return self.text("general.license")

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(prod(tensor.shape) for tensor in self.tensors)

    @cached_property
    def tensor_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(tensor.bytes for tensor in self.tensors)

    @cached_property
    def quantization(self) -> str:
        """The name of the mix, else the type that most bytes have."""
        kind = self.metadata.get("general.file_type")
        if isinstance(kind, int) and (known := FILE_TYPES.get(kind & ~_GUESSED_FILE_TYPE)):
            return known
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.type] += tensor.bytes
        return max(sizes, key=sizes.__getitem__, default="unknown")

    @property
    def context(self) -> int:
        """Tokens the model was trained for."""
        return self.integer("context_length") or 0

    @property
    def block_count(self) -> int:
        """Number of transformer blocks."""
        return self.integer("block_count") or 0

    @property
    def embedding_length(self) -> int:
        """Width of the residual stream."""
        return self.integer("embedding_length") or 0

    @property
    def feed_forward_length(self) -> int:
        """Width of the widest block's feed-forward part."""
        return max(self._each_layer("feed_forward_length"), default=0)

    @cached_property
    def head_counts(self) -> tuple[int, ...]:
        """Attention heads of every block; 0 for a block without attention."""
        return self._each_layer("attention.head_count")

    @cached_property
    def kv_head_counts(self) -> tuple[int, ...]:
        """Key and value heads of every block."""
        return self._each_layer("attention.head_count_kv") or self.head_counts

    @property
    def key_length(self) -> int:
        """Elements of one key head."""
        return self.integer("attention.key_length") or self._default_head_length

    @property
    def value_length(self) -> int:
        """Elements of one value head."""
        return self.integer("attention.value_length") or self._default_head_length

    @property
    def sliding_window(self) -> int:
        """Tokens that local attention sees; 0 where all attention is global."""
        return self.integer("attention.sliding_window") or 0

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        tokens = self.arrays.get("tokenizer.ggml.tokens")
        return tokens[1] if tokens else self.integer("vocab_size") or 0

    @property
    def chat_template(self) -> str | None:
        """The Jinja template of conversations."""
        return self.text("tokenizer.chat_template")

    @property
    def has_chat_template(self) -> bool:
        """True for models that were trained for conversations."""
        return bool(self.chat_template)

    @property
    def _default_head_length(self) -> int:
        heads = max(self.head_counts, default=0)
        return self.embedding_length // heads if heads else 0

    def _each_layer(self, key: str) -> tuple[int, ...]:
        value = self.integer(key)
        if value is not None:
            return (value,) * self.block_count
        return self.per_layer.get(f"{self.architecture}.{key}", ())[: self.block_count]


def read_header(path: Path) -> GGUFHeader:
    """Read and check the header of a model file, and those of its other parts where it has some.

    Raises `ModelNotFound` where no file can be opened, `InvalidModel` for one that is damaged or
    incomplete, and `UnsupportedModel` for a dialect that this reader does not know.
    """
    header = join_shards(read_file_header(path), read_file_header)
    check_hyperparameters(header)
    return header


def read_file_header(path: Path) -> GGUFHeader:
    """Read one file alone, be it a whole model or a part of one; raises as `read_header`."""
    with open_model_file(path) as file:
        status = os.fstat(file.fileno())
        header = parse_file_header(file, path, status.st_size)
        return replace(header, stamps=(FileStamp.of(path, status),))


def parse_file_header(file: HeaderFile, path: Path, size: int) -> GGUFHeader:
    """The header that `file`, of so many bytes, begins with; `path` names it in errors."""
    reader = HeaderReader(file, path, size)
    if reader.size == 0:
        reader.fail("is empty")
    version = _read_version(reader)
    tensor_count, key_count = reader.u64(), reader.u64()
    # 24 bytes is the least a tensor's entry takes, 13 the least of a key with its value.
    if tensor_count * 24 + key_count * 13 > reader.remaining:
        reader.truncated()
    if tensor_count > _MAX_TENSORS or key_count > MAX_KEYS:
        reader.fail(f"claims {tensor_count} tensors and {key_count} metadata keys")
    metadata = _read_metadata(reader, key_count)
    alignment = _alignment(reader, metadata.scalars)
    tensors = _read_tensors(reader, tensor_count, alignment)
    return GGUFHeader(path, version, metadata.scalars, metadata.arrays, metadata.per_layer, tensors)


@dataclass(frozen=True, slots=True)
class _Metadata:
    scalars: dict[str, int | float | bool | str]
    arrays: dict[str, tuple[ValueType, int]]
    per_layer: dict[str, tuple[int, ...]]


def _read_version(reader: HeaderReader) -> int:
    if reader.take(min(4, reader.remaining)) != _MAGIC:
        raise InvalidModel(
            f"{reader.path} is not a GGUF file.", hint="Only .gguf model files can be used."
        )
    version = reader.u32()
    if version & 0xFFFF == 0:
        raise UnsupportedModel(
            f"{reader.path} is a big-endian GGUF file.", hint="Use the little-endian edition."
        )
    if version not in (2, 3):
        raise UnsupportedModel(
            f"{reader.path} has GGUF version {version}; versions 2 and 3 are supported.",
            hint="Convert the model again, or update ingle if the file is newer.",
        )
    return version


def _read_metadata(reader: HeaderReader, count: int) -> _Metadata:
    metadata = _Metadata({}, {}, {})
    seen: set[str] = set()
    for _ in range(count):
        key = reader.key("metadata key")
        if key in seen:
            reader.fail(f"has the metadata key {key!r} twice")
        seen.add(key)
        kind = _value_type(reader, key)
        if kind is ValueType.ARRAY:
            _read_array(reader, key, metadata)
        elif kind is ValueType.STRING:
            value = reader.text()
            if value is not None:
                metadata.scalars[key] = value
        else:
            metadata.scalars[key] = reader.scalar(kind)
    return metadata


def _read_array(reader: HeaderReader, key: str, metadata: _Metadata) -> None:
    kind = _value_type(reader, key)
    length = reader.u64()
    if kind is ValueType.ARRAY:
        raise UnsupportedModel(
            f"{reader.path} nests arrays in {key!r}, which no engine here reads.",
            hint="Convert the model again.",
        )
    element = SCALARS[kind].size if kind in SCALARS else 8
    if length * element > reader.remaining:
        reader.truncated()
    metadata.arrays[key] = (kind, length)
    if (kind.is_integer or kind is ValueType.BOOL) and length <= _MAX_PER_LAYER:
        metadata.per_layer[key] = tuple(int(value) for value in reader.values(kind, length))
    else:
        reader.skip_array(kind, length)


def _value_type(reader: HeaderReader, key: str) -> ValueType:
    number = reader.u32()
    if number > max(ValueType):
        reader.fail(f"gives {key!r} the unknown value type {number}")
    return ValueType(number)


def _alignment(reader: HeaderReader, metadata: Mapping[str, object]) -> int:
    value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(value, int) or not 8 <= value <= _MAX_ALIGNMENT or value & (value - 1):
        reader.fail(f"aligns its tensors to {value!r}, which is not a sane power of two")
    return value


def _read_tensors(reader: HeaderReader, count: int, alignment: int) -> tuple[TensorInfo, ...]:
    tensors: list[TensorInfo] = []
    seen: set[str] = set()
    for _ in range(count):
        tensor = _read_tensor(reader, alignment)
        if tensor.name in seen:
            reader.fail(f"has the tensor {tensor.name!r} twice")
        seen.add(tensor.name)
        tensors.append(tensor)
    data = -(-reader.position // alignment) * alignment
    return _place(reader, tensors, data)


def _read_tensor(reader: HeaderReader, alignment: int) -> TensorInfo:
    """One entry, its offset still counted from the start of the tensor data."""
    name = reader.key("tensor name")
    if len(name.encode()) > _MAX_TENSOR_NAME:
        reader.fail(f"has a tensor name of {len(name.encode())} bytes")
    dimensions = reader.u32()
    if dimensions > _MAX_DIMENSIONS:
        reader.fail(f"gives {name!r} {dimensions} dimensions")
    shape = tuple(reader.u64() for _ in range(dimensions))
    elements = prod(shape)
    if not 0 < elements <= _MAX_ELEMENTS:
        reader.fail(f"gives {name!r} the shape {shape}")
    number, offset = reader.u32(), reader.u64()
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        raise UnsupportedModel(
            f"{reader.path} stores {name!r} with the unknown ggml type {number}.",
            hint="Choose another quantization, or update ingle if the file is newer.",
        )
    row = shape[0] if shape else 1
    if row % kind.block_elements:
        reader.fail(f"gives {name!r} rows of {row} elements, not whole blocks of {kind.name}")
    if offset % alignment:
        reader.fail(f"does not align {name!r}")
    return TensorInfo(
        name, shape, kind.name, offset, elements // kind.block_elements * kind.block_bytes
    )


def _place(reader: HeaderReader, tensors: list[TensorInfo], data: int) -> tuple[TensorInfo, ...]:
    """The tensors at their absolute offsets, all inside the file and none over another."""
    end, previous = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end:
            reader.fail(f"lets {tensor.name!r} overlap {previous!r}")
        end, previous = tensor.offset + tensor.bytes, tensor.name
        if data + end > reader.size:
            raise InvalidModel(
                f"{reader.path} ends inside the tensor {tensor.name!r}: it is truncated.",
                hint="Download it again.",
            )
    return tuple(TensorInfo(t.name, t.shape, t.type, data + t.offset, t.bytes) for t in tensors)
