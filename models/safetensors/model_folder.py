"""The description of a folder of safetensors, read without trusting its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import NoReturn, cast

from ..config.model_config import ModelConfig
from ..errors import InvalidModel, ModelError, ModelNotFound, UnsupportedModel
from ..families.hf_config import config_from_hf
from ..json_object import read_json_object
from .chat_template_file import read_chat_template
from .folder_files import CONFIG, TOKENIZER, is_eagle_head, is_medusa_head
from .quantized.quantization_config import (
    SETTINGS_BESIDE,
    CheckpointQuantization,
    read_quantization,
    read_settings_beside,
)
from .quantized.stored_matrices import StoredMatrices, StoredMatrix, find_matrices
from .safetensors_header import StoredTensor
from .safetensors_index import find_tensors

NF4 = "NF4"
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
_FLOATS = ("F32", "F16", "BF16")
_OF_BUFFERS = ("I32", "I64", "BOOL")
_OF_WEIGHTS = (".weight", ".bias")
_CODES = (".qweight", ".qzeros", ".g_idx", ".weight_packed", "_blocks")
_NF4_STATE = ".quant_state.bitsandbytes__nf4"
# Tensors that belong to a matrix of 4-bit weights.
_BESIDE = (_NF4_STATE, ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")


@dataclass(frozen=True)
class ModelFolder:
    """The checked description of one folder; `tensors` have the file they are in."""

    path: Path
    config: ModelConfig
    tensors: Mapping[str, tuple[Path, StoredTensor]]
    has_chat_template: bool
    declared: CheckpointQuantization | None = None
    """What its settings say of how it is quantised, but for bitsandbytes."""

    @property
    def name(self) -> str:
        """The name of the folder, which is the model's."""
        return self.path.name

    @cached_property
    def tensor_bytes(self) -> int:
        """Bytes of all weights, as they are stored."""
        return sum(tensor.bytes for _, tensor in self.tensors.values())

    @cached_property
    def held_bytes(self) -> int:
        """Bytes of all weights as the engine holds them: what no kernel reads is dequantised."""
        return self._plain_bytes + sum(matrix.held_bytes for matrix in self._by_name.values())

    @cached_property
    def fp8_bytes(self) -> int:
        """The same on a GPU that multiplies FP8."""
        return self._plain_bytes + sum(matrix.fp8_bytes for matrix in self._by_name.values())

    @property
    def _plain_bytes(self) -> int:
        taken = self._taken
        return sum(tensor.bytes for name, (_, tensor) in self.tensors.items() if name not in taken)

    @cached_property
    def matrices(self) -> StoredMatrices | None:
        """The quantised matrices, but for those of bitsandbytes; raises `InvalidModel`."""
        if self.declared is None:
            return None
        tensors = {name: tensor for name, (_, tensor) in self.tensors.items()}
        return find_matrices(self.path.as_posix(), self.declared, tensors)

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        plain = sum(
            prod(tensor.shape) * (2 if name in self._packed else 1)
            for name, (_, tensor) in self.tensors.items()
            if not name.endswith(_BESIDE) and name not in self._taken
        )
        return plain + sum(matrix.parameters for matrix in self._by_name.values())

    @cached_property
    def quantization(self) -> str:
        """`NF4`, the format of its settings, else the type that most bytes have."""
        if self._packed:
            return NF4
        if self.declared is not None:
            return self.declared.title
        sizes: Counter[str] = Counter()
        for _, tensor in self.tensors.values():
            sizes[tensor.dtype] += tensor.bytes
        return max(sizes, key=sizes.__getitem__)

    @property
    def _by_name(self) -> Mapping[str, StoredMatrix]:
        return {} if self.matrices is None else self.matrices.by_name

    @property
    def _taken(self) -> frozenset[str]:
        return frozenset() if self.matrices is None else self.matrices.taken

    @cached_property
    def _packed(self) -> frozenset[str]:
        """The tensors that hold two weights a byte."""
        states = (name for name in self.tensors if name.endswith(_NF4_STATE))
        return frozenset(name.removesuffix(_NF4_STATE) for name in states)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """Tensors of integers that are named like no weights, such as the positions of an encoder.

        Code registers them beside weights, and seldom reads them.
        """
        return frozenset(
            name
            for name, (_, tensor) in self.tensors.items()
            if tensor.dtype in _OF_BUFFERS
            and not name.endswith((*_OF_WEIGHTS, *_CODES, *_BESIDE))
            and name not in self._taken
        )

    def check_types(self) -> None:
        """Raise `UnsupportedModel` for weights that need a formula which nothing here has.

        Raises `InvalidModel` for quantised ones that contradict the settings.
        """
        taken = self._taken
        for name, (_, tensor) in self.tensors.items():
            known = tensor.dtype in _FLOATS or name in self._packed or name.endswith(_BESIDE)
            if not known and name not in taken and name not in self.buffers:
                self._refuse_type(name, tensor)

    def _refuse_type(self, name: str, tensor: StoredTensor) -> NoReturn:
        if self.declared is None and name.endswith(_CODES):
            raise InvalidModel(
                f"{self.path} stores {name!r} quantised, but neither {CONFIG} nor "
                f"{SETTINGS_BESIDE[0]} says how.",
                hint="Download the whole repository.",
            )
        raise UnsupportedModel(
            f"{self.path} stores {name!r} as {tensor.dtype}, which no engine here reads.",
            hint="Choose an edition in BF16, F16 or F32, or one in GGUF.",
        )


