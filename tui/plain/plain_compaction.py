"""Compaction in the plain chat: before a prompt that does not fit, or when the context is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..commands.chat_session import SummaryRequest
from ..commands.command_results import CommandRefused
from ..commands.context_commands import trim
from ..compaction.compaction_planner import (
    CHOICES,
    CompactionStep,
    ContextFill,
    fill_of,
    fits,
    full_sentence,
    is_worth_it,
    last_size,
    next_step,
)
from ..compaction.token_sizes import CHARACTERS_A_TOKEN
from ..text import number_format

if TYPE_CHECKING:
    from .plain_session import PlainSession


class PlainCompaction:
    """Makes room for prompts, and reports how full the context is."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._refused_at: int | None = None

    @property
    def _fill(self) -> ContextFill:
        chat, preferences = self._session.chat, self._session.preferences
        used, context = last_size(chat)
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

    async def make_room(self, characters: int) -> bool:
        """Make room for a prompt of this size; return False if it must not be sent."""
        session, fill = self._session, self._fill
        if next_step(fill) is CompactionStep.COMPACT and is_worth_it(session.chat):
            try:
                session.front.present(await session.front.summarise(SummaryRequest()))
            except CommandRefused as refused:
                self._refused_at = fill.used
                session.output.line(f"{refused.message} {refused.hint or ''}".strip())
            fill = self._fill
        size = round(characters / CHARACTERS_A_TOKEN)
        if not fill.used or fits(fill.used, size, fill.context):
            return True
        session.output.line(full_sentence(fill.used, size, fill.context))
        if not session.reader.is_person:
            return True  # the daemon decides
        chosen = session.reader.choose("The context is full:", CHOICES, lambda c: f"{c[1]}: {c[2]}")
        if chosen is None:
            session.output.line("It is not sent.")
            return False
        choice = chosen[0]
        if choice == "compact":
            session.front.present(await session.front.summarise(SummaryRequest()))
        elif choice == "trim":
            session.front.present(await trim(session, ""))
        return True
