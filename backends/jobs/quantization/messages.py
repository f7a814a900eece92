"""Messages of the quantisation process: its spec, progress and report."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class QuantizationTarget(StrEnum):
    """A mix of tensor types, by its common name."""

    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q6_K = "Q6_K"
    Q5_K_M = "Q5_K_M"
    Q4_K_M = "Q4_K_M"
    Q4_0 = "Q4_0"
    AWQ = "AWQ"
    GPTQ = "GPTQ"
    FP8 = "FP8"

    @property
    def is_folder(self) -> bool:
        """Return whether it is one of safetensors, and not of GGUF."""
        return self in (QuantizationTarget.AWQ, QuantizationTarget.GPTQ, QuantizationTarget.FP8)

    @property
    def tensor_type(self) -> str:
        """Return the type that most tensors get."""
        return self.removesuffix("_M")

    @property
    def is_quantized(self) -> bool:
        """Return whether the loss exceeds float rounding."""
        return self not in (QuantizationTarget.F16, QuantizationTarget.BF16)


class QuantizeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Quantise the model at `source`, a GGUF file or a folder of safetensors, to the file `output`.

    With a target of safetensors both are folders.

    `adapter` is the folder of a LoRA adapter that is merged into it, `importance` a text or an
    imatrix file of llama.cpp that says which weights matter. `requantize` allows a source
    that is already quantised; `overwrite` an existing `output`.
    `threads` 0 uses all the machine has.
    """

    source: str
    output: str
    target: QuantizationTarget
    adapter: str = ""
    importance: str = ""
    requantize: bool = False
    overwrite: bool = False
    threads: int = 0


class QuantizeProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The present step, weights done of `total`, and those `resumed` from an earlier call."""

    step: str
    done: int = 0
    total: int = 0
    resumed: int = 0


class QuantizeReport(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The finished file, which llama.cpp has loaded, or the folder, which ingle's engine has.

    Sizes in bytes; `types` counts the tensors of each type, `weighted` those whose
    columns were weighed by their importance; `writes_text` is false for models that
    only embed or rank texts.
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
    weighted: int = 0
    writes_text: bool = True
