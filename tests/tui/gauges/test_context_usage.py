"""The use of the context by roles: parts, totals, the ribbon, and possible savings."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.context_view import request_messages, view_entries
from ingle.tui.chats.message import Attachment, CompactionRecord, Message
from ingle.tui.gauges.context_usage import (
    ContextPart,
    ContextUse,
    Role,
    context_parts,
    context_use,
    ribbon,
    savings,
)


def words(message: Mapping[str, str]) -> tuple[int, bool]:
    return len(message["content"].split()), True


def chat_of(turns: int = 2) -> Chat:
    chat = Chat(ChatSettings(system="Be kind."))
    for turn in range(turns):
        leaf = chat.leaf.id if chat.leaf else None
        prompt = chat.add(Message(role="user", content=f"question {turn} of some", parent=leaf))
        answer = Message(role="assistant", content=f"answer {turn} " * 200, ending="answered")
        answer.parent = prompt.id
        chat.add(answer)
    return chat


def word_count(text: str) -> int:
    return len(text.split())


def parts_of(chat: Chat) -> list[ContextPart]:
    return context_parts(view_entries(chat), words)


def test_every_message_has_a_role() -> None:
    chat = chat_of()
    path = chat.path
    path[2].pinned = True
    parts = parts_of(chat)
    roles = [Role.SYSTEM, Role.YOU, Role.ASSISTANT, Role.PINS, Role.ASSISTANT]
    assert [part.role for part in parts] == roles
    assert [part.message for part in parts] == [None, *path]
    assert sum(part.tokens for part in parts) == sum(words(m)[0] for m in request_messages(chat))


def test_compacted_chat_has_summary_and_pins() -> None:
    chat = chat_of(3)
    path = chat.path
    path[0].pinned = True
    summary = "- It was about questions, and " + "so on " * 40
    chat.add_compaction(CompactionRecord(at=path[3].id, summary=summary, kept=(path[0].id,)))
    parts = parts_of(chat)
    assert [part.role for part in parts] == [Role.SYSTEM, Role.SUMMARY, Role.YOU, Role.ASSISTANT]
    use = context_use(parts, 8192)
    assert use.roles[Role.SUMMARY] > use.roles[Role.PINS] > 0
    assert use.used == sum(part.tokens for part in parts)


def test_attachments_are_counted_until_they_are_trimmed() -> None:
    chat = Chat()
    file = Attachment("notes.txt", "word " * 60)
    prompt = Message(role="user", content="Look here, please: " * 4, attachments=(file,))
    chat.add(prompt)
    parts = parts_of(chat)
    use = context_use(parts, 8192)
    assert use.roles[Role.FILES] > use.roles[Role.YOU] > 0
    assert use.used == parts[0].tokens
    chat.add_compaction(CompactionRecord(at=prompt.id, summary="", trims=True))
    assert context_use(parts_of(chat), 8192).roles[Role.FILES] == 0


def test_engine_count_overrides_the_estimated_sum() -> None:
    parts = context_parts(view_entries(chat_of()), lambda message: (100, False))
    estimated = context_use(parts, 8192)
    assert (estimated.used, estimated.exact) == (500, False)
    counted = context_use(parts, 8192, total=517)
    assert (counted.used, counted.exact) == (517, True)
    assert sum(counted.roles) == 517


@given(
    st.lists(st.integers(0, 4000), min_size=len(Role), max_size=len(Role)),
    st.integers(1, 20_000),
    st.integers(4, 120),
)
def test_ribbon_has_the_requested_width(roles: list[int], context: int, width: int) -> None:
    use = ContextUse(tuple(roles), sum(roles), context, min(1024, context // 8))
    drawn = "".join(text for text, _ in ribbon(use, width))
    assert len(drawn) == width
    if use.fraction >= 1:
        assert set(drawn) <= {role.glyph for role in Role}


def test_ribbon_shows_roles_free_space_threshold_and_reply() -> None:
    use = ContextUse((400, 0, 0, 300, 1300, 0, 0), 2000, 4000, 500)
    assert "".join(text for text, _ in ribbon(use, 16)) == "◆◆▓█████┊───┆─╌╌"


def test_savings_of_compaction_match_what_it_would_do() -> None:
    chat = chat_of(6)
    parts = parts_of(chat)
    whole = sum(part.tokens for part in parts)
    saved = savings(chat, parts, word_count)
    assert 0.5 * whole < saved.compact < 0.85 * whole
    assert saved.trim == 0
    assert savings(chat_of(1), parts_of(chat_of(1)), word_count).compact == 0


def test_savings_of_trim_are_files_of_earlier_turns() -> None:
    chat = Chat()
    file = Attachment("notes.txt", "word " * 60)
    first = chat.add(Message(role="user", content="Look.", attachments=(file,)))
    answer = chat.add(Message(role="assistant", content="Yes.", parent=first.id))
    chat.add(Message(role="user", content="More.", attachments=(file,), parent=answer.id))
    parts = parts_of(chat)
    assert 0.5 * parts[0].tokens < savings(chat, parts, word_count).trim < parts[0].tokens
    first.pinned = True
    assert savings(chat, parts_of(chat), word_count).trim == 0
