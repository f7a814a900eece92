"""`ChatHost`: sends the prompts of the open chat in turn, and shows their answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonUnreachable

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder, NullRecorder
from ..chats.message import Attachment, Message, QueuedPrompt
from ..chats.turn_request import TurnRequest
from ..history.history_store import HistoryStore, open_history
from ..session.answer_takeover import adopt_final_answer, take_over_answer
from ..session.chat_entries import answer_failed, entry_of, failure, path_entries, place_of
from ..session.chat_events import HistoryStatusChanged
from ..session.chat_state import ChatState, ChatStatus
from ..session.daemon_link import DaemonLink
from ..session.turn import Turn, add_answer, add_prompt
from ..settings.chat_folders import ChatFolders
from ..settings.preferences import Preferences
from ..terminal.render_throttle import RenderThrottle, driver_of
from ..transcript.entries.answer_entry import AnswerEntry
from ..transcript.entries.entry import Entry
from .chat_layout import ChatLayout

if TYPE_CHECKING:
    from ..tools.chat_tools import ChatTools

Follow = Callable[[Turn], Coroutine[Any, Any, None]]


class ChatHost(ChatLayout):
    """The open chat on the screen, as features use it on the event loop.

    One prompt is answered at a time; prompts sent meanwhile wait in the queue.

    `start_daemon` blocks until a daemon runs or raises; it is called in a thread, at the start
    if none answers and later if the user asks for it.
    """

    def __init__(
        self,
        client: AsyncDaemonClient,
        *,
        model: str | None = None,
        folders: ChatFolders | None = None,
        temporary: bool = False,
        preferences: Preferences | None = None,
        start_daemon: Callable[[], None] | None = None,
        tool_host: Sequence[str] = (),
    ) -> None:
        super().__init__(ChatState(wanted=model))
        self.preferences = preferences or Preferences()
        self.client = client
        self.chat = Chat(temporary=temporary)
        self.link = DaemonLink(client, self.post_message, start_daemon)
        self.folders = folders
        self.store = None if folders is None else open_history(folders.chats, self._cannot_keep)
        self._tool_host = tool_host
        self._tools: ChatTools | None = None
        self._throttle = RenderThrottle(self._paint, lambda: driver_of(self.chat_app))
        self._entry: AnswerEntry | None = None
        self._later: Callable[[], None] | None = None
        self._saved_draft = ""
        self._failures: dict[str, Entry] = {}
        self.loss_is_shown = False
        """Whether an answer's error says that the daemon does not answer, before the link does."""

    def _cannot_keep(self, trouble: str) -> None:
        """Post the history's message to the screen; called in another thread."""
        is_over = self.store is not None and self.store.is_able
        self.post_message(HistoryStatusChanged(trouble, is_over=is_over))

    @property
    def tools(self) -> ChatTools:
        """The tools of the open chat."""
        if self._tools is None:
            from ..tools.chat_tools import ChatTools

            self._tools = ChatTools(self, self.front.consent, self._tool_host)
        return self._tools

    @property
    def history(self) -> ChatRecorder:
        """The recorder of the open chat; `NullRecorder` for a temporary one."""
        return NullRecorder() if self.store is None or self.chat.temporary else self.store

    @property
    def is_answering(self) -> bool:
        """Whether an answer is generated, or its tool calls run."""
        return self.turn is not None or self.runs_tools

    def copy(self, text: str) -> None:
        """Copy text, and report how."""
        self.chat_app.copy_to_clipboard(text)

    # The chat

    def open_chat(self, chat: Chat, *, at: str | None = None) -> None:
        """Open another chat; the draft of one without messages moves along."""
        if self.turn is not None and self.turn.is_watched:
            self.turn.stop()  # another program asked for this answer: it is not cancelled
            self._end(self.turn)
        self.stop()
        self.return_queue()  # its prompts were meant for the previous chat
        self._leave_draft()
        self.chat = chat
        self.status_line.status = ChatStatus()
        if chat.settings.model is not None:
            self.state.want(chat.settings.model)
        self.show_path(at=at)
        for feature in self.features:
            feature.on_chat_opened()
        leaf = chat.leaf
        if leaf is not None and leaf.is_open:
            self._take_up(leaf)

    def show_path(self, *, at: str | None = None) -> None:
        """Redraw the transcript from the chat's path, and inform the features."""
        self.transcript.load(path_entries(self.chat, self._entry), at)
        for feature in self.features:
            feature.on_path_changed()
        self.state_changed()

    def add_failure(self, message: str, hint: str | None, keys: str, *, cause: str) -> None:
        """Add an error with its hint and keys to the transcript, until its cause is mended."""
        self.mend(cause)
        entry = self._failures[cause] = failure(message, hint, keys)
        self.transcript.add(entry)
        self.state_changed()

    def mend(self, cause: str) -> None:
        """Remove the error of this cause from the transcript."""
        entry = self._failures.pop(cause, None)
        if entry is not None and entry in self.transcript.entries:
            self.transcript.drop(entry)
            self.state_changed()

    # The draft

    def save_draft(self) -> None:
        """Save the draft and the waiting prompts, unless they are unchanged."""
        text = self.composer.kept_draft(prompt.text for prompt in self.queue.prompts)
        if text != self._saved_draft:
            self._saved_draft = text
            self.history.save_draft(self.chat.id, text)

    def edit(self, message: Message, text: str = "") -> None:
        """Put a prompt into the composer; sending it makes a new branch."""
        self.composer.load(text or message.content, message.attachments)
        self.edits = message
        self.composer.focus()

    def take_back(self, prompt: QueuedPrompt, before: str = "") -> None:
        """Put a waiting prompt back into the composer, above the text `before`."""
        self.edits = prompt.edits
        text = "\n\n".join(filter(None, (prompt.text, before)))
        self.composer.load(text, prompt.attachments)

    def _leave_draft(self) -> None:
        """Save the draft with its chat; that of a chat without messages moves to the next one."""
        self.edits = None
        if self.chat.messages:
            self.save_draft()
            self.composer.text = ""
        elif self._saved_draft:
            self.history.save_draft(self.chat.id, "")
        self._saved_draft = ""

    # Sending

    def send(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Send a prompt, or queue it while an answer runs."""
        self.queue.prompts += (QueuedPrompt(text, attachments, self.edits),)
        self.edits = None
        self.send_next()

    def send_next(self) -> None:
        """Send the first waiting prompt, or start the daemon or the download that it waits for."""
        state = self.state
        if self.is_answering or not self.is_complete:
            return
        if self._later is not None and state.can_ask:
            later, self._later = self._later, None
            later()
            return
        if not self.queue.prompts:
            return
        prompt, *_ = self.queue.prompts
        if not self._can_ask():
            if state.model is not None and state.connected and not state.model.writes:
                self.return_queue()
        elif all(feature.may_send(prompt) for feature in self.features):
            self.queue.prompts = self.queue.prompts[1:]
            self._ask(self._add_prompt(prompt))

    def _can_ask(self) -> bool:
        """Whether a model can be asked now; if not, start the daemon or the download."""
        state = self.state
        if not state.connected:
            self.wake_daemon()
        elif state.model is not None and not state.model.writes:
            self.run_command("model", state.model.name)  # which says why it does not chat
        elif state.must_pull and self.chat_app.screen is self:  # else it is being asked about
            self.run_command("pull")
        return state.can_ask

    def wake_daemon(self) -> None:
        """Connect to the daemon now, and start it if it does not run."""
        self.state.trouble = None
        self.link.wake()

    def _add_prompt(self, prompt: QueuedPrompt) -> Message:
        """Add the prompt as a message after the last one, or in place of the one it edits."""
        chat = self.chat
        message = add_prompt(chat, self.history, prompt.text, prompt.attachments, prompt.edits)
        if prompt.edits is not None:
            self.show_path()
        else:
            self.transcript.add(entry_of(chat, message))
        return message

    def return_queue(self) -> None:
        """Put waiting prompts back into the composer, since nothing is sent after a stop."""
        self._later = None
        waiting, self.queue.prompts = self.queue.prompts, ()
        if waiting:
            self.edits = waiting[0].edits or self.edits
            texts = [*(prompt.text for prompt in waiting), self.composer.text]
            attachments = [given for prompt in waiting for given in prompt.attachments]
            self.composer.load("\n\n".join(filter(None, texts)), attachments)

    # Answers

    def _ask(self, prompt: Message) -> None:
        """Request an answer to the prompt or the tool result that ends the path."""
        request = TurnRequest.of(self.chat, self.state.model_name)
        self._begin(self._add_answer(prompt.id), lambda turn: self._run(turn, request))

    def ask_again(self, parent: Message) -> None:
        """Generate another answer to a prompt; its other answers stay as branches."""
        self._when_ready(partial(self._answer_from, parent, parent.id))

    def continue_answer(self, message: Message) -> None:
        """Continue an interrupted answer, as another branch with the same beginning."""
        self._when_ready(partial(self._answer_from, message, message.parent, message))

    def _answer_from(self, end: Message, parent: str | None, begun: Message | None = None) -> None:
        """Answer the path up to `end` again, or continue the interrupted answer `begun`."""
        self.chat.end_path_at(end)
        request = TurnRequest.of(self.chat, self.state.model_name, continues=begun is not None)
        answer = self._add_answer(parent, begun)
        self.show_path()
        self._begin(answer, lambda turn: self._run(turn, request))

    def run_tools(self) -> None:
        """Run the calls at the end of the path that have no result, and go on."""
        from .tools_feature import ToolsFeature

        self.feature(ToolsFeature).run()

    def go_on(self, last: Message) -> None:
        """Request the answer that follows the result of a tool call."""
        self._when_ready(partial(self._ask, last))

    def _when_ready(self, ask: Callable[[], None]) -> None:
        """Ask now, or as soon as a model can answer; until then the chat does not change."""
        state = self.state
        if self._can_ask():
            ask()
        elif not state.connected or state.model is None or state.model.writes:
            self._later = ask
            self.tell("The prompt is sent as soon as the model is ready.")

    def _add_answer(self, parent: str | None, begun: Message | None = None) -> Message:
        model = self.state.model_name or "model"
        return add_answer(self.chat, self.history, model, parent, begun)

    async def _run(self, turn: Turn, request: TurnRequest) -> None:
        """Send the request as changed by the features, unless the turn was stopped meanwhile."""
        for feature in self.features:
            request = await feature.prepare_request(request)
        if turn.ending is None:
            await turn.run(request)

    def _take_up(self, answer: Message) -> None:
        """Follow an answer that another program began and may still record."""
        store = self.store
        if store is None or self.chat.temporary:
            self._begin(answer, lambda turn: turn.resume())
            return
        turn = self._begin(answer, lambda turn: self._take_over(turn, store), NullRecorder())
        turn.is_watched = True

    async def _take_over(self, turn: Turn, store: HistoryStore) -> None:
        if not await take_over_answer(turn, store):
            self.run_worker(self._settle(turn.message, store), group="settle")

    async def _settle(self, message: Message, store: HistoryStore) -> None:
        changed = await adopt_final_answer(message, store)
        if changed and self.chat.messages.get(message.id) is message:
            self.show_path()

    def _begin(self, answer: Message, follow: Follow, history: ChatRecorder | None = None) -> Turn:
        """Show the growing answer after its present text, and record it in `history`."""
        drawn = self.transcript.find_entry(answer.id)
        if drawn is not None:
            self.transcript.drop(drawn)  # as it was before it grows again
        place = place_of(self.chat, answer)
        entry = AnswerEntry(answer.model, id=answer.id, created=answer.created, place=place)
        if answer.reasoning:
            entry.append_reasoning(answer.reasoning)
        if answer.content:
            entry.append(answer.content)
        for earlier in self.transcript.entries:
            if isinstance(earlier, AnswerEntry) and earlier.set_latest(False):
                self.transcript.update_entry(earlier)
        entry.set_latest(True)
        self.transcript.add(entry)
        self.transcript.follow()
        turn = Turn(self.client, history or self.history, answer, entry, self._throttle.request)
        self.turn, self._entry = turn, entry
        self.run_worker(self._follow(turn, follow(turn)), group="turn")
        for feature in self.features:
            feature.on_turn_started(turn)
        return turn

    async def _follow(self, turn: Turn, following: Coroutine[Any, Any, None]) -> None:
        await following
        if self.turn is turn:
            self._end(turn)

    def _paint(self) -> None:
        if self.turn is not None and self._entry is not None:
            self.transcript.update_entry(self._entry)
            self.show_status(self.turn)

    def _end(self, turn: Turn) -> None:
        entry = self._entry
        self.turn = self._entry = None
        self._throttle.flush()
        if entry is not None:
            self.transcript.update_entry(entry)
            message = turn.message
            if not turn.text and not (message.facts.calls and message.reasoning):
                self.transcript.drop(entry)
                if turn.ending == "stopped":
                    self.tell("Stopped before the answer began. F5 asks again.")
        if turn.error is not None:
            self.transcript.add(answer_failed(turn.error, is_begun=bool(turn.text)))
            unreachable = isinstance(turn.error, DaemonUnreachable)
            self.loss_is_shown = unreachable and self.state.connected
        if turn.ending in ("stopped", "failed"):
            self.return_queue()
        for feature in self.features:
            feature.on_turn_ended(turn)
        self.show_status(turn)
        self.send_next()

    def stop(self) -> None:
        """Stop the running answer and tool calls, and keep the generated text."""
        for feature in self.features:
            feature.on_stop()
        turn = self.turn
        if turn is not None:
            turn.stop()
            self.run_worker(self._cancel(turn), group="cancel")
            self._end(turn)

    async def _cancel(self, turn: Turn) -> None:
        error = await turn.cancel()
        if error is not None:
            self.tell(error.message, "warning")
