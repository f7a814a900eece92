"""An answer as it comes together from a model's events, before any protocol's words for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    TokenLogprobs,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.models.metadata.stored_model import StoredModel

from ..lifecycle.lease import Lease
from .job import Job


@dataclass(eq=False)
class CollectedAnswer:
    """One sequence; `finished` is None until it ended."""

    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[TokenLogprobs] = field(default_factory=list[TokenLogprobs])
    token_bytes: dict[int, bytes] = field(default_factory=dict[int, bytes])
    finished: Finished | None = None
    _calls: list[tuple[ToolCallStarted, list[str]]] = field(
        default_factory=list[tuple[ToolCallStarted, list[str]]]
    )

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of tools, each complete once the answer is."""
        return [
            ToolCall(call.call_id, call.name, "".join(arguments)) for call, arguments in self._calls
        ]

    @property
    def reason(self) -> FinishReason:
        """Why it ended; `stop` as long as it has not."""
        return self.finished.reason if self.finished is not None else FinishReason.STOP

    def take(self, event: Event) -> None:
        """Add what one event of this sequence says."""
        match event:
            case Delta():
                self.text.append(event.text)
                self.token_ids += event.token_ids
                if event.logprobs is not None:
                    self.logprobs += event.logprobs
                    self.token_bytes |= event.token_bytes or {}
            case ReasoningDelta():
                self.reasoning.append(event.text)
                self.token_ids += event.token_ids
            case ToolCallStarted():
                self._calls.append((event, []))
                self.token_ids += event.token_ids
            case ToolCallDelta():
                self._calls[event.call][1].append(event.arguments)
                self.token_ids += event.token_ids
            case Finished():
                self.finished = event
            case Started():
                pass  # of the prompt, not of a sequence


class AnswerBuilder:
    """All answers to a job: that of sequence j to prompt i is number `i * n + j`."""

    def __init__(self, job: Job, lease: Lease, *, load_seconds: float = 0.0) -> None:
        self.job = job
        self._lease = lease
        self.load_seconds = load_seconds
        """How long the request waited for the model to be loaded."""
        self.created = int(time.time())
        self.began = time.monotonic()
        self.answers = [CollectedAnswer() for _ in range(job.answers)]
        self.prompt_tokens = 0
        self.cached_tokens = 0

    @property
    def model(self) -> StoredModel:
        """The model that answers; a route may change it until the first event."""
        return self._lease.model

    @property
    def info(self) -> ModelInfo:
        """What that model really got."""
        return self._lease.info

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events of one prompt."""
        for event in events:
            self.count(event)
            if not isinstance(event, Started):
                self.answers[prompt * self.job.request.n + event.index].take(event)

    def count(self, event: Event) -> None:
        """Add to the number of prompt tokens alone."""
        if isinstance(event, Started | Finished):
            self.prompt_tokens += event.prompt_tokens
            self.cached_tokens += event.cached_tokens

    @property
    def ended(self) -> list[Finished]:
        """The ends of all sequences that have one."""
        return [answer.finished for answer in self.answers if answer.finished is not None]

    @property
    def completion_tokens(self) -> int:
        """Tokens generated, reasoning and calls included."""
        return sum(end.completion_tokens for end in self.ended)

    @property
    def reasoning_tokens(self) -> int:
        """Those of them that were thoughts."""
        return sum(end.reasoning_tokens for end in self.ended)

    @property
    def drafted_tokens(self) -> int:
        """Tokens guessed ahead."""
        return sum(end.drafted_tokens for end in self.ended)

    @property
    def accepted_tokens(self) -> int:
        """Guesses that became part of an answer."""
        return sum(end.accepted_tokens for end in self.ended)
