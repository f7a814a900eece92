"""Which models the GPU kernels support: a pure decision, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingle.kernels.attention.attention_variant import (
    LATENT_SIZES,
    AttentionVariant,
    PageType,
    QueryType,
    variants_of,
)
from ingle.models.config.model_config import ModelConfig
from ingle.models.kv_type import KVType

OLDEST_GPU = (8, 0)
"""The compute capability that the kernels' instructions begin with."""

_WIDEST = 16384
_MOST_HEADS_A_KEY = 16
_PAGES: Mapping[KVType, PageType] = {
    KVType.F16: "f16",
    KVType.BF16: "bf16",
    KVType.Q8_0: "q8_0",
    KVType.Q4_0: "q4_0",
}


def why_no_kernels(config: ModelConfig, kv_type: KVType) -> str | None:
    """What of a model the kernels do not support, as a clause; None if they support it."""
    if config.hidden_size > _WIDEST or config.hidden_size % 32:
        return f"its width is {config.hidden_size}"
    if (layers := layers_without_kernels(config)) is not None:
        return f"it has {layers}"
    if not attention_kernels(config, kv_type, "bf16"):
        sizes = sorted({heads.size for heads in config.key_heads})
        heads = f"{config.num_heads} heads of {' and '.join(map(str, sizes))} elements"
        return f"it has {heads}, and a {kv_type} KV cache"
    return None


def layers_without_kernels(config: ModelConfig) -> str | None:
    """What of a model kernels never compute, whatever its types; None if they compute all."""
    recurrent = [layer.recurrent for layer in config.layers if layer.recurrent is not None]
    if not all(layer.has_kernels for layer in recurrent):
        return "recurrent layers"
    if (latent := config.latent) is not None:
        sizes = latent.rank, latent.rope_size
        if sizes not in LATENT_SIZES:
            return "latents of {} and {} elements".format(*sizes)
    return None if config.streams is None else "several residual streams"


def attention_kernels(
    config: ModelConfig, kv_type: KVType, query: QueryType
) -> Sequence[AttentionVariant]:
    """The kernels that attention of such a model may start; none where they do not know it."""
    if kv_type not in _PAGES:
        return ()
    pairs = {layer.rope.size // 2 for layer in config.layers if layer.rope is not None}
    found: list[AttentionVariant] = []
    for heads in dict.fromkeys(config.key_heads):
        size = heads.inner_values or heads.size
        own = variants_of(
            head_size=size,
            query=query,
            pages=_PAGES[kv_type],
            pairs=pairs,
            lead=heads.size - size,
        )
        if not own:
            return ()
        found += own
    if config.latent is not None:  # whose heads are divided among programs
        return found
    fewest = min((heads.count for heads in config.key_heads), default=config.num_kv_heads)
    return found if config.num_heads <= _MOST_HEADS_A_KEY * fewest else ()
