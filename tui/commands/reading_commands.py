"""Commands that take text out of the chat: copy."""

from __future__ import annotations

from ..text.terminal_safe_text import clean
from .chat_session import ChatSession
from .command_results import CommandRefused, Done


def copy(session: ChatSession, name: str) -> Done:
    """Copy a message, or the last answer."""
    message = session.chat.messages.get(name)
    if message is None:
        answers = (m for m in reversed(session.chat.path) if m.role == "assistant" and m.content)
        message = next(answers, None)
    if message is None:
        raise CommandRefused("There is no answer to copy yet.")
    session.copy(clean(message.content))
    return Done()
