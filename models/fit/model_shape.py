"""The numbers of a model that its memory depends on, from its header or the catalog."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import msgspec

from ..gguf.gguf_header import GGUFHeader, TensorInfo
from ..model_task import ModelTask, Pooling, choose_pooling, is_causal, is_encoder, task_of

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_EMBEDDING = "token_embd.weight"
# Looked up row by row, which llama.cpp always does on the processor.
_INPUTS = (_EMBEDDING, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
_REPACKED_ROWS = 8


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One transformer block: bytes of its weights, and what it keeps of a token.

    `experts` are those of the `weights` that a router picks from. Keys and values are elements a
    token, 0 where another layer's are used; `state` counts bytes a sequence has instead.
    """

    weights: int
    experts: int = 0
    largest: int = 0
    """Bytes of the largest tensor."""
    key_elements: int = 0
    value_elements: int = 0
    state: int = 0


_CATALOG_KEYS = {
    "vocab_size": "vocabulary",
    "embedding_length": "embedding",
    "feed_forward_length": "feed_forward",
    "head_count": "heads",
    "expert_feed_forward_length": "expert_feed_forward",
}


class ShapeNumbers(msgspec.Struct, frozen=True, kw_only=True, dict=True, rename=_CATALOG_KEYS):
    """The numbers that a model's shape and its record in the catalog share.

    `input_bytes` are tables that are looked up, `output_bytes` what makes logits of the last layer;
    where those are `tied`, the embeddings do. `matrices` counts the bytes of what is multiplied
    with, by tensor type, `merges` the vocabulary's rules. `windowed` models have layers with a
    sliding window; a text for a model in `one_piece` is computed in a single batch.
    """

    architecture: str
    vocab_size: int
    embedding_length: int
    feed_forward_length: int
    head_count: int
    key_length: int
    input_bytes: int
    output_bytes: int = 0
    tied_bytes: int = 0
    tied_type: str = ""
    expert_feed_forward_length: int = 0
    experts_used: int = 0
    windowed: bool = False
    merges: int = 0
    matrices: dict[str, int] = {}
    one_piece: bool = False
    has_cache: bool = True
    gated: bool = True


class ModelShape(ShapeNumbers, frozen=True, kw_only=True):
    """What a decoder's or an encoder's memory depends on; bytes are of the stored weights."""

    context: int
    layers: tuple[LayerShape, ...]
    expert_count: int = 0
    parameters: int = 0
    task: ModelTask = ModelTask.GENERATE

    @cached_property
    def weights(self) -> int:
        """Bytes of all weights."""
        return self.input_bytes + self.output_bytes + sum(layer.weights for layer in self.layers)

    @cached_property
    def key_elements(self) -> int:
        """Elements of keys that all layers keep of a token."""
        return sum(layer.key_elements for layer in self.layers)

    @cached_property
    def value_elements(self) -> int:
        """As `key_elements`, of values."""
        return sum(layer.value_elements for layer in self.layers)


def shape_of(header: GGUFHeader) -> ModelShape:
    """The shape of the model in a GGUF file."""
    task = task_of(header)
    pooling = choose_pooling(header, task)
    layers, rest = _by_layer(header.tensors)
    blocks = tuple(_layer(header, i, layers.get(i, [])) for i in range(header.block_count))
    inputs = sum(t.bytes for t in rest if t.name in _INPUTS)
    embedding = next((t for t in rest if t.name == _EMBEDDING), None)
    tied = task is ModelTask.GENERATE and not any(t.name == "output.weight" for t in rest)
    merges = header.arrays.get("tokenizer.ggml.merges")
    return ModelShape(
        architecture=header.architecture,
        context=header.context,
        vocab_size=header.vocab_size,
        embedding_length=header.embedding_length,
        feed_forward_length=header.feed_forward_length,
        head_count=max(header.head_counts, default=0),
        key_length=header.key_length,
        layers=blocks,
        input_bytes=inputs,
        output_bytes=header.tensor_bytes - inputs - sum(layer.weights for layer in blocks),
        tied_bytes=embedding.bytes if tied and embedding else 0,
        tied_type=embedding.type if tied and embedding else "",
        expert_feed_forward_length=header.integer("expert_feed_forward_length") or 0,
        expert_count=header.integer("expert_count") or 0,
        experts_used=header.integer("expert_used_count") or 0,
        windowed=header.sliding_window > 0,
        merges=merges[1] if merges else 0,
        matrices=_matrices(header.tensors),
        parameters=header.parameters,
        task=task,
        one_piece=not is_causal(header) or pooling in (Pooling.MEAN, Pooling.CLS),
        has_cache=not is_encoder(header),
        gated=any(".ffn_gate" in tensor.name for tensor in header.tensors),
    )


def _by_layer(
    tensors: tuple[TensorInfo, ...],
) -> tuple[dict[int, list[TensorInfo]], list[TensorInfo]]:
    layers: dict[int, list[TensorInfo]] = {}
    rest: list[TensorInfo] = []
    for tensor in tensors:
        match = _LAYER.fullmatch(tensor.name)
        if match is None:
            rest.append(tensor)
        else:
            layers.setdefault(int(match[1]), []).append(tensor)
    return layers, rest


def _layer(header: GGUFHeader, index: int, tensors: list[TensorInfo]) -> LayerShape:
    counts = header.kv_head_counts
    # The last layers of some models look at the keys and values of earlier ones.
    own = header.block_count - (header.integer("attention.shared_kv_layers") or 0)
    heads = counts[index] if index < min(len(counts), own) else 0
    local = header.per_layer.get(f"{header.architecture}.attention.sliding_window_pattern", ())
    end = "_swa" if index < len(local) and local[index] else ""
    keys = header.integer(f"attention.key_length{end}") or header.key_length
    values = header.integer(f"attention.value_length{end}") or header.value_length
    if header.integer("attention.key_length_mla"):
        values = 0  # with compressed attention they are a part of the keys
    return LayerShape(
        weights=sum(tensor.bytes for tensor in tensors),
        experts=sum(tensor.bytes for tensor in tensors if "_exps." in tensor.name),
        largest=max((tensor.bytes for tensor in tensors), default=0),
        key_elements=heads * keys,
        value_elements=heads * values,
        state=_state(header, tensors),
    )


def _state(header: GGUFHeader, tensors: list[TensorInfo]) -> int:
    """Bytes of a recurrent layer's state: the last inputs of its convolution, and the state."""
    if not any(".ssm_" in tensor.name for tensor in tensors):
        return 0
    inner, size = header.integer("ssm.inner_size") or 0, header.integer("ssm.state_size") or 0
    groups, width = header.integer("ssm.group_count") or 0, header.integer("ssm.conv_kernel") or 1
    return 4 * ((width - 1) * (inner + 2 * groups * size) + inner * size)


def _matrices(tensors: tuple[TensorInfo, ...]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.name in _INPUTS or len(tensor.shape) < 2:
            continue
        rows = tensor.shape[1:]
        if rows[0] % _REPACKED_ROWS == 0:
            found[tensor.type] += tensor.bytes
    return dict(found)
