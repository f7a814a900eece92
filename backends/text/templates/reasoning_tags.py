"""The tags around a model's reasoning."""

from __future__ import annotations

from dataclasses import dataclass

from ..tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class ReasoningTags:
    """Tags that begin reasoning (`opens`) and end it (`closes`), the likeliest first."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]

    @property
    def ending(self) -> str:
        """Return the text that ends reasoning in a prompt and separates the answer."""
        close = self.closes[0]
        return close if close[-1].isalpha() else f"{close}\n\n"

    def left_open(self, tail: str, begun: str = "") -> bool:
        """Return whether a prompt ends within reasoning, of which it may already contain
        `begun`.
        """
        end = tail.rstrip()
        begun = begun.strip()
        if begun and end.endswith(begun):
            end = end[: -len(begun)].rstrip()
        return end.endswith(tuple(tag.rstrip() for tag in self.opens))


THINK = ReasoningTags(("<think>",), ("</think>",))
HARMONY = ReasoningTags(("<|channel|>analysis<|message|>",), ("<|end|><|start|>assistant",))
_OPENSOURCE = ReasoningTags(("<think:opensource>",), ("</think:opensource>",))
_TAGS_BY_SIGN = (
    ("<|channel|>analysis", HARMONY),
    ("<seed:think>", ReasoningTags(("<seed:think>",), ("</seed:think>",))),
    ("<mm:think>", ReasoningTags(("<mm:think>",), ("</mm:think>",))),
    ("think_begin_token = '<think{}>'", _OPENSOURCE),
    ("[THINK]", ReasoningTags(("[THINK]",), ("[/THINK]",))),
    ("START_THINKING", ReasoningTags(("<|START_THINKING|>",), ("<|END_THINKING|>",))),
    (
        "<|channel>thought",
        ReasoningTags(("<|channel>thought\n", "<|channel>thought"), ("<channel|>",)),
    ),
    ("<|inner_prefix|>", ReasoningTags(("<|inner_prefix|>",), ("<|inner_suffix|>",))),
    (
        "open_tag('think')",
        # The model may leave reasoning that the prompt began without closing it.
        ReasoningTags(
            ("<|open|>think<|sep|>",), ("<|close|>think<|sep|>", "<|open|>response<|sep|>")
        ),
    ),
    (
        "assistant<|think|>",
        ReasoningTags(("<|think|>",), ("<|end|><|begin|>assistant", "<|end|>")),
    ),
    (
        "to=self<|message|>",
        ReasoningTags(
            (" to=self<|message|>", "to=self<|message|>"), ("<|eom|><|start|>assistant", "<|eom|>")
        ),
    ),
    (
        "Here are my reasoning steps:",
        ReasoningTags(("Here are my reasoning steps:\n",), ("[BEGIN FINAL RESPONSE]",)),
    ),
    ("<thinking>", ReasoningTags(("<thinking>",), ("</thinking>",))),
    ("<reasoning>", ReasoningTags(("<reasoning>",), ("</reasoning>",))),
)


def detect_reasoning_tags(template: str | None, tokenizer: Tokenizer) -> ReasoningTags | None:
    """Detect a model's tags from its chat template, else from its vocabulary."""
    source = template or ""
    for sign, tags in _TAGS_BY_SIGN:
        if sign in source:
            return tags
    written = "<think>" in source or "</think>" in source
    return THINK if written or tokenizer.find_token("<think>") is not None else None
