"""Tells how a model writes calls, from what its chat template writes."""

from __future__ import annotations

from ..tokenization.tokenizer import Tokenizer
from .call_format import CallFormat, WrittenCalls
from .json_formats import GENERIC, HERMES, JSON_FORMATS
from .tagged_formats import TAGGED_FORMATS

HARMONY = CallFormat(
    "harmony",
    ("<|channel|>",),
    WrittenCalls(
        "<|channel|>commentary to=functions.«name» <|constrain|>json<|message|>«arguments»"
    ),
    closers=("<|call|>", "<|end|>", "<|start|>", "<|return|>"),
    before_text="<|channel|>final<|message|>",
    one_call=True,
)
FORMATS = (HARMONY, *TAGGED_FORMATS, *JSON_FORMATS)
"""Those with the rarest signs first, since many templates hold those of others as well."""


def detect_call_format(template: str | None, tokenizer: Tokenizer) -> CallFormat:
    """The format of a model, told from its chat template, else from its vocabulary."""
    source = (template or "").replace("\\n", "\n")
    for call_format in FORMATS:
        if any(sign in source for sign in call_format.told_by):
            return call_format
    if tokenizer.has_token("<|tool_call|>") and tokenizer.has_token("<|/tool_call|>"):
        return next(found for found in FORMATS if found.name == "phi-4-mini")
    return HERMES if tokenizer.has_token("<tool_call>") else GENERIC
