"""How a model marks what it thinks before it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tokenizer import Tokenizer


@dataclass(frozen=True)
class ReasoningTags:
    """What begins a thought, any of `opens`, and what ends it, any of `closes`, likeliest first."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]

    def left_open(self, tail: str, begun: str = "") -> bool:
        """Whether a prompt ends within a thought, of which it may already hold the text `begun`."""
        end = tail.rstrip()
        begun = begun.strip()
        if begun and end.endswith(begun):
            end = end[: -len(begun)].rstrip()
        return end.endswith(tuple(tag.rstrip() for tag in self.opens))


THINK = ReasoningTags(("<think>",), ("</think>",))
_KNOWN = (
    ReasoningTags(("<seed:think>",), ("</seed:think>",)),
    ReasoningTags(("<mm:think>",), ("</mm:think>",)),
    ReasoningTags(("<think:opensource>",), ("</think:opensource>",)),
    ReasoningTags(("[THINK]",), ("[/THINK]",)),
    ReasoningTags(("<|START_THINKING|>",), ("<|END_THINKING|>",)),
    ReasoningTags(("<|channel>thought\n", "<|channel>thought"), ("<channel|>",)),
    ReasoningTags(("<|inner_prefix|>",), ("<|inner_suffix|>",)),
    ReasoningTags(("<|open|>think<|sep|>",), ("<|close|>think<|sep|>",)),
    ReasoningTags(("<|think|>",), ("<|end|><|begin|>assistant", "<|end|>")),
    ReasoningTags(("Here are my reasoning steps:\n",), ("[BEGIN FINAL RESPONSE]",)),
    ReasoningTags(("<thinking>",), ("</thinking>",)),
    ReasoningTags(("<reasoning>",), ("</reasoning>",)),
)
_FORMATTED = re.compile(r"<think\{\}>|think_begin_token|'<think' ?~")


def tell_reasoning(template: str | None, tokenizer: Tokenizer) -> ReasoningTags | None:
    """The tags a model uses, told from its chat template, else from its vocabulary."""
    source = (template or "").replace("\\n", "\n")
    for tags in _KNOWN:
        if all(any(tag.strip() in source for tag in side) for side in (tags.opens, tags.closes)):
            return tags
    if _FORMATTED.search(source) and ":opensource" in source:
        return _KNOWN[2]
    if "<think>" in source or "</think>" in source or tokenizer.has_token("<think>"):
        return THINK
    return None
