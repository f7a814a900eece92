"""The configuration of a model, from the header of its GGUF file.

Sources: what llama.cpp reads and writes, `src/models/*.cpp` and `conversion/*.py` there.
"""

from __future__ import annotations

from ..config.config_fields import MAX_CONTEXT, ConfigFields
from ..config.gguf_rope import rope_from_gguf
from ..config.model_config import LayerConfig, ModelConfig
from ..gguf.gguf_header import GGUFHeader
from .family_registry import FAMILIES

_OTHER_ENGINE = "Let llama.cpp run it."
_MAX_WIDTH = 1 << 20


def config_from_gguf(header: GGUFHeader) -> ModelConfig:
    """The model's configuration.

    Raises `UnsupportedModel` for a family or a feature that the engine does not know, and
    `InvalidModel` if the header contradicts itself.
    """
    fields = _fields(header)
    family = FAMILIES.get(header.architecture)
    if family is None:
        fields.refuse(
            f"has the architecture {header.architecture!r}, which ingle's own engine does not know",
            _OTHER_ENGINE,
        )
    return family.read_gguf(fields, _common(header, fields))


def _fields(header: GGUFHeader) -> ConfigFields:
    prefix = f"{header.architecture}."
    named = {**header.metadata, **header.per_layer}
    return ConfigFields(
        {key.removeprefix(prefix): named[key] for key in named if key.startswith(prefix)},
        str(header.path),
    )


def _common(header: GGUFHeader, fields: ConfigFields) -> ModelConfig:
    """The settings that all families have, with RoPE in every layer."""
    _refuse_unsupported(fields)
    heads = _uniform(fields, "attention.head_count", 1024)
    kv_heads = heads
    if "attention.head_count_kv" in fields:
        kv_heads = _uniform(fields, "attention.head_count_kv", 1024)
    size = header.key_length
    if header.value_length != size:
        fields.refuse(f"has keys of {size} and values of {header.value_length}", _OTHER_ENGINE)
    if not header.vocab_size:
        fields.fail("does not say how many tokens it knows")
    rope = rope_from_gguf(header, fields, size)
    return ModelConfig(
        architecture=header.architecture,
        vocab_size=header.vocab_size,
        hidden_size=header.embedding_length,
        intermediate_size=_uniform(fields, "feed_forward_length", _MAX_WIDTH),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        context=fields.integer("context_length", 1, MAX_CONTEXT),
        norm_epsilon=fields.number("attention.layer_norm_rms_epsilon", high=1.0),
        layers=(LayerConfig(rope=rope),) * header.block_count,
        attention_scale=size**-0.5,
        tied_embeddings=all(tensor.name != "output.weight" for tensor in header.tensors),
    )


def _refuse_unsupported(fields: ConfigFields) -> None:
    if fields.integer("expert_count", 0, 1 << 14, 0):
        fields.refuse("is a mixture of experts, which ingle's own engine lacks", _OTHER_ENGINE)
    if not fields.flag("attention.causal", default=True):
        fields.refuse("reads in both directions, which ingle's own engine cannot", _OTHER_ENGINE)


def _uniform(fields: ConfigFields, key: str, high: int) -> int:
    """The value that all layers have; raises `UnsupportedModel` if they differ."""
    values = set(fields.integers(key, 0, high))
    if len(values) != 1 or values == {0}:
        fields.refuse(f"has layers that differ in their {key!r}", _OTHER_ENGINE)
    return values.pop()
