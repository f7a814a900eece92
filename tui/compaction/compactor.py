"""Asks the model for a summary after the cached conversation, and checks it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.generation_stream import GenerationFollower, new_generation_id
from ingle.daemon.client.generation_types import (
    ArgumentsEvent,
    DeltaEvent,
    FinishedEvent,
    LoadingEvent,
    PrefillEvent,
    ReasoningEvent,
    RouteTaken,
    StartedEvent,
    ToolCallEvent,
)

from ..chats.chat import Chat
from ..chats.context_view import RequestMessage, ViewEntry, view_entries
from ..chats.message import CompactionRecord
from ..chats.turn_request import TurnRequest
from ..text import number_format
from .compaction_planner import INSTRUCTION
from .compaction_range import Selection, select
from .extraction.corrections import corrections, valid_quotes
from .extraction.verbatim_quotes import Quote, find_quotes
from .summary_notes import (
    CompactionRefused,
    SummaryNotes,
    answer_grammar,
    check_answer,
    check_saving,
    instruction,
)
from .summary_windows import divide
from .token_sizes import TokenSizes, measure

MODEL_SHARE = 0.45
"""The share of the notes that the model writes; the rest is for the user's own words."""
MOST_THOUGHT = 256
"""Tokens of reasoning after which the model must answer."""
_FITTING = 4
"""Most rounds of removing or adding quotes to reach the target size."""
_SPARE = 16
"""Tokens that may stay unused."""


@dataclass(slots=True)
class CompactionProgress:
    """Progress of a compaction; tokens and seconds. `part` is the window that is summarised.

    `computed` of the `new` tokens of its prompt are in the KV cache, beside those that were there.
    """

    words: str = "prefill"
    part: int = 1
    parts: int = 1
    written: int = 0
    new: int = 0
    computed: int = 0
    reused: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    @property
    def step(self) -> str:
        """What follows "Compacting": ` part 1 of 3: prefill of 3 120 tokens, 40 %`."""
        words = self.words
        if self.written:
            words = f"{number_format.counted(self.written, 'token')} written"
        elif self.new:
            words = number_format.prefill(self.new, self.computed)
        return f" part {self.part} of {self.parts}: {words}" if self.parts > 1 else f": {words}"


