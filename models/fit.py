"""How much memory a model will take, worked out from its header alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import UnsupportedModel
from .gguf import GGUFHeader
from .kv_type import KVType
from .task import ModelTask, Pooling, choose_pooling, is_causal, is_encoder, task_of

DEFAULT_SLOTS = 8
DEFAULT_BATCH = 512
DRAFT_BATCH = 256
"""The batch of a draft model, which has but few tokens to read at a time."""
KEPT_SLOTS = 16
"""Cache slots beside those of running requests, for conversations that may go on."""
_LARGEST_DEFAULT = 16384
_SMALLEST_DEFAULT = 512
_CONTEXT_STEP = 256  # llama.cpp pads the KV cache to this
EMBEDDING_SLOTS = 64
"""Texts that an embedding model takes in one batch."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes a loaded model takes: its weights, its KV cache, and the buffers of one step."""

    weights: int
    kv: int
    compute: int

    @property
    def total(self) -> int:
        """All of it together."""
        return self.weights + self.kv + self.compute


def estimate_memory(
    header: GGUFHeader,
    context: int,
    slots: int,
    batch: int,
    *,
    kv_type: KVType = KVType.F16,
    flash_attention: bool = True,
) -> MemoryEstimate:
    """Predict the memory for `context` KV tokens shared by `slots`, in steps of `batch` tokens.

    Within 6 percent of what llama.cpp reports for its CPU buffers. Layers with a sliding window
    keep the whole context as well, or else prefixes could not be used again.
    """
    if task_of(header) is not ModelTask.GENERATE:
        return _estimate_embedding(header, context, batch)
    cells = _padded(context)
    per_token = kv_type.bytes_of(header.key_length) + kv_type.bytes_of(header.value_length)
    return MemoryEstimate(
        weights=header.tensor_bytes,
        kv=cells * per_token * sum(header.kv_head_counts),
        compute=_compute_bytes(header, cells, slots, batch, kv_type, flash_attention),
    )


def check_kv_type(header: GGUFHeader, kv_type: KVType) -> None:
    """Raise `UnsupportedModel` where the model's heads cannot be stored in blocks of this type."""
    block = kv_type.block_elements
    for length in (header.key_length, header.value_length):
        if length % block:
            raise UnsupportedModel(
                f"{header.path.name} has heads of {length} elements, and a {kv_type} KV cache "
                f"stores {block} at a time.",
                hint=f"Load it with the kv_type {KVType.F16}.",
            )


def default_context(header: GGUFHeader, available_bytes: int, kv_type: KVType = KVType.F16) -> int:
    """The tokens of context to load a model with when nobody said how many.

    The trained context up to 16,384, halved until KV cache and buffers take at most half of what
    the weights leave of `available_bytes`; a multiple of 256, and not below 512 where the model
    was trained for that many.
    """

    def cost(context: int) -> int:
        estimate = estimate_memory(header, context, DEFAULT_SLOTS, DEFAULT_BATCH, kv_type=kv_type)
        return estimate.kv + estimate.compute

    return largest_context(header.context, (available_bytes - header.tensor_bytes) // 2, cost)


def largest_context(trained: int, room: int, cost: Callable[[int], int]) -> int:
    """See `default_context`: the largest such context whose `cost` in bytes is at most `room`."""
    context = min(trained, _LARGEST_DEFAULT)
    if context <= _SMALLEST_DEFAULT:
        return context
    while context > _SMALLEST_DEFAULT:
        context -= context % _CONTEXT_STEP
        if cost(context) <= room:
            return context
        context //= 2
    return _SMALLEST_DEFAULT


def _padded(context: int) -> int:
    return -(-context // _CONTEXT_STEP) * _CONTEXT_STEP


def one_piece(header: GGUFHeader) -> bool:
    """Whether a text has to be computed in one piece: each token sees all, or all are averaged."""
    pooling = choose_pooling(header, task_of(header))
    return not is_causal(header) or pooling in (Pooling.MEAN, Pooling.CLS)


def _estimate_embedding(header: GGUFHeader, context: int, batch: int) -> MemoryEstimate:
    """A model without KV cache, or with one for a single batch; 10 percent above llama.cpp's."""
    tokens = max(context, batch)
    piece = tokens if one_piece(header) else batch
    gated = any(".ffn_gate" in tensor.name for tensor in header.tensors)
    width = 4 * header.embedding_length + (3 if gated else 1) * header.feed_forward_length
    compute = piece * width * 4 + tokens * piece * 2
    if is_encoder(header):  # room for logits is set aside as well, but never touched
        return MemoryEstimate(weights=header.tensor_bytes, kv=0, compute=compute)
    per_token = (header.key_length + header.value_length) * sum(header.kv_head_counts)
    rows = piece if one_piece(header) else EMBEDDING_SLOTS
    return MemoryEstimate(
        weights=header.tensor_bytes,
        kv=tokens * per_token * KVType.F16.bytes_of(1),
        compute=compute + header.vocab_size * rows * 4,
    )


def _compute_bytes(
    header: GGUFHeader, cells: int, slots: int, batch: int, kv_type: KVType, flash: bool
) -> int:
    """Buffers of one step, whose largest moment is in a block, in the attention or at the logits.

    Fitted to what llama.cpp reports for Llama, Qwen2 and Gemma 3 models.
    """
    batch = min(batch, cells)
    embedding = header.embedding_length
    outputs = slots + KEPT_SLOTS + 1
    logits = header.vocab_size * outputs * 4
    # One row of f32 a token; quantized caches rotate their input in the place of one.
    rows = 3 if kv_type.block_elements > 1 and not header.sliding_window else 4
    width = rows * embedding + 3 * header.feed_forward_length
    masks = 2 if header.sliding_window else 1  # one for each kind of layer
    mask = masks * cells * batch * (2 if flash else 4) * 33 // 32
    moments = [(batch + outputs // 2) * width * 4 + mask, logits + batch * embedding * 4]
    if not flash:
        heads = max(header.head_counts, default=0)
        rest = batch * max(embedding, heads * header.key_length) * 22
        moments.append(heads * cells * batch * 4 * 33 // 32 + rest + mask)
    return max(moments) + logits
