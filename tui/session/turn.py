"""`Turn`: follows one answer from its request to the last token."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.generation_stream import GenerationFollower, new_generation_id
from ingle.daemon.client.generation_types import (
    ArgumentsEvent,
    DeltaEvent,
    FinishedEvent,
    GenerationEvent,
    LoadingEvent,
    PrefillEvent,
    ReasoningEvent,
    RouteTaken,
    StartedEvent,
    ToolCallEvent,
)

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder
from ..chats.message import Attachment, Ending, Message, MessageFacts, RequestedCall
from ..chats.turn_request import TurnRequest
from ..privacy.chat_route import route_to
from ..text import number_format

SPEED_WINDOW = 2.0
"""Seconds over which the live speed is taken."""
LOCAL = "local"
"""The route of an answer of this machine."""


class AnswerSink(Protocol):
    """Shows an answer as it grows."""

    def append(self, text: str) -> None: ...
    def append_reasoning(self, text: str, tokens: int = 0) -> None: ...

    def answered_by(self, model: str) -> None:
        """Name the model of another machine that answers."""
        ...

    def annotate(self, note: str, facts: str = "") -> None:
        """Show a note beside the name, and the figures of a complete answer."""
        ...

    def finish(self, ending: str = "") -> None:
        """End the answer, with a note if it ended abnormally."""
        ...


class Turn:
    """Follows one generation into its message and writer; `changed` is called after every event.

    A generation is resumed after the text that the answer already has. One that `is_watched`
    belongs to another program, as far as is known.
    """

    def __init__(
        self,
        client: AsyncDaemonClient,
        history: ChatRecorder,
        message: Message,
        writer: AnswerSink,
        changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._history = history
        self._changed = changed
        self._generation: GenerationFollower | None = None
        self._asked_at: float | None = None
        self._first_at: float | None = None
        self._samples: list[tuple[float, int]] = []
        self._skip = 0
        self._skip_thoughts = 0
        self._calls: dict[int, RequestedCall] = {}
        self.message = message
        self._writer = writer
        self.is_watched = False
        self.tokens = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.computed_tokens = 0
        self.context = 0
        self.loading: float | None = None
        self.routed: RouteTaken | None = None
        self.finished: FinishedEvent | None = None
        self.error: ClientError | None = None

    @property
    def text(self) -> str:
        """The answer so far."""
        return self.message.content

    @property
    def ending(self) -> Ending | None:
        """The ending; None while it runs."""
        return self.message.ending

    @property
    def first_token_seconds(self) -> float | None:
        """From the request to the first text, None if the user did not wait for it."""
        if self._first_at is None or self._asked_at is None:
            return None
        return self._first_at - self._asked_at

    @property
    def context_used(self) -> int:
        """Tokens of the prompt and of the answer so far."""
        return self.prompt_tokens + self.tokens

    @property
    def called(self) -> list[str]:
        """The names of the tools that the answer calls so far."""
        return [call.name for call in self._calls.values()]

    @property
    def speed(self) -> float | None:
        """Tokens per second: of the last seconds while it runs, of the whole answer at its end."""
        done = self.finished
        if done is not None and done.decode_seconds > 0:
            return done.completion_tokens / done.decode_seconds or None
        if len(self._samples) < 2:
            return None
        (start, before), (end, now) = self._samples[0], self._samples[-1]
        return (now - before) / (end - start) if end > start else None

    async def run(self, request: TurnRequest) -> None:
        """Send the request and follow it to the end; sets `ending` and `error`."""
        self._asked_at = time.monotonic()
        # Recorded before the request: the daemon goes on even if its reply is lost.
        chosen = new_generation_id()
        self._name(chosen)
        try:
            generation = await GenerationFollower.start(self._client, request.body(), chosen)
            if self.ending is not None:
                await generation.cancel()
                return
            if generation.id != chosen:  # a daemon from before clients chose ids
                self._name(generation.id)
            await self._follow(generation)
        except ClientError as error:
            if self.ending is None:
                self._end("failed", error)

    def _name(self, generation: str) -> None:
        self.message.generation = generation
        self._history.set_generation(self.message.id, generation)

    async def resume(self, given: tuple[int, int] = (0, 0)) -> None:
        """Resume a generation that continued in the daemon after a program ended.

        `given` are the characters of text and of thoughts that were there before it began.
        """
        assert self.message.generation is not None
        self._skip = len(self.message.content) - given[0]
        self._skip_thoughts = len(self.message.reasoning) - given[1]
        generation = GenerationFollower(self._client, self.message.generation, self.message.model)
        try:
            await self._follow(generation)
        except ClientError as error:
            if self.ending is None:
                lost = error.code == "generation_not_found"
                self._end("interrupted" if lost else "failed", None if lost else error)

    async def _follow(self, generation: GenerationFollower) -> None:
        self._generation = generation
        async with aclosing(generation.events()) as events:
            async for event in events:
                if self.ending is not None:
                    return
                self._take(event)
                self._changed()

    def keep_in(self, history: ChatRecorder) -> None:
        """Record from now on, including an ending that was not recorded."""
        self.is_watched = False
        self._history = history
        if self.ending is not None:
            history.end_message(self.message.id, self.ending, self.message.facts)

    def give_up(self) -> None:
        """End as interrupted: the rest is lost."""
        self._end("interrupted")

    def stop(self) -> None:
        """End now, and keep the generated text; `cancel` then stops the generation."""
        if self.ending is None:
            self._end("stopped")

    async def cancel(self) -> ClientError | None:
        """Stop the generation in the daemon; return the error if that fails."""
        if self._generation is None:
            return None
        try:
            await self._generation.cancel()
        except ClientError as error:
            return error
        return None

    def note(self) -> str:
        """What is shown beside the model's name: that it is elsewhere, and what it waits for."""
        away = route_note((self.routed.target if self.routed else "") or LOCAL)
        waiting = self._waiting() if self.ending is None and self._first_at is None else ""
        return " · ".join(part for part in (away, waiting) if part)

    @property
    def prefill(self) -> str:
        """`prefill of 3 120 tokens, 40 %`: the new tokens of the prompt, and how many are done."""
        new = self.prompt_tokens - self.cached_tokens
        return number_format.prefill(new, self.computed_tokens - self.cached_tokens)

    def _waiting(self) -> str:
        if self.loading is not None and self.loading < 1:
            return f"starting the model, {number_format.percent(self.loading)}"
        if self.called:
            return f"calls {', '.join(self.called)}"
        if self.tokens:
            return f"thinking, {number_format.counted(self.tokens, 'token')}"
        return self.prefill if self.prompt_tokens > self.cached_tokens else ""

    def _take(self, event: GenerationEvent) -> None:
        match event:
            case LoadingEvent():
                self.loading = event.fraction
            case RouteTaken():
                self.routed = event
                if event.target:
                    self._writer.answered_by(event.target)
            case StartedEvent():
                self.loading = None
                self.prompt_tokens = event.prompt_tokens
                self.cached_tokens = event.cached_tokens
                self.context = event.context
            case PrefillEvent():
                self.computed_tokens = event.computed_tokens
            case ReasoningEvent():
                self._take_thought(event)
            case DeltaEvent():
                self._take_text(event)
            case ToolCallEvent():
                self.tokens += event.tokens
                self._calls[event.call] = RequestedCall(event.id, event.name, "")
            case ArgumentsEvent():
                self._take_arguments(event)
            case FinishedEvent():
                self._finish(event)
        if self.ending is None:
            self._writer.annotate(self.note())

    def _take_thought(self, thought: ReasoningEvent) -> None:
        self.tokens += thought.tokens
        text = thought.text[self._skip_thoughts :]
        self._skip_thoughts -= min(self._skip_thoughts, len(thought.text))
        if text:
            self.message.reasoning += text
            self._history.append(self.message.id, reasoning=text)
            self._writer.append_reasoning(text, thought.tokens)

    def _take_text(self, delta: DeltaEvent) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
        self.tokens += delta.tokens
        text = delta.text[self._skip :]
        self._skip -= min(self._skip, len(delta.text))
        if text:
            self.message.content += text
            self._history.append(self.message.id, text)
            self._writer.append(text)
        self._samples.append((now, self.tokens))
        while len(self._samples) > 2 and self._samples[0][0] < now - SPEED_WINDOW:
            self._samples.pop(0)

    def _take_arguments(self, piece: ArgumentsEvent) -> None:
        self.tokens += piece.tokens
        call = self._calls[piece.call]
        whole = call.arguments + piece.text
        self._calls[piece.call] = msgspec.structs.replace(call, arguments=whole)

    def _finish(self, event: FinishedEvent) -> None:
        self.finished = event
        self.tokens = event.completion_tokens or self.tokens
        self.prompt_tokens = event.prompt_tokens or self.prompt_tokens
        self.cached_tokens = event.cached_tokens or self.cached_tokens
        self.context = event.context or self.context
        endings: dict[str, Ending] = {"length": "length", "cancelled": "stopped"}
        self._end(endings.get(event.reason, "answered"))

    def _facts(self) -> MessageFacts:
        done = self.finished or FinishedEvent(reason="stop")
        route, routed = route_to(self._client.endpoint), self.routed
        return MessageFacts(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.tokens,
            reasoning_tokens=done.reasoning_tokens,
            drafted_tokens=done.drafted_tokens,
            accepted_tokens=done.accepted_tokens,
            context=self.context,
            route=(routed.target if routed else "") or route.kind,
            route_reason=routed.rule if routed else route.short,
            first_token=self.first_token_seconds,
            seconds=time.monotonic() - self._asked_at if self._asked_at is not None else None,
            prompt_seconds=done.prompt_seconds,
            calls=tuple(self._calls.values()) if self.ending == "answered" else (),
            decode_seconds=done.decode_seconds if self.finished else self._seconds_of_text(),
        )

    def _seconds_of_text(self) -> float:
        """Seconds of decoding as measured here, if the engine did not report them."""
        return self._samples[-1][0] - self._first_at if self._first_at and self._samples else 0.0

    def _end(self, ending: Ending, error: ClientError | None = None) -> None:
        message = self.message
        message.ending = ending
        message.facts = self._facts()
        self.error = error
        self._history.end_message(message.id, ending, message.facts)
        self._writer.annotate(self.note(), facts_summary(message.facts))
        self._writer.finish(ending_note(message))
        self._changed()


