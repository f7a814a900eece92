"""A checked request of any protocol, and its answer as it is generated."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from ingle.backends.base.conversation import Infill, ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    PromptScores,
    ReasoningDelta,
    Started,
    TokenLogprobs,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest, shows_pictures
from ingle.models.metadata.stored_model import StoredModel

from ..lifecycle.lease import Lease
from ..routing.policy.routing_preference import NO_PREFERENCE, RoutingPreference
from .request_options import SamplingOptions, merge_sampling


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request, or the same one for several `prompts` or infills; its id is the answer's.

    An empty `model` is the default one.
    `options` are laid over the sampling that the model recommends. The model is loaded with at
    least `context` tokens, and stays for `keep_alive` seconds after its last use, where they are
    given; -1 is for ever. `messages_field` is the protocol's name of the conversation. `fit` may
    shorten the job once its model is loaded. `preference` is the request's routing
    preference; `opaque` names content that is not text, and so never leaves this machine. `slot`
    is the number that llama-server's clients give to a prompt, to save it later.
    """

    model: str
    request: GenerateRequest
    prompts: tuple[str | list[int] | Infill, ...] = ()
    options: SamplingOptions = SamplingOptions()  # noqa: RUF009 - it is not changed
    context: int | None = None
    keep_alive: float | None = None
    messages_field: str = "messages"
    fit: Callable[[Job, Lease], Awaitable[Job]] | None = None
    preference: RoutingPreference = NO_PREFERENCE
    opaque: str = ""
    slot: int = -1

    @property
    def id(self) -> str:
        """The id of the request and of its answer."""
        return self.request.id

    @property
    def has_pictures(self) -> bool:
        """Whether its conversation has pictures, other than in the results of tools."""
        return shows_pictures(self.request)

    @property
    def answers(self) -> int:
        """The number of sequences to generate."""
        return self.request.n * max(1, len(self.prompts))

    def requests(self, recommended: Mapping[str, float]) -> list[GenerateRequest]:
        """One request for each prompt, with the model's sampling for what the client left out."""
        sampling = merge_sampling(self.options, recommended)
        prompts: list[dict[str, Any]] = [
            {"infill" if isinstance(prompt, Infill) else "prompt": prompt}
            for prompt in self.prompts
        ]
        return [
            structs.replace(self.request, id=f"{self.id}-{number}", sampling=sampling, **prompt)
            for number, prompt in enumerate(prompts or [{}])
        ]


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
        """The tool calls, each complete once the answer is."""
        return [
            ToolCall(call.call_id, call.name, "".join(arguments)) for call, arguments in self._calls
        ]

    @property
    def reason(self) -> FinishReason:
        """The reason why it ended; `stop` if it has not."""
        return self.finished.reason if self.finished is not None else FinishReason.STOP

    def take(self, event: Event) -> None:
        """Add one event of this sequence."""
        if not isinstance(event, Started | PromptAdvanced | Finished):
            self.token_ids += event.token_ids
        match event:
            case Delta():
                self.text.append(event.text)
                if event.logprobs is not None:
                    self.logprobs += event.logprobs
                    self.token_bytes |= event.token_bytes or {}
            case ReasoningDelta():
                self.reasoning.append(event.text)
            case ToolCallStarted():
                self._calls.append((event, []))
            case ToolCallDelta():
                self._calls[event.call][1].append(event.arguments)
            case Finished():
                self.finished = event
            case Started() | PromptAdvanced():
                pass  # of the prompt, not of a sequence


class AnswerBuilder:
    """All answers to a job: that of sequence j to prompt i is number `i * n + j`."""

    def __init__(self, job: Job, lease: Lease, *, load_seconds: float = 0.0) -> None:
        self.job = job
        self._lease = lease
        self._load_seconds = load_seconds
        self.created = int(time.time())
        self.answers = [CollectedAnswer() for _ in range(job.answers)]
        self.prompts = [(0, 0)] * max(1, len(job.prompts))
        """Tokens of each prompt and how many of them were cached, as known at its start."""
        self.scores: dict[int, PromptScores] = {}
        """The log-probabilities of prompts, by number."""
        self.prompt_tokens = 0
        self.cached_tokens = 0

    def twin(self) -> AnswerBuilder:
        """Return an empty builder of the same answers."""
        twin = AnswerBuilder(self.job, self._lease, load_seconds=self._load_seconds)
        twin.created = self.created
        return twin

    @property
    def load_seconds(self) -> float:
        """Seconds that the request waited for its model, also to be loaded with more context."""
        return self._load_seconds + self._lease.reload_seconds

    @property
    def model(self) -> StoredModel:
        """The model that answers; a route may change it until the first event."""
        return self._lease.model

    @property
    def info(self) -> ModelInfo:
        """The properties of the loaded model."""
        return self._lease.info

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events of one prompt."""
        for event in events:
            self.count(prompt, event)
            if not isinstance(event, Started | PromptAdvanced):
                self.answers[self.number(prompt, event.index)].take(event)

    def number(self, prompt: int, index: int) -> int:
        """Return the number of an answer to a prompt."""
        return prompt * self.job.request.n + index

    def count(self, prompt: int, event: Event) -> None:
        """Add only to the prompt tokens."""
        if isinstance(event, Started | Finished):
            self.prompt_tokens += event.prompt_tokens
            self.cached_tokens += event.cached_tokens
        if isinstance(event, Started):
            self.prompts[prompt] = (event.prompt_tokens, event.cached_tokens)
            if event.scores is not None:
                self.scores[prompt] = event.scores

    @property
    def ended(self) -> list[Finished]:
        """The ends of all sequences that have one."""
        return [answer.finished for answer in self.answers if answer.finished is not None]

    @property
    def completion_tokens(self) -> int:
        """Tokens generated, reasoning and calls included."""
        return sum(end.completion_tokens for end in self.ended)

    @property
    def total(self) -> Finished:
        """The end of all sequences together: the sum of their tokens, the longest of their times.

        The sequences are decoded concurrently.
        """
        ends = self.ended
        return Finished(
            self.job.id,
            0,
            self.answers[0].reason,
            self.completion_tokens,
            prompt_seconds=max((end.prompt_seconds for end in ends), default=0.0),
            decode_seconds=max((end.decode_seconds for end in ends), default=0.0),
            drafted_tokens=sum(end.drafted_tokens for end in ends),
            accepted_tokens=sum(end.accepted_tokens for end in ends),
            reasoning_tokens=sum(end.reasoning_tokens for end in ends),
        )
