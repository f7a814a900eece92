"""Which fields of each protocol's bodies have no effect here, and which are refused.

A field of an official client that its body's type does not have must be in one of the lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingle.backends.base.sampling_params import SAMPLING_OPTIONS

from ..http.field_policy import FieldPolicy, IsHarmless, PartPolicy
from .anthropic.tool_kinds import is_client_tool


def _is_empty(value: Any) -> bool:
    return value in ([], {}, "", False, 0)


def _is(*harmless: Any) -> IsHarmless:
    """Whether a value is one of these, of the same type."""
    return lambda value: any(value == other and type(value) is type(other) for other in harmless)


_CHANGING: Mapping[str, IsHarmless] = {
    "min_tokens": _is_empty,
    "bad_words": _is_empty,
    "lora": _is_empty,
    "allowed_token_ids": _is_empty,
    "use_beam_search": _is(False),
    "truncate_prompt_tokens": lambda _: False,
    "include_stop_str_in_output": _is(False),
    "skip_special_tokens": _is(True),
    "logits_processors": _is_empty,
}
"""Of vLLM and llama-server, in chats and plain completions."""

_EXTENSIONS = frozenset(
    {
        *("length_penalty", "early_stopping", "spaces_between_special_tokens"),
        *("return_token_ids", "return_tokens_as_token_ids", "guided_decoding_backend"),
        *("guided_whitespace_pattern", "priority", "request_id", "cache_salt", "session_id"),
        *("mm_processor_kwargs", "media_io_kwargs", "kv_transfer_params", "vllm_xargs"),
    }
)
"""Of vLLM; the first two belong to beam search."""

_LLAMA_CPP = frozenset(
    {
        *("cache_prompt", "n_keep", "n_discard", "n_cache_reuse", "t_max_prompt_ms"),
        *("samplers", "n_probs", "min_keep", "post_sampling_probs"),
        *("return_tokens", "timings_per_token", "reasoning_format", "reasoning_in_content"),
        *("parse_tool_calls", "thinking_forced_open", "chat_format", "t_max_predict_ms"),
        *("n_indent", "response_fields", "speculative.n_max", "speculative.n_min"),
        *("speculative.p_min", "backend_sampling", "sse_ping_interval"),
    }
)
"""Of llama-server, also at its OpenAI routes."""

_OF_OPENAI = frozenset(
    {
        *("prediction", "verbosity", "moderation"),
        *("prompt_cache_retention", "prompt_cache_options"),
    }
)
_STORING = frozenset({"store", "metadata"})
_OF_OPENROUTER = frozenset({"provider", "models", "transforms", "plugins", "route", "usage"})

CHAT_FIELDS = FieldPolicy(
    ignored=_OF_OPENAI
    | _OF_OPENROUTER
    | _EXTENSIONS
    | _LLAMA_CPP
    | {"chat_template_content_format"},
    refused={
        **_CHANGING,
        "best_of": _is(1),
        "echo": _is(False),
        "chat_template": _is_empty,
        "documents": _is_empty,
        "modalities": _is([], ["text"]),
        "audio": _is([], {}, ""),
        "web_search_options": lambda _: False,
        "add_special_tokens": _is(False),
    },
    items={"tools": lambda kind: kind == "function"},
)
UNSTORED_CHAT_FIELDS = msgspec.structs.replace(CHAT_FIELDS, ignored=CHAT_FIELDS.ignored | _STORING)
"""Of a chat on a route whose answers are not stored."""

PLAIN_FIELDS = FieldPolicy(
    ignored=_STORING | _OF_OPENAI | _OF_OPENROUTER | _EXTENSIONS | _LLAMA_CPP,
    refused={**_CHANGING, "add_special_tokens": _is(True)},
)
EMBEDDING_FIELDS = FieldPolicy(
    ignored=frozenset({"user", "ttl", "priority", "request_id"}),
    refused={"truncate_prompt_tokens": lambda _: False, "add_special_tokens": _is(True)},
)

TRANSCRIPTION_FIELDS = FieldPolicy(
    ignored=frozenset(
        {"include", "keywords", "languages", "known_speaker_names", "known_speaker_references"}
    )
)

SPEECH_FIELDS = FieldPolicy(ignored=frozenset({"instructions"}))

_INCLUDED = ("reasoning.encrypted_content", "message.output_text.logprobs")

RESPONSE_FIELDS = FieldPolicy(
    ignored=frozenset(
        {
            *("max_tool_calls", "stream_options", "context_management", "moderation"),
            *("prompt_cache_options", "prompt_cache_retention", "client_metadata"),
            *("access_programs", "image"),
        }
    )
    | _EXTENSIONS,
    refused={
        **_CHANGING,
        "n": _is(1),
        "stop": _is_empty,
        "stop_token_ids": _is_empty,
        "prompt_logprobs": _is(False),
    },
    items={
        "tools": lambda kind: kind in ("function", "custom", "namespace"),
        "include": lambda part: part in _INCLUDED,
    },
)

MESSAGE_FIELDS = FieldPolicy(
    ignored=frozenset(
        {
            *("cache_control", "container", "context_management", "diagnostics", "inference_geo"),
            *("mcp_servers", "service_tier", "speed", "user_profile_id", "workspace_id"),
            *("billing_policy", "compaction", "fallback_credit_token", "fallbacks", "thread"),
        }
    ),
    items={"tools": lambda kind: kind == "custom" or is_client_tool(kind)},
)
COUNTED_FIELDS = FieldPolicy(
    ignored=MESSAGE_FIELDS.ignored | {"max_tokens", "stop_sequences", "stream"},
    items=MESSAGE_FIELDS.items,
)
"""Of a token count, which a client may ask for with the body of the message."""

MESSAGE_BATCH_FIELDS = FieldPolicy(ignored=frozenset({"user_profile_id", "workspace_id"}))

LM_STUDIO_CHAT_FIELDS = FieldPolicy(
    ignored=frozenset({"ttl"}), refused={"integrations": _is_empty, "mcp_servers": _is_empty}
)
"""The refused fields name tools that the server itself would call."""

OLLAMA_FIELDS = FieldPolicy(
    ignored=frozenset({"truncate", "shift"}),
    parts={
        "options": PartPolicy(
            served=frozenset(
                {
                    *(name for name, o in SAMPLING_OPTIONS.items() if o.ollama_bounds is not None),
                    *("seed", "stop", "num_ctx", "num_predict"),
                }
            ),
            ignored=frozenset(
                {
                    *("num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap"),
                    *("use_mlock", "numa", "low_vram", "f16_kv", "vocab_only"),
                    *("penalize_newline", "draft_num_predict"),
                }
            ),
        )
    },
)

OLLAMA_EMBED_FIELDS = FieldPolicy(ignored=frozenset({"options"}))

LLAMA_CPP_FIELDS = FieldPolicy(
    ignored=frozenset(
        {
            *("cache_prompt", "n_keep", "n_discard", "n_cache_reuse"),
            *("t_max_prompt_ms", "min_keep", "post_sampling_probs", "backend_sampling"),
            *("speculative.n_max", "speculative.n_min", "speculative.p_min", "sse_ping_interval"),
            "user",
        }
    )
)
