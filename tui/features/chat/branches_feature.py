"""`BranchesFeature`: edit, answer again, go on, and walk between the branches of a chat."""

from __future__ import annotations

from collections.abc import Mapping

from ...chats.branch_off import branch_off
from ...chats.message import Message
from ..feature import Feature, Handler


class BranchesFeature(Feature):
    """Commands about messages; each takes a message's id, or means the last one that fits."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "again": self.again,
            "edit": self.edit,
            "continue": self.go_on,
            "branch": self.branch,
            "rewind": lambda _: self.rewind(),
            "previous": lambda name: self.switch(name, -1),
            "next": lambda name: self.switch(name, 1),
        }

    def again(self, name: str) -> None:
        """Have a prompt answered once more."""
        if self._refused_while_busy():
            return
        message = self._message(name, None)
        if message is not None and message.role == "assistant" and message.parent is not None:
            message = self.host.chat.messages[message.parent]
        if message is None or message.role != "user":
            message = self._last("user")
        if message is None:
            self.host.tell("There is no prompt to ask again.", "warning")
            return
        self.host.ask_again(message)

    def edit(self, name: str) -> None:
        """Put a prompt into the composer; sending it begins a branch."""
        message = self._message(name, "user")
        if message is None:
            self.host.tell("There is no prompt to edit.", "warning")
            return
        self.host.edit(message)

    def go_on(self, name: str) -> None:
        """Have a broken-off answer continued."""
        if self._refused_while_busy():
            return
        message = self._message(name, "assistant")
        if message is None or not message.content:
            self.host.tell("There is no answer to go on with.", "warning")
            return
        self.host.continue_answer(message)

    def branch(self, name: str) -> None:
        """Open a chat of its own that begins like this one, up to and with a message."""
        source = self.host.chat
        last = self._message(name, None)
        if last is None:
            self.host.tell("There is nothing to branch from.", "warning")
            return
        self.host.open_chat(branch_off(source, last, self.host.history))

    def rewind(self) -> None:
        """Choose a prompt to go back to."""
        prompts = [message for message in self.host.chat.path if message.role == "user"]
        if not prompts:
            self.host.tell("There is no prompt to go back to.", "warning")
            return
        from ...screens.rewind_screen import RewindScreen

        self.host.show_screen(RewindScreen(prompts), self._rewound)

    def _rewound(self, message: Message | None) -> None:
        if message is not None:
            self.host.edit(message)

    def switch(self, name: str, step: int) -> None:
        """Go over to the sibling before or behind."""
        if self._refused_while_busy():
            return
        chat = self.host.chat
        message = chat.messages.get(name) or self._last_with_siblings()
        if message is None:
            self.host.tell("This chat has one branch only; F5 answers again.", "warning")
            return
        other = chat.neighbour(message, step)
        chat.choose(other)
        self.host.history.choose(chat.id, other.id)
        self.host.show_path(at=other.id)

    def _refused_while_busy(self) -> bool:
        if self.host.turn is None:
            return False
        self.host.tell("An answer is still running; esc stops it.", "warning")
        return True

    def _message(self, name: str, role: str | None) -> Message | None:
        named = self.host.chat.messages.get(name)
        if named is not None and role in (None, named.role):
            return named
        return self._last(role)

    def _last(self, role: str | None) -> Message | None:
        path = self.host.chat.path
        return next((m for m in reversed(path) if role in (None, m.role)), None)

    def _last_with_siblings(self) -> Message | None:
        chat = self.host.chat
        return next((m for m in reversed(chat.path) if len(chat.siblings(m)) > 1), None)
