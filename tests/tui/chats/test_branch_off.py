"""Branching off: copying a path of a chat into a new chat."""

from __future__ import annotations

from ingle.tui.chats.branch_off import branch_off
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages
from ingle.tui.chats.history_protocol import NullRecorder
from ingle.tui.chats.message import CompactionRecord, Message


def source() -> Chat:
    chat = Chat()
    parent: str | None = None
    for name, role in (("a", "user"), ("b", "assistant"), ("c", "user"), ("d", "assistant")):
        message = Message(role="user" if role == "user" else "assistant", id=name, parent=parent)
        message.content = f"said {name}"
        parent = chat.add(message).id
    return chat


def test_branched_chat_copies_messages_under_new_ids() -> None:
    chat = source()
    made = branch_off(chat, chat.messages["b"], NullRecorder())
    assert [m.content for m in made.path] == ["said a", "said b"]
    assert made.title == "Said a (branch)"
    assert set(made.messages).isdisjoint(chat.messages)


def test_branched_chat_keeps_compactions() -> None:
    chat = source()
    chat.messages["a"].pinned = True
    chat.add_compaction(CompactionRecord(at="b", summary="Notes.", kept=("a",), id="one"))
    chat.add_compaction(CompactionRecord(at="b", summary="", trims=True, after="one", id="two"))
    whole = branch_off(chat, chat.messages["d"], NullRecorder())
    assert request_messages(whole) == request_messages(chat)
    assert whole.label not in (chat.label, whole.id)


def test_branched_chat_drops_compactions_after_its_end() -> None:
    chat = source()
    chat.add_compaction(CompactionRecord(at="b", summary="Notes.", id="one"))
    made = branch_off(chat, chat.messages["a"], NullRecorder())
    assert made.compactions == {}
