"""What of a chat is sent to a model: system prompt, pins, summaries, and the last turns."""

from __future__ import annotations

from .chat import Chat


def request_messages(chat: Chat) -> list[dict[str, str]]:
    """The chosen branch in the shape the API takes; answers without text are left out."""
    messages: list[dict[str, str]] = []
    if chat.settings.system:
        messages.append({"role": "system", "content": chat.settings.system})
    for message in chat.path:
        if not message.text:
            continue
        if messages and messages[-1]["role"] == message.role == "user":
            messages.pop()  # it was never answered, and models expect the roles to alternate
        messages.append({"role": message.role, "content": message.text})
    return messages
