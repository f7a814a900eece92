"""Prompts for an evaluation: from a file, from stored chats, or built-in ones."""

from __future__ import annotations

import json
import os
import re
from typing import Any, TypeGuard, cast

from ...settings.paths import find_paths
from ...terminal.terminal_output import print_status, strip_control_characters
from ..command_errors import CommandError, UsageError
from ..text_file import read_text_file

Conversation = list[dict[str, str]]

_ROLES = ("system", "user", "assistant")
_LONGEST = 6000
"""Characters of a conversation taken from a chat; longer ones would be slow to prefill twice."""


def prompts_of_file(name: str) -> list[Conversation]:
    """Return the prompts of JSON lines with `prompt` or `messages`, else texts between empty lines.

    Raises `UsageError`, which names the invalid line.
    """
    text = read_text_file(name, "The prompts", if_too_long="Use a part of it.")
    shown = strip_control_characters(name)
    if name.lower().endswith((".jsonl", ".ndjson")):
        # Not `splitlines`: a text inside a line may contain other separators.
        lines = enumerate(text.split("\n"), start=1)
        found = [_of_line(line, f"{shown}, line {n}") for n, line in lines if line.strip()]
    else:
        pieces = re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n"))
        found = [_asked(piece.strip()) for piece in pieces if piece.strip()]
    if not found:
        raise UsageError(f"{shown} contains no prompt.", "Write prompts, separated by empty lines.")
    return found


def prompts_of_chats(limit: int) -> list[Conversation]:
    """Return the user's questions of the latest chats with their context; nothing is written.

    Raises `CommandError` if the chats cannot be read.
    """
    paths = find_paths(os.environ)
    paths.check_private()
    from ingle.tui.history.database.history_errors import HistoryError
    from ingle.tui.history.history_store import open_history
    from ingle.tui.plain.passphrase_prompt import unlock

    store = open_history(paths.chats, print_status)
    try:
        unlock(store)
        if store.database.is_locked:
            raise CommandError("Your chats are locked, so none was read.", "Unlock them first.")
        newest = sorted(store.recent(4 * limit), key=lambda chat: -chat.changed)
        chats = (store.load(chat.id) for chat in newest)
        found: list[Conversation] = []
        for chat in chats:
            if chat is not None and (turns := _last_question(chat.path)):
                found.append(turns)
            if len(found) == limit:
                break
    except HistoryError as error:
        raise CommandError(error.message, error.hint) from error
    finally:
        store.close()
    if not found:
        raise CommandError("There are no chats with a question yet.", "Name a file: --prompts.")
    return found


def _last_question(messages: Any) -> Conversation:
    """Return the conversation up to the user's last message, without the oldest turns if it is
    long.
    """
    turns = [{"role": str(m.role), "content": str(m.text)} for m in messages if m.role in _ROLES]
    while turns and turns[-1]["role"] != "user":
        turns.pop()
    if not turns or not turns[-1]["content"].strip():
        return []
    while len(turns) > 1 and _letters(turns) > _LONGEST:
        del turns[0]
        while turns[0]["role"] != "user":
            del turns[0]
    return turns if _letters(turns) <= _LONGEST else []


def _letters(turns: Conversation) -> int:
    return sum(len(turn["content"]) for turn in turns)


def _of_line(line: str, where: str) -> Conversation:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):  # deeply nested lists
        raise UsageError(f"{where} is not JSON.", 'Write {"prompt": "…"} on each line.') from None
    if _is_prompt(value):
        return _asked(value)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    prompt = fields.get("prompt")
    if _is_prompt(prompt):
        return _asked(prompt)
    messages = fields.get("messages")
    if isinstance(messages, list) and messages:
        turns = [_turn(entry) for entry in cast("list[Any]", messages)]
        asked = cast("Conversation", turns)
        if all(turns) and asked[-1]["role"] == "user" and _is_prompt(asked[-1]["content"]):
            return asked
    raise UsageError(
        f"{where} has neither a prompt nor messages that end with a user's.",
        'Write {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}.',
    )


def _turn(entry: Any) -> dict[str, str] | None:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if role not in _ROLES or not isinstance(content, str):
        return None
    return {"role": cast("str", role), "content": _whole(content)}


def _is_prompt(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _asked(text: str) -> Conversation:
    return [{"role": "user", "content": _whole(text)}]


def _whole(text: str) -> str:
    """Return the text with question marks for lone surrogates, which JSON allows and UTF-8 does
    not.
    """
    return text.encode("utf-8", "replace").decode()
