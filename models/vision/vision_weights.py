"""The tensors of a picture encoder, by the names of llama.cpp's projectors, and its layers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import torch
from torch.nn import functional

from ingle.kernels.formats.dequantize import dequantize

from ..errors import InvalidModel
from ..weights.weights import Weights

_HINT = "Download the model again, or use another conversion."
_COLOURS = 3
_OF_A_LAYER: Mapping[str, str] = {
    **dict.fromkeys(("layer_norm1", "attention_norm", "norm1"), "ln1"),
    **dict.fromkeys(("layer_norm2", "ffn_norm", "norm2"), "ln2"),
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in ("q", "k", "v", "out")},
    **{f"attention.{x}_proj": f"attn_{x}" for x in "qkv"},
    "attention.o_proj": "attn_out",
    "attn.qkv": "attn_qkv",
    "attn.proj": "attn_out",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    **{f"{mlp}.{x}_proj": f"ffn_{x}" for mlp in ("feed_forward", "mlp") for x in ("gate", "up")},
    **dict.fromkeys(("feed_forward.down_proj", "mlp.down_proj"), "ffn_down"),
}
_OTHERS: Mapping[str, str] = {
    **dict.fromkeys(
        ("embeddings.patch_embedding", "patch_conv", "patch_embed.proj"), "v.patch_embd"
    ),
    "embeddings.position_embedding": "v.position_embd",
    "ln_pre": "v.pre_ln",
    **dict.fromkeys(("post_layernorm", "merger.ln_q"), "v.post_ln"),
    "mm_soft_emb_norm": "mm.soft_emb_norm",
    "modality_projection.proj": "mm.model.fc",
    "norm": "mm.input_norm",
    "patch_merger.merging_layer": "mm.patch_merger",
    "linear_1": "mm.1",
    "linear_2": "mm.2",
    "merger.mlp.0": "mm.0",
    "merger.mlp.2": "mm.2",
}
_HF_NAME = re.compile(
    r"(?:model\.)?(?:vision_tower(?:\.vision_model)?|vision_model|visual|multi_modal_projector"
    r"|connector)\.(?:(?:(?:encoder|transformer)\.)?(?:layers|blocks)\.(?P<layer>\d{1,3})\.)?"
    r"(?P<part>[\w.]+?)(?:\.(?P<kind>weight|bias))?"
)


def hf_vision_names(names: Iterable[str]) -> Mapping[str, str]:
    """The names of a safetensors folder's vision tensors, by those of llama.cpp."""
    found: dict[str, str] = {}
    for name in names:
        match = _HF_NAME.fullmatch(name)
        if match is None:
            continue
        layer, part, kind = match["layer"], match["part"], match["kind"] or "weight"
        if part == "mm_input_projection_weight":
            found["mm.input_projection.weight"] = name
        elif layer is not None and part in _OF_A_LAYER:
            found[f"v.blk.{int(layer)}.{_OF_A_LAYER[part]}.{kind}"] = name
        elif layer is None and part in _OTHERS:
            found[f"{_OTHERS[part]}.{kind}"] = name
    return found


class VisionWeights:
    """Loads tensors to a device: matrices in `dtype`, all else in fp32.

    `names` are those of `raw` by llama.cpp's; raises `InvalidModel` for a tensor that is missing or
    has the wrong shape.
    """

    def __init__(
        self,
        raw: Weights,
        names: Mapping[str, str],
        *,
        device: torch.device,
        dtype: torch.dtype,
        interleaved: int = 0,
        norm_offset: float = 0.0,
    ) -> None:
        """The matrices of queries and keys may alternate the two halves of so many heads.

        `norm_offset` is added to the weights of RMS norms.
        """
        self._raw, self._names, self._interleaved = raw, names, interleaved
        self._norm_offset = norm_offset
        self.device, self.dtype = device, dtype
        self.bytes = 0
        """Bytes of the loaded tensors."""

    def has(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return name in self._names

    def tensor(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor `name`, which must have this shape."""
        found = self._read(name)
        if tuple(found.shape) != shape:
            raise InvalidModel(
                f"The encoder's tensor {name!r} has the shape {tuple(found.shape)}, where its "
                f"settings ask for {shape}.",
                hint=_HINT,
            )
        found = found.to(self.device, dtype)
        self.bytes += found.nbytes
        return found

    def linear(self, name: str, outputs: int, inputs: int) -> VisionLinear:
        """The matrix `name`, with its bias if there is one."""
        bias = self.optional(f"{name}.bias", outputs)
        weight = self.tensor(f"{name}.weight", outputs, inputs, dtype=self.dtype)
        if self._interleaved and name.endswith(("attn_q", "attn_k")):
            apart = weight.view(self._interleaved, -1, 2, inputs).transpose(1, 2)
            weight = apart.reshape(outputs, inputs)
        return VisionLinear(weight, bias)

    def optional(self, name: str, *shape: int) -> torch.Tensor | None:
        """The tensor `name` in fp32; None if there is none."""
        return self.tensor(name, *shape) if self.has(name) else None

    def patches(self, width: int, pixels: int) -> torch.Tensor:
        """The matrix (width, pixels) of patches; that of two equal frames is their sum."""
        name, side = "v.patch_embd.weight", math.isqrt(pixels // _COLOURS)
        square = width, _COLOURS, side, side
        if self.has(f"{name}.1"):
            found = self.tensor(name, *square) + self.tensor(f"{name}.1", *square)
        elif self._read(name).ndim > len(square):
            found = self.tensor(name, width, _COLOURS, 2, side, side).sum(2)
        else:
            found = self.tensor(name, *square)
        return found.flatten(1).to(self.dtype)

    def _read(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise InvalidModel(f"The picture encoder has no tensor {name!r}.", hint=_HINT)
        found = self._raw.get(self._names[name])
        return found if isinstance(found, torch.Tensor) else dequantize(found)

    def norm(self, name: str, size: int, epsilon: float) -> VisionNorm:
        """The norm `name`: a layer norm if it has a bias, else an RMS norm."""
        weight, bias = self.tensor(f"{name}.weight", size), self.optional(f"{name}.bias", size)
        return VisionNorm(weight + self._norm_offset if bias is None else weight, bias, epsilon)


class VisionLinear:
    """A linear layer of rows (n, inputs) of any float type; results are fp32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(n, outputs) fp32."""
        found = functional.linear(rows.to(self._weight.dtype), self._weight).float()
        return found if self._bias is None else found + self._bias


class VisionNorm:
    """A norm of the last dimension, in fp32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, epsilon: float) -> None:
        self._weight, self._bias, self._epsilon = weight, bias, epsilon

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows (n, size) fp32, normalised."""
        size = self._weight.shape
        if self._bias is None:
            return functional.rms_norm(rows, size, self._weight, self._epsilon)
        return functional.layer_norm(rows, size, self._weight, self._bias, self._epsilon)
