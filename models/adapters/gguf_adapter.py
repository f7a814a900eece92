"""LoRA adapters in GGUF files, as llama.cpp reads them.

Source: llama.cpp, `llama_adapter_lora_init_impl`, whose checks of files are made here before it.
Imports no torch, so that the daemon can check an adapter.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from ..errors import InvalidModel, UnsupportedModel
from ..gguf.gguf_header import GGUFHeader, read_file_header
from .adapter_settings import DAMAGED, MOST_RANK
from .lora import LoraSettings

_TENSOR = re.compile(r"(.+)\.weight\.lora_([ab])")
# llama.cpp ignores adapters of other tensors without a word.
_LINEAR = re.compile(
    r"blk\.\d{1,9}\.(?:attn_(?:q|k|v|qkv|output)|ffn_(?:gate|up|down))(?:_shexp)?|output"
)
_FLOATS = frozenset(("F32", "F16", "BF16"))


class GGUFAdapterSettings(LoraSettings):
    """What the header of a file says; modules have GGUF's names without `.weight`."""

    def __init__(self, path: Path) -> None:
        """Check the file.

        Raises `ModelNotFound`, `InvalidModel`, and `UnsupportedModel` for other adapters than LoRA.
        """
        self._path = path
        self.header = read_file_header(path)
        kind = self.header.text("general.type"), self.header.text("adapter.type")
        if kind != ("adapter", "lora"):
            self._refuse("holds no LoRA adapter", "Name a file that convert_lora_to_gguf.py wrote.")
        if "adapter.alora.invocation_tokens" in self.header.arrays:
            self._refuse("uses activated LoRA", "Use the adapter of a plain LoRA.")
        self.architecture = self.header.architecture
        alpha = self.header.metadata.get("adapter.lora.alpha", 0.0)
        self._alpha = float(alpha) if isinstance(alpha, float | int) else 0.0
        self._tensors = {tensor.name: tensor for tensor in self.header.tensors}
        self.modules = self._find_modules()

    def rank(self, module: str) -> int:
        """See `LoraSettings`."""
        return self._tensors[self.down(module)].shape[1]

    def scale(self, module: str, rank: int) -> float:
        """See `LoraSettings`."""
        return self._alpha / rank if self._alpha else 1.0

    def down(self, module: str) -> str:
        """See `LoraSettings`."""
        return f"{module}.weight.lora_a"

    def up(self, module: str) -> str:
        """See `LoraSettings`."""
        return f"{module}.weight.lora_b"

    def check_fits(self, model: GGUFHeader) -> None:
        """Check that the model has each changed matrix, in the same size.

        Raises `InvalidModel`, and `UnsupportedModel` for a model whose format takes no adapters.
        """
        if any(tensor.type == "NVFP4" for tensor in model.tensors):
            raise UnsupportedModel(
                f"{model.path} is in NVFP4, with which llama.cpp computes no adapters.",
                hint="Use the adapter with another edition of the model.",
            )
        sizes = {tensor.name: tensor.shape for tensor in model.tensors}
        for module in sorted(self.modules):
            inputs = self._tensors[self.down(module)].shape[0]
            outputs = self._tensors[self.up(module)].shape[1]
            if sizes.get(f"{module}.weight") != (inputs, outputs):
                raise InvalidModel(
                    f"{self._path.name} changes {module!r} of {outputs} by {inputs} values, "
                    f"and {model.path.name} has {sizes.get(f'{module}.weight', 'no such matrix')}.",
                    hint="Use it with the model that it was made for.",
                )

    def _find_modules(self) -> frozenset[str]:
        halves: dict[str, set[str]] = {"a": set(), "b": set()}
        for tensor in self.header.tensors:
            match = _TENSOR.fullmatch(tensor.name)
            if match is None or _LINEAR.fullmatch(match[1]) is None:
                self._refuse(
                    f"changes {tensor.name!r}, which no adapter can here",
                    "Use an adapter of the linear layers of attention and MLP only.",
                )
            if tensor.type not in _FLOATS or len(tensor.shape) != 2:
                self._refuse(
                    f"stores {tensor.name!r} as {tensor.type} of {len(tensor.shape)} dimensions",
                    "Convert it to F16 or F32.",
                )
            halves[match[2]].add(match[1])
        if halves["a"] != halves["b"] or not halves["a"]:
            raise InvalidModel(
                f"{self._path} lacks one of the two matrices of a layer.", hint=DAMAGED
            )
        for module in halves["a"]:
            rank = self._tensors[self.down(module)].shape[1]
            if rank > MOST_RANK or self._tensors[self.up(module)].shape[0] != rank:
                raise InvalidModel(
                    f"{self._path} has matrices of different or too large ranks for {module!r}.",
                    hint=f"The rank must be the same in both, {MOST_RANK} at most.",
                )
        return frozenset(halves["a"])

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise UnsupportedModel(f"{self._path} {what}.", hint=hint)
