"""Interfaces for chat commands: the open chat (`ChatSession`) and the front end (`FrontEnd`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from ingle.daemon.client.model_types import ModelEntry

from ..chats.message import CompactionRecord
from .command_results import CommandRefused, Done, Result

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient
    from ingle.daemon.client.model_types import ModelEntries
    from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest

    from ..chats.chat import Chat
    from ..chats.context_view import RequestMessage
    from ..chats.history_protocol import ChatRecorder
    from ..chats.message import Attachment, Message
    from ..composing.prompt_templates import Template
    from ..gauges.context_counter import ContextCounter
    from ..gauges.context_usage import ContextReport, ContextUse
    from ..gauges.prefill_cost import PrefillCost
    from ..history.chat_search import SearchHit
    from ..history.history_store import HistoryStore
    from ..privacy.text_review import TextReview
    from ..session.chat_state import ChatState
    from ..settings.chat_folders import ChatFolders
    from ..settings.preferences import Preferences
    from ..tools.chat_tools import ChatTools


KEEPS = "cancels"
"""The default description of the answer "no"."""


ModelAction = Literal["use", "pull", "cancel", "unload", "delete", "compare"]


class ModelPick(NamedTuple):
    """An action on a model of the list."""

    action: ModelAction
    model: ModelEntry


class SummaryAction(NamedTuple):
    """An action on a summary: `edit` it to a text, `redo` it with a focus, or `undo` it."""

    act: Literal["edit", "redo", "undo"]
    text: str = ""


class SummaryRequest(msgspec.Struct, frozen=True):
    """A summary to make: with care for `focus`, after `chain`, in the place of `replaces`.

    A `batch` runs when the daemon has nothing else to do.
    """

    focus: str = ""
    chain: Sequence[CompactionRecord] | None = None
    replaces: str = ""
    batch: bool = False


class DraftPart(NamedTuple):
    """The part of the draft for the editor, and a function that replaces it by the edited text."""

    text: str
    replace: Callable[[str], object]


class LineQuestion(NamedTuple):
    """Asks for a line of text, with `text` to begin with; a secret is not shown when typed.

    `legend` names the keys of a screen, if they do not mean what they usually mean.
    """

    label: str
    text: str = ""
    note: str = ""
    legend: str = ""
    suggestions: Sequence[str] = ()
    is_secret: bool = False


class LongTask(Protocol):
    """A task whose progress is shown; any thread may report."""

    is_cancelled: bool

    def report(self, text: str) -> None: ...


class FrontEnd(Protocol):
    """Questions to the user and output of commands; None means that a question was not answered."""

    @property
    def is_person(self) -> bool:
        """Whether a user can answer questions."""
        ...

    async def confirm(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """Ask before something that cannot be taken back."""
        ...

    async def accept_cost(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """Ask before something that costs time or memory; True if no user can answer."""
        ...

    async def line(self, question: LineQuestion) -> str | None:
        """One line of text."""
        ...

    async def long_text(self, title: str, text: str) -> str | None:
        """A text of several lines, changed."""
        ...

    async def pick_hit(self, store: HistoryStore, text: str) -> SearchHit | None: ...
    async def pick_chat(self, store: HistoryStore, text: str) -> str | None: ...
    async def pick_prompt(self, prompts: Sequence[Message]) -> Message | None: ...
    async def pick_pin(self, pinned: Sequence[Message]) -> tuple[str, str] | None: ...
    async def pick_model(self, listing: ModelEntries) -> ModelPick | None: ...
    async def consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        """Whether a tool may do something; None is a no to this call only."""
        ...

    def insert_output(self, command: str, output: str) -> None:
        """Put the output of a command into the draft, or send it with the next prompt."""
        ...

    def insert_spoken(self, text: str) -> None:
        """Put recognised speech into the draft, or let it be edited and send it."""
        ...

    async def pick_route(self, review: TextReview) -> str: ...
    async def summary_action(
        self, record: CompactionRecord, *, is_last: bool
    ) -> SummaryAction | None: ...
    async def show_context(self, report: ContextReport) -> str | None:
        """Show the tokens of each message; return the message to go to."""
        ...

    async def count_context(self) -> tuple[ContextCounter, ContextUse]:
        """The tokens of the messages that are sent with the next prompt."""
        ...

    async def show_redaction(self, review: TextReview) -> None: ...

    def progress(self, text: str) -> None:
        """Report how far a command is; a later text replaces it."""
        ...

    def long_task(self, title: str, legend: str) -> AbstractContextManager[LongTask]:
        """Show the progress of a task that the user can stop; `legend` says what esc does."""
        ...

    def present(self, result: Result) -> None:
        """Show the result of a command."""
        ...

    async def summarise(self, request: SummaryRequest) -> Done:
        """Run `context_commands.summarise`, showing its progress; raises `CommandRefused`."""
        ...

    async def draft(self) -> str:
        """The unsent prompt as the model would read it, with its files; "" if there is none."""
        ...

    def draft_part(self) -> DraftPart: ...

    async def in_editor(self, text: str) -> str:
        """The text as the user's editor leaves it; raises `CommandRefused`."""
        ...

    async def attach(self, mentions: Sequence[str]) -> Done:
        """Send the mentioned files along; without any, let the user choose."""
        ...

    def insert_template(self, template: Template) -> None: ...

    def history_unlocked(self) -> None:
        """Resume the answers that could not be read while the chats were locked."""
        ...

    def prefill_cost(self, messages: list[RequestMessage]) -> PrefillCost:
        """The cost of prefilling `messages` again."""
        ...

    def fetch(self, name: str, *, use: bool = False) -> None:
        """Download a model; with `use`, the chat waits for it."""
        ...

    async def offer_stop(self) -> bool:
        """Offer to stop the download that is shown; False if none is."""
        ...

    def prefill(self) -> None:
        """Have the daemon prefill the view of the chat that the next prompt is sent with."""
        ...

    def model_chosen(self, name: str, *, is_missing: bool = False) -> None:
        """Download the chosen model if it is missing, else load it and prefill the chat."""
        ...


