"""What a request says about how its answer is told."""

from __future__ import annotations

from dataclasses import dataclass

from .common_request import CommonRequest
from .request_types import ChatCompletionRequest, CompletionRequest
from .types import ServiceTier


@dataclass(frozen=True, kw_only=True)
class AnswerStyle:
    """How one answer is told.

    With `include_usage` a stream counts its tokens at the end, with `counts_on` in every chunk.
    `legacy` tells calls as they were told before `tools`. Of several answers to a prompt the `keep`
    likeliest are told, where there is a number.
    """

    include_usage: bool = False
    counts_on: bool = False
    service_tier: ServiceTier | None = None
    legacy: bool = False
    tells_reasoning: bool = True
    tells_logprobs: bool = True
    echo: bool = False
    keep: int | None = None


def chat_style(body: ChatCompletionRequest) -> AnswerStyle:
    """That of a chat."""
    include_usage, counts_on = _usage(body)
    return AnswerStyle(
        include_usage=include_usage,
        counts_on=counts_on,
        service_tier=_tier(body),
        legacy=body.legacy,
        tells_reasoning=body.tells_reasoning,
        tells_logprobs=bool(body.logprobs),
    )


def completion_style(body: CompletionRequest) -> AnswerStyle:
    """That of a plain completion."""
    include_usage, counts_on = _usage(body)
    return AnswerStyle(
        include_usage=include_usage,
        counts_on=counts_on,
        tells_logprobs=body.logprobs is not None and body.logprobs is not False,
        echo=bool(body.echo),
        keep=body.n or 1,
    )


def _usage(body: CommonRequest) -> tuple[bool, bool]:
    options = body.stream_options
    if options is None or not options.include_usage:
        return False, False
    return True, bool(options.continuous_usage_stats)


def _tier(body: CommonRequest) -> ServiceTier | None:
    if body.service_tier is None:
        return None
    return "flex" if body.service_tier == "flex" else "default"
