"""`ContextCommands`: commands about what is sent of a long chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..chats.compaction_record import CompactionRecord
from ..chats.message import Message
from ..client.client_errors import ClientError
from ..compaction.compaction_planner import (
    CompactionStep,
    ContextFill,
    fill_of,
    fits,
    is_worth_it,
    last_size,
    next_step,
)
from ..text import number_format

if TYPE_CHECKING:
    from ..compaction.compactor import Compactor, Progress
    from .plain_session import PlainSession

SHOWN_PARTS = 10
NOTHING_CHANGED = "Nothing was changed."


class ContextCommands:
    """Compacts, undoes, trims and pins, and says what takes how many tokens."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._refused_at: int | None = None

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {
            "compact": lambda focus: self._tell_whether(self._compact(focus)),
            "compact_ask": self._compact_and_ask,
            "undo": lambda _: self._undo(),
            "summary": lambda _: self._summary(),
            "trim": lambda _: self._tell_whether(self._trim()),
            "pin": lambda _: self._pin(),
            "pins": lambda _: self._pins(),
            "context": lambda _: self._context(),
            "stats": lambda _: self._stats(),
        }

    # When

    @property
    def _fill(self) -> ContextFill:
        session = self._session
        used, context = last_size(session.chat)
        said = session.preferences
        at = said.compact_at / 100 if said.auto_compact else None
        return fill_of(session.chat, used, context, refused_at=self._refused_at, at=at)

    def tell_fill(self) -> None:
        """Say that the context fills up, where it does."""
        fill = self._fill
        step = next_step(fill)
        if step is CompactionStep.NOTHING or not is_worth_it(self._session.chat):
            return
        full = f"{number_format.percent(fill.share)} of the context is full."
        if step is CompactionStep.COMPACT:
            self._session.output.line(f"{full} The next prompt sums up what was said earlier.")
        else:
            self._session.output.line(f"{full} /compact sums up what was said earlier.")

    def make_room(self, characters: int) -> bool:
        """Make room for a prompt of so many characters; False where it is not to be sent."""
        from ..compaction.token_sizes import CHARACTERS_A_TOKEN

        fill = self._fill
        if next_step(fill) is CompactionStep.COMPACT and is_worth_it(self._session.chat):
            problem = self._compact()
            if problem is not None:
                self._refused_at = fill.used
                self._session.output.line(problem)
            fill = self._fill
        size = round(characters / CHARACTERS_A_TOKEN)
        if not fill.used or fits(fill.used, size, fill.context):
            return True
        return self._choose(fill, size)

    def _choose(self, fill: ContextFill, size: int) -> bool:
        """Have somebody say what to do with a prompt that does not fit; whether to send it."""
        from ..compaction.context_full_choices import CHOICES, full_sentence

        session = self._session
        session.output.line(full_sentence(fill.used, size, fill.context))
        if not session.reader.is_person:
            return True  # the daemon has the last word
        titles = [f"{title}: {what}" for _, title, what in CHOICES]
        index = session.reader.choose("The context is full:", titles)
        if index is None:
            session.output.line("It is not sent.")
            return False
        choice = CHOICES[index][0]
        problem = None
        if choice != "send":
            problem = self._compact() if choice == "compact" else self._trim()
        self._tell_whether(problem)
        return problem is None

    # Compacting

    def _compact(
        self, focus: str = "", chain: Sequence[CompactionRecord] | None = None, replaces: str = ""
    ) -> str | None:
        """Sum up what was said earlier; why it could not be, None where it was."""
        from ..compaction.apply_compaction import apply
        from ..compaction.compactor import Compactor
        from ..compaction.context_prefill import begin_warm_up
        from ..compaction.summary_check import CompactionRefused

        session = self._session
        if not session.can_ask():
            return NOTHING_CHANGED
        assert session.model is not None
        name, chat = session.model.name, session.chat
        compactor = Compactor(
            session.client, chat, name, focus=focus, chain=chain, changed=self._tell_progress
        )
        session.output.line("Summing up what was said earlier. Ctrl+C leaves all as it was.")
        try:
            compaction = session.wait(_to_its_end(compactor))
        except CompactionRefused as refused:
            return str(refused)
        except ClientError as error:
            return f"{error.message} {NOTHING_CHANGED}"
        except KeyboardInterrupt:
            session.output.line(NOTHING_CHANGED)
            raise
        apply(chat, session.history, compaction, replaces=replaces)
        session.wait(begin_warm_up(session.client, chat, name))
        self._tell_made(compaction)
        return None

    def _tell_progress(self, progress: Progress) -> None:
        words = progress.words
        if progress.written:
            words = f"{number_format.tokens(progress.written)} tokens written"
        self._session.output.news(f"Summing up: {words}.")

    def _tell_made(self, made: CompactionRecord) -> None:
        what = "trimmed" if made.trims else "summed up"
        before, after = (
            number_format.tokens(made.tokens_before),
            number_format.tokens(made.tokens_after),
        )
        turns = f"{made.turns} turn{'' if made.turns == 1 else 's'}"
        read = "" if made.trims else " /summary reads the summary."
        self._session.output.line(
            f"{turns} {what}: {before} tokens became {after}.{read} /undo takes it back."
        )

    def _tell_whether(self, problem: str | None) -> None:
        if problem is not None:
            self._session.output.error(problem)

    def _compact_and_ask(self, question: str) -> None:
        if not question:
            self._session.output.error("Say what to ask then: /compact+ QUESTION.")
            return
        problem = self._compact()
        if problem is None:
            self._session.send(question)
        else:
            self._session.output.error(problem, "The question is not sent.")

    def _undo(self) -> None:
        from ..compaction.apply_compaction import undo
        from ..compaction.summary_check import CompactionRefused

        session = self._session
        try:
            undo(session.chat, session.history)
        except CompactionRefused as refused:
            session.output.error(str(refused))
            return
        session.output.line("The originals are sent again, word for word.")

    def _trim(self) -> str | None:
        """Leave out old attachments and long texts; why it could not be, None where it was."""
        from ..compaction.apply_compaction import apply
        from ..compaction.attachment_trim import measured_trim
        from ..compaction.summary_check import CompactionRefused

        session = self._session
        name = session.model.name if session.model is not None else None
        try:
            compaction = session.wait(measured_trim(session.client, session.chat, name))
        except CompactionRefused as refused:
            return str(refused)
        except ClientError as error:
            return f"{error.message} {NOTHING_CHANGED}"
        apply(session.chat, session.history, compaction)
        self._tell_made(compaction)
        return None

    # The summary

    def _summary(self) -> None:
        session = self._session
        chain = session.chat.compaction_chain()
        shown = next((step for step in reversed(chain) if not step.trims), None)
        if shown is None:
            session.output.error("There is no summary in this chat yet.", "/compact makes one.")
            return
        session.output.line(shown.summary)
        if not session.reader.is_person or shown is not chain[-1]:
            return
        acts = ["Edit it in your editor", "Make it again with a focus", "Undo it"]
        index = session.reader.choose("What about it?", acts)
        if index == 0:
            self._edit_summary(shown)
        elif index == 1:
            focus = session.reader.ask("Take special care of: ")
            self._tell_whether(self._compact(focus, chain[:-1], shown.id))
        elif index == 2:
            self._undo()

    def _edit_summary(self, shown: CompactionRecord) -> None:
        from ..compaction.apply_compaction import apply
        from ..compaction.edited_summary import edited
        from ..terminal.external_editor import EditorFailed, edit_text

        session = self._session
        name = session.model.name if session.model is not None else None
        try:
            text = edit_text(shown.summary).strip()
        except EditorFailed as error:
            session.output.error(str(error))
            return
        if not text or text == shown.summary.strip():
            session.output.line(NOTHING_CHANGED)
            return
        changed = session.wait(edited(session.client, session.chat, name, text))
        apply(session.chat, session.history, changed, replaces=shown.id)
        session.output.line(
            f"Kept: {number_format.tokens(changed.tokens_after)} tokens are sent now."
        )

    # Pins

    def _pin(self) -> None:
        message = self._session.chat.leaf
        if message is None:
            self._session.output.error("There is nothing to pin yet.")
            return
        self._set_pinned(message, not message.pinned)

    def _pins(self) -> None:
        session = self._session
        pinned = [message for message in session.chat.path if message.pinned]
        if not pinned:
            session.output.line("Nothing is pinned. /pin keeps the last message word for word.")
            return
        lines = [" ".join(message.text.split())[:200] for message in pinned]
        if not session.reader.is_person:
            session.output.line("\n".join(lines))
            return
        index = session.reader.choose("Kept word for word; a number unpins:", lines)
        if index is not None:
            self._set_pinned(pinned[index], False)

    def _set_pinned(self, message: Message, pinned: bool) -> None:
        message.pinned = pinned
        self._session.history.pin(message.id, pinned)
        self._session.output.line("Kept word for word." if pinned else "No longer pinned.")

    # Figures

    def _context(self) -> None:
        from ..gauges.context_counter import ContextCounter
        from ..gauges.context_usage import Role, savings

        session = self._session
        counter = ContextCounter()
        counter.look(session.chat, session.model.name if session.model is not None else "")
        if not counter.parts:
            session.output.error("Nothing is sent yet: the chat is empty.")
            return
        session.wait(counter.ask(session.client))
        counter.look(session.chat, counter.model)
        use = counter.use(last_size(session.chat)[1], session.chat.settings.sampling)
        about = "" if use.exact else "About "
        of = f" of {number_format.tokens(use.context)}" if use.context else ""
        session.output.line(f"{about}{number_format.tokens(use.used)}{of} tokens are in use.")
        for role in Role:
            if use.roles[role]:
                session.output.line(f"{role.word}: {number_format.tokens(use.roles[role])}.")
        largest = sorted(counter.parts, key=lambda part: -part.tokens)[:SHOWN_PARTS]
        session.output.line("The largest:")
        for part in largest:
            text = " ".join(part.text[:200].split())
            session.output.line(
                f"{number_format.tokens(part.tokens)} tokens, {part.role.word}: {text}"
            )
        saved = savings(session.chat, counter.parts, counter.estimate)
        for name, tokens in (("compact", saved.compact), ("trim", saved.trim)):
            if tokens:
                session.output.line(f"/{name} saves about {number_format.tokens(tokens)}.")

    def _stats(self) -> None:
        from ..commands.answer_statistics import answer_rows, chat_rows

        path = self._session.chat.path
        answers = [m for m in path if m.role == "assistant" and not m.is_open]
        if not answers:
            self._session.output.error("There are no figures before the first answer.")
            return
        tables = (
            ("The last answer", answer_rows(answers[-1].facts)),
            ("This chat", chat_rows(path)),
        )
        for title, rows in tables:
            self._session.output.line(f"{title}:")
            for name, value in rows:
                self._session.output.line(f"{name}: {value}")


async def _to_its_end(compactor: Compactor) -> CompactionRecord:
    try:
        return await compactor.run()
    except asyncio.CancelledError:
        await compactor.cancel()
        raise