class ChatSession(Protocol):
    """The open chat with its client, state, history and front end."""

    front: FrontEnd
    client: AsyncDaemonClient
    state: ChatState
    store: HistoryStore | None
    """The history; None if chats are not kept."""
    folders: ChatFolders | None
    chat: Chat

    @property
    def tools(self) -> ChatTools:
        """The tools of the open chat."""
        ...

    @property
    def preferences(self) -> Preferences: ...

    @property
    def history(self) -> ChatRecorder:
        """The recorder of the open chat; `NullRecorder` for a temporary one."""
        ...

    @property
    def is_answering(self) -> bool:
        """Whether an answer is generated, or its tool calls run."""
        ...

    def open_chat(self, chat: Chat, *, at: str | None = None) -> None: ...
    def send(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None: ...
    def ask_again(self, parent: Message) -> None: ...
    def continue_answer(self, message: Message) -> None: ...

    def run_tools(self) -> None:
        """Run the calls at the end of the path that have no result, and go on."""
        ...

    def edit(self, message: Message, text: str = "") -> None:
        """Let the user change a prompt (to `text`, if given) and send it as a new branch."""
        ...

    def copy(self, text: str) -> None: ...

    def can_run(self, name: str) -> bool:
        """Whether the command of this name works here."""
        ...


def keep_settings(session: ChatSession) -> None:
    """Write the settings of the open chat; one without messages is written with its first."""
    if session.chat.messages:
        session.history.set_settings(session.chat.id, session.chat.settings)


def refuse_while_answering(session: ChatSession) -> None:
    """Raise `CommandRefused` while an answer is generated."""
    if session.is_answering:
        raise CommandRefused("An answer is still running; esc stops it.")
