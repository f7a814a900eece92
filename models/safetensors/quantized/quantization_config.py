"""The settings of a quantised checkpoint, in config.json or in a file beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, cast

from ...config.config_fields import ConfigFields
from ...json_object import read_json_object
from .awq import AWQ
from .compressed_tensors import compressed_tensors_formats
from .floats import FP4, FP8, InputScales, MXFP4Experts
from .gptq import GPTQ
from .matrix_format import MatrixFormat

CONFIG = "config.json"
_OF_MODELOPT = "hf_quant_config.json"
_METHODS_BY_FILE = {
    "quantize_config.json": "gptq",
    "quant_config.json": "awq",
    _OF_MODELOPT: "modelopt",
}
SETTINGS_BESIDE = tuple(_METHODS_BY_FILE)
"""Files that hold the settings where config.json does not."""
Settings = Mapping[str, object]
NOTHING: Mapping[str, Settings] = MappingProxyType({})
_KEYS = ("quantization_config", "compression_config")
_OTHER_EDITION = "Choose the edition in BF16, or one in GGUF."
_AGREEING = {"bits": ("bits", "w_bit"), "group size": ("group_size", "q_group_size")}
_WIDEST_GROUP = 1 << 20


@dataclass(frozen=True)
class CheckpointQuantization:
    """How a checkpoint is quantised: its matrices have one of these formats, or are plain."""

    formats: Sequence[MatrixFormat]
    source: str
    """What the settings are called in a sentence."""

    @property
    def title(self) -> str:
        """What users call it."""
        return self.formats[0].title


def read_quantization(
    path: Path, settings: Settings, beside: Mapping[str, Settings] = NOTHING
) -> CheckpointQuantization | None:
    """What `settings` of config.json say, else the files `beside` it by their names.

    None for plain weights, and for those of bitsandbytes. Raises `UnsupportedModel` for a method
    that nothing here reads, `InvalidModel` for settings that are damaged or contradict each other.
    """
    name, found = _find(path, settings, beside)
    if found is None:
        return None
    fields = ConfigFields(found, f"{path.as_posix()}/{name}")
    method = fields.text("quant_method", _METHODS_BY_FILE.get(name, "unknown")).lower()
    if method == "bitsandbytes":
        return None
    read = _METHODS.get(method)
    if read is None:
        fields.refuse(
            f"says that it is quantised by {method[:40]!r}, which no engine here reads",
            _OTHER_EDITION,
        )
    formats = read(fields)
    return CheckpointQuantization(formats, f"{path.as_posix()}/{name}") if formats else None


def read_settings_beside(path: Path) -> Mapping[str, Settings]:
    """The settings beside a folder's config.json, by the names of their files."""
    found = {name: read_json_object(path / name) for name in SETTINGS_BESIDE}
    return {name: settings for name, settings in found.items() if settings is not None}


def _find(
    path: Path, settings: Settings, beside: Mapping[str, Settings]
) -> tuple[str, Settings | None]:
    """The settings and their file; raises `InvalidModel` where two files contradict each other."""
    text = settings.get("text_config")
    halves = [settings, *([cast("Settings", text)] if isinstance(text, dict) else [])]
    inside = next((each[key] for each in halves for key in _KEYS if each.get(key)), None)
    if inside is not None and not isinstance(inside, dict):
        ConfigFields({_KEYS[0]: inside}, f"{path.as_posix()}/{CONFIG}").group(_KEYS[0])
    for name in SETTINGS_BESIDE:
        other: object = beside.get(name)
        if isinstance(other, Mapping) and name == _OF_MODELOPT:
            other = other.get("quantization")
        if not isinstance(other, Mapping):
            continue
        if not isinstance(inside, dict):
            return name, cast("Settings", other)
        _check_agreement(path, name, cast("Settings", inside), cast("Settings", other))
    return CONFIG, cast("Settings", inside) if isinstance(inside, dict) else None


def _check_agreement(path: Path, name: str, inside: Settings, beside: Settings) -> None:
    for what, keys in _AGREEING.items():
        values = [
            next((each[key] for key in keys if key in each), None) for each in (inside, beside)
        ]
        if None not in values and values[0] != values[1]:
            ConfigFields(inside, f"{path.as_posix()}/{CONFIG}").fail(
                f"says that the {what} is {values[0]!r}, where {name} says {values[1]!r}"
            )


