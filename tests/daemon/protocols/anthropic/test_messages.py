"""Conversion of Anthropic messages to chat messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.backends.base.conversation import ChatMessage, ToolCall
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.anthropic.image_block import Unreadable
from ingle.daemon.protocols.anthropic.messages import LEFT_OUT, chat_messages
from ingle.daemon.protocols.anthropic.types import PromptRequest

pytestmark = pytest.mark.quick

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}


def convert(*messages: Any, system: Any = None) -> list[ChatMessage]:
    body = {"model": "m", "messages": list(messages), "system": system}
    request = msgspec.json.decode(msgspec.json.encode(body), type=PromptRequest)
    return chat_messages(request.system, request.messages)


def user_message(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant_message(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text_block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def tool_result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}


def test_text_and_system_blocks_are_joined() -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    hi = {"role": "user", "content": "Hi"}
    assert convert(hi, system="Be brief.") == [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Hi"),
    ]
    blocks = [
        text_block("x-anthropic-billing-header: cc_version=1; cch=00000;"),
        text_block("A"),
        text_block("B"),
    ]
    assert convert(user_message(text_block("x", **cached), text_block("y")), system=blocks) == [
        ChatMessage("system", "A\n\nB"),
        ChatMessage("user", "x\ny"),
    ]
    assert convert(hi, system=[]) == convert(hi, system="") == [ChatMessage("user", "Hi")]


def test_system_role_inside_the_messages() -> None:
    reminder = {"role": "system", "content": [text_block("Mind the tests.")]}
    converted = convert({"role": "user", "content": "Hi"}, reminder, system="S")
    assert [message.role for message in converted] == ["system", "user", "system"]
    assert converted[2].content == "Mind the tests."


def test_tool_calls_and_results() -> None:
    converted = convert(
        {"role": "user", "content": "Weather?"},
        assistant_message(
            {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            text_block("I will look."),
            USE,
        ),
        user_message(
            tool_result([text_block("sunny"), text_block("warm")], cache_control=None),
            text_block("And?"),
        ),
    )
    assert converted[1:] == [
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
    ("content", "is_error", "expected"),
    [
        (None, None, ""),
        ("broken", True, "Error: broken"),
        ("Error: broken", True, "Error: broken"),
        ("<tool_use_error>no</tool_use_error>", True, "<tool_use_error>no</tool_use_error>"),
        ([text_block("a"), IMAGE], False, f"a\n{LEFT_OUT}"),
        ([{"type": "document", "source": {"type": "url", "url": "x"}}], None, LEFT_OUT),
        ([{"type": "tool_reference", "tool_name": "grep"}], None, "There is the tool grep."),
    ],
)
def test_tool_result_contents(content: Any, is_error: bool | None, expected: str) -> None:
    (_, tool) = convert(
        assistant_message(USE), user_message(tool_result(content, is_error=is_error))
    )
    assert tool.content == expected


def test_text_documents_and_search_results() -> None:
    document = {
        "type": "document",
        "title": "Title",
        "source": {"type": "text", "media_type": "text/plain", "data": "body"},
    }
    blocks = {
        "type": "document",
        "source": {"type": "content", "content": [text_block("a"), text_block("b")]},
    }
    found = {
        "type": "search_result",
        "source": "u",
        "title": "t",
        "content": [text_block("passage")],
    }
    (converted,) = convert(user_message(document, blocks, found))
    assert converted.content == "Title\nbody\na\nb\nt\nu\npassage"


def test_server_tool_blocks_are_ignored() -> None:
    searched = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"error_code": "x"}},
        {"type": "compaction", "content": "We met.", "signature": "s"},
        text_block("Found."),
    ]
    (converted,) = convert(assistant_message(*searched))
    assert converted == ChatMessage("assistant", "We met.Found.")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (user_message(text_block("a"), {"type": "text"}), "messages[0].content[1].text"),
        (user_message({"type": 1}), "messages[0].content[0].type"),
        (user_message({"type": "poem"}), "messages[0].content[0].type"),
        (user_message(3), "messages[0].content[0]"),
        (user_message(USE), "messages[0].content[0]"),
        (user_message(tool_result([USE])), "messages[0].content[0].content[0]"),
        (assistant_message(tool_result("x")), "messages[0].content[0]"),
        (assistant_message({**USE, "input": "x"}), "messages[0].content[0].input"),
        (user_message(IMAGE), "messages[0].content[0].source.data"),
        (user_message({"type": "audio"}), "messages[0].content[0]"),
        (
            user_message({"type": "document", "source": {"type": "url"}}),
            "messages[0].content[0].source",
        ),
    ],
)
def test_invalid_block_error_names_its_path(message: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        convert(message)
    assert caught.value.param == place
    assert ("'audio'" in str(caught.value)) <= isinstance(caught.value, Unreadable)


@pytest.mark.parametrize(
    ("block", "place"),
    [
        (USE, "system[1]"),
        (IMAGE, "system[1]"),
        ({"type": "poem"}, "system[1].type"),
        ({"type": "text"}, "system[1].text"),
    ],
)
def test_invalid_system_block_error_names_its_path(block: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        convert(user_message(text_block("a")), system=[text_block("b"), block])
    assert caught.value.param == place
