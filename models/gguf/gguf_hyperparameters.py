"""Check hyper-parameters before native code gets them.

llama.cpp checks the shape of a header but trusts most of its numbers: one changed head count,
block count or rope dimension makes it abort or run for minutes. Every published
model is well within these ranges.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NoReturn

from ..errors import InvalidModel
from .ggml_types import TENSOR_TYPES
from .gguf_reader import ValueType

if TYPE_CHECKING:
    from .gguf_header import GGUFHeader

_REQUIRED = {
    "block_count": (1, 512),  # llama.cpp aborts above
    "context_length": (1, 1 << 26),
    "embedding_length": (1, 1 << 17),
}
# Single integers, or arrays with one integer a block. Zero heads or an empty feed-forward part
# mean a block of another kind.
_RANGES = {
    "attention.head_count": (0, 1024),
    "attention.head_count_kv": (0, 1024),
    "attention.key_length": (1, 1 << 13),
    "attention.key_length_mla": (1, 1 << 13),
    "attention.key_length_swa": (1, 1 << 13),
    "attention.value_length": (1, 1 << 13),
    "attention.value_length_mla": (1, 1 << 13),
    "attention.value_length_swa": (1, 1 << 13),
    "attention.sliding_window": (0, 1 << 26),
    "attention.kv_lora_rank": (0, 1 << 17),
    "attention.q_lora_rank": (0, 1 << 17),
    "embedding_length_out": (1, 1 << 17),
    "expert_count": (0, 1024),  # llama.cpp aborts above
    "expert_feed_forward_length": (0, 1 << 20),
    "expert_group_count": (0, 1 << 14),
    "expert_shared_count": (0, 1 << 10),
    "expert_used_count": (0, 1 << 10),
    "feed_forward_length": (0, 1 << 20),
    "leading_dense_block_count": (0, 1024),
    "nextn_predict_layers": (0, 64),
    "rope.dimension_count": (2, 1 << 13),
    "rope.dimension_count_swa": (2, 1 << 13),
    "rope.scaling.original_context_length": (0, 1 << 26),
    "ssm.conv_kernel": (0, 1 << 10),
    "ssm.group_count": (0, 1 << 14),
    "ssm.inner_size": (0, 1 << 20),
    "ssm.state_size": (0, 1 << 14),
    "ssm.time_step_rank": (0, 1 << 16),
    "vocab_size": (1, 1 << 22),
}
_IN_BLOCKS = frozenset(kind.name for kind in TENSOR_TYPES.values() if kind.block_elements > 1)
_ROPE_SCALINGS = frozenset({"none", "linear", "yarn", "longrope"})
_ONE_EXPERT = frozenset({"hunyuan-dense", "hunyuan_vl"})
_NO_TOKEN = (-1, (1 << 32) - 1)
_POSITIVE = ("rope.freq_base", "rope.freq_base_swa", "rope.scale_linear")


def check_hyperparameters(header: GGUFHeader) -> None:
    """Raise `InvalidModel` where a number that shapes the computation is out of any sane range."""
    if not re.fullmatch(r"[a-z0-9_.-]{1,64}", header.architecture):
        _fail(header, "does not name its architecture")
    for key, (low, high) in _REQUIRED.items():
        if header.integer(key) is None:
            _fail(header, f"does not say its {key!r}")
        _check_range(header, key, low, high)
    for key, (low, high) in _RANGES.items():
        _check_range(header, key, low, high)
    _check_floats(header)
    _check_heads(header)
    _check_experts(header)
    heads, blocks = header.integer("nextn_predict_layers") or 0, header.integer("block_count") or 0
    if heads > blocks:
        _fail(header, f"has {heads} drafting blocks among {blocks}")
    scaling = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    if scaling not in _ROPE_SCALINGS:
        _fail(header, f"scales its context by {str(scaling)[:40]!r}, which llama.cpp does not know")
    _check_vocabulary(header)
    # Norms and biases are used element by element, for which ggml takes no blocks.
    for tensor in header.tensors:
        if len(tensor.shape) == 1 and tensor.type in _IN_BLOCKS:
            _fail(header, f"has the vector {tensor.name!r} as {tensor.type}")


def _check_range(header: GGUFHeader, key: str, low: int, high: int) -> None:
    full = f"{header.architecture}.{key}"
    if full in header.per_layer:
        values = header.per_layer[full]
    elif full in header.arrays:
        _fail(header, f"has an array of the wrong kind under {key!r}")
    elif full in header.metadata:
        value = header.integer(key)
        if value is None:
            _fail(header, f"has {header.metadata[full]!r} where {key!r} needs an integer")
        values = (value,)
    else:
        return
    for value in values:
        if not low <= value <= high:
            _fail(header, f"says that {key!r} is {value}, outside {low} to {high}")


def _check_floats(header: GGUFHeader) -> None:
    prefix = f"{header.architecture}."
    for key, value in header.metadata.items():
        if not isinstance(value, float) or not key.startswith(prefix):
            continue
        short = key.removeprefix(prefix)
        if not math.isfinite(value) or (short in _POSITIVE and value <= 0):
            _fail(header, f"says that {short!r} is {value}")
        if short.endswith("epsilon") and not 0 <= value < 1:
            _fail(header, f"says that {short!r} is {value}")


def _check_heads(header: GGUFHeader) -> None:
    heads, kv_heads = header.head_counts, header.kv_head_counts
    for count, kv_count in zip(heads, kv_heads, strict=False):
        if kv_count > count or (kv_count and count % kv_count):
            _fail(header, f"shares {kv_count} key and value heads among {count} heads")
    if not any(heads) and not _has(header, "ssm.", "wkv.", "attention.head_count"):
        _fail(header, "does not say how many attention heads it has")
    if heads and not any(heads) and not _has(header, "ssm.", "wkv."):
        _fail(header, "says that it has no attention heads")
    rope = header.integer("rope.dimension_count")
    longest = max(header.key_length, header.integer("attention.key_length_swa") or 0)
    if rope is not None and longest and (rope % 2 or rope > longest):
        _fail(header, f"rotates {rope} elements of heads that have {longest}")


def _check_experts(header: GGUFHeader) -> None:
    experts = header.integer("expert_count") or 0
    if header.architecture in _ONE_EXPERT and experts <= 1:
        return  # llama.cpp counts the only one as none
    key = f"{header.architecture}.expert_used_count"
    used = max(header.per_layer.get(key, (header.integer("expert_used_count") or 0,)), default=0)
    groups = header.integer("expert_group_count") or 0
    if used > experts or (experts and not used):
        _fail(header, f"uses {used} of {experts} experts")
    if groups and groups >= experts:
        _fail(header, f"has {groups} groups of {experts} experts")
    if groups > 1:
        chosen = header.integer("expert_group_used_count") or 0
        if experts % groups or not 0 < chosen < groups:
            _fail(header, f"uses {chosen} of {groups} groups of {experts} experts")


def _check_vocabulary(header: GGUFHeader) -> None:
    """The lists that run beside the tokens are read by index without a check of their own."""
    tokens = header.arrays.get("tokenizer.ggml.tokens")
    if tokens is None:
        return
    if tokens[0] is not ValueType.STRING or tokens[1] == 0:
        _fail(header, "has no usable list of tokens")
    beside = {"scores": ValueType.FLOAT32, "token_type": ValueType.INT32}
    for name, kind in beside.items():
        found = header.arrays.get(f"tokenizer.ggml.{name}")
        if found is not None and (found[0] is not kind or found[1] != tokens[1]):
            _fail(header, f"has {found[1]} {name} for {tokens[1]} tokens")
    merges = header.arrays.get("tokenizer.ggml.merges")
    if merges is not None and merges[0] is not ValueType.STRING:
        _fail(header, "has merges that are no texts")
    _check_token_ids(header, tokens[1])


def _check_token_ids(header: GGUFHeader, tokens: int) -> None:
    """What begins and ends texts; llama.cpp itself passes over others that are out of range."""
    for name in ("bos", "eos"):
        value = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if value is None or value in _NO_TOKEN:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < tokens:
            _fail(header, f"says that token {value!r} of {tokens} is its {name} token")


def _has(header: GGUFHeader, *prefixes: str) -> bool:
    names = tuple(f"{header.architecture}.{prefix}" for prefix in prefixes)
    keys = (*header.metadata, *header.arrays)
    return any(key.startswith(names) for key in keys)


def _fail(header: GGUFHeader, reason: str) -> NoReturn:
    raise InvalidModel(
        f"{header.path} {reason}.", hint="Download it again, or use another conversion."
    )