class Compactor:
    """One compaction of a chat's path after `chain`; the chat itself is not changed.

    A `batch` runs at low priority; `changed` is called on progress.
    """

    def __init__(
        self,
        client: AsyncDaemonClient,
        chat: Chat,
        model: str | None,
        *,
        focus: str = "",
        batch: bool = False,
        chain: Sequence[CompactionRecord] | None = None,
        changed: Callable[[CompactionProgress], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._chat = chat
        self._model = model
        self._focus = focus
        self._batch = batch
        self._chain = chat.compaction_chain() if chain is None else list(chain)
        self._changed = changed
        self._generation: GenerationFollower | None = None
        self.progress = CompactionProgress()
        self.exact = True

    async def run(self) -> CompactionRecord:
        """Return the compaction to add to the chat; raises `CompactionRefused` and
        `ClientError`.
        """
        begun = self._chat.compaction_chain()
        entries = view_entries(self._chat, self._chain)
        before = await measure(self._client, self._model, entries, load=True)
        # In threads: a very long chat would delay key presses.
        selection = await asyncio.to_thread(self._select, entries, before)
        if selection is None:
            raise CompactionRefused(
                "There is nothing to compact yet: that takes at least two turns."
            )
        notes = await self._notes(entries, selection, before)
        self._tell("checking")
        compaction = await self._fit(notes, selection, before)
        if self._chat.compaction_chain() != begun:
            raise CompactionRefused(
                "The chat was undone or trimmed meanwhile, so the summary is not used."
            )
        return compaction

    async def cancel(self) -> None:
        """Stop the model; the caller of `run` cancels the task."""
        if self._generation is not None:
            with suppress(ClientError):  # it has ended, or the daemon is gone: nothing is running
                await self._generation.cancel()

    def _select(self, entries: Sequence[ViewEntry], sizes: TokenSizes) -> Selection | None:
        by_name: dict[str, int] = {}
        head = 0
        for entry, size in zip(entries, sizes.entries, strict=True):
            if entry.message is None:
                head += size
            else:
                by_name[entry.message.id] = size
        choose = partial(
            select, self._chat, self._chain, by_name, head, sizes.of_text, context=sizes.context
        )
        selection = choose()
        if selection is None or selection.merged or not self._corrects_earlier(selection):
            return selection
        return choose(merge=True)

    def _corrects_earlier(self, selection: Selection) -> bool:
        """Return whether a message after an earlier summary corrects it."""
        path = self._chat.path
        summarised = {message.id for message in path[: path.index(selection.range[0])]}
        return any(
            c.earlier.message in summarised and c.later.message not in summarised
            for c in corrections(find_quotes(path))
        )

    async def _notes(
        self, entries: Sequence[ViewEntry], selection: Selection, sizes: TokenSizes
    ) -> SummaryNotes:
        """Return the model's notes on the range, which is read in windows if it does not fit.

        A window without usable notes is left to the user's own words, unless all are.
        """
        requests = self._requests(entries, selection, sizes)
        if len(requests) == 1:
            self._tell("prefill")
            return check_answer(*await self._ask(requests[0], selection.notes))
        notes, problem = SummaryNotes(), None
        self.progress.parts = len(requests)
        for self.progress.part, messages in enumerate(requests, 1):
            self.progress.written = self.progress.new = self.progress.computed = 0
            self._tell("prefill")
            text, reason = await self._ask(messages, selection.notes // len(requests))
            try:
                notes.extend(check_answer(text, reason))
            except CompactionRefused as refused:
                problem = refused
        if problem is not None and not notes.sections:
            raise problem
        notes.shorten(round(selection.notes * MODEL_SHARE), sizes.of_text)
        return notes

    def _requests(
        self, entries: Sequence[ViewEntry], selection: Selection, sizes: TokenSizes
    ) -> list[list[RequestMessage]]:
        """Return the cached view, then the instruction.

        If that does not fit, the tail is omitted: the rest is still a prefix of the same cache. If
        that does not fit either, there is a request for each window of the range.
        """
        room = sizes.context - INSTRUCTION - selection.notes if sizes.context else sizes.total
        tail = {message.id for message in selection.tail}
        sized = list(zip(entries, sizes.entries, strict=True))
        if sizes.total > room:
            sized = [(e, n) for e, n in sized if e.message is None or e.message.id not in tail]
        if sum(size for _, size in sized) <= room:
            return [self._request([entry for entry, _ in sized], selection)]
        before = [(entry, size) for entry, size in sized if entry.message is None]
        taken = [(entry, size) for entry, size in sized if entry.message is not None]
        fixed = INSTRUCTION + _answer_limit(selection.notes // 2) + sum(n for _, n in before)
        windows = divide(
            [entry for entry, _ in taken],
            [size for _, size in taken],
            sizes.context - fixed,
        )
        ends = [*(window[0].message for window in windows[1:]), *selection.tail[:1]]
        requests: list[list[RequestMessage]] = []
        for number, window in enumerate(windows):
            part = msgspec.structs.replace(
                selection,
                range=tuple(entry.message for entry in window if entry.message is not None),
                tail=tuple(message for message in ends[number : number + 1] if message is not None),
                merged=selection.merged if number == 0 else (),
            )
            kept = [entry for entry, _ in before if number == 0 or entry.part == "system"]
            requests.append(self._request([*kept, *window], part))
        return requests

    def _request(self, entries: Sequence[ViewEntry], selection: Selection) -> list[RequestMessage]:
        asked = {"role": "user", "content": instruction(selection, self._focus)}
        return [*(entry.request_message for entry in entries), asked]

    async def _ask(self, messages: list[RequestMessage], budget: int) -> tuple[str, str]:
        """Return the model's text, and its finish reason."""
        written = _written(budget)
        # With the chat's own settings, so that the template renders the same prefix.
        asked = TurnRequest.of(self._chat, self._model)
        body = asked.body() | {
            "messages": messages,
            "conversation": self._chat.label_after(self._chain),
            "sampling": {"temperature": 0},
            "reasoning": (asked.reasoning() or {}) | {"budget": MOST_THOUGHT},
            "format": {"grammar": answer_grammar(written)},
            "max_tokens": _answer_limit(budget),
            "attached": True,
        }
        body.pop("tools", None)  # a call would be no summary
        if self._batch:
            body["priority"] = "batch"
        # Named in advance, so that cancelling works before the daemon replies.
        name = new_generation_id()
        self._generation = GenerationFollower(self._client, name, self._model or "")
        self._generation = await GenerationFollower.start(self._client, body, name)
        return await self._follow(self._generation)

    async def _follow(self, generation: GenerationFollower) -> tuple[str, str]:
        text: list[str] = []
        reason = ""
        async with aclosing(generation.events()) as events:
            async for event in events:
                match event:
                    case LoadingEvent():
                        self._tell("starting the model")
                    case StartedEvent():
                        self.progress.reused = event.cached_tokens
                        self.progress.new = event.prompt_tokens - event.cached_tokens
                        self._tell("prefill")
                    case PrefillEvent():
                        self.progress.computed = event.computed_tokens - self.progress.reused
                        self._tell("prefill")
                    case ReasoningEvent():
                        self._tell("thinking")
                    case DeltaEvent():
                        text.append(event.text)
                        self.progress.written += event.tokens
                        self._tell("writing")
                    case FinishedEvent():
                        reason = event.reason
                    case RouteTaken() | ToolCallEvent() | ArgumentsEvent():
                        pass  # a route names a model, which then answers; no tools are offered
        return "".join(text), reason

    async def _fit(
        self, notes: SummaryNotes, selection: Selection, before: TokenSizes
    ) -> CompactionRecord:
        """Return the compaction with as many of the user's own words as the budget holds."""
        quotes = await asyncio.to_thread(self._quotes, notes, selection)
        budget = selection.notes - before.of_text(notes.text)
        compaction, after = await self._with_quotes(notes, quotes, selection, before, budget)
        for attempt in range(_FITTING):
            excess = after.total - selection.target
            # The sizes so far are estimates, usually too high.
            more = attempt < _FITTING - 1 and len(notes.quoted) < len(quotes)
            if not notes.quoted or (excess <= 0 and not (more and -excess > _SPARE)):
                break
            budget = before.of_text("\n".join(notes.quoted)) - excess - 4
            compaction, after = await self._with_quotes(notes, quotes, selection, before, budget)
        self.exact = before.exact and after.exact
        check_saving(
            before.total,
            after.total,
            range_tokens=selection.tokens,
            summary_tokens=before.of_text(notes.text),
        )
        return msgspec.structs.replace(
            compaction, tokens_after=after.total, seconds=self.progress.seconds
        )

    @staticmethod
    def _quotes(notes: SummaryNotes, selection: Selection) -> list[Quote]:
        """Return the user's statements that still hold; drops stale bullets from the notes."""
        said = [*selection.merged, *selection.range]
        # Corrections in the tail make statements stale too, although the tail itself is kept.
        quotes = find_quotes([*said, *selection.tail])
        found = corrections(quotes)
        notes.drop_stale(found)
        return valid_quotes(quotes, {message.id for message in said}, found)

    async def _with_quotes(
        self,
        notes: SummaryNotes,
        quotes: list[Quote],
        selection: Selection,
        before: TokenSizes,
        budget: int,
    ) -> tuple[CompactionRecord, TokenSizes]:
        """Return the compaction with quotes of at most `budget` tokens, and the resulting size."""
        notes.add_quotes(quotes, max(0, budget), before.of_text)
        compaction = CompactionRecord(
            at=selection.range[-1].id,
            summary=notes.text,
            after=selection.after,
            kept=selection.kept,
            model=self._model or "",
            focus=self._focus,
            turns=sum(message.role == "user" for message in selection.range),
            tokens_before=before.total,
        )
        entries = view_entries(self._chat, self._chat.chain_to(compaction))
        return compaction, await measure(self._client, self._model, entries)

    def _tell(self, words: str) -> None:
        self.progress.words = words
        self._changed(self.progress)


def _written(budget: int) -> int:
    """Return the tokens of the model's notes within a summary of `budget` tokens."""
    return max(64, round(budget * MODEL_SHARE))


def _answer_limit(budget: int) -> int:
    """Return the most tokens of an answer with notes for a summary of `budget` tokens."""
    return 2 * _written(budget) + 64 + MOST_THOUGHT
