"""`ChatScreen`: handles the keys of the chat, its widgets' events and the daemon's reports."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType

from ingle.daemon.client.daemon_types import GaugesEvent
from ingle.daemon.client.model_types import LoadedModel

from ..commands.command_table import COMMANDS, find_slash, parse_slash
from ..commands.key_table import default_key
from ..features.chat_host import ChatHost
from ..features.feature import Feature, Handler, TranscriptEvent
from ..session.chat_events import (
    DaemonConnected,
    DaemonLost,
    DaemonReported,
    HistoryStatusChanged,
)
from ..transcript.markdown.markdown_preload import import_markdown
from ..transcript.view.transcript import Transcript
from ..widgets.composer.composer import Composer
from ..widgets.prompt_queue import PromptQueue
from ..widgets.welcome import Welcome

QUIT_WINDOW = 2.0
"""Seconds within which a second ctrl+c leaves the chat."""
DRAFT_SECONDS = 1.0
"""Interval in seconds at which the draft is saved."""


class ChatScreen(ChatHost):
    """A chat with a model of a daemon; `on_live` is called when the composer can be typed in."""

    on_live: Callable[[], object] | None = None
    _warmed: str | None = None
    _interrupted_at = 0.0
    _gauges: GaugesEvent | None = None

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

    def handlers(self) -> Mapping[str, Handler]:
        """See `ChatLayout`."""
        return {
            "stop": lambda _: self._stop_or_cancel(),
            "interrupt": lambda _: self._interrupt(),
            "quit": lambda _: self.chat_app.exit(),
        }

    def on_mount(self) -> None:
        """Focus the composer; load everything else afterwards."""
        self.transcript.can_focus = False
        self.composer.recall_queued = self._recall_queued
        self.composer.take_draft = self.submit
        self.set_focus(self.composer)
        self.show_state()
        if self.on_live is not None:
            self.call_after_refresh(self.on_live)
        self.run_worker(self.link.run(), group="link", exclusive=True)
        self.set_interval(DRAFT_SECONDS, self.save_draft)
        self.call_after_refresh(self.run_worker, self._load_features, group="features")

    async def _load_features(self) -> None:
        """Import and create the features, then run the commands that waited for them."""
        for kind in await asyncio.to_thread(_import_features):
            self.add_feature(kind(self))
            await asyncio.sleep(0)  # keys are handled between two of them
        for feature in self.features:
            feature.on_ready()
            # The events that came before.
            if self.state.connected:
                feature.on_connected()
            if self._gauges is not None:
                feature.on_report(self._gauges)
            await asyncio.sleep(0)
        self.complete()
        self.state_changed()
        self.send_next()

    async def on_unmount(self) -> None:
        """End the tool host."""
        if self.is_complete:
            await self.tools.close()

    def close(self) -> None:
        """Save unsaved changes."""
        self.save_draft()
        for feature in self.features:
            feature.on_closing()
        if self.store is not None and not self.store.close():
            print("The end of the last chat could not be written.", file=sys.stderr)

    # Keys

    def on_key(self, event: events.Key) -> None:
        """Pass letters to the composer, even if another widget has the focus."""
        if event.is_printable:
            self._hand_to_composer(event, events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text belongs to the draft, too."""
        self._hand_to_composer(event, events.Paste(event.text))

    def _hand_to_composer(self, event: events.Event, copy: events.Event) -> None:
        if self.focused is None or isinstance(self.focused, Welcome):
            event.stop()
            self.composer.focus()
            self.composer.post_message(copy)

    def _interrupt(self) -> None:
        """Copy the selection, else stop the answer; twice in a row leaves."""
        selected = self.get_selected_text() or self.composer.selected_text
        if selected:
            self.copy(selected)
            self.clear_selection()
        elif self.is_answering:
            self.stop()
        elif time.monotonic() - self._interrupted_at < QUIT_WINDOW:
            self.chat_app.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.notify("ctrl+c again leaves the chat.", timeout=QUIT_WINDOW)

    def _stop_or_cancel(self) -> None:
        """Handle escape: stop the answer, cancel an edit, or pass it to the features."""
        if self.transcript.leave_blocks() or any(f.on_first_escape() for f in self.features):
            return
        if self.composer.escape(clears=False):
            return
        if self.is_answering:
            self.stop()
        elif self.edits is not None:
            self.edits = None
            self.composer.replace_text("")
        elif not any(feature.on_escape() for feature in self.features):
            self.composer.focus()

    # The composer

    def submit(self, draft: Composer.Submitted) -> None:
        """Run a slash command, send the prompt, or handle an empty enter."""
        text = draft.text.strip()
        if not text and not draft.attachments:
            self._empty_enter()
            return
        slash = parse_slash(text) if not draft.attachments else None
        if slash is not None:
            self._run_slash(*slash)
            return
        self.composer.remember(draft.text)
        self.composer.clear_sent()
        # In the order of entry, after a command that is still to run.
        if len(text) > 1 and text.startswith("!") and not draft.attachments:
            self.call_later(self.run_command, "shell", text[1:].strip())
        else:
            self.call_later(self.send, text, draft.attachments)

    def _run_slash(self, name: str, argument: str) -> None:
        command = find_slash(name)
        if command is None or (self.is_complete and not self.can_run(command.name)):
            self.tell(f"There is no command /{name}. F1 lists them.", "warning")
            return
        self.composer.clear_sent()
        self.call_later(self.run_command, command.name, argument)

    def _empty_enter(self) -> None:
        if self.state.trouble is not None:
            self.wake_daemon()
        elif self.state.must_pull:
            self.run_command("pull")

    @on(Composer.Changed)
    def draft_changed(self) -> None:
        """Load the model while the first words are typed."""
        text = self.composer.text
        for feature in self.features:
            feature.on_draft_changed(text)
        model = self.state.model
        if model is None or not self.state.can_ask or self._warmed == model.name or not text:
            return
        self._warmed = model.name
        self.run_worker(self.link.warm_up(model.name), group="warm")
        self.run_worker(import_markdown, thread=True, group="import")

    def _recall_queued(self) -> bool:
        """Give the last waiting prompt back for editing; whether there was one."""
        prompts = self.queue.prompts
        if prompts:
            self.queue.prompts = prompts[:-1]
            self.take_back(prompts[-1])
        return bool(prompts)

    @on(PromptQueue.TakenBack)
    def prompt_taken_back(self, event: PromptQueue.TakenBack) -> None:
        """Put a waiting prompt before the draft, for editing."""
        self.take_back(event.prompt, before=self.composer.text)

    # The welcome

    @on(Welcome.Chosen)
    def offer_another(self, event: Welcome.Chosen) -> None:
        """Offer another model for download."""
        self.state.choose(event.model)

    @on(Welcome.Wanted)
    def fetch_offered(self) -> None:
        """Fetch the model that is offered."""
        self.composer.focus()
        self._empty_enter()

    @on(Welcome.Picked)
    def use_suggestion(self, event: Welcome.Picked) -> None:
        """Send an example, or open the last chat."""
        self.composer.focus()
        if event.prompt:
            self.send(event.prompt)
            return
        from ..commands.history_commands import show_chat

        self.run_worker(self.present(show_chat(self, event.chat, None)), group="open")

    # The transcript, the history and the daemon

    @on(Transcript.BlockAction)
    @on(Transcript.CursorMoved)
    @on(Transcript.LinkClicked)
    def transcript_used(self, event: TranscriptEvent) -> None:
        """The user did something in the transcript."""
        for feature in self.features:
            feature.on_transcript(event)

    @on(HistoryStatusChanged)
    def history_trouble(self, event: HistoryStatusChanged) -> None:
        """Report why chats are not saved, or that they are saved again."""
        self.state.not_kept = "" if event.is_over else event.text
        self.tell(event.text, "warning" if event.is_over else "error")

    @on(DaemonConnected)
    def connected(self, event: DaemonConnected) -> None:
        """Choose the model to talk to."""
        self._warmed = None
        self.mend("daemon")
        self.loss_is_shown = False
        self.state.connect(event.models)
        for feature in self.features:
            feature.on_connected()
        self.send_next()

    @on(DaemonLost)
    def lost(self, event: DaemonLost) -> None:
        """The daemon does not answer; the chat stays."""
        self.state.lose(event.message, event.hint)
        # A running turn reports this itself, once it has given up.
        is_shown, self.loss_is_shown = self.loss_is_shown, False
        if self.transcript.entries and self.turn is None and not is_shown:
            keys = "enter starts it again"
            self.add_failure(event.message, event.hint, keys, cause="daemon")
        self.return_queue()

    @on(DaemonReported)
    def daemon_reported(self, event: DaemonReported) -> None:
        """Update the state, and the features."""
        report = event.report
        if isinstance(report, GaugesEvent):
            self._gauges = report
            self.state.update_gauges(report)
        elif isinstance(report, LoadedModel):
            self.state.update_loaded([report])
        for feature in self.features:
            feature.on_report(report)


def _import_features() -> tuple[type[Feature], ...]:
    """Everything the chat can do; slow the first time."""
    from .feature_list import FEATURES

    return FEATURES
