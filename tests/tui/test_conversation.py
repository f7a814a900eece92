from __future__ import annotations

from ingle.tui.conversation import Conversation


def test_it_becomes_a_request() -> None:
    conversation = Conversation()
    conversation.add_prompt("one")
    conversation.add_answer("1")
    conversation.add_prompt("two")
    assert conversation.as_request() == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    assert conversation.title == "one"
    assert conversation.last_answer == "1"


def test_a_prompt_without_an_answer_gives_way() -> None:
    conversation = Conversation()
    conversation.add_prompt("failed")
    conversation.add_prompt("next")
    assert [message.content for message in conversation.messages] == ["next"]


def test_reopening_takes_the_answer_back() -> None:
    conversation = Conversation()
    assert not conversation.reopen()
    conversation.add_prompt("one")
    conversation.add_answer("1")
    assert conversation.reopen()
    assert conversation.reopen()
    assert [message.content for message in conversation.messages] == ["one"]


def test_the_title_is_short() -> None:
    conversation = Conversation()
    assert conversation.title == ""
    conversation.add_prompt("one two  three\nfour five six seven eight nine ten")
    assert conversation.title == "one two three four five six seven eight"
