"""Models of random bfloat16 weights in any shape, and pages for their keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch
from gpu.weights import random_fp8, random_weight

from ingle.kernels.attention.attention_input import AttentionInput, AttentionMetadata
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.formats.weight import Weight
from ingle.kernels.operations import Operations
from ingle.kernels.recurrent.recurrent_shapes import (
    DeltaNetShape,
    ShortConvShape,
    StateSpaceShape,
)
from ingle.models.config.model_config import LayerConfig, ModelConfig, RopeConfig
from ingle.models.config.recurrent_config import RecurrentConfig

PAGE = 32


def llama_config(
    *, layers: int, hidden: int, heads: int, kv_heads: int, intermediate: int, vocabulary: int
) -> ModelConfig:
    """A model built like Llama 3."""
    head_size = hidden // heads
    layer = LayerConfig(rope=RopeConfig(theta=500_000.0, size=head_size))
    return ModelConfig(
        architecture="llama",
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=head_size,
        context=8192,
        norm_epsilon=1e-5,
        layers=(layer,) * layers,
        attention_scale=head_size**-0.5,
    )


DELTA_NET = DeltaNetShape(1, 2, 128, 128, 4, takes_turns=True)
STATE_SPACE = StateSpaceShape(heads=4, head_size=64, groups=1, state_size=128, kernel=4)
SHORT_CONVOLUTION = ShortConvShape(channels=256, kernel=3)
"""Recurrent layers as small as kernels know them, the last one for a width of 256."""
_HYBRIDS = {DeltaNetShape: "qwen35", StateSpaceShape: "granitehybrid", ShortConvShape: "lfm2"}


def hybrid_config(model: ModelConfig, recurrent: RecurrentConfig) -> ModelConfig:
    """Return the model with such layers, but for the last of four, which has attention."""
    layers = [
        layer if index % 4 == 3 else LayerConfig(recurrent=recurrent)
        for index, layer in enumerate(model.layers)
    ]
    return replace(
        model,
        architecture=_HYBRIDS[type(recurrent)],
        gated_attention=isinstance(recurrent, DeltaNetShape),
        layers=tuple(layers),
    )


def all_bf16(name: str) -> str:
    """Every matrix in bfloat16."""
    del name
    return "BF16"


def all_nf4(name: str) -> str:
    """As quantising to NF4 on load leaves a model: linear layers, but for the last."""
    return "BF16" if name in ("token_embd.weight", "output.weight") else "NF4"


def all_g4(name: str) -> str:
    """As AWQ and GPTQ leave a model."""
    return "BF16" if name in ("token_embd.weight", "output.weight") else "G4_128"


def all_fp8(name: str) -> str:
    """As checkpoints in FP8 are: linear layers, but for the last."""
    return "BF16" if name in ("token_embd.weight", "output.weight") else "FP8"


def q4_k_m(name: str) -> str:
    """Return the type of a tensor as in Q4_K_M files: finer where it matters most."""
    layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
    finer = layer % 2 and name.endswith(("attn_v.weight", "ffn_down.weight"))
    return "Q6_K" if finer or name == "output.weight" else "Q4_K"


class RandomWeights:
    """Random `Weights` created on demand, the same for the same seed and device.

    `kind` returns the type of a matrix.
    """

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device,
        seed: int = 0,
        kind: Callable[[str], str] = all_bf16,
    ) -> None:
        self._shapes = dict(_shapes(config))
        self.names = self._shapes.keys()
        """Every tensor of the family."""
        self._device = device
        self._seed = seed
        self._kind = kind

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """Shapes of all that are no vectors."""
        return [(shape[0], shape[1]) for shape in self._shapes.values() if len(shape) == 2]

    def get(self, name: str) -> Weight:
        """Ones for norms; else normal, so small that activations keep their size."""
        shape = self._shapes[name]
        if len(shape) == 1:
            ones = torch.ones(shape, device=self._device)
            return -ones if name.endswith("ssm_a") else ones
        seed = self._seed + list(self._shapes).index(name)
        kind = "BF16" if "conv" in name.rsplit(".", 2)[-2] else self._kind(name)
        if kind == "FP8":
            return random_fp8(shape[0], shape[1], self._device, seed)
        if kind != "BF16":
            return random_weight(kind, shape[0], shape[1], self._device, seed)
        generator = torch.Generator(self._device).manual_seed(seed)
        values = torch.empty(shape, device=self._device, dtype=torch.bfloat16)
        return values.normal_(0, shape[1] ** -0.5, generator=generator)


class Pages:
    """An `AttentionContext` of sequences that are all equally long, each in pages of its own."""

    def __init__(
        self,
        config: ModelConfig,
        operations: Operations,
        *,
        sequences: int,
        room: int,
        device: torch.device,
    ) -> None:
        self._config = config
        self._operations = operations
        self._each = -(-room // PAGE)
        shape = (sequences * self._each, PAGE, config.num_kv_heads, config.head_size)
        self._keys, self._values = (
            [torch.zeros(shape, device=device, dtype=operations.dtype) for _ in config.layers]
            for _ in range(2)
        )
        tables = torch.arange(sequences * self._each, dtype=torch.int32, device=device)
        self._tables = tables.view(sequences, self._each)

    def place(self, start: int, count: int) -> torch.Tensor:
        """Reserve tokens `start` to `start + count` of each sequence; return positions."""
        device, sequences = self._tables.device, len(self._tables)
        places = torch.arange(start, start + count, device=device)
        first = torch.arange(sequences, device=device)[:, None] * (self._each * PAGE)
        positions = places.repeat(sequences)
        self._step = AttentionMetadata(
            positions,
            (first + places).flatten(),
            self._tables,
            torch.full((sequences,), start + count, dtype=torch.int32, device=device),
            torch.arange(sequences + 1, dtype=torch.int32, device=device) * count,
            longest_query=count,
            longest_context=start + count,
        )
        return positions

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """See `AttentionContext.attend`."""
        return self._operations.attend(
            x,
            self._keys[layer],
            self._values[layer],
            self._step,
            scale=self._config.attention_scale,
        )


def _shapes(config: ModelConfig) -> Iterable[tuple[str, tuple[int, ...]]]:
    hidden, wide = config.hidden_size, config.intermediate_size
    query, key = (n * config.head_size for n in (config.num_heads, config.num_kv_heads))
    yield "token_embd.weight", (config.vocab_size, hidden)
    for index, layer in enumerate(config.layers):
        if layer.recurrent is not None:
            mixer = dict(_recurrent_shapes(layer.recurrent, hidden))
        else:
            mixer = {
                "attn_q.weight": (query * (2 if config.gated_attention else 1), hidden),
                "attn_k.weight": (key, hidden),
                "attn_v.weight": (key, hidden),
                "attn_output.weight": (hidden, query),
            }
            if config.architecture in ("qwen35", "lfm2"):
                mixer |= {f"attn_{name}_norm.weight": (config.head_size,) for name in ("q", "k")}
        for name, shape in {
            "attn_norm.weight": (hidden,),
            **mixer,
            "ffn_norm.weight": (hidden,),
            "ffn_gate.weight": (wide, hidden),
            "ffn_up.weight": (wide, hidden),
            "ffn_down.weight": (hidden, wide),
        }.items():
            yield f"blk.{index}.{name}", shape
    yield "output_norm.weight", (hidden,)
    yield "output.weight", (config.vocab_size, hidden)


def _recurrent_shapes(net: RecurrentConfig, hidden: int) -> Mapping[str, tuple[int, ...]]:
    if isinstance(net, ShortConvShape):
        return {
            "shortconv.in_proj.weight": (3 * net.channels, hidden),
            "shortconv.conv.weight": (net.channels, net.kernel),
            "shortconv.out_proj.weight": (hidden, net.channels),
        }
    if isinstance(net, StateSpaceShape):
        width, heads, normed = net.width, net.heads, net.width
        projected = width + net.channels + heads
        own: dict[str, tuple[int, ...]] = {"ssm_in.weight": (projected, hidden), "ssm_d": (heads,)}
    else:
        width, heads, normed = net.value_width, net.value_heads, net.value_size
        own = {
            "attn_qkv.weight": (net.channels, hidden),
            "attn_gate.weight": (width, hidden),
            "ssm_beta.weight": (heads, hidden),
            "ssm_alpha.weight": (heads, hidden),
        }
    return {
        **own,
        "ssm_conv1d.weight": (net.channels, net.kernel),
        "ssm_a": (heads,),
        "ssm_dt.bias": (heads,),
        "ssm_norm.weight": (normed,),
        "ssm_out.weight": (hidden, width),
    }
