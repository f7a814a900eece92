"""`Turn`: one prompt and its answer, from the request to the last token."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Literal

from . import wording
from .api import Delta, Finished, GenerationEvent, Loading, Started, Thought
from .client import DaemonClient
from .errors import ClientError
from .generation import Generation
from .transcript.entries import AnswerEntry

SPEED_WINDOW = 2.0
"""Seconds over which the live speed is taken."""
LOCAL = "⌂ local"

Ending = Literal["answered", "length", "stopped", "failed"]


class Turn:
    """Follows one generation into its entry; `changed` is called after every event."""

    def __init__(
        self,
        client: DaemonClient,
        messages: Sequence[dict[str, str]],
        model: str | None,
        entry: AnswerEntry,
        changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._messages = messages
        self._model = model
        self._changed = changed
        self._generation: Generation | None = None
        self._asked_at = time.monotonic()
        self._first_at: float | None = None
        self._samples: list[tuple[float, int]] = []
        self.entry = entry
        self.text = ""
        self.tokens = 0
        self.prompt_tokens = 0
        self.context = 0
        self.loading: float | None = None
        self.finished: Finished | None = None
        self.error: ClientError | None = None
        self.ending: Ending | None = None

    @property
    def first_token_seconds(self) -> float | None:
        """From the request to the first text, as the user waited."""
        return None if self._first_at is None else self._first_at - self._asked_at

    @property
    def context_used(self) -> int:
        """Tokens of the prompt and of the answer so far."""
        return self.prompt_tokens + self.tokens

    @property
    def speed(self) -> float | None:
        """Tokens a second: of the last moments while it runs, of the whole answer at its end."""
        if self.finished is not None and self.finished.decode_seconds > 0:
            return self.finished.completion_tokens / self.finished.decode_seconds
        if len(self._samples) < 2:
            return None
        (start, before), (end, now) = self._samples[0], self._samples[-1]
        return (now - before) / (end - start) if end > start else None

    async def run(self) -> None:
        """Ask and follow to the end; how it ended is in `ending` and `error`."""
        try:
            generation = await Generation.start(self._client, self._messages, self._model)
            if self.ending is not None:
                await generation.cancel()
                return
            self._generation = generation
            async with aclosing(generation.events()) as events:
                async for event in events:
                    if self.ending is not None:
                        return
                    self._take(event)
                    self._changed()
        except ClientError as error:
            if self.ending is None:
                self._end("failed", error)

    def stop(self) -> None:
        """End here and now, with what is there; `cancel` then tells the daemon."""
        if self.ending is None:
            self._end("stopped")

    async def cancel(self) -> ClientError | None:
        """Tell the daemon to stop; returns why it could not be told."""
        if self._generation is None:
            return None
        try:
            await self._generation.cancel()
        except ClientError as error:
            return error
        return None

    def summary(self) -> str:
        """What is known about the answer, beside the model's name."""
        parts = [LOCAL]
        if self.ending is None and self._first_at is None:
            parts.append(self._waiting())
        elif self.ending is not None:
            if self.speed is not None:
                parts.append(wording.speed(self.speed))
            if self.first_token_seconds is not None:
                parts.append(f"first token {wording.duration(self.first_token_seconds)}")
        return " · ".join(part for part in parts if part)

    def _waiting(self) -> str:
        if self.loading is not None and self.loading < 1:
            return f"starting the model, {self.loading:.0%}"
        if self.tokens:
            return f"thinking, {wording.tokens(self.tokens)} tokens"
        return f"reading {wording.tokens(self.prompt_tokens)} tokens" if self.prompt_tokens else ""

    def _take(self, event: GenerationEvent) -> None:
        match event:
            case Loading():
                self.loading = event.fraction
            case Started():
                self.loading = None
                self.prompt_tokens = event.prompt_tokens
                self.context = event.context
            case Thought():
                self.tokens += event.tokens
            case Delta():
                self._take_text(event)
            case Finished():
                self._finish(event)
        if self.ending is None:
            self.entry.annotate(self.summary())

    def _take_text(self, delta: Delta) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
        self.text += delta.text
        self.tokens += delta.tokens
        self.entry.append(delta.text)
        self._samples.append((now, self.tokens))
        while len(self._samples) > 2 and self._samples[0][0] < now - SPEED_WINDOW:
            self._samples.pop(0)

    def _finish(self, event: Finished) -> None:
        self.finished = event
        self.tokens = event.completion_tokens or self.tokens
        self.prompt_tokens = event.prompt_tokens or self.prompt_tokens
        self.context = event.context or self.context
        endings: dict[str, Ending] = {"length": "length", "cancelled": "stopped"}
        self._end(endings.get(event.reason, "answered"))

    def _end(self, ending: Ending, error: ClientError | None = None) -> None:
        self.ending = ending
        self.error = error
        notes = {
            "stopped": "■ stopped",
            "length": "■ cut off: the context or the limit is reached",
            "failed": "■ broke off" if self.text else "",
        }
        self.entry.annotate(self.summary())
        self.entry.finish(notes.get(ending, ""))
        self._changed()
