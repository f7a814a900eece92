"""`CompactionFeature`: summarises earlier messages before the context is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent

from ...commands.chat_session import SummaryRequest
from ...commands.command_results import CommandRefused
from ...commands.context_commands import summarise, trim
from ...commands.full_context import extended_context, measure_room, surely_fits, ways_out
from ...commands.models_commands import ctx
from ...compaction.compaction_planner import (
    CompactionStep,
    ContextFill,
    fill_of,
    is_worth_it,
    last_size,
    next_step,
)
from ...widgets.compaction_bar import (
    BarText,
    CompactionBar,
    notice_text,
    progress_text,
    suggestion_text,
)
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.worker import Worker

    from ...chats.chat import Chat
    from ...chats.message import CompactionRecord, QueuedPrompt
    from ...compaction.compaction_planner import Choice, PromptRoom
    from ...compaction.compactor import CompactionProgress
    from ...screens.choices import CompactChoice
    from ...session.chat_events import Report
    from ...session.turn import Turn
    from ..chat_host import ChatHost

NOTICE_SECONDS = 6
"""Seconds between the notice of an automatic compaction and its start."""


class CompactionFeature(Feature):
    """Commands about summaries, and the line that shows their progress."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._bar = host.query_one(CompactionBar)
        self._worker: Worker[None] | None = None
        self._request: SummaryRequest | None = None
        self._chain: list[CompactionRecord] = []
        self._by_itself = False
        self._timer: Timer | None = None
        self._clock: Timer | None = None
        self._progress: CompactionProgress | None = None
        self._seconds_left = 0
        self._used = 0
        self._context = 0
        self._refused_at: int | None = None
        self._page_tokens = 0
        self._passed: QueuedPrompt | None = None
        """The prompt that fits, or that is sent anyway."""
        self._checking: Worker[None] | None = None
        self._asked: tuple[QueuedPrompt, PromptRoom, CompactChoice] | None = None
        self._leaf = ""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            "compact_ask": self.compact_and_ask,
        }

    @property
    def running(self) -> bool:
        """Whether a summary is being made."""
        return self._worker is not None

    # Events

    def on_chat_opened(self) -> None:
        """See `Feature`."""
        self._give_up()
        self._refused_at = None
        self._say(None)

    def on_path_changed(self) -> None:
        """See `Feature`: another branch has another size, and so has a compacted one."""
        chat, known = self.host.chat, self._chain
        self._chain = chat.compaction_chain()
        if chat.leaf is not None and chat.leaf.id != self._leaf:
            self._leaf = chat.leaf.id
            self._used, context, _ = last_size(chat)
            self._context = context or self._context
            return
        undone = [step for step in known if step not in self._chain]
        self._used += sum(step.tokens_before - step.tokens_after for step in undone)
        if self._chain and self._chain[-1] not in known:
            self._used = self._chain[-1].tokens_after

    def on_report(self, report: Report) -> None:
        """See `Feature`."""
        if isinstance(report, PagesEvent):
            self._page_tokens = report.page_tokens
        elif isinstance(report, GaugesEvent):
            loaded = self.host.state.loaded_named(self.host.state.model_name or "")
            self._context = (loaded.context if loaded is not None else 0) or self._context

    def on_turn_started(self, turn: Turn) -> None:
        """See `Feature`: a prompt takes precedence over an automatic compaction."""
        if self._by_itself:
            self._give_up()
        self._stop_notice()
        self._say(None)

    def on_turn_ended(self, turn: Turn) -> None:
        """See `Feature`: compact between two prompts, if it is due."""
        if turn.finished is None:
            return
        self._used, self._context = turn.context_used, turn.context or self._context
        self._leaf = turn.message.id
        fill = self._fill()
        # Only the program that requested the answer compacts the chat, not those that follow it.
        step = CompactionStep.NOTHING if turn.is_watched else next_step(fill)
        if step is CompactionStep.NOTHING or self.running or not is_worth_it(self.host.chat):
            self._say(None)
        elif step is CompactionStep.SUGGEST:
            self._say(suggestion_text(fill.share))
        else:
            self._announce()

    def on_escape(self) -> bool:
        """See `Feature`: cancel an announced or running compaction, or clear the line."""
        if self._timer is not None:
            self._stop_notice()
            self._refused_at = self._used
            self._say(None)
            return True
        if self._checking is not None:
            self._stop_checking()
            self.host.return_queue()
            return True
        if self.running:
            waited_for = not self._by_itself
            self._give_up()
            self._say(None)
            self.host.tell("Cancelled. Nothing changed.")
            if waited_for:
                self.host.return_queue()  # its prompts are not sent without the summary
            self.host.send_next()
            return True
        was_shown = self._bar.said is not None
        self._say(None)
        return was_shown

    def may_send(self, prompt: QueuedPrompt) -> bool:
        """See `Feature`: a prompt waits for the summary it wants, or for its user's choice."""
        if (self.running and not self._by_itself) or self._is_asking:
            return False
        if prompt is self._passed or surely_fits(self.host, prompt):
            self._passed = None
            return True
        if self._checking is None:
            check = self._check(prompt, self.host.chat)
            self._checking = self.host.run_worker(check, group="compaction-check")
        return False

    async def _check(self, prompt: QueuedPrompt, chat: Chat) -> None:
        """Count a prompt and send it, or ask about one that does not fit."""
        room = await measure_room(self.host, prompt)
        ways: list[Choice] = []
        if room is not None and room.lacking > 0:
            ways = await ways_out(self.host, room)
        self._checking = None
        if self.host.chat is not chat or prompt not in self.host.queue.prompts:
            self.host.send_next()
        elif room is None or not ways:
            self._passed = prompt
            self.host.send_next()
        elif self.running:
            self._by_itself = False  # it is needed now, and no longer done in passing
        else:
            self._ask(prompt, room, ways)

    def _ask(self, prompt: QueuedPrompt, room: PromptRoom, ways: list[Choice]) -> None:
        from ...screens.choices import CompactChoice

        self._stop_notice()
        self._say(None)
        dialog = CompactChoice(room, ways)
        self._asked = prompt, room, dialog
        self.host.chat_app.push_screen(dialog, self._chosen)

    def _stop_checking(self) -> None:
        worker, self._checking = self._checking, None
        if worker is not None:
            worker.cancel()

    @property
    def _is_asking(self) -> bool:
        """Whether the dialog for a prompt that does not fit is open."""
        return self._asked is not None and self._asked[2] in self.host.chat_app.screen_stack

    def on_closing(self) -> None:
        """See `Feature`."""
        self._stop_notice()

    # Compacting

    def start(self, request: SummaryRequest) -> None:
        """Make a summary in the background; a `batch` is cancelled by a prompt."""
        self._stop_notice()
        state = self.host.state
        if self.running or self.host.turn is not None:
            self.host.tell("An answer is still running; esc stops it.", "warning")
        elif not state.connected or not state.can_ask:
            self.host.tell("No model is ready to write a summary; ctrl+o chooses one.", "warning")
        else:
            self._request = request
            self._by_itself = request.batch
            task = self._run(request, self.host.chat)
            self._worker = self.host.run_worker(task, group="compaction")

    def compact_and_ask(self, question: str) -> None:
        """Summarise, then send the question."""
        if not question:
            self.host.tell("Type the question: /compact then QUESTION.", "warning")
            return
        if self.running:
            self._by_itself = False  # it is needed now
        else:
            self.start(SummaryRequest())
        if self.running:
            self.host.send(question)
        else:
            self.host.composer.replace_text(question)

    async def _run(self, request: SummaryRequest, chat: Chat) -> None:
        """Make the summary, and send the prompts that wait for it."""
        try:
            done = await summarise(self.host, request, self._show_progress, self._page_tokens)
        except CommandRefused as refused:
            self._fail(f"{refused.message} {refused.hint or ''}".strip(), chat)
        else:
            self._ended(request)
            if self.host.chat is chat:
                self.host.front.present(done)
                self.host.send_next()
        finally:
            self._ended(request)

    def _ended(self, request: SummaryRequest) -> None:
        if self._request is request:
            self._request = self._worker = None
            self._by_itself = False
            self._say(None)

    def _fail(self, sentence: str, chat: Chat) -> None:
        self._refused_at = self._used
        self._passed = None
        if self.host.chat is not chat:
            return
        self._worker = None
        self._say(None)
        self.host.tell(sentence, "warning")
        self.host.return_queue()

    def _give_up(self) -> None:
        """Cancel the running summary and discard it."""
        self._stop_notice()
        self._stop_checking()
        worker, self._worker, self._request = self._worker, None, None
        self._by_itself = False
        if worker is not None:
            worker.cancel()

    # Timing

    def _fill(self) -> ContextFill:
        said = self.host.preferences
        at = said.compact_at / 100 if said.auto_compact else None
        return fill_of(
            self.host.chat, self._used, self._context, refused_at=self._refused_at, at=at
        )

    def _chosen(self, choice: Choice | None) -> None:
        """Handle the user's choice for a prompt that does not fit."""
        asked, self._asked = self._asked, None
        if choice is None or choice == "edit" or asked is None:
            self.host.return_queue()
        elif choice == "compact":
            self.start(SummaryRequest())
            if not self.running:
                self.host.return_queue()
        elif choice == "send":
            self._passed = asked[0]
            self.host.send_next()
        else:
            self.host.run_worker(self._make_room(choice, asked[1]), group="compaction-room")

    async def _make_room(self, choice: Choice, room: PromptRoom) -> None:
        """Trim, or extend the context, and send the prompt if it fits then."""
        if choice == "trim":
            await self.host.present(trim(self.host, ""))
        else:
            await self.host.present(ctx(self.host, str(extended_context(room))))
        self.host.send_next()

    # The bar

    def _say(self, said: BarText | None) -> None:
        """Show a line, or none."""
        self._bar.said = said

    def _announce(self) -> None:
        self._seconds_left = NOTICE_SECONDS
        self._tick()
        self._timer = self.host.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        if self._seconds_left <= 0:
            self._stop_notice()
            self.start(SummaryRequest(batch=True))
            return
        self._say(notice_text(self._fill().share, self._seconds_left))
        self._seconds_left -= 1

    def _stop_notice(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _show_progress(self, progress: CompactionProgress) -> None:
        if self._request is None:
            return
        self._progress = progress
        self._say(progress_text(progress))
        if self._clock is None:  # nothing else comes during a long prefill
            self._clock = self.host.set_interval(1.0, self._show_seconds)

    def _show_seconds(self) -> None:
        if self._request is not None and self._progress is not None:
            self._say(progress_text(self._progress))
        elif self._clock is not None:
            self._clock.stop()
            self._clock = None
