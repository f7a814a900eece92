"""The quantised matrices of a checkpoint, each with the tensors that it is stored in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NoReturn

from ...errors import InvalidModel
from ..safetensors_header import StoredTensor
from .matrix_format import MatrixFormat, Parts
from .quantization_config import CheckpointQuantization

_HINT = "Download it again, or choose another edition: its files contradict its settings."
# Calibrated ranges of activations and of the KV cache, which are computed in more bits here.
_UNUSED = (
    *(".input_scale", ".input_scale_ub", ".activation_scale", ".input_zero_point"),
    *(".input_global_scale", ".output_scale", ".q_scale", ".k_scale", ".v_scale", ".prob_scale"),
    *(".k_zero_point", ".v_zero_point"),
)
_OF_EXPERT = ".experts."
"""In names of matrices that are dequantised to be joined."""


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix: its format, its size, and the stored tensors by their roles."""

    format: MatrixFormat
    parts: Parts
    parameters: int
    held_bytes: int
    fp8_bytes: int
    """The same on a GPU that multiplies FP8."""


@dataclass(frozen=True)
class StoredMatrices:
    """The matrices by their names, and the names of all tensors that are theirs or unused."""

    by_name: Mapping[str, StoredMatrix]
    taken: frozenset[str]


def find_matrices(
    folder: str, quantization: CheckpointQuantization, tensors: Mapping[str, StoredTensor]
) -> StoredMatrices:
    """The matrices among `tensors`; raises `InvalidModel` for one that is incomplete.

    Layers that the settings exclude are those without codes: their tensors are not among these.
    """
    found: dict[str, StoredMatrix] = {}
    taken: set[str] = set()
    for format_ in quantization.formats:
        for stem, parts in _stems(format_, tensors, taken).items():
            if "codes" not in parts or not format_.holds(parts):
                continue
            name = stem + format_.result
            try:
                shape, held = format_.shape(parts), format_.held_bytes(parts)
                of_expert = _OF_EXPERT in name
                in_fp8 = held if of_expert else format_.fp8_bytes(parts)
            except ValueError as error:
                fail(folder, name, format_, error)
            found[name] = StoredMatrix(format_, parts, prod(shape), held, in_fp8)
            taken |= {part.name for part in parts.values()}
    taken |= {name for name in tensors if name.endswith(_UNUSED)}
    if not found:
        raise InvalidModel(
            f"{quantization.source} says that the weights are {quantization.title}, but no tensor "
            "is stored so.",
            hint=_HINT,
        )
    return StoredMatrices(found, frozenset(taken))


def fail(folder: str, name: str, format_: MatrixFormat, error: ValueError) -> NoReturn:
    """Raise `InvalidModel` for a matrix of `folder`, with the clause of `error`."""
    raise InvalidModel(
        f"{folder} stores {name!r} as {format_.title} {error}.", hint=_HINT
    ) from error


def _stems(
    format_: MatrixFormat, tensors: Mapping[str, StoredTensor], taken: set[str]
) -> Mapping[str, dict[str, StoredTensor]]:
    """The tensors that may be of this format, by their roles, by what their names begin with."""
    found: defaultdict[str, dict[str, StoredTensor]] = defaultdict(dict)
    endings = sorted(format_.endings, key=len, reverse=True)
    for name, tensor in tensors.items():
        ending = next((each for each in endings if name.endswith(each)), None)
        if ending is not None and name not in taken:
            found[name.removesuffix(ending)][format_.endings[ending]] = tensor
    return found
