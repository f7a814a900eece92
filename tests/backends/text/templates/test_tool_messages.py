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

ASK = ChatMessage("user", "Ask")


def calling(*ids: str, content: str = "", reasoning: str = "") -> ChatMessage:
    calls = [ToolCall(call_id, f"tool_{n}", "{}") for n, call_id in enumerate(ids)]
    return ChatMessage("assistant", content, tool_calls=calls, reasoning=reasoning)


def result(content: str, call_id: str | None = None, name: str | None = None) -> ChatMessage:
    return ChatMessage("tool", content, name, tool_call_id=call_id)


class TestPairing:
    def test_results_learn_the_names_of_their_tools(self) -> None:
        said = paired([ASK, calling("a", "b"), result("B", "b"), result("A", "a")])
        assert [message.name for message in said[2:]] == ["tool_1", "tool_0"]

    def test_nameless_calls_and_results_are_paired_in_order(self) -> None:
        said = paired([calling("", ""), result("A"), result("B"), calling(""), result("C")])
        calls = [call.id for message in said for call in message.tool_calls]
        assert len(set(calls)) == 3
        assert [message.tool_call_id for message in said if message.role == "tool"] == calls

    def test_results_that_name_their_tool_find_its_call(self) -> None:
        said = paired([calling("", ""), result("B", name="tool_1"), result("A", name="tool_0")])
        ids = [call.id for call in said[0].tool_calls]
        assert [message.tool_call_id for message in said[1:]] == ids[::-1]

    def test_a_result_of_no_call_has_a_name_all_the_same(self) -> None:
        assert paired([ASK, result("?")])[1].tool_call_id

    def test_names_do_not_change_from_turn_to_turn(self) -> None:
        said = [calling("", ""), result("A"), result("B")]
        assert paired([*said, ASK])[:3] == paired(said)


class TestStyles:
    def test_one_by_one_keeps_each_result_with_its_call(self) -> None:
        said = [ASK, calling("a", "b", content="Both", reasoning="Hm"), result("B", "b")]
        said += [result("A", "a"), result("?", "other"), ASK]
        apart = in_style(said, CallStyle(one_by_one=True))
        assert [message.role for message in apart] == [
            *("user", "assistant", "tool", "assistant", "tool", "tool", "user")
        ]
        assert [len(message.tool_calls) for message in apart] == [0, 1, 0, 1, 0, 0, 0]
        assert [message.content for message in apart] == ["Ask", "Both", "A", "", "B", "?", "Ask"]
        assert [message.reasoning for message in apart] == ["", "Hm", "", "", "", "", ""]

    def test_calls_that_nothing_answered_yet_are_kept(self) -> None:
        said = in_style([calling("a", "b")], CallStyle(one_by_one=True))
        assert [call.id for message in said for call in message.tool_calls] == ["a", "b"]

    def test_short_ids_still_belong_together(self) -> None:
        said = in_style([calling("toolu_1", "abcDEF123"), result("A", "toolu_1")], CallStyle())
        short = in_style(said, CallStyle(short_ids=True))
        first, second = (call.id for call in short[0].tool_calls)
        assert first == short[1].tool_call_id
        assert len(first) == 9
        assert first.isalnum()
        assert second == "abcDEF123"

    def test_text_beside_calls_in_a_message_of_its_own(self) -> None:
        said = in_style([calling("a", content="Look", reasoning="Hm")], CallStyle(apart=True))
        assert [(message.content, len(message.tool_calls)) for message in said] == [
            ("Look", 0),
            ("", 1),
        ]
        assert said[1].reasoning == "Hm"

    def test_a_blank_answer_between_results_and_the_next_words(self) -> None:
        said = answered([ASK, calling("a"), result("A", "a"), ASK, ASK])
        assert [message.role for message in said] == [
            *("user", "assistant", "tool", "assistant", "user", "user")
        ]

    def test_a_blank_turn_before_a_first_answer(self) -> None:
        said = answered([ChatMessage("system", "S"), ChatMessage("assistant", "Hello"), ASK])
        assert [message.role for message in said] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"', "[" * 100_000, "nonsense"])
def test_arguments_that_are_no_object_are_not_lost(arguments: str) -> None:
    kept = call_arguments(ToolCall("a", "f", arguments))["input"]
    assert arguments in (kept, json.dumps(kept))


def test_no_arguments_are_an_empty_object() -> None:
    assert call_arguments(ToolCall("a", "f", "")) == {}


def test_tools_as_transformers_gives_them_to_templates() -> None:
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
def test_parameters_that_are_no_schema_are_refused(parameters: str) -> None:
    with pytest.raises(RequestRejected, match="'f'") as caught:
        tool_fields(Tool("f", parameters=parameters))
    assert caught.value.param == "tools"
