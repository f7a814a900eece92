"""Detects a model's tool call format from its chat template."""

from __future__ import annotations

from ..tokenization.tokenizer import Tokenizer
from .call_format import CallFormat
from .json_formats import GENERIC, HERMES, JSON_FORMATS
from .tagged_formats import TAGGED_FORMATS

HARMONY = CallFormat(
    "harmony",
    ("<|channel|>",),
    "<|channel|>commentary to=functions.«name» <|constrain|>json<|message|>«arguments»",
    closers=("<|call|>", "<|end|>", "<|start|>", "<|return|>"),
    before_text="<|channel|>final<|message|>",
    one_call=True,
)
FORMATS = (HARMONY, *TAGGED_FORMATS, *JSON_FORMATS)
"""Formats with the rarest signs first, since many templates contain signs of others too."""


def detect_call_format(template: str | None, tokenizer: Tokenizer) -> CallFormat:
    """Return a model's format, detected from its chat template, else from its vocabulary."""
    source = (template or "").replace("\\n", "\n")
    for call_format in FORMATS:
        if any(sign in source for sign in call_format.signs):
            return call_format
    if None not in map(tokenizer.find_token, ("<|tool_call|>", "<|/tool_call|>")):
        return next(found for found in FORMATS if found.name == "phi-4-mini")
    return GENERIC if tokenizer.find_token("<tool_call>") is None else HERMES
