from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Attachment, Message
from ingle.tui.chats.view import request_messages
from ingle.tui.gauges.context_use import (
    ContextUse,
    Role,
    context_parts,
    context_use,
    ribbon,
    savings,
)


def words(message: Mapping[str, str]) -> tuple[int, bool]:
    return len(message["content"].split()), True


def talk(turns: int = 2) -> Chat:
    chat = Chat(ChatSettings(system="Be kind."))
    for turn in range(turns):
        leaf = chat.leaf.id if chat.leaf else None
        prompt = chat.add(Message(role="user", content=f"question {turn} of some", parent=leaf))
        answer = Message(role="assistant", content=f"answer {turn} " * 200, parent=prompt.id)
        chat.add(answer)
    return chat


def test_every_message_has_its_role() -> None:
    chat = talk()
    path = chat.path
    path[2].pinned = True
    request = [*request_messages(chat), {"role": "user", "content": "what was said before"}]
    parts = context_parts(chat, request, words)
    assert [part.role for part in parts] == [
        Role.SYSTEM,
        Role.YOU,
        Role.ASSISTANT,
        Role.PINS,
        Role.ASSISTANT,
        Role.SUMMARY,
    ]
    assert [part.message for part in parts] == [None, *path, None]
    assert sum(part.tokens for part in parts) == sum(words(message)[0] for message in request)


def test_the_same_words_twice_are_two_messages() -> None:
    chat = Chat()
    first = chat.add(Message(role="user", content="again"))
    second = chat.add(Message(role="assistant", content="Yes.", parent=first.id))
    third = chat.add(Message(role="user", content="again", parent=second.id))
    parts = context_parts(chat, request_messages(chat), words)
    assert [part.message for part in parts] == [first, second, third]


def test_attachments_have_their_part_of_a_prompt() -> None:
    chat = Chat()
    file = Attachment("notes.txt", "word " * 60)
    chat.add(Message(role="user", content="Look here, please: " * 4, attachments=(file,)))
    parts = context_parts(chat, request_messages(chat), words)
    use = context_use(parts, 8192)
    assert use.roles[Role.FILES] > use.roles[Role.YOU] > 0
    assert use.used == parts[0].tokens


def test_the_engines_count_wins_over_the_sum() -> None:
    parts = context_parts(talk(), request_messages(talk()), lambda message: (100, False))
    estimated = context_use(parts, 8192)
    assert (estimated.used, estimated.exact) == (500, False)
    counted = context_use(parts, 8192, total=517)
    assert (counted.used, counted.exact) == (517, True)
    assert sum(counted.roles) == 517


@given(
    st.lists(st.integers(0, 4000), min_size=6, max_size=6),
    st.integers(1, 20_000),
    st.integers(4, 120),
)
def test_the_ribbon_is_as_wide_as_it_is_told(roles: list[int], context: int, width: int) -> None:
    use = ContextUse(tuple(roles), sum(roles), context, min(1024, context // 8))
    drawn = "".join(text for text, _ in ribbon(use, width))
    assert len(drawn) == width
    if use.fraction >= 1:
        assert set(drawn) <= {role.glyph for role in Role}


def test_the_ribbon_shows_roles_free_room_the_tick_and_the_reply() -> None:
    use = ContextUse((400, 0, 0, 300, 1300, 0), 2000, 4000, 500)
    assert "".join(text for text, _ in ribbon(use, 16)) == "◆◆▓█████┊───┆─╌╌"


def test_compacting_keeps_system_pins_and_the_last_turns() -> None:
    chat = talk(5)
    chat.path[0].pinned = True
    parts = context_parts(chat, request_messages(chat), words)
    told = parts[2].tokens + parts[3].tokens + parts[4].tokens
    assert savings(parts).compact == told - 400
    assert savings(parts[:3]).compact == 0


def test_trimming_saves_the_files_of_earlier_turns() -> None:
    chat = Chat()
    file = Attachment("notes.txt", "word " * 60)
    first = chat.add(Message(role="user", content="Look.", attachments=(file,)))
    answer = chat.add(Message(role="assistant", content="Yes.", parent=first.id))
    chat.add(Message(role="user", content="More.", attachments=(file,), parent=answer.id))
    parts = context_parts(chat, request_messages(chat), words)
    assert savings(parts).trim == parts[0].files > 0
