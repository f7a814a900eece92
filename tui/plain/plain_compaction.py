"""Compaction in the plain chat: before a prompt that does not fit, or when the context is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..commands.chat_session import SummaryRequest
from ..commands.command_results import CommandRefused
from ..commands.context_commands import trim
from ..commands.full_context import extended_context, measure_room, surely_fits, ways_out
from ..commands.models_commands import ctx
from ..compaction.compaction_planner import (
    CHOICES,
    Choice,
    CompactionStep,
    ContextFill,
    PromptRoom,
    fill_of,
    is_worth_it,
    last_size,
    next_step,
)
from ..text import number_format

if TYPE_CHECKING:
    from ..chats.message import QueuedPrompt
    from .plain_session import PlainSession


class PlainCompaction:
    """Makes room for prompts, and reports how full the context is."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._refused_at: int | None = None

    @property
    def _fill(self) -> ContextFill:
        chat, preferences = self._session.chat, self._session.preferences
        used, context, _ = last_size(chat)
        at = preferences.compact_at / 100 if preferences.auto_compact else None
        return fill_of(chat, used, context, refused_at=self._refused_at, at=at)

    def report_fill(self) -> None:
        """Write that the context is nearly full, if it is."""
        fill = self._fill
        step = next_step(fill)
        if step is CompactionStep.NOTHING or not is_worth_it(self._session.chat):
            return
        full = f"{number_format.percent(fill.share)} of the context is full."
        automatic = step is CompactionStep.COMPACT
        does = "The next prompt" if automatic else "/compact"
        self._session.output.line(f"{full} {does} summarises the earlier messages.")

    async def make_room(self, prompt: QueuedPrompt) -> bool:
        """Make room for a prompt; return False if it must not be sent."""
        session, fill = self._session, self._fill
        if next_step(fill) is CompactionStep.COMPACT and is_worth_it(session.chat):
            try:
                session.front.present(await session.front.summarise(SummaryRequest()))
            except CommandRefused as refused:
                self._refused_at = fill.used
                session.output.line(f"{refused.message} {refused.hint or ''}".strip())
        while not surely_fits(session, prompt):
            room = await measure_room(session, prompt)
            if room is None or room.lacking <= 0:
                return True
            session.output.line(room.sentence)
            if not session.reader.is_person:
                return True  # the daemon decides
            ways = await ways_out(session, room)
            choice = session.reader.choose(
                "The prompt does not fit:", ways, lambda way: ": ".join(CHOICES[way])
            )
            if choice is None or choice == "edit":
                session.output.line("It is not sent.")
                return False
            if choice == "send":
                return True
            await self._take_way(choice, room)
        return True

    async def _take_way(self, choice: Choice, room: PromptRoom) -> None:
        session = self._session
        if choice == "compact":
            done = await session.front.summarise(SummaryRequest())
        elif choice == "trim":
            done = await trim(session, "")
        else:
            done = await ctx(session, str(extended_context(room)))
        session.front.present(done)
