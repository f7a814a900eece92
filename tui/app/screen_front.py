"""The full screen as the front end of chat commands: dialogs, and hooks into features."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

from ..commands.chat_session import KEEPS, ModelPick, SummaryAction, SummaryRequest
from ..commands.command_results import Done, Facts, Result
from ..compaction.context_prefill import warm_up
from ..features.chat.composing_feature import ComposingFeature
from ..features.context.compaction_feature import CompactionFeature
from ..features.context.gauges_feature import GaugesFeature
from ..features.history.resuming_feature import ResumingFeature
from ..features.models.models_feature import ModelsFeature
from ..features.models.pulls_feature import PullsFeature
from ..privacy.chat_route import LOCAL
from ..screens.dialogs.line_input_screen import LEGEND
from ..transcript.entries.entry import MessageEntry

if TYPE_CHECKING:
    from ingle.daemon.client.model_types import LoadedModel, ModelEntries
    from ingle.daemon.client.routing_types import Explanation

    from ..chats.message import CompactionRecord, Message
    from ..composing.prompt_templates import Template
    from ..features.chat_host import ChatHost
    from ..gauges.context_counter import ContextCounter
    from ..gauges.context_usage import ContextReport, ContextUse
    from ..gauges.prefill_cost import PrefillCost
    from ..history.chat_search import SearchHit
    from ..history.history_store import HistoryStore
    from ..privacy.pii_scanner import PrivateSpan
    from ..screens.dialogs.progress_screen import ProgressScreen

R = TypeVar("R")


class ScreenFront:
    """See `FrontEnd`: each question is a screen over the chat."""

    is_person = True

    def __init__(self, host: ChatHost) -> None:
        self._host = host

    def present(self, result: Result) -> None:
        """Draw what a command changed, and show its sentence for a moment."""
        host = self._host
        if isinstance(result, Facts):
            from ..screens.context.statistics_screen import StatisticsScreen

            host.show_screen(StatisticsScreen(result.tables))
            return
        if result.changed == "path":
            host.show_path(at=result.at)
        elif result.changed == "pin":
            self._mark_pin(result.at or "")
        elif result.changed == "state":
            host.show_state()
        elif result.at is not None:
            host.transcript.scroll_to_entry(result.at)
        if result.sentence and not result.is_visible:
            host.tell(result.sentence, "warning" if result.is_warning else "information")

    def _mark_pin(self, name: str) -> None:
        entry, message = self._host.transcript.find_entry(name), self._host.chat.messages.get(name)
        if isinstance(entry, MessageEntry) and message is not None:
            entry.set_pinned(message.pinned)
            self._host.transcript.update_entry(entry)

    async def _ask(self, screen: Screen[R]) -> R | None:
        """The result of a screen over the chat."""
        answer: asyncio.Future[R | None] = asyncio.get_running_loop().create_future()

        def answered(result: R | None) -> None:
            if not answer.done():
                answer.set_result(result)

        self._host.show_screen(screen, answered)
        return await answer

    # Questions

    async def confirm(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """Whether enter was pressed."""
        from ..screens.dialogs.confirm_screen import ConfirmScreen

        return bool(await self._ask(ConfirmScreen(question, details, yes=yes, no=no)))

    accept_cost = confirm

    async def line(
        self,
        label: str,
        text: str = "",
        *,
        note: str = "",
        legend: str = "",
        suggestions: Sequence[str] = (),
    ) -> str | None:
        """What was typed."""
        from ..screens.dialogs.line_input_screen import LineInputScreen

        legend = legend or LEGEND
        screen = LineInputScreen(label, text, note=note, legend=legend, suggestions=suggestions)
        return await self._ask(screen)

    async def secret(self, label: str, *, note: str = "", legend: str = "") -> str | None:
        """What was typed unseen."""
        from ..screens.dialogs.line_input_screen import LineInputScreen

        return await self._ask(LineInputScreen(label, note=note, legend=legend, secret=True))

    async def long_text(self, title: str, text: str) -> str | None:
        """The text as it was changed."""
        from ..screens.dialogs.text_editor import TextEditor

        return await self._ask(TextEditor(title, text))

    async def pick_hit(self, store: HistoryStore, text: str) -> SearchHit | None:
        """A message found while the user types."""
        from ..screens.search_screen import SearchScreen

        return await self._ask(SearchScreen(store, text))

    async def pick_chat(self, store: HistoryStore, text: str) -> str | None:
        """A chat of the list, which can also be renamed, moved and deleted there."""
        from ..screens.chat_list_screen import ChatListScreen

        return await self._ask(ChatListScreen(store, self._host, text, self._search_next))

    def _search_next(self, text: str) -> None:
        # Once the list is closed: a screen cannot be pushed while another one is popped.
        self._host.chat_app.call_later(self._host.run_command, "search", text)

    async def pick_prompt(self, prompts: Sequence[Message]) -> Message | None:
        """A prompt to edit."""
        from ..screens.rewind_screen import RewindScreen

        return await self._ask(RewindScreen(prompts))

    async def pick_pin(self, pinned: Sequence[Message]) -> tuple[str, str] | None:
        """`go` or `unpin`, and the id of the message."""
        from ..screens.context.pins_screen import PinsScreen

        return await self._ask(PinsScreen(pinned))

    async def pick_model(self, listing: ModelEntries) -> ModelPick | None:
        """A model, and what to do with it."""
        from ..screens.model_picker import ModelPicker

        speeds = await self._host.feature(ModelsFeature).speeds()
        rate = self._host.feature(PullsFeature).rate
        current = self._host.state.model_name
        return await self._ask(ModelPicker(listing, current, speeds=speeds, rate=rate))

    async def pick_route(self, said: Explanation) -> str:
        """`local`, or a key of the consents."""
        from ..screens.route_choice_screen import RouteChoiceScreen

        return await self._ask(RouteChoiceScreen(said)) or LOCAL

    async def summary_action(
        self, record: CompactionRecord, *, is_last: bool
    ) -> SummaryAction | None:
        """What to do with the summary that is shown."""
        from ..screens.context.summary_screen import SummaryScreen

        return await self._ask(SummaryScreen(record))

    async def show_context(self, report: ContextReport) -> str | None:
        """The table of tokens; the message to go to."""
        from ..screens.context.context_table import ContextTable

        return await self._ask(ContextTable(report))

    async def show_redaction(self, text: str, spans: Sequence[PrivateSpan]) -> None:
        """The text with its masks, which can be lifted one by one."""
        from ..screens.redaction_screen import RedactionScreen

        copied = await self._ask(RedactionScreen(text, spans))
        if copied is not None:
            self._host.copy(copied)

    # Progress

    def progress(self, text: str) -> None:
        """Show a sentence for a moment."""
        self._host.tell(text)

    @contextmanager
    def long_task(self, title: str) -> Generator[ProgressScreen]:
        """A screen that shows what is reported."""
        from ..screens.dialogs.progress_screen import ProgressScreen

        screen = ProgressScreen(title)
        self._host.show_screen(screen)
        try:
            yield screen
        finally:
            screen.finish()

    async def summarise(self, request: SummaryRequest) -> Done:
        """Begin a summary; the chat can be used meanwhile."""
        self._host.feature(CompactionFeature).start(request)
        return Done()

    # What features know and do

    async def draft(self) -> str:
        """The draft with its files."""
        return await self._host.feature(ComposingFeature).full_draft()

    def insert_template(self, template: Template) -> None:
        """Put a template into the draft."""
        self._host.feature(ComposingFeature).insert_template(template)

    def history_unlocked(self) -> None:
        """Resume what a chat that ended has left."""
        self._host.feature(ResumingFeature).on_connected()
        self._host.show_state()

    def loaded_models(self) -> list[LoadedModel]:
        """The models in memory."""
        return self._host.feature(ModelsFeature).loaded

    def free_bytes(self) -> int | None:
        """Free RAM in bytes."""
        return self._host.feature(ModelsFeature).free_bytes

    def prefill_cost(self, messages: list[dict[str, str]]) -> PrefillCost:
        """What sending `messages` computes again."""
        return self._host.feature(GaugesFeature).prefill_cost(messages)

    async def count_context(self) -> tuple[ContextCounter, ContextUse]:
        """The tokens of what the next prompt is sent with."""
        return await self._host.feature(GaugesFeature).count_context()

    def fetch(self, name: str, *, use: bool = False) -> None:
        """Download a model in the background."""
        self._host.feature(PullsFeature).fetch(name, use=use)

    def act_on_model(self, picked: ModelPick) -> None:
        """Download, compare, or stop the download of a model."""
        pulls, name = self._host.feature(PullsFeature), picked.model.name
        if picked.action == "pull":
            pulls.fetch(name)
        elif picked.action == "cancel":
            self._host.run_task(pulls.cancel(name), group="pulls")
        else:
            self._host.run_command(picked.action, name)

    def model_chosen(self, name: str) -> None:
        """Load the model, prefill the chat, and send what waits for it."""
        self._host.run_task(self._host.feature(ModelsFeature).warm_up(name), group="warm")
        self._host.send_next()

    def prefill(self) -> None:
        """Prefill the new view in the background."""
        host = self._host
        task = warm_up(host.client, host.chat, host.state.model_name)
        host.run_task(task, group="compaction-warm-up")