def is_model_folder(path: Path) -> bool:
    """Whether a folder holds a model, valid or not."""
    return (path / CONFIG).exists() or any(path.glob("*.safetensors"))


def read_folder(path: Path) -> ModelFolder:
    """Read and check what describes the model in a folder.

    Raises `ModelNotFound` where there is none, `InvalidModel` for one that is damaged or
    incomplete, and `UnsupportedModel` for what is sound but cannot be run.
    """
    if not path.is_dir():
        raise ModelNotFound(f"There is no folder {path}.")
    settings = read_json_object(path / CONFIG)
    if settings is None:
        _refuse_without_config(path)
    if is_eagle_head(settings) or is_medusa_head(settings):
        raise UnsupportedModel(
            f"{path} holds a draft head, not a model.",
            hint="ingle finds it by its model's name; a load can also name it as its `draft`.",
        )
    config = check_settings(path, settings)
    declared = read_quantization(path, settings, read_settings_beside(path))
    tensors = _find_tensors(path)
    if not (path / TOKENIZER).is_file():
        raise UnsupportedModel(
            f"{path} has no {TOKENIZER}.",
            hint="Load its tokenizer with transformers' AutoTokenizer, and save it there.",
        )
    has_template = read_chat_template(path) is not None
    folder = ModelFolder(path, config, tensors, has_template, declared)
    folder.check_types()
    return folder


def check_settings(path: Path, settings: Mapping[str, object]) -> ModelConfig:
    """The shape that a folder's `config.json` describes; raises as `read_folder`."""
    _check_token_ids(path, settings)
    return _read_config(path, settings)


def _check_token_ids(path: Path, settings: Mapping[str, object]) -> None:
    """Raise `InvalidModel` for token ids that the native tokenizer cannot represent."""
    for name in _TOKEN_IDS:
        value = settings.get(name)
        for token_id in cast("list[object]", value) if isinstance(value, list) else [value]:
            if isinstance(token_id, int) and token_id >= 2**32:
                raise InvalidModel(
                    f"{path / CONFIG} says {name} is {token_id}, which no token can have.",
                    hint="Download the model again.",
                )


def _refuse_without_config(path: Path) -> NoReturn:
    if (path / "adapter_config.json").exists():
        raise UnsupportedModel(
            f"{path} holds an adapter, not a model.",
            hint="Add it to its model: `ingle adapter add MODEL FOLDER`.",
        )
    raise InvalidModel(f"{path} has no {CONFIG}.", hint="Download the whole repository.")


def _read_config(path: Path, settings: Mapping[str, object]) -> ModelConfig:
    try:
        return config_from_hf(settings)
    except ModelError as error:  # its message has the file's name, but not the folder
        code = isinstance(error, UnsupportedModel) and "auto_map" in settings
        hint = "It brings code of its own, which ingle never runs." if code else error.hint
        raise type(error)(f"{path.as_posix()}/{error.message}", hint=hint) from error


def _find_tensors(path: Path) -> Mapping[str, tuple[Path, StoredTensor]]:
    if not any(path.glob("*.safetensors")) and any(any(path.glob(name)) for name in _PICKLES):
        raise UnsupportedModel(
            f"{path} holds its weights in a pickle, which could run any code.",
            hint="Choose an edition in safetensors.",
        )
    tensors = find_tensors(path)
    if not tensors:
        raise InvalidModel(f"{path} has no weights.", hint="Download the whole repository.")
    return tensors