def _group_size(fields: ConfigFields, key: str = "group_size") -> int:
    """The inputs that share a scale; -1 for all."""
    size = fields.integer(key, -1, _WIDEST_GROUP, 128)
    if size == 0:
        fields.fail(f"says that {key!r} is 0")
    return size


def _gptq(fields: ConfigFields) -> Sequence[MatrixFormat]:
    layout = fields.text("checkpoint_format", "gptq").lower()
    if "is_marlin_format" in fields and fields.flag("is_marlin_format"):
        layout = "marlin"
    if layout not in ("gptq", "gptq_v2"):
        fields.refuse(
            f"stores its weights in the layout {layout[:40]!r}, which only the kernels that it was "
            "made for read",
            "Choose the edition in the plain GPTQ layout, or one in GGUF.",
        )
    if fields.text("pack_dtype", "int32") != "int32":
        fields.refuse("packs its weights into other words than of 32 bits", _OTHER_EDITION)
    bits = fields.integer("bits", 2, 8)
    if bits not in (2, 3, 4, 8):
        fields.fail(f"says that its weights have {bits} bits, where GPTQ has 2, 3, 4 or 8")
    return [
        GPTQ(
            bits,
            _group_size(fields),
            symmetric=fields.flag("sym", True),
            less_one=layout == "gptq",
            mixed="dynamic" in fields,
        )
    ]


def _awq(fields: ConfigFields) -> Sequence[MatrixFormat]:
    bits = fields.integer("bits" if "bits" in fields else "w_bit", 1, 16, 4)
    layout = fields.text("version", "gemm").lower()
    if bits != 4 or layout not in ("gemm", "gemv", "exllama", "ipex"):
        fields.refuse(
            f"is AWQ with {bits} bits in the layout {layout[:40]!r}, which no engine here reads",
            "Choose an edition with 4 bits in the layout 'gemm', or one in GGUF.",
        )
    size = _group_size(fields, "group_size" if "group_size" in fields else "q_group_size")
    return [AWQ(size, gemv=layout == "gemv")]


def _auto_round(fields: ConfigFields) -> Sequence[MatrixFormat]:
    layout = fields.text("packing_format", "auto_round:auto_gptq").rpartition(":")[2]
    read = {"auto_gptq": _gptq, "gptq": _gptq, "auto_awq": _awq, "awq": _awq}.get(layout)
    if read is None:
        fields.refuse(
            f"packs its weights as {layout[:40]!r}, which no engine here reads", _OTHER_EDITION
        )
    return read(fields)


def _fp8(fields: ConfigFields) -> Sequence[MatrixFormat]:
    scheme = fields.text("activation_scheme", "").lower()
    inputs: InputScales | None = "static" if scheme == "static" else None
    if scheme == "dynamic":
        inputs = "dynamic"
    if "weight_block_size" not in fields:
        return [FP8(inputs=inputs)]
    sizes = fields.integers("weight_block_size", 1, _WIDEST_GROUP)
    if len(sizes) != 2:
        fields.fail(f"needs two sizes of blocks under 'weight_block_size', not {len(sizes)}")
    return [FP8((sizes[0], sizes[1]), inputs)]


def _modelopt(fields: ConfigFields) -> Sequence[MatrixFormat]:
    algorithm = fields.text("quant_algo")
    if algorithm not in ("FP8", "NVFP4", "MIXED_PRECISION"):
        _refuse_algorithm(fields, algorithm)
    if algorithm == "FP8":
        return [FP8(inputs="static"), FP4(mx=False, modelopt=True)]
    return [FP4(mx=False, modelopt=True), FP8()]


def _refuse_algorithm(fields: ConfigFields, algorithm: str) -> NoReturn:
    fields.refuse(f"is quantised as {algorithm[:40]!r}, which no engine here reads", _OTHER_EDITION)


def _mxfp4(fields: ConfigFields) -> Sequence[MatrixFormat]:
    del fields
    return [MXFP4Experts()]


_METHODS: Mapping[str, Callable[[ConfigFields], Sequence[MatrixFormat]]] = {
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _auto_round,
    "intel/auto-round": _auto_round,
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
    "compressed-tensors": compressed_tensors_formats,
    "compressed_tensors": compressed_tensors_formats,
}
