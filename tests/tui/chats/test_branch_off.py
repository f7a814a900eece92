"""A chat of its own that begins like another one."""

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


def test_it_begins_alike_and_goes_on_alone() -> None:
    chat = source()
    made = branch_off(chat, chat.messages["b"], NullRecorder())
    assert [m.content for m in made.path] == ["said a", "said b"]
    assert made.title == "Said a (branch)"
    assert set(made.messages).isdisjoint(chat.messages)


def test_what_was_compacted_stays_so() -> None:
    chat = source()
    chat.messages["a"].pinned = True
    chat.add_compaction(CompactionRecord(at="b", summary="Notes.", kept=("a",), id="one"))
    chat.add_compaction(CompactionRecord(at="b", summary="", trims=True, after="one", id="two"))
    whole = branch_off(chat, chat.messages["d"], NullRecorder())
    assert request_messages(whole) == request_messages(chat)
    assert whole.label not in (chat.label, whole.id)


def test_a_compaction_behind_its_end_is_not_taken_along() -> None:
    chat = source()
    chat.add_compaction(CompactionRecord(at="b", summary="Notes.", id="one"))
    made = branch_off(chat, chat.messages["a"], NullRecorder())
    assert made.compactions == {}
