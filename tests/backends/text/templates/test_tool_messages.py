"""Pairing of tool calls with results, and call styles of templates."""

from __future__ import annotations

import json

import pytest

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.errors import RequestRejected
from ingle.backends.text.templates.tool_messages import (
    CallStyle,
    answered,
    call_arguments,
    in_style,
    paired,
    tool_fields,
)

QUESTION = ChatMessage("user", "Ask")


def calls_message(*ids: str, content: str = "", reasoning: str = "") -> ChatMessage:
    calls = [ToolCall(call_id, f"tool_{n}", "{}") for n, call_id in enumerate(ids)]
    return ChatMessage("assistant", content, tool_calls=calls, reasoning=reasoning)


def result(content: str, call_id: str | None = None, name: str | None = None) -> ChatMessage:
    return ChatMessage("tool", content, name, tool_call_id=call_id)


class TestPairing:
    def test_results_get_the_names_of_their_tools(self) -> None:
        messages = paired([QUESTION, calls_message("a", "b"), result("B", "b"), result("A", "a")])
        assert [message.name for message in messages[2:]] == ["tool_1", "tool_0"]

    def test_calls_and_results_without_ids_are_paired_in_order(self) -> None:
        messages = paired(
            [calls_message("", ""), result("A"), result("B"), calls_message(""), result("C")]
        )
        calls = [call.id for message in messages for call in message.tool_calls]
        assert len(set(calls)) == 3
        assert [message.tool_call_id for message in messages if message.role == "tool"] == calls

    def test_results_are_paired_by_tool_name(self) -> None:
        messages = paired(
            [calls_message("", ""), result("B", name="tool_1"), result("A", name="tool_0")]
        )
        ids = [call.id for call in messages[0].tool_calls]
        assert [message.tool_call_id for message in messages[1:]] == ids[::-1]

    def test_result_without_a_call_gets_an_id(self) -> None:
        assert paired([QUESTION, result("?")])[1].tool_call_id

    def test_generated_ids_are_stable_across_turns(self) -> None:
        messages = [calls_message("", ""), result("A"), result("B")]
        assert paired([*messages, QUESTION])[:3] == paired(messages)


class TestStyles:
    def test_one_by_one_keeps_each_result_with_its_call(self) -> None:
        messages = [
            QUESTION,
            calls_message("a", "b", content="Both", reasoning="Hm"),
            result("B", "b"),
        ]
        messages += [result("A", "a"), result("?", "other"), QUESTION]
        split = in_style(messages, CallStyle(one_by_one=True))
        assert [message.role for message in split] == [
            *("user", "assistant", "tool", "assistant", "tool", "tool", "user")
        ]
        assert [len(message.tool_calls) for message in split] == [0, 1, 0, 1, 0, 0, 0]
        assert [message.content for message in split] == ["Ask", "Both", "A", "", "B", "?", "Ask"]
        assert [message.reasoning for message in split] == ["", "Hm", "", "", "", "", ""]

    def test_unanswered_calls_are_kept(self) -> None:
        messages = in_style([calls_message("a", "b")], CallStyle(one_by_one=True))
        assert [call.id for message in messages for call in message.tool_calls] == ["a", "b"]

    def test_short_ids_match_between_calls_and_results(self) -> None:
        messages = in_style(
            [calls_message("toolu_1", "abcDEF123"), result("A", "toolu_1")], CallStyle()
        )
        short = in_style(messages, CallStyle(short_ids=True))
        first, second = (call.id for call in short[0].tool_calls)
        assert first == short[1].tool_call_id
        assert len(first) == 9
        assert first.isalnum()
        assert second == "abcDEF123"

    def test_text_next_to_calls_becomes_a_separate_message(self) -> None:
        messages = in_style(
            [calls_message("a", content="Look", reasoning="Hm")], CallStyle(apart=True)
        )
        assert [(message.content, len(message.tool_calls)) for message in messages] == [
            ("Look", 0),
            ("", 1),
        ]
        assert messages[1].reasoning == "Hm"

    def test_blank_answer_is_inserted_after_results(self) -> None:
        messages = answered([QUESTION, calls_message("a"), result("A", "a"), QUESTION, QUESTION])
        assert [message.role for message in messages] == [
            *("user", "assistant", "tool", "assistant", "user", "user")
        ]

    def test_blank_user_turn_is_inserted_before_a_leading_answer(self) -> None:
        messages = answered(
            [ChatMessage("system", "S"), ChatMessage("assistant", "Hello"), QUESTION]
        )
        assert [message.role for message in messages] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"', "[" * 100_000, "nonsense"])
def test_invalid_arguments_are_wrapped_in_an_object(arguments: str) -> None:
    wrapped = call_arguments(ToolCall("a", "f", arguments))["input"]
    assert arguments in (wrapped, json.dumps(wrapped))


def test_missing_arguments_are_an_empty_object() -> None:
    assert call_arguments(ToolCall("a", "f", "")) == {}


def test_tool_fields_match_the_transformers_format() -> None:
    schema = '{"required":["a"],"properties":{"a":{"type":"string"}}}'
    assert tool_fields(Tool("f", "Does.", schema)) == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "Does.",
            "parameters": {
                "required": ["a"],
                "properties": {"a": {"type": "string"}},
                "type": "object",
            },
        },
    }
    assert tool_fields(Tool("f", parameters=""))["function"]["parameters"]["properties"] == {}


@pytest.mark.parametrize("parameters", ["[]", "3", "{", "[" * 100_000])
def test_invalid_parameter_schemas_are_rejected(parameters: str) -> None:
    with pytest.raises(RequestRejected, match="'f'") as caught:
        tool_fields(Tool("f", parameters=parameters))
    assert caught.value.param == "tools"
