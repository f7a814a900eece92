"""Lines of text as the front end of chat commands: questions are typed, lists are numbered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError

from ..chats.automatic_title import shorten
from ..chats.message import Attachment
from ..commands.chat_session import (
    KEEPS,
    DraftPart,
    LineQuestion,
    ModelPick,
    SummaryAction,
    SummaryRequest,
)
from ..commands.command_results import CommandHelp, CommandRefused, Done, Facts, Result
from ..compaction.compaction_planner import last_size
from ..composing.file_mentions import find_mentions
from ..gauges.context_counter import ContextCounter
from ..gauges.context_usage import Role
from ..gauges.prefill_cost import PrefillCost
from ..privacy.chat_route import LOCAL, kinds_found
from ..text import number_format

if TYPE_CHECKING:
    from ingle.daemon.client.model_types import ModelEntries, ModelEntry
    from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest

    from ..chats.context_view import RequestMessage
    from ..chats.message import CompactionRecord, Message
    from ..compaction.compactor import CompactionProgress
    from ..composing.prompt_templates import Template
    from ..gauges.context_usage import ContextReport, ContextUse
    from ..history.chat_search import SearchHit
    from ..history.database.row_reads import ChatSummary
    from ..history.history_store import HistoryStore
    from ..privacy.text_review import TextReview
    from .plain_session import PlainSession

SHOWN_CHATS = 20
SHOWN_PARTS = 10
NEWEST = 1000
"""The number of chats among which a title is searched."""
LONGEST_LINE = 200


_CHANGES: dict[str, tuple[str, Callable[[TextReview, str], Awaitable[None]]]] = {
    "mask": ("Mask a word.", lambda review, text: review.mask(text)),
    "show": ("Show a masked word.", lambda review, text: review.unmask([text])),
    "never": ("Never let a word out.", lambda review, text: review.teach(text, public=False)),
    "public": ("A word is public.", lambda review, text: review.teach(text, public=True)),
}


class _LineTask:
    """A task whose progress is written every few seconds."""

    is_cancelled = False

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def report(self, text: str) -> None:
        self._write(f"{text}.")


class LineFront:
    """See `FrontEnd`; long tasks run after the command, in the order of their requests."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._output = session.output
        self._reader = session.reader

    @property
    def is_person(self) -> bool:
        """Whether prompts are typed."""
        return self._reader.is_person

    def present(self, result: Result) -> None:
        """Write a result as sentences."""
        if isinstance(result, Facts):
            for title, rows in result.tables.items():
                self._output.line(f"{title}:")
                for name, value in rows:
                    self._output.line(f"{name}: {value}" if name else value)
            return
        if isinstance(result, CommandHelp):
            self._write_help(result)
            return
        if result.sentence:
            self._output.line(result.sentence)
        if result.at is not None and result.changed != "pin":
            self._session.read_out(result.at)

    def _write_help(self, commands: CommandHelp) -> None:
        line = self._output.line
        line("Write a prompt and press enter. A line that ends in \\ continues in the next.")
        for command in commands.commands:
            line(f"{command.usage}: {command.help}.")
        elsewhere = [f"/{command.slash}" for command in commands.elsewhere if command.slash]
        line(f"In the full-screen chat only: {', '.join(elsewhere)}.")
        line("Ctrl+C stops an answer. Ctrl+D leaves.")

    # Questions

    async def confirm(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """Whether yes was typed."""
        self._output.line(details)
        return self._reader.confirm(question)

    async def accept_cost(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> bool:
        """As `confirm`; True without asking if the input is a pipe."""
        if self.is_person:
            return await self.confirm(question, details, yes=yes, no=no)
        self._output.line(details)
        return True

    async def line(self, question: LineQuestion) -> str | None:
        """A typed line; None if the input is a pipe, and for an empty secret."""
        if not self.is_person:
            return None
        if question.note:
            self._output.line(question.note)
        if question.is_secret:
            return self._reader.secret(f"{question.label} (empty: not now): ") or None
        return self._reader.edit(f"{question.label}: ", question.text)

    async def long_text(self, title: str, text: str) -> str | None:
        """Write the text; the command's argument changes it."""
        self._output.line(f"{title}: {text or 'empty'}")
        return None

    async def pick_hit(self, store: HistoryStore, text: str) -> SearchHit | None:
        """One of the best hits."""
        text = text or (await self.line(LineQuestion("Search for")) or "")
        if not text:
            raise CommandRefused("Say what to look for: /search TEXT.")
        hits = store.search(text, SHOWN_CHATS)
        if not hits:
            self._output.line(f"Nothing is found for {text}.")
            return None
        return self._reader.choose("Found, the best first:", hits, _hit)

    async def pick_chat(self, store: HistoryStore, text: str) -> str | None:
        """One of the newest chats whose title has `text`."""
        wanted = text.casefold()
        chats = [chat for chat in store.recent(NEWEST) if wanted in chat.title.casefold()]
        if not chats:
            none = f"No chat is called {text}." if text else "There are no chats yet."
            self._output.line(none)
            return None
        chosen = self._reader.choose("Chats, newest first:", chats[:SHOWN_CHATS], _summary)
        return None if chosen is None else chosen.id

    async def pick_prompt(self, prompts: Sequence[Message]) -> Message | None:
        """One of the prompts."""
        title = "Prompts, the first one first:"
        return self._reader.choose(title, prompts, lambda prompt: _one_line(prompt.content))

    async def pick_pin(self, pinned: Sequence[Message]) -> tuple[str, str] | None:
        """A message to unpin."""
        if not pinned:
            self._output.line("Nothing is pinned. /pin keeps the last message word for word.")
            return None
        if not self.is_person:
            self._output.line("\n".join(map(_pinned, pinned)))
            return None
        chosen = self._reader.choose("Kept word for word; a number unpins:", pinned, _pinned)
        return None if chosen is None else ("unpin", chosen.id)

    async def pick_model(self, listing: ModelEntries) -> ModelPick | None:
        """A model to use."""
        models = [model for model in listing.models if model.writes]
        chosen = self._reader.choose("Models:", models, _model)
        return None if chosen is None else ModelPick("use", chosen)

    async def consent(self, asked: ConsentRequest) -> ConsentChoice | None:
        """The user's choice."""
        return await self._session.steps.consent(asked)

    def insert_output(self, command: str, output: str) -> None:
        """Write the output, and send it with the next prompt."""
        self._output.line(output)
        self._session.attachments.append(Attachment(f"$ {command}", output))

    def insert_spoken(self, text: str) -> None:
        """Let the text be edited, and send it."""
        if said := self._reader.edit("You said (enter sends): ", text):
            self._session.send(said)

    async def pick_route(self, review: TextReview) -> str:
        """The user's choice of a route; `LOCAL` if no user can be asked."""
        output, said = self._output, review.said
        if not self.is_person:
            output.line(f"Answered here: no user can be asked. {said.reason}")
            return LOCAL
        output.line(f"{said.target} would see this. {said.reason}")
        while True:
            if found := kinds_found(review.said):
                output.line(f"Found: {found}.")
            for number in range(len(review.texts)):
                output.line(f"Message {number + 1}: {review.leaving(number)}")
            choices = {LOCAL: "Answer here."}
            if "redact" in review.said.consents:
                choices["redact"] = "Send it as shown, with placeholders."
            if "cloud" in review.said.consents:
                choices["cloud"] = "Send it without placeholders."
            choices |= {change: sentence for change, (sentence, _) in _CHANGES.items()}
            choice = self._reader.choose("Where?", list(choices), choices.__getitem__)
            if choice not in _CHANGES:
                return choice or LOCAL
            await self._change(review, choice)

    async def _change(self, review: TextReview, change: str) -> None:
        text = self._reader.ask("Which word or words? ")
        try:
            if text:
                await _CHANGES[change][1](review, text)
        except ClientError as error:
            self._output.error(" ".join(filter(None, (error.message, error.hint))))

    async def summary_action(
        self, record: CompactionRecord, *, is_last: bool
    ) -> SummaryAction | None:
        """Read the summary out, and ask for an action on it."""
        self._output.line(record.summary)
        if not self.is_person or not is_last:
            return None
        edit, redo, undo = "Edit it in your editor", "Make it again with a focus", "Undo it"
        chosen = self._reader.choose("What about it?", (edit, redo, undo), str)
        if chosen == edit:
            return SummaryAction("edit", (await self.in_editor(record.summary)).strip())
        if chosen == redo:
            return SummaryAction("redo", self._reader.ask("Take special care of: "))
        return SummaryAction("undo") if chosen == undo else None

    async def show_context(self, report: ContextReport) -> str | None:
        """Write the sums, and the largest messages."""
        use, line = report.use, self._output.line
        about = "" if use.exact else "About "
        of = f" of {number_format.tokens(use.context)}" if use.context else ""
        line(f"{about}{number_format.tokens(use.used)}{of} tokens are in use.")
        for role in Role:
            if use.roles[role]:
                line(f"{role.word}: {number_format.tokens(use.roles[role])}.")
        line("The largest:")
        for part in sorted(report.parts, key=lambda part: -part.tokens)[:SHOWN_PARTS]:
            text = _one_line(part.text)
            line(f"{number_format.counted(part.tokens, 'token')}, {part.role.word}: {text}")
        saved = report.savings
        for name, tokens in (("compact", saved.compact), ("trim", saved.trim)):
            if tokens:
                line(f"/{name} saves about {number_format.tokens(tokens)}.")
        return None

    async def show_redaction(self, review: TextReview) -> None:
        """Write the text with its masks."""
        kinds = kinds_found(review.said)
        self._output.line(f"Found: {kinds}." if kinds else "Nothing was found in it.")
        self._output.line(review.leaving(0))

    # Progress

    def progress(self, text: str) -> None:
        """Write a sentence."""
        self._output.line(text)

    @contextmanager
    def long_task(self, title: str, legend: str) -> Generator[_LineTask]:
        """Write the last report every few seconds."""
        self._output.line(f"{title}. Ctrl+C stops it.")
        yield _LineTask(self._output.news)

    async def summarise(self, request: SummaryRequest) -> Done:
        """Make the summary now."""
        from ..commands.context_commands import NOTHING_CHANGED, summarise

        if not await self._session.models.can_ask():
            raise CommandRefused(NOTHING_CHANGED)
        self._output.line("Summarising the earlier messages. Ctrl+C cancels.")
        return await summarise(self._session, request, self._summary_progress)

    def _summary_progress(self, progress: CompactionProgress) -> None:
        self._output.news(f"Summarising{progress.step}.")

    # State and actions of the session

    async def draft(self) -> str:
        """Return "": a prompt is sent as soon as it is typed."""
        return ""

    def draft_part(self) -> DraftPart:
        """An empty draft; the edited text is sent."""
        return DraftPart("", self._send_written)

    def _send_written(self, text: str) -> None:
        text = text.strip()
        if text:
            self._output.line(f"You: {text}")
            self._session.send(text)

    async def in_editor(self, text: str) -> str:
        """The text as the user's editor leaves it."""
        from ..terminal.external_editor import edit_text

        return edit_text(text)

    async def attach(self, mentions: Sequence[str]) -> Done:
        """Read the files now."""
        if not mentions:
            raise CommandRefused("Say which file: /attach FILE.")
        text = " ".join(mentions)
        promised = [mention.path for mention in find_mentions(text)]
        attachments, _ = self._session.read_files(text, promised)
        self._session.attachments += attachments
        return Done("It goes along with the next prompt." if attachments else "")

    def insert_template(self, template: Template) -> None:
        """Ask for the placeholders of a template, and send it."""
        from ..composing.prompt_templates import PLACE

        filled = {place: self._reader.ask(f"{place}: ") for place in template.places}
        self._session.send(PLACE.sub(lambda match: filled[match[1]], template.text))

    def history_unlocked(self) -> None:
        """Complete the answers that an earlier chat left open."""
        self._session.then(self._session.read_history())

    def prefill_cost(self, messages: list[RequestMessage]) -> PrefillCost:
        """Unknown."""
        return PrefillCost()

    async def count_context(self) -> tuple[ContextCounter, ContextUse]:
        """The tokens of the messages that are sent with the next prompt."""
        session = self._session
        counter = ContextCounter()
        counter.look(session.chat, session.state.model_name or "")
        if await counter.ask(session.client):
            counter.look(session.chat, counter.model)
        context = last_size(session.chat).context or session.state.context(None)
        return counter, counter.use(context, session.chat.settings.sampling)

    def fetch(self, name: str, *, use: bool = False) -> None:
        """Download a model after the command."""
        self._session.then(self._session.models.pull(name))

    async def offer_stop(self) -> bool:
        """False: downloads are waited for."""
        return False

    def model_chosen(self, name: str, *, is_missing: bool = False) -> None:
        """Offer to download a missing model; the next prompt loads one that is here."""
        if is_missing:
            self._session.then(self._session.models.offer_pull())

    def prefill(self) -> None:
        """Have the daemon prefill the new view."""
        from ..compaction.context_prefill import begin_warm_up

        session = self._session
        self._session.then(begin_warm_up(session.client, session.chat, session.state.model_name))


def _one_line(text: str) -> str:
    return shorten(" ".join(text[: 4 * LONGEST_LINE].split()), LONGEST_LINE)


def _pinned(message: Message) -> str:
    return _one_line(message.text)


def _summary(chat: ChatSummary) -> str:
    pinned = "pinned, " if chat.pinned else ""
    folder = f", in {chat.folder}" if chat.folder else ""
    return f"{chat.title}, {pinned}{number_format.counted(chat.messages, 'message')}{folder}"


def _hit(hit: SearchHit) -> str:
    if hit.message is None:
        return f"{hit.title}, by its title"
    author = {"user": "you", "tool": "a tool"}.get(hit.role, hit.model or "the model")
    return f"{hit.title}, {author}: {hit.snippet.text}"


def _model(model: ModelEntry) -> str:
    place = "on this machine" if model.installed else "can be downloaded"
    if model.state == "ready":
        place = "loaded"
    size = f", {number_format.size(model.size)}" if model.size else ""
    return f"{model.name}{size}, {place}"
