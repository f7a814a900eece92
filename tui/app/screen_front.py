"""The full screen as the front end of chat commands: dialogs, and hooks into features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from textual.app import SuspendNotSupported
from textual.screen import Screen
from textual.worker import Worker

from ..commands.chat_commands import begin
from ..commands.chat_session import (
    KEEPS,
    DraftPart,
    LineQuestion,
    ModelPick,
    SummaryAction,
    SummaryRequest,
)
from ..commands.command_results import CommandHelp, Done, Facts, Result
from ..commands.command_runner import PROBLEMS, run
from ..commands.command_table import COMMANDS, Command
from ..compaction.context_prefill import warm_up
from ..features.chat.composing_feature import ComposingFeature
from ..features.context.compaction_feature import CompactionFeature
from ..features.context.gauges_feature import GaugesFeature
from ..features.feature import Feature, Handler
from ..features.history_feature import HistoryFeature
from ..features.models.pulls_feature import PullsFeature
from ..features.program_feature import ProgramFeature
from ..history.database.history_errors import HistoryError
from ..privacy.chat_route import LOCAL
from ..session.model_choice import find_model
from ..session.model_descriptions import ASK_FROM, download_sentence
from ..transcript.entries.entry import MessageEntry
from ..transcript.entries.program_entries import OutputEntry

if TYPE_CHECKING:
    from ingle.daemon.client.model_types import ModelEntries, ModelEntry
    from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest

    from ..chats.context_view import RequestMessage
    from ..chats.message import CompactionRecord, Message
    from ..composing.prompt_templates import Template
    from ..features.chat_host import ChatHost
    from ..gauges.context_counter import ContextCounter
    from ..gauges.context_usage import ContextReport, ContextUse
    from ..gauges.prefill_cost import PrefillCost
    from ..history.chat_search import SearchHit
    from ..history.history_store import HistoryStore
    from ..privacy.text_review import TextReview
    from ..screens.questions import ProgressScreen

R = TypeVar("R")
CANCELLABLE = ("command-shell", "command-mcp")
"""Groups of workers that escape ends."""
CHIP_WORDS = 40
"""Characters of a command in the name of its chip."""


class ScreenFront(Feature):
    """See `FrontEnd`: each question is a screen over the chat. Runs the shared commands."""

    is_person = True

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        host.front = self

    def on_ready(self) -> None:
        """Give the first chat the persona of new chats."""
        host = self.host
        if host.preferences.persona and not (host.chat.messages or host.chat.temporary):
            try:
                begin(host)
            except PROBLEMS as problem:
                host.refuse(problem)
            host.show_path()

    def on_first_escape(self) -> bool:
        """See `Feature`: end a command that runs a program."""
        running = self._cancellable()
        for worker in running:
            worker.cancel()
        if running:
            self.host.tell("Cancelled.")
        return bool(running)

    def _cancellable(self) -> list[Worker[Any]]:
        workers = self.host.workers
        return [each for each in workers if each.group in CANCELLABLE and each.is_running]

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            command.name: partial(self._run, command) for command in COMMANDS if command.is_shared
        }

    def _run(self, command: Command, argument: str) -> Awaitable[None] | None:
        try:
            result = run(command, self.host, argument)
        except PROBLEMS as error:
            self.host.refuse(error)
            return None
        if isinstance(result, Awaitable):
            return self.host.present(result)
        self.present(result)
        return None

    def present(self, result: Result) -> None:
        """Draw the changes of a command, and show its sentence for a moment."""
        host = self.host
        if isinstance(result, Facts):
            from ..screens.context.statistics_screen import StatisticsScreen

            host.chat_app.push_screen(StatisticsScreen(result.tables))
            return
        if isinstance(result, CommandHelp):
            host.feature(ProgramFeature).show_help(result.commands)
            return
        if result.changed == "path":
            host.show_path(at=result.at)
        elif result.changed == "pin":
            self._draw_pin(result.at or "")
        elif result.changed == "state":
            host.state_changed()
        elif result.at is not None:
            host.transcript.scroll_to_entry(result.at)
        if result.sentence and not result.is_visible:
            host.tell(result.sentence, "warning" if result.is_warning else "information")

    def _draw_pin(self, name: str) -> None:
        entry, message = self.host.transcript.find_entry(name), self.host.chat.messages.get(name)
        if isinstance(entry, MessageEntry) and message is not None:
            entry.set_pinned(message.pinned)
            self.host.transcript.update_entry(entry)

    async def _ask(self, screen: Screen[R]) -> R | None:
        """The result of a screen over the chat."""
        return await self.host.chat_app.push_screen_wait(screen)

    # Questions

    async def confirm(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """Whether enter was pressed."""
        from ..screens.questions import ConfirmScreen

        return bool(await self._ask(ConfirmScreen(question, details, yes=yes, no=no)))

    accept_cost = confirm

    async def line(self, question: LineQuestion) -> str | None:
        """The line that was typed."""
        from ..screens.questions import LineInputScreen

        return await self._ask(LineInputScreen(question))

    async def long_text(self, title: str, text: str) -> str | None:
        """The text as it was changed."""
        from ..screens.questions import TextEditor

        return await self._ask(TextEditor(title, text))

    async def pick_hit(self, store: HistoryStore, text: str) -> SearchHit | None:
        """A message found while the user types."""
        from ..screens.search_screen import SearchScreen

        return await self._ask(SearchScreen(store, text))

    async def pick_chat(self, store: HistoryStore, text: str) -> str | None:
        """A chat of the list, which can also be renamed, moved and deleted there."""
        from ..screens.chat_list_screen import ChatListScreen

        # Once the list is closed: a screen cannot be pushed while another one is popped.
        def search(text: str) -> None:
            self.host.call_later(self.host.run_command, "search", text)

        return await self._ask(ChatListScreen(store, self.host, text, search))

    async def pick_prompt(self, prompts: Sequence[Message]) -> Message | None:
        """A prompt to edit."""
        from ..screens.choices import RewindScreen

        return await self._ask(RewindScreen(prompts))

    async def pick_pin(self, pinned: Sequence[Message]) -> tuple[str, str] | None:
        """`go` or `unpin`, and the id of the message."""
        from ..screens.choices import PinsScreen

        return await self._ask(PinsScreen(pinned))

    async def consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        """The key that was pressed."""
        from ..screens.consent_screen import ConsentScreen

        return await self._ask(ConsentScreen(asked))

    def insert_output(self, command: str, output: str) -> None:
        """Show it, and put a chip into the draft."""
        self.host.transcript.add(OutputEntry(command, output))
        self.host.state_changed()  # hides the welcome
        composer = self.host.composer
        composer.type_text(composer.chips.add(f"$ {command[:CHIP_WORDS]}", output) + " ")
        composer.focus()

    def insert_spoken(self, text: str) -> None:
        """Put the text into the draft, at the cursor."""
        self.host.composer.type_text(text)
        self.host.composer.focus()

    async def pick_model(self, listing: ModelEntries) -> ModelPick | None:
        """A model, and the action on it."""
        from ..screens.model_picker import ModelPicker

        speeds, pulls = await self._speeds(), self.host.feature(PullsFeature)
        current = self.host.state.model_name
        picked = await self._ask(ModelPicker(listing, current, speeds=speeds, rate=pulls.rate))
        if picked is not None and picked.action == "cancel":
            await pulls.cancel(picked.model.name)
        elif picked is not None and picked.action == "compare":
            self.host.run_command("compare", picked.model.name)
        else:
            return picked
        return None

    async def _speeds(self) -> dict[str, float]:
        """Tokens a second by model: of all kept chats, else of this one."""
        store, loaded = self.host.store, self.host.state.loaded_models
        speeds = {model.name: model.decode_rate for model in loaded if model.decode_rate}
        speeds |= {
            message.model: message.facts.speed
            for message in self.host.chat.path
            if message.facts.speed is not None
        }
        if store is not None:
            # A history that cannot be read is reported elsewhere; the list does without.
            with suppress(HistoryError):
                known = await asyncio.to_thread(store.model_speeds)
                speeds |= {name: speed.tokens_per_second for name, speed in known.items()}
        return speeds

    async def pick_route(self, review: TextReview) -> str:
        """`local`, or a key of the consents."""
        from ..screens.redaction_screen import RedactionScreen

        return await self._ask(RedactionScreen(review, asks=True)) or LOCAL

    async def summary_action(
        self, record: CompactionRecord, *, is_last: bool
    ) -> SummaryAction | None:
        """The action that was chosen for the summary."""
        from ..screens.context.summary_screen import SummaryScreen

        return await self._ask(SummaryScreen(record, self.in_editor))

    async def show_context(self, report: ContextReport) -> str | None:
        """The table of tokens; the message to go to."""
        from ..screens.context.context_table import ContextTable

        return await self._ask(ContextTable(report))

    async def show_redaction(self, review: TextReview) -> None:
        """The text with its masks, which can be changed and copied."""
        from ..screens.redaction_screen import RedactionScreen

        if await self._ask(RedactionScreen(review, asks=False)):
            self.host.copy(review.leaving(0))

    # Progress

    def progress(self, text: str) -> None:
        """Show a sentence until the next one."""
        cancels = " · esc cancels" if self._cancellable() else ""
        self.host.tell(f"{text}{cancels}", lasts=True)

    @contextmanager
    def long_task(self, title: str, legend: str) -> Generator[ProgressScreen]:
        """A screen with the reported progress."""
        from ..screens.questions import ProgressScreen

        screen = ProgressScreen(title, legend)
        self.host.chat_app.push_screen(screen)
        try:
            yield screen
        finally:
            screen.finish()

    async def summarise(self, request: SummaryRequest) -> Done:
        """Start a summary in the background."""
        self.host.feature(CompactionFeature).start(request)
        return Done()

    # State and actions of features

    async def draft(self) -> str:
        """The draft with its files."""
        return await self.host.feature(ComposingFeature).full_draft()

    def draft_part(self) -> DraftPart:
        """The chip at the cursor, else the draft."""
        return self.host.feature(ComposingFeature).draft_part()

    async def in_editor(self, text: str) -> str:
        """The text as the user's editor leaves it."""
        from ..terminal.external_editor import edit_text

        app = self.host.chat_app
        try:
            with app.suspend():
                edited = edit_text(text)
        except SuspendNotSupported:
            # The editor has a window of its own there, as on Windows.
            edited = await asyncio.to_thread(edit_text, text)
        app.refresh()
        return edited

    async def attach(self, mentions: Sequence[str]) -> Done:
        """Put the mentions into the draft; without any, offer the files there are."""
        composer = self.host.composer
        composer.focus()
        if not mentions:
            composer.type_text("@")
        for mention in mentions:
            composer.attach(mention)
        return Done()

    def insert_template(self, template: Template) -> None:
        """Put a template into the draft."""
        self.host.feature(ComposingFeature).insert_template(template)

    def history_unlocked(self) -> None:
        """Resume the open answers of a chat that has ended."""
        self.host.feature(HistoryFeature).on_connected()
        self.host.state_changed()

    def prefill_cost(self, messages: list[RequestMessage]) -> PrefillCost:
        """The cost of prefilling `messages` again."""
        return self.host.feature(GaugesFeature).prefill_cost(messages)

    async def count_context(self) -> tuple[ContextCounter, ContextUse]:
        """The tokens of the messages that are sent with the next prompt."""
        return await self.host.feature(GaugesFeature).count_context()

    def fetch(self, name: str, *, use: bool = False) -> None:
        """Download a model in the background; a large one for the chat after asking."""
        model = find_model(self.host.state.models, name)
        if use and model is not None and model.size >= ASK_FROM:
            self.host.run_worker(self._ask_and_fetch(model), group="fetch")
        else:
            self.host.feature(PullsFeature).fetch(name, use=use)

    async def _ask_and_fetch(self, model: ModelEntry) -> None:
        details = download_sentence(model.size, self.host.welcome.disk_free)
        if await self.confirm(f"Download {model.name}?", details, yes="downloads it"):
            self.host.feature(PullsFeature).fetch(model.name, use=True)
        else:
            self.host.return_queue()

    async def offer_stop(self) -> bool:
        """Ask whether to stop the download that the bar shows."""
        pulls = self.host.feature(PullsFeature)
        name = pulls.shown
        if name is not None and await self.confirm(
            f"Stop the download of {name}?",
            "What is downloaded is kept; the next attempt resumes there.",
            yes="stops it",
            no="keeps downloading",
        ):
            await pulls.cancel(name)
        return name is not None

    def model_chosen(self, name: str, *, is_missing: bool = False) -> None:
        """Download the model, or load it, prefill the chat, and send the waiting prompts."""
        if is_missing:
            self.host.feature(PullsFeature).fetch(name, use=True)
            return
        self.host.run_worker(self._load(name), group="warm")
        self.host.send_next()

    async def _load(self, name: str) -> None:
        host = self.host
        await host.link.warm_up(name)
        if host.chat.leaf is not None and host.turn is None and host.state.model_name == name:
            await warm_up(host.client, host.chat, name)

    def prefill(self) -> None:
        """Prefill the new view in the background."""
        host = self.host
        task = warm_up(host.client, host.chat, host.state.model_name)
        host.run_worker(task, group="compaction-warm-up")
