"""`ChatScreen`: the chat that is on the screen, and the features that act on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType

from ingle.daemon.client.async_client import AsyncDaemonClient

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder, NullRecorder
from ..chats.message import Attachment, Message
from ..commands.command_table import COMMANDS, find_slash, parse_slash
from ..commands.key_table import default_key
from ..features.feature import Feature
from ..history.history_store import open_history
from ..session.chat_events import (
    DaemonConnected,
    DaemonLost,
    HistoryStatusChanged,
    ModelMoved,
)
from ..session.chat_state import ChatState, ChatStatus
from ..session.daemon_link import DaemonLink
from ..session.failure_notices import failure
from ..session.path_entries import path_entries
from ..session.turn import Turn
from ..settings.chat_folders import ChatFolders
from ..settings.preferences import Preferences
from ..terminal.render_throttle import RenderThrottle
from ..transcript.markdown.markdown_preload import import_markdown
from ..widgets.composer.composer import Composer
from ..widgets.prompt_queue import PromptQueue
from ..widgets.welcome import Welcome
from .chat_layout import ChatLayout
from .draft_keeper import DraftKeeper
from .turn_runner import TurnRunner

QUIT_WINDOW = 2.0
"""Seconds within which a second ctrl+c leaves the chat."""
DRAFT_SECONDS = 1.0
"""How old a draft may be that a crash gives back."""


class ChatScreen(ChatLayout):
    """A chat with a model of the daemon behind `client`; see `ChatHost` for what features use.

    `start_daemon` blocks until a daemon runs or raises; it is called in a thread, at the start
    where none answers and later when the user asks for it. `on_live` is called once,
    when the composer can be typed in.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            command.key or default_key(command.name),
            f"command({command.name!r})",
            command.title,
            show=False,
            priority=True,
            id=command.name,
        )
        for command in COMMANDS
    ]

    def __init__(
        self,
        client: AsyncDaemonClient,
        *,
        model: str | None = None,
        folders: ChatFolders | None = None,
        temporary: bool = False,
        preferences: Preferences | None = None,
        start_daemon: Callable[[], None] | None = None,
        on_live: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(
            {
                "stop": lambda _: self._stop_or_cancel(),
                "interrupt": lambda _: self._interrupt(),
                "quit": lambda _: self.chat_app.exit(),
            },
            preferences or Preferences(),
            ChatState(wanted=model),
            Chat(temporary=temporary),
        )
        self.client = client
        self.link = DaemonLink(client, self.post_message, start_daemon)
        self.folders = folders
        self.store = None if folders is None else open_history(folders.chats, self._cannot_keep)
        self.painter = RenderThrottle(self._paint)
        self._turns = TurnRunner(self)
        self._draft = DraftKeeper(self)
        self._on_live = on_live
        self._warmed: str | None = None
        self._interrupted_at = 0.0

    def on_mount(self) -> None:
        """Be ready to type; everything else comes when it comes."""
        self.transcript.can_focus = False
        self.set_focus(self.composer)
        self.show_state()
        if self._on_live is not None:
            self.call_after_refresh(self._on_live)
        self.run_worker(self.link.run(), group="link", exclusive=True)
        self.set_interval(DRAFT_SECONDS, self._draft.save)
        self.call_after_refresh(self._ready)

    def _ready(self) -> None:
        self.run_worker(self._load_features(), group="features")

    async def _load_features(self) -> None:
        """Learn to do everything else, behind the first keys."""
        for name, argument in await self.features.load(self, self._greet):
            self.run_command(name, argument)
        self.show_state()
        self.send_next()

    def _greet(self, feature: Feature) -> None:
        """Tell a feature what it has missed."""
        if self.state.connected:
            feature.on_connected()
        if self.last_gauges is not None:
            feature.on_gauges(self.last_gauges)

    @property
    def is_complete(self) -> bool:
        """Whether it can do everything; until then prompts and commands wait."""
        return self.features.is_complete

    def close(self) -> None:
        """Leave nothing unsaved."""
        self._draft.save()
        for feature in self.features:
            feature.on_closing()
        if self.store is not None and not self.store.close():
            print("The end of the last chat could not be written.", file=sys.stderr)

    # Parts

    @property
    def history(self) -> ChatRecorder:
        """Where the chat on the screen is kept."""
        return NullRecorder() if self.store is None or self.chat.temporary else self.store

    def _cannot_keep(self, trouble: str) -> None:
        """Called in another thread."""
        is_over = self.store is not None and self.store.is_able
        self.post_message(HistoryStatusChanged(trouble, is_over=is_over))

    @on(HistoryStatusChanged)
    def history_trouble(self, event: HistoryStatusChanged) -> None:
        """Say that what is said now is not kept, and why, or that it is again."""
        self.state.not_kept = "" if event.is_over else event.text
        self.tell(event.text, "warning" if event.is_over else "error")
        self.show_state()

    @property
    def turn(self) -> Turn | None:
        """The answer that is being written."""
        return self._turns.current

    @property
    def is_answering(self) -> bool:
        """Whether an answer is generated."""
        return self.turn is not None

    # Commands

    def _run_slash(self, typed: str, name: str, argument: str) -> None:
        command = find_slash(name)
        if command is None or (self.is_complete and not self.can_run(command.name)):
            self.tell(f"There is no command /{name}. F1 lists them.", "warning")
            return
        self.composer.clear_sent(typed)
        self.call_later(self.run_command, command.name, argument)

    def _interrupt(self) -> None:
        """Copy what is selected, else stop; twice in a row leaves."""
        selected = self.get_selected_text() or self.composer.selected_text
        if selected:
            self.copy(selected)
            self.clear_selection()
        elif self.turn is not None:
            self.stop()
        elif time.monotonic() - self._interrupted_at < QUIT_WINDOW:
            self.chat_app.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.notify("ctrl+c again leaves the chat.", timeout=QUIT_WINDOW)

    def copy(self, text: str) -> None:
        """Copy text, and say how."""
        self.chat_app.copy_to_clipboard(text)

    # Sending

    def on_key(self, event: events.Key) -> None:
        """Letters belong to the draft, also where something else has the keyboard."""
        if event.is_printable:
            self._hand_to_composer(event, events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """So does what is pasted."""
        self._hand_to_composer(event, events.Paste(event.text))

    def _hand_to_composer(self, event: events.Event, copy: events.Event) -> None:
        if self.focused is None or isinstance(self.focused, Welcome):
            event.stop()
            self.composer.focus()
            self.composer.post_message(copy)

    @on(Composer.Submitted)
    def submit(self, event: Composer.Submitted) -> None:
        """Run a slash command, send the prompt, or do what an empty enter means now."""
        text = event.text.strip()
        if not text and not event.attachments:
            self._empty_enter()
            return
        slash = parse_slash(text) if not event.attachments else None
        if slash is not None:
            self._run_slash(event.text, *slash)
            return
        self.composer.remember(event.text)
        self.composer.clear_sent(event.text)
        self.send(text, event.attachments)

    def _empty_enter(self) -> None:
        if self.state.trouble is not None:
            self.wake_daemon()
        elif self.state.must_pull:
            self.run_command("pull")

    def send(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Send a prompt, or queue it while an answer runs."""
        self.queue.push(self._draft.as_prompt(text, attachments))
        self._turns.send_next()

    def send_next(self) -> None:
        """Send the first waiting prompt, if it can be sent now."""
        self._turns.send_next()

    def ask_again(self, parent: Message) -> None:
        """Have a prompt answered once more."""
        self._turns.ask_again(parent)

    def continue_answer(self, message: Message) -> None:
        """Have a broken-off answer gone on with."""
        self._turns.continue_answer(message)

    def stop(self) -> None:
        """Stop the answer that runs, and keep its part."""
        self._turns.stop()

    def return_queue(self) -> None:
        """Put waiting prompts back into the composer, with what the first of them edits."""
        first = self.queue.first
        if first is not None and first.edits is not None:
            self._draft.edits = first.edits
        self._turns.return_queue()

    def wake_daemon(self) -> None:
        """Look for the daemon now, and start it where it does not run."""
        self.state.trouble = None
        self.link.wake()
        self.show_state()

    def _stop_or_cancel(self) -> None:
        """What escape does: stop the answer, give up an edit, or what a feature makes of it."""
        if self.transcript.leave_blocks() or any(f.on_first_escape() for f in self.features):
            return
        if self.composer.escape(clears=False):
            return
        if self.turn is not None:
            self.stop()
        elif self._draft.cancel_edit():
            self.show_state()
        elif not any(feature.on_escape() for feature in self.features):
            self.composer.focus()

    def edit(self, message: Message, text: str = "") -> None:
        """Put a prompt into the composer; sending it makes a new branch."""
        self._draft.load(text or message.content, message.attachments, message)
        self.composer.focus()
        self.show_state()

    @on(Composer.RecallQueued)
    def recall_queued(self) -> None:
        """Give the last waiting prompt back for editing."""
        self._draft.take(self.queue.take_back())

    @on(PromptQueue.TakenBack)
    def prompt_taken_back(self, event: PromptQueue.TakenBack) -> None:
        """Put a waiting prompt before the draft, for editing."""
        self._draft.take(event.prompt, before=self.composer.text)

    @on(Composer.QuitRequested)
    def quit_requested(self) -> None:
        """ctrl+d where nothing is typed leaves, as in a shell."""
        self.run_command("quit")

    @on(Composer.Changed)
    def draft_changed(self) -> None:
        """Have the model loaded while the first words are typed."""
        text = self.composer.text
        for feature in self.features:
            feature.on_draft_changed(text)
        model = self.state.model
        if model is None or not self.state.can_ask or self._warmed == model.name or not text:
            return
        self._warmed = model.name
        self.run_worker(self.link.warm_up(model.name), group="warm")
        self.run_worker(import_markdown, thread=True, group="import")

    # Chats

    def open_chat(self, chat: Chat, *, at: str | None = None) -> None:
        """Show another chat; a draft stays with its chat, or comes along where it had none."""
        self._turns.leave()
        self.return_queue()  # what waits was meant for the chat that is left
        self._draft.leave_chat()
        self.chat = chat
        self.status_line.status = ChatStatus()
        if chat.settings.model is not None:
            self.state.want(chat.settings.model)
        self.show_path(at=at)
        for feature in self.features:
            feature.on_chat_opened()
        leaf = chat.leaf
        if leaf is not None and leaf.is_open:
            self._turns.take_up(leaf)

    def show_path(self, *, at: str | None = None) -> None:
        """Draw the transcript from the chat's path again."""
        running = self.turn.entry if self.turn is not None else None
        self.transcript.load(path_entries(self.chat, running), at)
        for feature in self.features:
            feature.on_path_changed()
        self.show_state()

    # The daemon

    @on(DaemonConnected)
    def connected(self, event: DaemonConnected) -> None:
        """The daemon answers: choose the model to talk to."""
        self._warmed = None
        self.state.connect(event.models)
        for feature in self.features:
            feature.on_connected()
        self.send_next()
        self.show_state()

    @on(DaemonLost)
    def lost(self, event: DaemonLost) -> None:
        """The daemon is gone; the chat is not."""
        self.state.lose(event.message, event.hint)
        # A turn that runs tells by itself, when it has given up.
        if self.transcript.entries and self.turn is None:
            self.add_failure(event.message, event.hint, "enter starts it again")
        self.return_queue()
        self.show_state()

    def add_failure(self, message: str, hint: str | None, keys: str) -> None:
        """Say in the transcript what went wrong, and what to press."""
        self.transcript.add(failure(message, hint, keys))

    @on(Welcome.Chosen)
    def offer_another(self, event: Welcome.Chosen) -> None:
        """Offer another model to somebody who has none."""
        self.state.choose(event.model)
        self.show_state()

    @on(Welcome.Wanted)
    def fetch_offered(self) -> None:
        """Fetch the model that is offered."""
        self.composer.focus()
        self._empty_enter()

    @on(ModelMoved)
    def model_moved(self, event: ModelMoved) -> None:
        """The model's process changed."""
        if event.model.name == self.state.model_name and event.model != self.state.loaded:
            self.state.loaded = event.model
            self.show_state()

    # What the screen shows

    @property
    def is_editing(self) -> bool:
        """Whether the draft will replace a prompt."""
        return self._draft.edits is not None

    def _paint(self) -> None:
        turn = self.turn
        if turn is not None:
            self.transcript.update_entry(turn.entry)
            self._show_status(turn)
