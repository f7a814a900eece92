"""What the process that quantises a model is told, and what it tells."""

from __future__ import annotations

import msgspec

from .quantization_target import QuantizationTarget


class QuantizeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The model at `source`, a GGUF file or a folder of safetensors, goes to the file `output`.

    `requantize` allows a source that is quantised already; `overwrite` an `output` that is there.
    `threads` 0 takes what the machine has.
    """

    source: str
    output: str
    target: QuantizationTarget
    requantize: bool = False
    overwrite: bool = False
    threads: int = 0


class QuantizeProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The present step; weights that are done, of `total`, `resumed` of them by an earlier call."""

    step: str
    done: int = 0
    total: int = 0
    resumed: int = 0


class QuantizeReport(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The finished file, which both its reader here and llama.cpp have loaded.

    Sizes in bytes; `types` counts the tensors of each type; `writes_text` is false for models that
    only turn texts into vectors or rank them.
    """

    output: str
    architecture: str
    source_quantization: str
    quantization: str
    source_size: int
    size: int
    parameters: int
    types: dict[str, int]
    seconds: float
    writes_text: bool = True
