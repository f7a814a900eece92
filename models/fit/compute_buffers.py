"""The buffers in which llama.cpp computes one step, worked out from a model's shape."""

from __future__ import annotations

from typing import Protocol

from ..kv_type import KVType
from .model_shape import ModelShape

_FLOAT = 4


class ComputeStep(Protocol):
    """The largest step that a model is loaded for: `batch` tokens over `cells` of cache."""

    @property
    def batch(self) -> int:
        """Tokens."""
        ...

    @property
    def cells(self) -> int:
        """Tokens in the cache."""
        ...

    @property
    def outputs(self) -> int:
        """Tokens with logits."""
        ...

    @property
    def kv_type(self) -> KVType:
        """How the cache is stored."""
        ...

    @property
    def flash_attention(self) -> bool:
        """Whether scores are never stored."""
        ...


def step_bytes(shape: ModelShape, step: ComputeStep) -> int:
    """Buffers of one step, whose largest moment is in a block, in the attention or at the logits.

    What lives at once in such a moment was read off what llama.cpp reports for Llama, Qwen, Gemma,
    mixture-of-experts and gpt-oss models of 0.1 to 70 billion weights: within 3 percent of it.
    """
    batch = min(step.batch, step.cells)
    embedding = shape.embedding_length
    mask = _mask_bytes(shape, step)
    width = max(_dense_width(shape, step.kv_type), _expert_width(shape))
    logits = shape.vocab_size * step.outputs * _FLOAT
    moments = [
        (batch + step.outputs // 2) * width * _FLOAT + mask,
        logits + batch * embedding * _FLOAT,
    ]
    if not step.flash_attention:
        scores = shape.head_count * step.cells * batch * _FLOAT * 33 // 32
        rest = batch * max(embedding, shape.head_count * shape.key_length) * 22
        moments.append(scores + rest + mask)
    return max(moments)


def step_inputs_bytes(shape: ModelShape, step: ComputeStep) -> int:
    """What the processor prepares where a GPU computes everything: looked-up rows, and masks."""
    batch = min(step.batch, step.cells)
    return batch * shape.embedding_length * _FLOAT + _mask_bytes(shape, step)


def output_bytes(shape: ModelShape, rows: int) -> int:
    """Where results are handed over: logits of so many tokens, cleared and so really taken.

    Models that embed hand over hidden states beside them.
    """
    width = shape.vocab_size + (0 if shape.task == "generate" else shape.embedding_length)
    return width * rows * _FLOAT


def embedding_step_bytes(shape: ModelShape, tokens: int, piece: int) -> int:
    """As `step_bytes`, for texts to embed: `piece` of `tokens` are computed at once."""
    width = 4 * shape.embedding_length + (3 if shape.gated else 1) * shape.feed_forward_length
    return piece * width * _FLOAT + tokens * piece * 2


def _dense_width(shape: ModelShape, kv_type: KVType) -> int:
    """Floats a token in a block: some rows as wide as the model, and three of the feed-forward."""
    if shape.experts_used:
        return 4 * shape.embedding_length
    # Quantized caches rotate their input in the place of one row.
    rows = 3 if kv_type.block_elements > 1 and not shape.windowed else 4
    return rows * shape.embedding_length + 3 * shape.feed_forward_length


def _expert_width(shape: ModelShape) -> int:
    """Floats a token where experts' results are added up, or where their insides are wider."""
    used, embedding = shape.experts_used, shape.embedding_length
    if not used:
        return 0
    return max(6 * embedding + 2 * used * embedding, 4 * used * shape.expert_feed_forward_length)


def _mask_bytes(shape: ModelShape, step: ComputeStep) -> int:
    """Who sees whom: a mask for each kind of layer, in half precision for flash attention."""
    masks = 2 if shape.windowed else 1
    batch = min(step.batch, step.cells)
    return masks * step.cells * batch * (2 if step.flash_attention else 4) * 33 // 32
