"""Anthropic's messages become those that chat templates know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.backends.base.conversation import ChatMessage, ToolCall
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.anthropic.messages import LEFT_OUT, Unreadable, chat_messages
from ingle.daemon.protocols.anthropic.types import PromptRequest

pytestmark = pytest.mark.quick

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}


def read(*messages: Any, system: Any = None) -> list[ChatMessage]:
    body = {"model": "m", "messages": list(messages), "system": system}
    request = msgspec.json.decode(msgspec.json.encode(body), type=PromptRequest)
    return chat_messages(request.system, request.messages)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}


def test_texts_and_system_blocks() -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    hi = {"role": "user", "content": "Hi"}
    assert read(hi, system="Be brief.") == [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Hi"),
    ]
    blocks = [text("x-anthropic-billing-header: cc_version=1; cch=00000;"), text("A"), text("B")]
    assert read(user(text("x", **cached), text("y")), system=blocks) == [
        ChatMessage("system", "A\n\nB"),
        ChatMessage("user", "x\ny"),
    ]
    assert read(hi, system=[]) == read(hi, system="") == [ChatMessage("user", "Hi")]


def test_a_system_role_among_the_messages() -> None:
    reminder = {"role": "system", "content": [text("Mind the tests.")]}
    said = read({"role": "user", "content": "Hi"}, reminder, system="S")
    assert [message.role for message in said] == ["system", "user", "system"]
    assert said[2].content == "Mind the tests."


def test_calls_and_their_results() -> None:
    said = read(
        {"role": "user", "content": "Weather?"},
        assistant(
            {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            text("I will look."),
            USE,
        ),
        user(result([text("sunny"), text("warm")], cache_control=None), text("And?")),
    )
    assert said[1:] == [
        ChatMessage(
            "assistant",
            "I will look.",
            reasoning="Look it up.",
            tool_calls=[ToolCall("t1", "weather", '{"city":"Rome"}')],
        ),
        ChatMessage("tool", "sunny\nwarm", name="weather", tool_call_id="t1"),
        ChatMessage("user", "And?"),
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "said"),
    [
        (None, None, ""),
        ("broken", True, "Error: broken"),
        ("Error: broken", True, "Error: broken"),
        ("<tool_use_error>no</tool_use_error>", True, "<tool_use_error>no</tool_use_error>"),
        ([text("a"), IMAGE], False, f"a\n{LEFT_OUT}"),
        ([{"type": "document", "source": {"type": "url", "url": "x"}}], None, LEFT_OUT),
        ([{"type": "tool_reference", "tool_name": "grep"}], None, "There is the tool grep."),
    ],
)
def test_what_a_result_may_be(content: Any, is_error: bool | None, said: str) -> None:
    (_, tool) = read(assistant(USE), user(result(content, is_error=is_error)))
    assert tool.content == said


def test_documents_and_search_results_of_text() -> None:
    document = {
        "type": "document",
        "title": "Title",
        "source": {"type": "text", "media_type": "text/plain", "data": "body"},
    }
    blocks = {"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}}
    found = {"type": "search_result", "source": "u", "title": "t", "content": [text("passage")]}
    (said,) = read(user(document, blocks, found))
    assert said.content == "Title\nbody\na\nb\nt\nu\npassage"


def test_what_only_anthropics_servers_did_is_passed_over() -> None:
    searched = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"error_code": "x"}},
        {"type": "compaction", "content": "We met.", "signature": "s"},
        text("Found."),
    ]
    (said,) = read(assistant(*searched))
    assert said == ChatMessage("assistant", "We met.Found.")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (user(text("a"), {"type": "text"}), "messages[0].content[1].text"),
        (user({"type": 1}), "messages[0].content[0].type"),
        (user({"type": "poem"}), "messages[0].content[0].type"),
        (user(3), "messages[0].content[0]"),
        (user(USE), "messages[0].content[0]"),
        (user(result([USE])), "messages[0].content[0].content[0]"),
        (assistant(result("x")), "messages[0].content[0]"),
        (assistant({**USE, "input": "x"}), "messages[0].content[0].input"),
        (user(IMAGE), "messages[0].content[0]"),
        (user({"type": "document", "source": {"type": "url"}}), "messages[0].content[0].source"),
    ],
)
def test_what_is_wrong_is_named(message: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        read(message)
    assert caught.value.param == place
    assert (IMAGE in message["content"]) <= isinstance(caught.value, Unreadable)
