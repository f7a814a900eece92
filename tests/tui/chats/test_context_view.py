"""The messages sent to the model: verbatim, after compaction and trimming, and after undo."""

from __future__ import annotations

import json

import pytest

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.context_view import KEPT, LONG_TEXT, RECORD, request_messages, view_entries
from ingle.tui.chats.message import (
    Attachment,
    CompactionRecord,
    Message,
    MessageFacts,
    RequestedCall,
    ToolStep,
)
from ingle.tui.compaction.apply_compaction import trim

pytestmark = pytest.mark.quick


def long_chat(turns: int = 4, system: str = "Be brief.") -> Chat:
    chat = Chat(ChatSettings(system=system))
    add_turns(chat, turns)
    return chat


def add_turns(chat: Chat, turns: int) -> None:
    for _ in range(turns):
        number = len(chat.path) // 2 + 1
        leaf = chat.leaf
        prompt = Message(
            role="user", content=f"question {number}", parent=None if leaf is None else leaf.id
        )
        chat.add(prompt)
        chat.add(
            Message(
                role="assistant", content=f"answer {number}", parent=prompt.id, ending="answered"
            )
        )


def test_summary_replaces_earlier_messages() -> None:
    chat = long_chat()
    chat.add_compaction(CompactionRecord(at=chat.path[3].id, summary="They asked two questions."))
    assert request_messages(chat) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"{RECORD}\n\nThey asked two questions."},
        {"role": "user", "content": "question 3"},
        {"role": "assistant", "content": "answer 3"},
        {"role": "user", "content": "question 4"},
        {"role": "assistant", "content": "answer 4"},
    ]


def test_undo_restores_the_request_byte_for_byte() -> None:
    chat = long_chat()
    before = json.dumps(request_messages(chat)).encode()
    compaction = CompactionRecord(at=chat.path[3].id, summary="Short.")
    chat.add_compaction(compaction)
    assert json.dumps(request_messages(chat)).encode() != before
    chat.undo_compaction(compaction.id)
    assert json.dumps(request_messages(chat)).encode() == before


def test_undo_keeps_later_turns() -> None:
    chat = long_chat()
    before = request_messages(chat)
    compaction = CompactionRecord(at=chat.path[5].id, summary="Short.")
    chat.add_compaction(compaction)
    add_turns(chat, 1)
    chat.undo_compaction(compaction.id)
    assert request_messages(chat)[: len(before)] == before
    assert request_messages(chat)[len(before) :] == [
        {"role": "user", "content": "question 5"},
        {"role": "assistant", "content": "answer 5"},
    ]


def test_request_prefix_is_stable_between_turns() -> None:
    chat = long_chat()
    chat.path[0].pinned = True
    chat.add_compaction(
        CompactionRecord(at=chat.path[3].id, summary="Short.", kept=(chat.path[0].id,))
    )
    before = request_messages(chat)
    add_turns(chat, 2)
    chat.path[2].pinned = True  # takes effect with the next compaction
    assert request_messages(chat)[: len(before)] == before


def test_pinned_messages_are_sent_verbatim_in_the_record() -> None:
    chat = long_chat()
    first = chat.path[0]
    chat.add_compaction(CompactionRecord(at=chat.path[3].id, summary="Short.", kept=(first.id,)))
    record = request_messages(chat)[1]["content"]
    assert record == f"{RECORD}\n\n{KEPT}\n\n<user>\nquestion 1\n</user>\n\nShort."


def test_second_summary_is_appended_to_the_first() -> None:
    chat = long_chat()
    first = CompactionRecord(at=chat.path[3].id, summary="First part.")
    chat.add_compaction(first)
    earlier = request_messages(chat)[1]["content"]
    add_turns(chat, 2)
    chat.add_compaction(
        CompactionRecord(
            at=chat.path[7].id, summary="Second part.", after=first.id, created=first.created + 1
        )
    )
    assert request_messages(chat)[1]["content"] == f"{earlier}\n\nSecond part."


def test_summary_applies_only_to_its_branch() -> None:
    chat = long_chat()
    chat.add_compaction(CompactionRecord(at=chat.path[5].id, summary="Short."))
    chat.add(Message(role="user", content="another way", parent=chat.path[1].id))
    assert [m["content"] for m in request_messages(chat)] == [
        "Be brief.",
        "question 1",
        "answer 1",
        "another way",
    ]


