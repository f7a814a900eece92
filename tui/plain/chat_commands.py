"""`ChatCommands`: commands about the chat that is open and its branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..chats.chat import Chat
from ..chats.message import Message
from ..commands.sampling_options import THINKING, changed_sampling

if TYPE_CHECKING:
    from .attached_files import Files
    from .plain_session import PlainSession

TEMPLATES = "prompts"
"""The folder of templates, within the one of settings."""


class ChatCommands:
    """What is said again, otherwise, or elsewhere, and what the chat is held with."""

    def __init__(self, session: PlainSession, files: Files) -> None:
        self._session = session
        self._files = files

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {
            "new": lambda _: self._new(temporary=False),
            "temp": lambda _: self._new(temporary=True),
            "again": lambda _: self._again(),
            "continue": lambda _: self._continue(),
            "edit": self._edit,
            "rewind": lambda _: self._rewind(),
            "branch": lambda _: self._branch(),
            "previous": lambda _: self._switch(-1),
            "next": lambda _: self._switch(1),
            "system": self._system,
            "sampling": self._sampling,
            "think": self._think,
            "template": self._template,
            "attach": self._files.attach,
            "editor": lambda _: self._write_in_editor(),
            "copy": lambda _: self._copy(),
        }

    def _new(self, *, temporary: bool) -> None:
        self._session.chat = Chat(temporary=temporary)
        kept = "is never written down" if temporary else "begins"
        self._session.output.line(f"A new chat {kept}.")

    # Branches

    def _again(self) -> None:
        prompt = self._last("user")
        if prompt is None:
            self._session.output.error("There is no prompt to ask again.")
            return
        self._session.again(prompt)

    def _continue(self) -> None:
        answer = self._last("assistant")
        if answer is None or not answer.content:
            self._session.output.error("There is no answer to go on with.")
            return
        self._session.go_on(answer)

    def _edit(self, text: str) -> None:
        prompt = self._last("user")
        if prompt is None:
            self._session.output.error("There is no prompt to edit.")
            return
        self._send_edited(prompt, text)

    def _rewind(self) -> None:
        prompts = [message for message in self._session.chat.path if message.role == "user"]
        if not prompts:
            self._session.output.error("There is no prompt to go back to.")
            return
        lines = [" ".join(prompt.content.split())[:200] for prompt in prompts]
        index = self._session.reader.choose("Prompts, the first one first:", lines)
        if index is not None:
            self._send_edited(prompts[index])

    def _send_edited(self, prompt: Message, text: str = "") -> None:
        """Ask for another wording, and send it in the place of the prompt."""
        session = self._session
        new: str | None = text
        if not text and "\n" in prompt.content and session.reader.is_person:
            new = self._in_editor(prompt.content)
        elif not text:
            new = session.reader.edit("You, edited: ", prompt.content)
        if new is None or not new.strip() or new.strip() == prompt.content.strip():
            session.output.line("Nothing is changed. /again asks the same once more.")
            return
        session.send(new.strip(), prompt.attachments, edits=prompt)

    def _branch(self) -> None:
        from ..chats.branch_off import branch_off

        session = self._session
        source = session.chat
        leaf = source.leaf
        if leaf is None:
            session.output.error("There is nothing to branch from.")
            return
        session.chat = branch_off(source, leaf, session.history)
        session.output.line(f"From here on this is a chat of its own: {session.chat.title}.")

    def _switch(self, step: int) -> None:
        chat = self._session.chat
        fork = next((m for m in reversed(chat.path) if len(chat.siblings(m)) > 1), None)
        if fork is None:
            self._session.output.error("This chat has one branch only.", "/again makes another.")
            return
        other = chat.neighbour(fork, step)
        chat.choose(other)
        self._session.history.choose(chat.id, other.id)
        siblings = chat.siblings(other)
        place = f"{siblings.index(other) + 1} of {len(siblings)}"
        self._session.output.line(f"Branch {place}.")
        for message in chat.path[chat.path.index(other) :]:
            self._session.speak(message)

    def _last(self, role: str) -> Message | None:
        return next((m for m in reversed(self._session.chat.path) if m.role == role), None)

    # What the chat is held with

    def _system(self, text: str) -> None:
        settings = self._session.chat.settings
        if not text:
            current = settings.system or "empty"
            self._session.output.line(f"The system prompt is: {current}")
            return
        settings.system = "" if text == "off" else text
        self._session.keep_settings()
        state = "set" if settings.system else "empty"
        self._session.output.line(f"The system prompt is {state}.")

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
        self._session.keep_settings()
        pairs = ", ".join(f"{name}={value:g}" for name, value in settings.sampling.items())
        self._session.output.line(f"Sampling: {pairs or 'as the model recommends'}.")

    def _think(self, wish: str) -> None:
        if wish and wish not in THINKING:
            self._session.output.error(f"/think takes one of {', '.join(THINKING)}, or nothing.")
            return
        self._session.chat.settings.thinking = wish
        self._session.keep_settings()
        self._session.output.line(f"Thinking: {wish or 'as the model does by itself'}.")

    # Texts

    def _template(self, name: str) -> None:
        """Send a saved prompt, after asking for what belongs into its places."""
        from ..composing.prompt_templates import PLACE, load_templates

        session = self._session
        folder = None if session.folders is None else session.folders.config / TEMPLATES
        templates = [] if folder is None else load_templates(folder)
        found = next((template for template in templates if template.name == name), None)
        if found is None:
            known = ", ".join(template.name for template in templates)
            if name:
                session.output.error(f"There is no template {name}.")
            session.output.line(f"Templates: {known}." if known else f"{folder} has no templates.")
            return
        filled = {place: session.reader.ask(f"{place}: ") for place in found.places}
        session.send(PLACE.sub(lambda match: filled[match[1]], found.text))

    def _write_in_editor(self) -> None:
        if not self._session.reader.is_person:
            self._session.output.error("/editor needs somebody who types.")
            return
        text = self._in_editor("")
        if text is not None and text.strip():
            self._session.output.line(f"You: {text.strip()}")
            self._session.send(text.strip())

    def _in_editor(self, text: str) -> str | None:
        from ..terminal.external_editor import EditorFailed, edit_text

        try:
            return edit_text(text)
        except EditorFailed as error:
            self._session.output.error(str(error))
            return None

    def _copy(self) -> None:
        from ..terminal.clipboard import copy
        from ..text.terminal_safe_text import clean

        answer = self._last("assistant")
        if answer is None or not answer.content:
            self._session.output.error("There is no answer to copy yet.")
            return
        copied = copy(clean(answer.content))
        self._session.output.ask_terminal(copied.sequence)
        self._session.output.line(copied.sentence)
