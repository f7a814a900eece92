"""`PlainCommands`: the slash commands of the chat as lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from .. import wording
from ..api import ModelEntry, PullProgress
from ..chats.chat import Chat
from ..client import error_from_body
from ..commands import COMMANDS, Command, find_slash
from ..errors import DaemonUnreachable
from ..model_choice import find_model
from ..sampling_options import THINKING, changed_sampling
from .spoken_answer import SPEAKER

if TYPE_CHECKING:
    from ..history.reading import ChatSummary
    from .session import PlainSession

SHOWN_CHATS = 20
SHOWN_MESSAGES = 4


class PlainCommands:
    """Runs what has the same name in the full chat; lists become numbered lines."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._handlers: dict[str, Callable[[str], None]] = {
            "help": self._help,
            "new": lambda _: self._new(temporary=False),
            "temp": lambda _: self._new(temporary=True),
            "again": self._again,
            "system": self._system,
            "sampling": self._sampling,
            "think": self._think,
            "model": self._model,
            "pull": self._pull,
            "open": self._open,
            "rename": self._rename,
            "delete": self._delete,
            "stats": self._stats,
            "quit": lambda _: session.leave(),
        }

    def run(self, name: str, argument: str) -> None:
        """Run a slash command; raises `ClientError`."""
        command = find_slash(name)
        handler = self._handlers.get(command.name) if command is not None else None
        if handler is None:
            self._session.output.error(f"There is no command /{name} here.", "/help lists them.")
            return
        handler(argument)

    def _help(self, _argument: str) -> None:
        output = self._session.output
        output.line("Write a prompt and press enter. A line that ends in \\ goes on in the next.")
        for command in COMMANDS:
            if command.name in self._handlers:
                output.line(_told(command))
        output.line("Ctrl+C stops an answer. Ctrl+D leaves.")

    def _new(self, *, temporary: bool) -> None:
        session = self._session
        session.chat = Chat(temporary=temporary)
        session.last_turn = None
        kept = "is never written down" if temporary else "begins"
        session.output.line(f"A new chat {kept}.")

    def _again(self, _argument: str) -> None:
        session = self._session
        prompts = [message for message in session.chat.path if message.role == "user"]
        if not prompts:
            session.output.error("There is no prompt to ask again.")
            return
        session.again(prompts[-1])

    # What a chat is held with

    def _system(self, text: str) -> None:
        settings = self._session.chat.settings
        if not text:
            current = settings.system or "empty"
            self._session.output.line(f"The system prompt is: {current}")
            return
        settings.system = "" if text == "off" else text
        self._keep_settings()
        self._session.output.line(
            "The system prompt is set." if settings.system else "The system prompt is empty."
        )

    def _sampling(self, text: str) -> None:
        settings = self._session.chat.settings
        if text == "off":
            settings.sampling = {}
        elif text:
            try:
                settings.sampling = changed_sampling(settings.sampling, text)
            except ValueError as error:
                self._session.output.error(str(error))
                return
        self._keep_settings()
        pairs = ", ".join(f"{name}={value:g}" for name, value in settings.sampling.items())
        self._session.output.line(f"Sampling: {pairs or 'as the model recommends'}.")

    def _think(self, wish: str) -> None:
        if wish and wish not in THINKING:
            self._session.output.error(f"/think takes one of {', '.join(THINKING)}, or nothing.")
            return
        self._session.chat.settings.thinking = wish
        self._keep_settings()
        self._session.output.line(f"Thinking: {wish or 'as the model does by itself'}.")

    def _keep_settings(self) -> None:
        session = self._session
        if session.chat.messages:
            session.history.set_settings(session.chat.id, session.chat.settings)

    # Chats that are kept

    def _open(self, _argument: str) -> None:
        session = self._session
        chats = session.store.recent(SHOWN_CHATS) if session.store is not None else []
        if session.store is None or not chats:
            session.output.line("There are no chats yet.")
            return
        index = session.reader.choose("Chats, newest first:", [_summary(chat) for chat in chats])
        chat = session.store.load(chats[index].id) if index is not None else None
        if chat is not None:
            self._show(chat)

    def _show(self, chat: Chat) -> None:
        session = self._session
        session.chat = chat
        session.last_turn = None
        path = chat.path
        shown = path[-SHOWN_MESSAGES:]
        session.output.line(f"{chat.title}: {len(path)} messages, the last {len(shown)} of them.")
        for message in shown:
            session.output.line(f"{'You' if message.role == 'user' else SPEAKER}: {message.text}")
        if chat.settings.model is not None:
            session.wanted, session.model = chat.settings.model, None
        if path and path[-1].is_open and path[-1].generation is not None:
            session.take_up(path[-1])

    def _rename(self, title: str) -> None:
        session = self._session
        if not title:
            session.output.error("Say how: /rename TITLE.")
            return
        session.chat.settings.title = title
        self._keep_settings()
        session.output.line(f"This chat is called {title}.")

    def _delete(self, _argument: str) -> None:
        session = self._session
        if not session.reader.confirm(f"Delete {session.chat.title or 'this chat'} for good?"):
            session.output.line("Nothing is deleted.")
            return
        if session.store is not None and session.chat.messages:
            session.store.delete_chat(session.chat.id)
        self._new(temporary=session.chat.temporary)

    # Models

    def _model(self, reference: str) -> None:
        session = self._session
        models = [model for model in session.models() if model.writes]
        if reference:
            model = find_model(models, reference)
            if model is None:
                session.output.error(f"There is no model {reference}.", "/model lists all.")
                return
        else:
            index = session.reader.choose("Models:", [_described(model) for model in models])
            if index is None:
                return
            model = models[index]
        session.model = model
        session.wanted = model.name
        session.output.line(f"Talking to {model.name} from now on.")
        if not model.installed:
            self.offer_pull(model)

    def _pull(self, reference: str) -> None:
        session = self._session
        model = find_model(session.models(), reference) if reference else session.model
        if model is None and not reference:
            session.output.error("Say which model: /pull NAME.", "/model lists all.")
            return
        self._fetch(model.name if model is not None else reference)

    def offer_pull(self, model: ModelEntry) -> bool:
        """Ask whether to fetch a model, and do so; whether it is here then."""
        size = f" ({wording.size(model.size)})" if model.size else ""
        self._session.output.line(f"{model.name}{size} is not on this machine yet.")
        if not self._session.reader.is_person:
            self._session.output.error(f"{model.name} is missing.", f"`ingle pull {model.name}`.")
            return False
        return self._session.reader.confirm("Download it?") and self._fetch(model.name)

    def _fetch(self, name: str) -> bool:
        session = self._session
        session.output.line(f"Downloading {name}. Ctrl+C leaves that to the daemon.")
        try:
            session.model = session.wait(self._follow_pull(name))
        except KeyboardInterrupt:
            session.output.line(f"{name} goes on downloading in the daemon.")
            return False
        session.output.line(f"{name} is here.")
        session.output.bell()
        return True

    async def _follow_pull(self, name: str) -> ModelEntry:
        path = "/ingle/v1/pull"
        stream = self._session.client.events(path, method="POST", body={"model": name})
        async with aclosing(stream) as events:
            async for event in events:
                if event.event == "progress":
                    progress = msgspec.json.decode(event.data, type=PullProgress)
                    self._session.output.news(_pull_line(progress))
                elif event.event == "done":
                    return msgspec.json.decode(event.data, type=ModelEntry)
                elif event.event == "error":
                    raise error_from_body(event.data)
        raise DaemonUnreachable("The daemon ended the download's stream too early.")

    def _stats(self, _argument: str) -> None:
        turn = self._session.last_turn
        if turn is None:
            self._session.output.line("There is no answer yet.")
            return
        facts = turn.message.facts
        parts = [f"{wording.tokens(facts.completion_tokens)} tokens"]
        if facts.speed is not None:
            parts.append(f"{facts.speed:.1f} tokens a second")
        if facts.first_token is not None:
            parts.append(f"first token after {wording.duration(facts.first_token)}")
        parts.append(f"{wording.tokens(facts.prompt_tokens)} tokens of prompt")
        parts.append(f"{wording.tokens(facts.cached_tokens)} of them from the cache")
        self._session.output.line(f"Last answer: {', '.join(parts)}.")


def _summary(chat: ChatSummary) -> str:
    return f"{chat.title}, {chat.messages} messages"


def _told(command: Command) -> str:
    argument = f" {command.argument}" if command.argument else ""
    return f"/{command.slash}{argument}: {command.help}."


def _described(model: ModelEntry) -> str:
    where = "on this machine" if model.installed else "can be downloaded"
    if model.state == "ready":
        where = "loaded"
    size = f", {wording.size(model.size)}" if model.size else ""
    return f"{model.name}{size}, {where}"


def _pull_line(progress: PullProgress) -> str:
    parts = [f"Downloading {progress.model}"]
    if progress.total:
        parts.append(f"{progress.received / progress.total * 100:.0f} %")
    if progress.eta is not None:
        parts.append(f"{wording.remaining(progress.eta)} left")
    return f"{', '.join(parts)}."