def test_trim_replaces_attachments_and_long_texts_by_markers() -> None:
    chat = Chat()
    pasted = "a" * LONG_TEXT + "the end"
    prompt = Message(role="user", content=pasted, attachments=(Attachment("log.txt", "x" * 500),))
    chat.add(prompt)
    answer = Message(role="assistant", content="Seen.", parent=prompt.id, ending="answered")
    chat.add(answer)
    after = Message(role="user", content="b" * 3000, parent=answer.id)
    chat.add(after)
    before = request_messages(chat)
    trim = CompactionRecord(at=answer.id, summary="", trims=True)
    chat.add_compaction(trim)
    first, second, third = request_messages(chat)
    assert first["content"].startswith(
        '<file name="log.txt">[left out: 500 characters]</file>\n\na'
    )
    assert first["content"].endswith("the end")
    assert len(first["content"]) < 1000
    assert second["content"] == "Seen."
    assert third["content"] == "b" * 3000
    chat.undo_compaction(trim.id)
    assert request_messages(chat) == before


def test_pinned_message_is_not_trimmed() -> None:
    chat = Chat()
    prompt = Message(role="user", content="c" * 5000, pinned=True)
    chat.add(prompt)
    chat.add_compaction(CompactionRecord(at=prompt.id, summary="", trims=True, kept=(prompt.id,)))
    assert request_messages(chat)[0]["content"] == "c" * 5000


def test_summary_after_a_trim_applies() -> None:
    chat = long_chat()
    trim = CompactionRecord(at=chat.path[-1].id, summary="", trims=True)
    chat.add_compaction(trim)
    chat.add_compaction(
        CompactionRecord(
            at=chat.path[3].id, summary="Short.", after=trim.id, created=trim.created + 1
        )
    )
    parts = [entry.part for entry in view_entries(chat)]
    assert parts == ["system", "record", "tail", "tail", "tail", "tail"]


def test_unanswered_prompt_is_omitted_before_the_next() -> None:
    chat = long_chat(1)
    unanswered = Message(role="user", content="lost", parent=chat.path[-1].id)
    chat.add(unanswered)
    chat.add(Message(role="user", content="next", parent=unanswered.id))
    assert [m["content"] for m in request_messages(chat)] == [
        "Be brief.",
        "question 1",
        "answer 1",
        "next",
    ]


def add_round(chat: Chat, name: str, *results: str, calls: int = 1) -> None:
    """Add an answer with calls, and results of the first ones."""
    made = tuple(RequestedCall(f"{name}-{n}", "read_file", "{}") for n in range(calls))
    assert chat.leaf is not None
    facts = MessageFacts(calls=made)
    last = chat.add(Message(role="assistant", parent=chat.leaf.id, ending="answered", facts=facts))
    for call, text in zip(made, results, strict=False):
        step = MessageFacts(step=ToolStep(call))
        last = chat.add(Message(role="tool", content=text, parent=last.id, facts=step))


def test_calls_are_sent_with_their_results_only() -> None:
    chat = Chat()
    chat.add(Message(role="user", content="read"))
    add_round(chat, "a", "one", calls=2)
    add_round(chat, "b")
    sent = request_messages(chat)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    function = {"name": "read_file", "arguments": "{}"}
    assert sent[1]["tool_calls"] == [{"id": "a-0", "type": "function", "function": function}]
    assert sent[2] == {
        "role": "tool",
        "content": "one",
        "tool_call_id": "a-0",
        "name": "read_file",
    }


def test_trim_shortens_results_of_earlier_rounds_but_not_the_prompt() -> None:
    chat, long = Chat(), "x" * (LONG_TEXT + 1)
    chat.add(Message(role="user", content=long))
    add_round(chat, "a", long)
    add_round(chat, "b", long)
    chat.add_compaction(trim(chat))
    lengths = [len(message["content"]) for message in request_messages(chat)]
    assert lengths[0] == lengths[4] == len(long)
    assert lengths[2] < len(long)


def test_pictures_are_sent_until_they_are_trimmed() -> None:
    chat = Chat(ChatSettings())
    picture = Attachment("cat.png", "", "data:image/png;base64,AAAA")
    chat.add(Message(role="user", content="See.", attachments=(picture,)))
    chat.add(Message(role="assistant", content="Yes.", parent=chat.path[0].id, ending="answered"))
    add_turns(chat, 3)
    (sent, *others) = request_messages(chat)
    assert sent["images"] == [picture.picture]
    assert sent["content"] == '<picture name="cat.png"/>\n\nSee.'
    assert not any("images" in other for other in others)
    chat.add_compaction(trim(chat))
    (sent, *_) = request_messages(chat)
    assert "images" not in sent
    assert "left out: a picture" in sent["content"]
