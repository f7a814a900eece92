"""`CompactionFeature`: sums up what was said earlier, in time and undoably."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ...widgets.compaction_bar import (
    BarText,
    CompactionBar,
    notice_text,
    progress_text,
    suggestion_text,
)
from ..feature import Feature, Handler
from .trim_feature import TrimFeature

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.worker import Worker

    from ...chats.chat import Chat
    from ...chats.compaction_record import CompactionRecord
    from ...chats.queued_prompt import QueuedPrompt
    from ...client.api_types import GaugesEvent, PagesEvent
    from ...compaction.compaction_planner import ContextFill
    from ...compaction.compactor import Compactor, Progress
    from ...compaction.context_full_choices import Choice
    from ...screens.context.compact_choice import CompactChoice
    from ...screens.context.summary_screen import SummaryAction
    from ...session.turn import Turn
    from ..chat_host import ChatHost

NOTICE_SECONDS = 6
"""How long an automatic compaction is announced before it begins."""
CHARACTERS_A_TOKEN = 3.6


class CompactionFeature(Feature):
    """Commands about summaries, and the one line that says what is going on."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._bar: CompactionBar | None = None
        self._worker: Worker[None] | None = None
        self._compactor: Compactor | None = None
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
            "compact": lambda focus: self.compact(focus),
            "compact_ask": self.compact_and_ask,
            "undo": self.undo,
            "summary": self.show_summary,
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
        """See `Feature`: another branch has another size."""
        leaf = self.host.chat.leaf
        active = self.host.chat.active_compaction()
        if active is not None and active.trims:
            self._used = active.tokens_after
        if leaf is None or leaf.id == self._leaf:
            return
        from ...compaction.compaction_planner import last_size

        self._leaf = leaf.id
        self._used, context = last_size(self.host.chat)
        self._context = context or self._context

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """See `Feature`."""
        name = self.host.state.model_name
        loaded = next((model for model in gauges.models if model.name == name), None)
        if loaded is not None and loaded.context:
            self._context = loaded.context

    def on_pages(self, pages: PagesEvent) -> None:
        """See `Feature`."""
        self._page_tokens = pages.page_tokens

    def on_turn_started(self, turn: Turn) -> None:
        """See `Feature`: what the user asked goes first."""
        if self._by_itself:
            self._give_up()
        self._stop_notice()
        self._say(None)

    def on_turn_ended(self, turn: Turn) -> None:
        """See `Feature`: the time between two prompts is the time to do it in."""
        if turn.finished is None:
            return
        self._used, self._context = turn.context_used, turn.context or self._context
        self._leaf = turn.message.id
        from ...compaction.compaction_planner import CompactionStep, is_worth_it, next_step

        fill = self._fill()
        # The program that asked for the answer compacts the chat, and not each that looks on.
        step = CompactionStep.NOTHING if turn.is_watched else next_step(fill)
        if step is CompactionStep.NOTHING or self.running or not is_worth_it(self.host.chat):
            self._say(None)
        elif step is CompactionStep.SUGGEST:
            self._say(suggestion_text(fill.share))
        else:
            self._announce()

    def on_escape(self) -> bool:
        """See `Feature`: hold off what is announced, break off what runs, or clear the line."""
        if self._timer is not None:
            self._stop_notice()
            self._refused_at = self._used
            self._say(None)
            return True
        if self.running:
            waited_for = not self._by_itself
            self._give_up()
            self._say(None)
            self.host.tell("Broken off: nothing was changed.")
            if waited_for:
                self.host.return_queue()  # what was asked behind the summary is not sent without it
            self.host.send_next()
            return True
        if self._bar is not None and self._bar.said is not None:
            self._say(None)
            return True
        return False

    def may_send(self, prompt: QueuedPrompt) -> bool:
        """See `Feature`: a prompt waits for the summary it wants, or for its user's choice."""
        if (self.running and not self._by_itself) or self._is_asking:
            return False
        from ...compaction.compaction_planner import fits

        size = round(sum(map(len, _texts(prompt))) / CHARACTERS_A_TOKEN)
        known = self._used and prompt.edits is None
        agreed = prompt is self._send_anyway
        if agreed or not known or fits(self._used, size, self._context):
            self._send_anyway = None
            return True
        if self.running:
            self._by_itself = False  # it is needed now, and no longer done in passing
            return False
        from ...screens.context.compact_choice import CompactChoice

        self._stop_notice()
        self._say(None)
        choice = CompactChoice(self._used, size, self._context)
        self._asked = prompt, choice
        self.host.show_screen(choice, self._chosen)
        return False

    @property
    def _is_asking(self) -> bool:
        """Whether somebody is asked already what to do with a prompt that does not fit."""
        return self._asked is not None and self._asked[1] in self.host.chat_app.screen_stack

    def on_closing(self) -> None:
        """See `Feature`."""
        self._stop_notice()

    # Compacting

    def compact(self, focus: str = "", *, by_itself: bool = False) -> None:
        """Have what was said earlier summed up, with special care for `focus`."""
        self._start(focus, self.host.chat.compaction_chain(), by_itself=by_itself)

    def compact_and_ask(self, question: str) -> None:
        """Sum up, then send the question."""
        if not question:
            self.host.tell("/compact+ takes the question that is to be sent afterwards.", "warning")
            return
        if self.running:
            self._by_itself = False  # it is needed now, and no longer done in passing
        else:
            self.compact()
        if self.running:
            self.host.send(question)
        else:
            self.host.composer.replace_text(question)

    def _start(
        self, focus: str, chain: Sequence[CompactionRecord], *, by_itself: bool, replaces: str = ""
    ) -> None:
        self._stop_notice()
        state = self.host.state
        if self.running or self.host.turn is not None:
            self.host.tell("Something is being written already; esc stops it.", "warning")
            return
        if not state.connected or not state.can_ask:
            self.host.tell("There is no model at hand that could write a summary.", "warning")
            return
        from ...compaction.compactor import Compactor

        self._by_itself = by_itself
        self._compactor = Compactor(
            self.host.client,
            self.host.chat,
            state.model_name,
            focus=focus,
            batch=by_itself,
            chain=chain,
            changed=self._show_progress,
        )
        task = self._run(self._compactor, self.host.chat, replaces)
        self._worker = self.host.run_task(task, group="compaction")

    async def _run(self, compactor: Compactor, chat: Chat, replaces: str) -> None:
        """Make the summary, put it into the chat, and have its view computed."""
        from ...client.client_errors import ClientError
        from ...compaction.summary_check import CompactionRefused

        try:
            compaction = await compactor.run()
        except CompactionRefused as refused:
            self._fail(str(refused), chat)
        except ClientError as error:
            self._fail(f"{error.message} Nothing was changed.", chat)
        else:
            self._ended(compactor)
            if self.host.chat is chat:
                self._add(chat, compaction, replaces)
                self._used = compaction.tokens_after
                self.host.run_task(self._warm_up(), group="compaction-warm-up")
                self.host.send_next()
        finally:
            self._ended(compactor)

    def _ended(self, compactor: Compactor) -> None:
        if self._compactor is compactor:
            self._compactor = None
            self._worker = None
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

    def _add(self, chat: Chat, compaction: CompactionRecord, replaces: str = "") -> None:
        from ...compaction.apply_compaction import apply

        saved = max(0, compaction.tokens_before - compaction.tokens_after)
        pages = saved // self._page_tokens if self._page_tokens else 0
        compaction = msgspec.structs.replace(compaction, kv_pages=pages)
        apply(chat, self.host.history, compaction, replaces=replaces)
        self.host.show_path()

    async def _warm_up(self) -> None:
        """Have the new view computed in idle time, so that the next first token does not wait."""
        from ...compaction.context_prefill import warm_up

        await warm_up(self.host.client, self.host.chat, self.host.state.model_name)

    def _give_up(self) -> None:
        """Break off what runs; nothing of it remains."""
        self._stop_notice()
        worker, compactor = self._worker, self._compactor
        self._worker = self._compactor = None
        self._by_itself = False
        if worker is not None:
            worker.cancel()
        if compactor is not None:
            self.host.run_task(compactor.cancel(), group="compaction-cancel")

    # Undo, trim, summary

    def undo(self, name: str = "") -> None:
        """Send the originals again, those behind the compaction `name` or the last one."""
        from ...compaction.apply_compaction import undo
        from ...compaction.summary_check import CompactionRefused

        if self.host.turn is not None:
            self.host.tell("An answer is still running; esc stops it.", "warning")
            return
        try:
            undone = undo(self.host.chat, self.host.history, name)
        except CompactionRefused as refused:
            self.host.tell(str(refused), "warning")
            return
        self._used += sum(step.tokens_before - step.tokens_after for step in undone)
        self.host.show_path()
        sentence = "The originals are sent again, word for word."
        if self._context and self._used > self._context:
            sentence += " They no longer fit into the context, though: F6 compacts."
        self.host.tell(sentence)

    def show_summary(self, name: str = "") -> None:
        """Open a summary, the last one without a name."""
        chain = [step for step in self.host.chat.compaction_chain() if not step.trims]
        shown = next((step for step in chain if step.id == name), chain[-1] if chain else None)
        if shown is None:
            self.host.tell("There is no summary in this chat yet; F6 makes one.", "warning")
            return
        from ...screens.context.summary_screen import SummaryScreen

        chat = self.host.chat
        self.host.show_screen(SummaryScreen(shown), lambda wish: self._act(chat, shown, wish))

    def _act(self, chat: Chat, shown: CompactionRecord, wish: SummaryAction | None) -> None:
        if wish is None or self.host.chat is not chat:
            return
        chain = chat.compaction_chain()
        if wish.act == "undo":
            self.undo(shown.id)
        elif shown is not chain[-1]:
            self.host.tell("Only the last summary can be changed; F7 undoes it.", "warning")
        elif wish.act == "redo":
            self._start(wish.text, chain[:-1], by_itself=False, replaces=shown.id)
        else:
            self.host.run_task(self._edit(chat, shown, wish.text), group="compaction-edit")

    async def _edit(self, chat: Chat, shown: CompactionRecord, text: str) -> None:
        """Put an edited summary in the place of the old one, which history keeps."""
        from ...client.client_errors import ClientError
        from ...compaction.edited_summary import edited

        try:
            compaction = await edited(self.host.client, chat, self.host.state.model_name, text)
        except ClientError as error:
            self.host.tell(f"{error.message} The summary is as it was.", "warning")
            return
        if self.host.chat is not chat or self.host.turn is not None:
            return
        self._add(chat, compaction, shown.id)
        self._used = compaction.tokens_after
        await self._warm_up()

    # When

    def _fill(self) -> ContextFill:
        from ...compaction.compaction_planner import fill_of

        said = self.host.preferences
        at = said.compact_at / 100 if said.auto_compact else None
        return fill_of(
            self.host.chat, self._used, self._context, refused_at=self._refused_at, at=at
        )

    def _chosen(self, choice: Choice | None) -> None:
        """What to do with a prompt that does not fit."""
        asked, self._asked = self._asked, None
        if choice is None or asked is None:
            self.host.return_queue()
            return
        self._send_anyway = asked[0]
        if choice == "compact":
            self.compact()
            if not self.running:
                self.host.return_queue()
        elif choice == "trim":
            self.host.run_task(self._trim_and_send(), group="compaction-trim")
        else:
            self.host.send_next()

    async def _trim_and_send(self) -> None:
        await self.host.feature(TrimFeature).trim()
        self.host.send_next()

    # The line

    def _announce(self) -> None:
        self._seconds_left = NOTICE_SECONDS
        self._tick()
        self._timer = self.host.composer.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        if self._seconds_left <= 0:
            self._stop_notice()
            self.compact(by_itself=True)
            return
        self._say(notice_text(self._fill().share, self._seconds_left))
        self._seconds_left -= 1

    def _stop_notice(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _show_progress(self, progress: Progress) -> None:
        if self._compactor is None:
            return
        self._say(progress_text(progress))

    def _say(self, said: BarText | None) -> None:
        """Show a line, or none; the widget is made when there is something to show first."""
        if self._bar is None:
            if said is None:
                return
            composer = self.host.composer
            assert composer.parent is not None
            self._bar = CompactionBar()
            self._bar.said = said
            composer.screen.query_one("#dock").mount(self._bar, before=composer)
            return
        self._bar.said = said


def _texts(prompt: QueuedPrompt) -> list[str]:
    """Everything in a prompt that takes room."""
    return [prompt.text, *(attachment.text for attachment in prompt.attachments)]
