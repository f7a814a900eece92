"""How much each input of a model's matrices matters, so that these are rounded with more care.

Source: llama.cpp, `imatrix.cpp`: the mean square of what a matrix is multiplied with over a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ingle.models.errors import InvalidModel
from ingle.models.families.family_registry import find_family
from ingle.models.gguf.gguf_header import TensorInfo, read_file_header

from ...base.errors import BackendError
from ...base.sampling_params import SamplingParams
from ...engine.batch import Batch, StateStep
from ...engine.sequence import Sequence
from ..verification.scorer import reading_spec
from .arrays import Floats

if TYPE_CHECKING:
    import torch

    from ...cuda.model_runner import CudaModelRunner

Importance = Mapping[str, Floats]
"""The mean squares (matrices, columns) by the names of tensors in GGUF files."""

_MAGIC = b"GGUF"
_SUMS, _COUNTS = ".in_sum2", ".counts"
_WINDOW = 512
_LEAST, _MOST = _WINDOW, 64 * _WINDOW
"""Tokens that are read of a text."""


class TextTooShort(BackendError):
    """There is not enough of it to tell which inputs matter."""

    code = "text_too_short"


def is_matrix(file: Path) -> bool:
    """Whether it is a GGUF file; raises `OSError`."""
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def find_importance(file: Path, model: Path, report: Callable[[int, int], None]) -> Importance:
    """What llama.cpp's imatrix file says, or what a model computes for the text in `file`.

    `report` is called with the tokens read, of how many. Raises `InvalidModel` for a damaged file,
    `TextTooShort`, and what loading the model raises.
    """
    if is_matrix(file):
        return _read(file)
    text = file.read_text(encoding="utf-8", errors="replace")
    return _measure(model, text, report)


def _read(file: Path) -> Importance:
    header = read_file_header(file)
    tensors = {tensor.name: tensor for tensor in header.tensors}
    if header.text("general.type") != "imatrix":
        raise InvalidModel(
            f"{file} is a GGUF file, but no importance matrix.",
            hint="Name a text, or a file that llama-imatrix wrote.",
        )
    found: dict[str, Floats] = {}
    with file.open("rb") as stream:

        def values(tensor: TensorInfo) -> Floats:
            stream.seek(tensor.offset)
            read = np.frombuffer(stream.read(tensor.bytes), np.float32)
            return read.reshape(-1, tensor.shape[0])

        for name, tensor in tensors.items():
            counts = tensors.get(name.removesuffix(_SUMS) + _COUNTS)
            if not name.endswith(_SUMS) or counts is None or {tensor.type, counts.type} != {"F32"}:
                continue
            count = values(counts)
            mean = values(tensor) / np.maximum(count, 1)
            if mean.shape[0] != count.shape[0] or not np.isfinite(mean).all():
                raise InvalidModel(
                    f"{file} has no sane values for {name!r}.", hint="Make it again."
                )
            found[name.removesuffix(_SUMS)] = np.where(count > 0, mean, 1).astype(np.float32)
    return found


def _measure(model: Path, text: str, report: Callable[[int, int], None]) -> Importance:
    from ...cuda.state_model_runner import open_model_runner  # imports PyTorch

    runner = open_model_runner(reading_spec(model, context=_WINDOW, chunk=_WINDOW))
    try:
        tokens = runner.tokenizer.encode(text, add_special=True, parse_special=False)[:_MOST]
        if len(tokens) < _LEAST:
            raise TextTooShort(
                f"The text has {len(tokens)} tokens; {_LEAST} are the least that tell anything.",
                hint="Name a longer text, some pages of what the model will read.",
            )
        sums = _read_text(runner, tokens, report)
        family = find_family(runner.info().architecture)
    finally:
        runner.close()
    theirs = {ours: their for their, ours in family.gguf_layer_names.items()}
    found: dict[str, Floats] = {}
    for name, squares in sums.items():
        block, _, part = name.rpartition(".")
        parts = ["attn_qkv"] if family.gguf_fuses_attention and part == "attn_q" else []
        for each in (theirs.get(part, part), *parts):
            found[f"{block}.{each}.weight"] = (squares / len(tokens)).astype(np.float32)[None]
    return found


def _read_text(
    runner: CudaModelRunner, tokens: list[int], report: Callable[[int, int], None]
) -> dict[str, NDArray[np.float64]]:
    """The sums of squares (columns,) of each layer's inputs."""
    sums: dict[str, NDArray[np.float64]] = {}

    def add(name: str, inputs: torch.Tensor) -> None:
        squares = inputs.float().square().sum(0).cpu().numpy().astype(np.float64)
        sums[name] = sums[name] + squares if name in sums else squares

    runner.adapters.observe(add)
    for start in range(0, len(tokens), _WINDOW):
        report(start, len(tokens))
        window = tokens[start : start + _WINDOW]
        sequence = Sequence("text", 0, window, SamplingParams())
        sequence.slot = 0
        sequence.block_table = list(range(-(-len(window) // runner.block_size)))
        batch = Batch()
        batch.add(sequence, len(window))
        batch.states.append(StateStep(None, ((len(window), 0),)))
        runner.compute(batch)
    return sums
