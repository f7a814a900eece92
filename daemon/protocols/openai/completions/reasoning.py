"""How much to think, in the words of the many servers that speak OpenAI's protocol."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.conversation import Reasoning, TemplateVariables

from ....errors import InvalidBody
from .common_request import CommonRequest

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Budget = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="tokens; -1 is no bound")]

# What templates know: three words.
_TEMPLATE_WORDS = {"minimal": "low", "xhigh": "high", "max": "high"}


class ReasoningOptions(msgspec.Struct, kw_only=True):
    """OpenRouter's `reasoning`; with `exclude` the thoughts are not told."""

    effort: Effort | None = None
    max_tokens: Budget | None = None
    enabled: bool | None = None
    exclude: bool | None = None


class Thinking(msgspec.Struct, kw_only=True):
    """`thinking` as DeepSeek, GLM and Kimi have it."""

    type: Literal["enabled", "disabled", "auto", "adaptive"] | None = None
    budget_tokens: Budget | None = None


class ReasoningFields(CommonRequest, kw_only=True):
    """All fields of a chat that say how much to think; of two that differ the first counts.

    `thinking_budget_tokens` and `reasoning_budget_tokens` are llama-server's,
    `thinking_token_budget` vLLM's, `enable_thinking` and `thinking_budget` DashScope's.
    """

    reasoning_effort: Effort | None = None
    reasoning: ReasoningOptions | None = None
    thinking: Thinking | None = None
    enable_thinking: bool | None = None
    thinking_budget_tokens: Budget | None = None
    reasoning_budget_tokens: Budget | None = None
    reasoning_budget: Budget | None = None
    thinking_token_budget: Budget | None = None
    thinking_budget: Budget | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def tells_reasoning(self) -> bool:
        """Whether the thoughts are part of the answer."""
        excluded = self.reasoning is not None and self.reasoning.exclude
        return self.include_reasoning is not False and not excluded


def wanted_reasoning(fields: ReasoningFields) -> Reasoning:
    """What the fields say together."""
    given = fields.reasoning or ReasoningOptions()
    effort = given.effort or fields.reasoning_effort
    budget = _budget(fields, given)
    enabled = _enabled(fields, given)
    if enabled is None and effort is not None:
        enabled = effort != "none"
    if enabled is None and budget is not None:
        enabled = budget > 0
    word = None if effort in (None, "none") else _TEMPLATE_WORDS.get(effort, effort)
    return Reasoning(enabled, word, budget)


def template_variables(fields: ReasoningFields) -> TemplateVariables:
    """The switches for the template; raises `InvalidBody` for numbers nobody can pass on."""
    variables = fields.chat_template_kwargs or {}
    try:
        msgspec.msgpack.encode(variables)
    except (OverflowError, RecursionError) as error:
        raise InvalidBody(
            "'chat_template_kwargs' holds a number that is too large, or is nested too deeply.",
            param="chat_template_kwargs",
        ) from error
    return variables


def _budget(fields: ReasoningFields, given: ReasoningOptions) -> int | None:
    thinking = fields.thinking.budget_tokens if fields.thinking is not None else None
    for budget in (
        given.max_tokens,
        fields.thinking_budget_tokens,
        fields.reasoning_budget_tokens,
        fields.reasoning_budget,
        fields.thinking_token_budget,
        fields.thinking_budget,
        thinking,
    ):
        if budget is not None:
            return None if budget < 0 else budget
    return None


def _enabled(fields: ReasoningFields, given: ReasoningOptions) -> bool | None:
    for said in (given.enabled, fields.enable_thinking):
        if said is not None:
            return said
    if fields.thinking is not None and fields.thinking.type in ("enabled", "disabled"):
        return fields.thinking.type == "enabled"
    switch = (fields.chat_template_kwargs or {}).get("enable_thinking")
    return switch if isinstance(switch, bool) else None
