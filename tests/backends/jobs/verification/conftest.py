"""Fixtures: real model files rewritten in other precisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

WriteAs = Callable[[Path, Path, str], Path]


@pytest.fixture(scope="session")
def write_as() -> WriteAs:
    """Return a function that rewrites a GGUF file with matrices in `F16`, `BF16` or `F32`."""
    return _write_as


def _write_as(source: Path, target: Path, kind: str) -> Path:
    reader: Any = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer: Any = gguf.GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value, value_type = field.contents(), field.types[0]
        if field.name == "general.file_type":
            value = gguf.LlamaFileType[f"MOSTLY_{kind}" if kind != "F32" else "ALL_F32"]
        element = field.types[-1] if value_type is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, value_type, sub_type=element)
    for tensor in reader.tensors:
        _add(writer, tensor, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _add(writer: Any, tensor: Any, kind: str) -> None:
    values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if values.ndim == 1 or kind == "F32":
        writer.add_tensor(tensor.name, values)
        return
    number = gguf.GGMLQuantizationType[kind]
    data = gguf.quantize(values, number)
    writer.add_tensor(tensor.name, data, raw_dtype=number)
