"""`CompactionFeature`: summarises earlier messages before the context is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent

from ...commands.chat_session import SummaryRequest
from ...commands.command_results import CommandRefused
from ...commands.context_commands import summarise, trim
from ...compaction.compaction_planner import (
    CompactionStep,
    ContextFill,
    fill_of,
    fits,
    is_worth_it,
    last_size,
    next_step,
)
from ...compaction.token_sizes import CHARACTERS_A_TOKEN
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
    from ...compaction.compaction_planner import Choice
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
        self._seconds_left = 0
        self._used = 0
        self._context = 0
        self._refused_at: int | None = None
        self._page_tokens = 0
        self._send_anyway: QueuedPrompt | None = None
        self._asked: tuple[QueuedPrompt, CompactChoice] | None = None
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
            self._used, context = last_size(chat)
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
        size = round(sum(map(len, _texts(prompt))) / CHARACTERS_A_TOKEN)
        known = self._used and prompt.edits is None
        agreed = prompt is self._send_anyway
        if agreed or not known or fits(self._used, size, self._context):
            self._send_anyway = None
            return True
        if self.running:
            self._by_itself = False  # it is needed now, and no longer done in passing
            return False
        from ...screens.choices import CompactChoice

        self._stop_notice()
        self._say(None)
        choice = CompactChoice(self._used, size, self._context)
        self._asked = prompt, choice
        self.host.chat_app.push_screen(choice, self._chosen)
        return False

    @property
    def _is_asking(self) -> bool:
        """Whether the dialog for a prompt that does not fit is open."""
        return self._asked is not None and self._asked[1] in self.host.chat_app.screen_stack

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
        self._send_anyway = None
        if self.host.chat is not chat:
            return
        self._worker = None
        self._say(None)
        self.host.tell(sentence, "warning")
        self.host.return_queue()

    def _give_up(self) -> None:
        """Cancel the running summary and discard it."""
        self._stop_notice()
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
        if choice is None or asked is None:
            self.host.return_queue()
            return
        self._send_anyway = asked[0]
        if choice == "compact":
            self.start(SummaryRequest())
            if not self.running:
                self.host.return_queue()
        elif choice == "trim":
            self.host.run_worker(self._trim_and_send(), group="compaction-trim")
        else:
            self.host.send_next()

    async def _trim_and_send(self) -> None:
        await self.host.present(trim(self.host, ""))
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
        if self._request is not None:
            self._say(progress_text(progress))


def _texts(prompt: QueuedPrompt) -> list[str]:
    """All texts of a prompt."""
    return [prompt.text, *(attachment.text for attachment in prompt.attachments)]
