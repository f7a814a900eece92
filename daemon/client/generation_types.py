"""Types of generations in the native API: their events, and token counts."""

from __future__ import annotations

from typing import Literal

from .answer import Answer
from .error_types import ErrorDetail

FinishReasonName = Literal["stop", "length", "tool_calls", "cancelled"]


class GenerationStarted(Answer, frozen=True):
    """A started generation: its id, and the model that answers."""

    id: str
    model: str


class LoadingEvent(Answer, frozen=True):
    """The model is being loaded; `fraction` is 0 to 1."""

    model: str
    fraction: float


class RouteTaken(Answer, frozen=True, kw_only=True):
    """Where a request was answered and why; `provider` is empty for this machine.

    `redacted` are the kinds of data that placeholders replaced in what was sent.
    """

    verdict: str = "local"
    rule: str = ""
    reason: str = ""
    provider: str = ""
    model: str = ""
    redacted: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """`provider/model`, "" for this machine."""
        return "/".join(filter(None, (self.provider, self.model))) if self.provider else ""


class StartedEvent(Answer, frozen=True):
    """Prefill starts; all numbers are tokens."""

    prompt_tokens: int
    cached_tokens: int = 0
    context: int = 0


class PrefillEvent(Answer, frozen=True):
    """So many tokens of the prompt are in the KV cache, those included that were cached."""

    prompt_tokens: int
    computed_tokens: int


class DeltaEvent(Answer, frozen=True):
    """New text, and the number of tokens it took."""

    text: str
    tokens: int = 1


class ReasoningEvent(Answer, frozen=True):
    """New text of the reasoning, and the number of tokens it took."""

    text: str
    tokens: int = 1


class ToolCallEvent(Answer, frozen=True):
    """The model calls the tool `name`; `call` counts its calls from 0."""

    call: int
    id: str
    name: str
    tokens: int


class ArgumentsEvent(Answer, frozen=True):
    """A part of a call's arguments; all parts joined are the text of a JSON object."""

    call: int
    text: str
    tokens: int


class FinishedEvent(Answer, frozen=True, kw_only=True):
    """The last event of a generation that did not fail; tokens and seconds."""

    reason: FinishReasonName
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    context: int = 0
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    reasoning_tokens: int = 0


class ErrorEvent(Answer, frozen=True):
    """The last event of a generation that failed."""

    error: ErrorDetail


GenerationEvent = (
    LoadingEvent
    | RouteTaken
    | StartedEvent
    | PrefillEvent
    | ReasoningEvent
    | DeltaEvent
    | ToolCallEvent
    | ArgumentsEvent
    | FinishedEvent
)
"""The events of a generation that does not fail."""


class PromptTokenCounts(Answer, frozen=True):
    """Tokens of the whole prompt, and of each message with the template's text around it.

    `rest` belongs to no message: the template's text before the first one, and the start of the
    answer. `total` is the sum of all; `context` is the longest that a request may use.
    """

    total: int
    messages: list[int]
    rest: int = 0
    context: int = 0
