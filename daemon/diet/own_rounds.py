"""Answers in which the daemon itself answers calls of its own tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.errors import ContextExceeded
from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    PromptAdvanced,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest

from .disclosure import DESCRIBED, Disclosure

MOST_ROUNDS = 5
"""Turns of the model for one answer; the last one's calls of own tools are left out."""

Run = Callable[[GenerateRequest, EventSink], Awaitable[None]]


async def run_rounds(
    run: Run, request: GenerateRequest, sink: EventSink, own: Disclosure | None
) -> None:
    """Answer a request, with one more turn of the model after each with own calls only.

    The client receives one answer without them. Own calls beside the client's are left out: the
    answer ends with those.
    """
    if own is None:
        await run(request, sink)
        return
    answer = _Answer(sink, own)
    asked: GenerateRequest | None = request
    while asked is not None:
        try:
            await run(asked, answer.take)
        except ContextExceeded:
            if not answer.rounds:
                raise
            answer.finish(FinishReason.LENGTH)
            return
        asked = answer.next_request(asked)
        if asked is not None and answer.rounds >= MOST_ROUNDS:
            asked = None
    answer.finish()


class _Answer:
    """The events of all turns, as those of one answer."""

    def __init__(self, sink: EventSink, own: Disclosure) -> None:
        self._sink = sink
        self._own = own
        self.rounds = 0
        """Turns that have ended."""
        self._passed = 0  # calls of the client's tools
        self._numbers: dict[int, int] = {}  # those of this turn, by the model's numbers
        self._calls: dict[int, tuple[ToolCallStarted, list[str]]] = {}  # own calls of this turn
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._spoke = False
        self._described: set[str] = set()
        self._prompts: list[tuple[int, int]] = []  # tokens of each turn's prompt, and cached ones
        self._told = (0, 0)  # those that the client knows of
        self._ends: list[Finished] = []

    def take(self, events: list[Event]) -> None:
        """Pass on the events that are the client's."""
        if theirs := [event for each in events if (event := self._theirs(each)) is not None]:
            self._sink(theirs)

    def _theirs(self, event: Event) -> Event | None:
        match event:
            case Delta():
                if event.text and self._spoke and not self._text and self.rounds:
                    event = replace(event, text="\n\n" + event.text)
                self._spoke = self._spoke or bool(event.text)
                self._text.append(event.text)
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case ToolCallStarted():
                return self._call(event)
            case ToolCallDelta():
                if event.call in self._calls:
                    self._calls[event.call][1].append(event.arguments)
                    return None
                return replace(event, call=self._numbers[event.call])
            case Started():
                self._prompts.append((event.prompt_tokens, event.cached_tokens))
                if self.rounds:
                    return None
                self._told = self._prompts[0]
            case PromptAdvanced():
                return None if self.rounds else event
            case Finished():
                self._ends.append(event)
                return None
        return event

    def _call(self, event: ToolCallStarted) -> ToolCallStarted | None:
        if self._own.owns(event.name):
            self._calls[event.call] = (event, [])
            return None
        self._numbers[event.call] = self._passed
        self._passed += 1
        marked = event.call_id + DESCRIBED if event.name in self._described else event.call_id
        return replace(event, call=self._numbers[event.call], call_id=marked)

    def next_request(self, asked: GenerateRequest) -> GenerateRequest | None:
        """Return the request of the next turn; None if the answer is complete."""
        self.rounds += 1
        if not self._ends or self._passed or not self._calls:
            return None
        end = self._ends[-1]
        left = None if asked.max_tokens is None else asked.max_tokens - end.completion_tokens
        seconds = None if asked.max_seconds is None else asked.max_seconds - end.decode_seconds
        if end.reason is not FinishReason.TOOL_CALLS:
            return None
        if (left is not None and left <= 0) or (seconds is not None and seconds <= 0):
            self._ends[-1] = replace(end, reason=FinishReason.LENGTH)
            return None
        calls = [
            ToolCall(call.call_id, call.name, "".join(arguments))
            for call, arguments in self._calls.values()
        ]
        self._described.update(name for call in calls if (name := self._own.described(call)))
        choice = asked.tool_choice
        if choice.mode == "required" and self.rounds == MOST_ROUNDS - 1:
            names = [tool.name for tool in asked.tools if not self._own.owns(tool.name)]
            choice = replace(choice, names=names)
        calling, *results = self._own.answer(calls)
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        calling = replace(calling, content=text.strip(), reasoning=reasoning)
        self._calls, self._numbers, self._text, self._reasoning = {}, {}, [], []
        return replace(
            asked,
            id=f"{asked.id}+",
            messages=[*(asked.messages or ()), calling, *results],
            tool_choice=choice,
            max_tokens=left,
            max_seconds=seconds,
        )

    def finish(self, reason: FinishReason | None = None) -> None:
        """Pass on the end, with the tokens and times of all turns.

        The prompt is that of the last turn, without what the model itself wrote for it, which
        counts as its completion.
        """
        if not self._ends:
            return
        ends, end = self._ends, self._ends[-1]
        if reason is None and end.reason is FinishReason.TOOL_CALLS and not self._passed:
            reason = FinishReason.STOP
        own_words = sum(each.completion_tokens for each in ends[:-1])
        prompts = [
            (prompt + each.prompt_tokens, cached + each.cached_tokens)
            for (prompt, cached), each in zip(self._prompts, ends, strict=False)
        ]
        whole = max(self._told[0], prompts[-1][0] - own_words) if prompts else self._told[0]
        computed = sum(prompt - cached for prompt, cached in prompts)
        self._sink(
            [
                replace(
                    end,
                    reason=reason or end.reason,
                    completion_tokens=own_words + end.completion_tokens,
                    queue_seconds=ends[0].queue_seconds,
                    prompt_seconds=sum(each.prompt_seconds for each in ends),
                    decode_seconds=sum(each.decode_seconds for each in ends),
                    drafted_tokens=sum(each.drafted_tokens for each in ends),
                    accepted_tokens=sum(each.accepted_tokens for each in ends),
                    reasoning_tokens=sum(each.reasoning_tokens for each in ends),
                    prompt_tokens=whole - self._told[0],
                    cached_tokens=max(0, whole - computed - self._told[1]),
                )
            ]
        )
