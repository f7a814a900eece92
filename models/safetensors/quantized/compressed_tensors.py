"""The settings of compressed-tensors, which may quantise groups of layers in several formats."""

from __future__ import annotations

from collections.abc import Sequence

from ...config.config_fields import ConfigFields
from .floats import FP4, FP8, InputScales
from .integers import Int8, IntegerScheme, PackedIntegers
from .matrix_format import MatrixFormat

_WIDEST = 1 << 20
_SPARSE = ("sparse-24-bitmask", "sparse-bitmask", "marlin-24")
_PACKED, _INT8, _FP8 = "pack-quantized", ("int-quantized", "naive-quantized"), "float-quantized"
_NVFP4, _MXFP4 = "nvfp4-pack-quantized", "mxfp4-pack-quantized"
_OTHER = "Choose the edition in BF16, or one in GGUF."


def compressed_tensors_formats(fields: ConfigFields) -> Sequence[MatrixFormat]:
    """The formats of the groups; none for a checkpoint that is stored dense.

    Raises as `ConfigFields`.
    """
    whole = fields.text("format", "dense")
    sparsity = fields.group("sparsity_config")
    compressed = "dense" if sparsity is None else sparsity.text("format", "dense")
    for each in (whole, compressed):
        if each in _SPARSE:
            fields.refuse(
                f"stores sparse matrices as {each!r}, of which it leaves the zeros out, and no "
                "engine here fills them in",
                "Choose an edition that is not sparse: 2:4 sparsity only saves memory with kernels "
                "for it.",
            )
    _check_transforms(fields)
    schemes: list[IntegerScheme] = []
    formats: dict[str, MatrixFormat] = {}
    rounded: set[InputScales | None] = set()
    for group in _groups(fields):
        kind, weights = group.text("format", whole), group.group("weights")
        if kind == "dense" or weights is None:
            continue
        bits = weights.integer("num_bits", 1, 16, 8)
        floats = weights.text("type", "int") == "float"
        if kind == _PACKED and not floats and bits <= 8:
            schemes.append(IntegerScheme(bits, _group_size(weights)))
            formats[kind] = PackedIntegers(schemes)
        elif kind in _INT8 and not floats and bits == 8:
            formats["int8"] = Int8()
        elif kind in (_FP8, _INT8[1]) and floats and bits == 8:
            rounded.add(_inputs(group))
            same = next(iter(rounded)) if len(rounded) == 1 else None
            formats[_FP8] = FP8(_block(weights), same)
        elif kind in (_NVFP4, _MXFP4) and floats and bits == 4:
            formats[kind] = FP4(mx=kind == _MXFP4)
        else:
            of = "floats" if floats else "integers"
            fields.refuse(
                f"stores {of} of {bits} bits as {kind[:40]!r}, which no engine here reads", _OTHER
            )
    return list(formats.values())


def _groups(fields: ConfigFields) -> list[ConfigFields]:
    """The settings of each group; raises `InvalidModel` if there are none."""
    groups = fields.group("config_groups")
    if groups is None:
        fields.fail("does not say its 'config_groups'")
    found = [groups.group(name) for name in groups.names]
    return [group for group in found if group is not None]


def _group_size(weights: ConfigFields) -> int | None:
    strategy = weights.text("strategy", "group" if "group_size" in weights else "tensor")
    if strategy != "group":
        return None
    size = weights.integer("group_size", -1, _WIDEST)
    if size == 0:
        weights.fail("says that 'group_size' is 0")
    return None if size < 0 else size


def _inputs(group: ConfigFields) -> InputScales | None:
    """How products round their inputs to FP8; None if they do not."""
    inputs = group.group("input_activations")
    if inputs is None or inputs.text("type", "int") != "float":
        return None
    if inputs.integer("num_bits", 1, 16, 8) != 8:
        return None
    return "dynamic" if inputs.flag("dynamic", False) else "static"


def _block(weights: ConfigFields) -> tuple[int, int]:
    if "block_structure" not in weights:
        return 128, 128
    sizes = weights.integers("block_structure", 1, _WIDEST)
    if len(sizes) != 2:
        weights.fail(f"needs two sizes under 'block_structure', not {len(sizes)}")
    return sizes[0], sizes[1]


def _check_transforms(fields: ConfigFields) -> None:
    """Raise `UnsupportedModel` for rotations that are applied to activations at run time."""
    transforms = fields.group("transform_config")
    groups = None if transforms is None else transforms.group("config_groups")
    if groups is not None and groups.names:
        fields.refuse("rotates its activations while it runs, which no engine here does", _OTHER)