def facts_summary(facts: MessageFacts) -> str:
    """The figures of a complete answer."""
    parts: list[str] = []
    if facts.speed is not None:
        parts.append(number_format.speed(facts.speed))
    if facts.first_token is not None:
        parts.append(f"first token {number_format.duration(facts.first_token)}")
    return " · ".join(parts)


def route_note(route: str) -> str:
    """The mark of an answer that another machine gave, "" for one of this machine."""
    return "" if route == LOCAL else "☁ elsewhere"


def ending_note(message: Message) -> str:
    """The note below an answer that was stopped, cut off or interrupted."""
    notes = {
        "stopped": "■ stopped",
        "length": "■ cut off at the token limit; /continue resumes it",
        "failed": "■ interrupted; /continue resumes it" if message.content else "",
        "interrupted": "■ interrupted: the chat or the daemon ended; /continue resumes it",
    }
    return notes.get(message.ending or "", "")


def add_prompt(
    chat: Chat,
    history: ChatRecorder,
    text: str,
    attachments: tuple[Attachment, ...] = (),
    edits: Message | None = None,
) -> Message:
    """Add a prompt as the last message, or beside the one it edits; record a new chat."""
    leaf = chat.leaf
    parent = edits.parent if edits is not None else leaf.id if leaf is not None else None
    message = Message(role="user", content=text, attachments=attachments, parent=parent)
    if not chat.messages:
        history.add_chat(chat)
    chat.add(message)
    history.add_message(chat.id, message)
    return message


def add_answer(
    chat: Chat,
    history: ChatRecorder,
    model: str,
    parent: str | None,
    begun: Message | None = None,
) -> Message:
    """Add an open answer to `parent`, with the text of the interrupted answer `begun`."""
    answer = Message(
        role="assistant",
        parent=parent,
        model=model,
        content=begun.content if begun is not None else "",
        reasoning=begun.reasoning if begun is not None else "",
    )
    chat.add(answer)
    history.add_message(chat.id, answer)
    return answer
