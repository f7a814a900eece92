"""Exports the current branch as Markdown."""

from __future__ import annotations

import html
import json
import re
from datetime import datetime

from ...chats.chat import Chat
from ...chats.message import Message
from ...text.terminal_safe_text import clean

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def export_markdown(chat: Chat) -> str:
    """Return the chosen branch as Markdown, with front matter; reasoning is folded."""
    parts = [_front_matter(chat), f"# {_line(chat.title) or 'Untitled'}"]
    if chat.settings.system:
        parts.append("## System\n\n" + clean(chat.settings.system).strip())
    parts += [_message(chat, message) for message in chat.path]
    return "\n\n".join(parts) + "\n"


def iso_time(stamp: float) -> str:
    """Return a time with its zone, "" for an invalid time."""
    try:
        return datetime.fromtimestamp(stamp).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def models_of(chat: Chat) -> list[str]:
    """Return the models that answered on the chosen branch, in order."""
    return list(dict.fromkeys(message.model for message in chat.path if message.model))


def sibling_note(chat: Chat, message: Message) -> str:
    """Return the position among sibling answers, "" for a single one."""
    siblings = chat.siblings(message)
    if len(siblings) == 1:
        return ""
    return f"{siblings.index(message) + 1} of {len(siblings)}; the JSON export has all"


def ending_note(message: Message) -> str:
    """Return how an answer ended, "" for a normal end."""
    notes = {
        "length": "cut off at its length limit",
        "stopped": "stopped",
        "failed": "failed",
        "interrupted": "interrupted",
    }
    return notes.get(message.ending or "", "")


def _front_matter(chat: Chat) -> str:
    last = max((message.created for message in chat.path), default=chat.created)
    fields = {
        "title": chat.title,
        "models": models_of(chat),
        "created": iso_time(chat.created),
        "updated": iso_time(last),
        "folder": chat.settings.folder,
        "messages": len(chat.path),
        "id": chat.id,
    }
    # JSON is valid YAML, and quotes what a title may contain.
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value not in ("", [])
    ]
    return "\n".join(["---", *lines, "---"])


def _message(chat: Chat, message: Message) -> str:
    who = "You" if message.role == "user" else message.model or "Answer"
    facts = [iso_time(message.created), sibling_note(chat, message), ending_note(message)]
    told = " · ".join(fact for fact in facts if fact)
    parts = [f"## {_line(who)}", f"*{told}*"]
    if message.reasoning.strip():
        thoughts = html.escape(clean(message.reasoning).strip(), quote=False)
        parts.append(f"<details>\n<summary>Reasoning</summary>\n\n{thoughts}\n\n</details>")
    for attachment in message.attachments:
        fence = _fence_around(attachment.text)
        text = clean(attachment.text).rstrip()
        parts.append(f"**{_line(attachment.name)}**\n\n{fence}\n{text}\n{fence}")
    if message.content.strip():
        parts.append(clean(message.content).strip())
    return "\n\n".join(parts)


def _fence_around(text: str) -> str:
    """Return a fence longer than any in the text."""
    return "`" * max(3, 1 + max((len(mark) for mark in _FENCE.findall(text)), default=0))


def _line(text: str) -> str:
    return " ".join(clean(text).split())
