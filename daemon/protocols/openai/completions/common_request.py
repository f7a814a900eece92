"""What chats and plain completions have in common."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ingle.backends.base.requests import Priority

from ...ingle_options import IngleOptions
from ...sampling_options import RepeatPenalty, SamplingOptions
from ...structured_output import Choices, ResponseFormat, StructuredOutputs

ChoiceCount = Annotated[int, Meta(ge=1, le=16)]
LogprobCount = Annotated[int, Meta(ge=0, le=20)]
AnswerLength = Annotated[
    int, Meta(ge=-1, description="-1 is as many as fit, and more than fit are as many")
]
LONGEST = 2**31 - 1


class StreamOptions(msgspec.Struct):
    """`include_usage` asks for one more chunk at the end, which counts the tokens.

    With vLLM's `continuous_usage_stats` every chunk counts.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class CommonRequest(SamplingOptions, kw_only=True):
    """What chat and plain completions have in common; unknown fields are ignored.

    `service_tier` flex is the priority batch. `user`, `safety_identifier` and `prompt_cache_key`
    tell clients apart. `grammar`, `json_schema` and `n_predict` are llama-server's,
    `structured_outputs`, `guided_…`, `ignore_eos` and `repetition_penalty` vLLM's.
    """

    model: Annotated[str, Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    max_tokens: AnswerLength | None = None
    n: ChoiceCount | None = None
    service_tier: str | None = None
    user: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    ingle: IngleOptions | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    grammar: str | None = None
    json_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    guided_json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
    ignore_eos: bool | None = None
    n_predict: AnswerLength | None = None
    repetition_penalty: RepeatPenalty | None = None

    def __post_init__(self) -> None:
        """Take what other servers call by another name."""
        if self.repeat_penalty is None:
            self.repeat_penalty = self.repetition_penalty

    @property
    def priority(self) -> Priority:
        """What `ingle.priority` says, else `service_tier`."""
        if self.ingle is not None and self.ingle.priority is not None:
            return self.ingle.priority
        return Priority.BATCH if self.service_tier == "flex" else Priority.INTERACTIVE


def answer_length(*wanted: int | None) -> int | None:
    """The first length that is given, in bounds that every part of ingle takes."""
    for length in wanted:
        if length is not None:
            return None if length < 0 else min(length, LONGEST)
    return None
