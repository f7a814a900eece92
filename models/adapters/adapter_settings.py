"""The settings of a LoRA adapter as PEFT saves it, and the tensors that its files hold.

Source: PEFT, `LoraConfig`. Imports no torch, so that the daemon can check an adapter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

from ..config.config_fields import ConfigFields
from ..errors import InvalidModel, ModelNotFound, UnsupportedModel
from ..json_object import read_json_object
from ..safetensors.safetensors_header import read_safetensors_header
from .lora import LoraSettings

CONFIG, WEIGHTS, GGUF = "adapter_config.json", "adapter_model.safetensors", "adapter.gguf"
DAMAGED = "Download or save the adapter again."
MERGE = "Merge it into its model with PEFT, and add that."
MOST_RANK = 256
_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
_PLAIN = re.compile(r"[\w.]+")
_OTHER_KINDS = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "alora_invocation_tokens": "activated LoRA",
}


def weights_of(folder: Path) -> Path:
    """The file with the matrices of the adapter in a folder."""
    file = folder / GGUF
    return file if file.exists() else folder / WEIGHTS


class AdapterSettings(LoraSettings):
    """What the files of PEFT say; modules have the names of transformers."""

    def __init__(self, folder: Path) -> None:
        """Check the files.

        Raises `ModelNotFound`, `InvalidModel`, and `UnsupportedModel` for other adapters than LoRA.
        """
        settings = read_json_object(folder / CONFIG)
        if settings is None:
            raise ModelNotFound(
                f"{folder} has no {CONFIG}.", hint="Name the folder of an adapter saved by PEFT."
            )
        self.folder = folder
        self._fields = ConfigFields(settings, f"{folder.as_posix()}/{CONFIG}")
        self._check()
        path = folder / WEIGHTS
        self.tensors = {tensor.name: (path, tensor) for tensor in read_safetensors_header(path)}
        """Each tensor with the file it is in."""
        self.modules = self._find_modules(self.tensors)

    def rank(self, module: str) -> int:
        """See `LoraSettings`."""
        rank = self._pattern("rank_pattern", module)
        return self._fields.integer("r", 1, MOST_RANK) if rank is None else int(rank)

    def scale(self, module: str, rank: int) -> float:
        """See `LoraSettings`."""
        alpha = self._pattern("alpha_pattern", module) or self._fields.number("lora_alpha")
        root = self._fields.flag("use_rslora", False)
        return alpha / (math.sqrt(rank) if root else rank)

    def down(self, module: str) -> str:
        """See `LoraSettings`."""
        return f"base_model.model.{module}.lora_A.weight"

    def up(self, module: str) -> str:
        """See `LoraSettings`."""
        return f"base_model.model.{module}.lora_B.weight"

    def _pattern(self, key: str, module: str) -> float | None:
        """The value of the first pattern that a module's name ends with."""
        patterns = self._fields.group(key)
        for pattern in () if patterns is None else patterns.names:
            if module == pattern or module.endswith(f".{pattern}"):
                assert patterns is not None
                return patterns.number(pattern)
        return None

    def _check(self) -> None:
        fields = self._fields
        kind = fields.text("peft_type", "LORA")
        if kind != "LORA":
            fields.refuse(f"is an adapter of the kind {kind[:40]!r}, not LoRA", MERGE)
        for key, what in _OTHER_KINDS.items():
            if fields.says_something(key):
                fields.refuse(f"uses {what}, which no engine here computes", MERGE)
        for key in ("rank_pattern", "alpha_pattern"):
            patterns = fields.group(key)
            if patterns is not None and not all(map(_PLAIN.fullmatch, patterns.names)):
                fields.refuse(f"has regular expressions under {key!r}", MERGE)
        if fields.says_something("modules_to_save") or fields.text("bias", "none") != "none":
            fields.refuse("replaces whole layers or biases beside its matrices", MERGE)
        fields.integer("r", 1, MOST_RANK)
        fields.number("lora_alpha")

    def _find_modules(self, tensors: Iterable[str]) -> frozenset[str]:
        halves: dict[str, set[str]] = {"A": set(), "B": set()}
        for name in tensors:
            match = _NAME.fullmatch(name)
            if match is None:
                raise UnsupportedModel(
                    f"{self.folder} has the tensor {name!r}, which is no matrix of LoRA.",
                    hint=MERGE,
                )
            halves[match[2]].add(match[1])
        if halves["A"] != halves["B"] or not halves["A"]:
            raise InvalidModel(
                f"{self.folder} lacks one of the two matrices of a layer.", hint=DAMAGED
            )
        return frozenset(halves["A"])
