"""Conversion of Anthropic request fields to a generation request."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from ingle.backends.base.conversation import Reasoning, Tool, ToolChoice
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.anthropic.requests import messages_job
from ingle.daemon.protocols.anthropic.types import MessagesRequest
from ingle.daemon.protocols.ingle_options import RequestOrigin

pytestmark = pytest.mark.quick

HI: list[Any] = [{"role": "user", "content": "Hi"}]
WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "Tells it.",
    "input_schema": {"type": "object"},
}
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
BASH: dict[str, Any] = {"type": "bash_20250124", "name": "bash"}


def request_of(**fields: Any) -> GenerateRequest:
    body = {"model": "m", "max_tokens": 10, "messages": HI, **fields}
    decoded = msgspec.json.decode(msgspec.json.encode(body), type=MessagesRequest)
    return messages_job(decoded, RequestOrigin(client="c")).request


def test_minimal_request() -> None:
    request = request_of()
    assert request.id.startswith("msg_")
    assert (request.max_tokens, request.client, request.continues) == (10, "c", False)
    assert request.reasoning == Reasoning(enabled=False)
    assert request_of(max_tokens=0).max_tokens == 0
    assert request_of(stop_sequences=["\n\n", "END"]).stop == ["\n\n", "END"]
    assert request_of(ingle={"priority": "batch"}).priority is Priority.BATCH


def test_fields_of_anthropics_service_are_ignored() -> None:
    more: dict[str, Any] = {
        "cache_control": {"type": "ephemeral"},
        "container": None,
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "diagnostics": None,
        "inference_geo": "eu",
        "mcp_servers": [],
        "metadata": {"user_id": '{"session_id":"x"}'},
        "service_tier": "auto",
        "speed": "fast",
        "system": None,
        "tools": None,
        "thinking": None,
        "output_config": None,
        "stop_sequences": None,
    }
    assert msgspec.structs.replace(request_of(**more), id="") == msgspec.structs.replace(
        request_of(), id=""
    )


def test_custom_tools_are_kept_and_hosted_tools_dropped() -> None:
    custom = {**WEATHER, "type": "custom", "strict": True, "cache_control": {"type": "ephemeral"}}
    hosted = [
        SEARCH,
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
    ]
    request = request_of(tools=[custom, *hosted], tool_choice={"type": "auto"})
    assert request.tools == [Tool("weather", "Tells it.", '{"type":"object"}', strict=True)]
    assert request.tool_choice == ToolChoice()
    assert request.parallel_tool_calls
    assert not request_of(
        tools=[WEATHER], tool_choice={"type": "any", "disable_parallel_tool_use": True}
    ).parallel_tool_calls


@pytest.mark.parametrize(
    ("tool", "arguments", "wrong"),
    [
        (BASH, {"command": "ls"}, {"cmd": "ls"}),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
            {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"},
            {"command": "undo_edit", "path": "/a"},
        ),
        (
            {"type": "text_editor_20250124", "name": "str_replace_editor"},
            {"command": "undo_edit", "path": "/a"},
            {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"},
        ),
        (
            {"type": "memory_20250818", "name": "memory"},
            {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
            {"path": "/memories/a"},
        ),
        (
            {"type": "computer_20250124", "name": "computer", "display_width_px": 1024},
            {"action": "scroll", "coordinate": [1, 2], "scroll_direction": "up"},
            {"action": "zoom", "region": [1, 2, 3, 4]},
        ),
        (
            {"type": "computer_20251124", "name": "computer", "enable_zoom": True},
            {"action": "zoom", "region": [1, 2, 3, 4]},
            {"action": "click"},
        ),
        (
            {"type": "computer_20241022", "name": "computer"},
            {"action": "left_click_drag", "coordinate": [1, 2]},
            {"action": "wait", "duration": 1},
        ),
    ],
)
def test_client_side_tools_are_offered_with_their_schemas(
    tool: dict[str, Any], arguments: Any, wrong: Any
) -> None:
    (offered,) = request_of(tools=[SEARCH, tool]).tools
    assert offered.name == tool["name"]
    schema = json.loads(offered.parameters)
    jsonschema.validate(arguments, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_screen_is_described_by_its_size() -> None:
    size = {"display_width_px": 1024, "display_height_px": 768}
    (offered,) = request_of(tools=[{"type": "computer_20250124", "name": "c", **size}]).tools
    assert "1024 by 768 pixels" in offered.description


@pytest.mark.parametrize(
    ("choice", "tools", "expected"),
    [
        ({"type": "none"}, [WEATHER], ToolChoice("none")),
        ({"type": "any"}, [WEATHER, SEARCH], ToolChoice("required")),
        ({"type": "tool", "name": "weather"}, [WEATHER], ToolChoice("required", ["weather"])),
        ({"type": "tool", "name": "bash"}, [SEARCH, BASH], ToolChoice("required", ["bash"])),
    ],
)
def test_tool_choice(choice: Any, tools: Any, expected: ToolChoice) -> None:
    assert request_of(tools=tools, tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "disabled"}}, Reasoning(enabled=False)),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            Reasoning(enabled=True, budget=2048),
        ),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            Reasoning(effort="high"),
        ),
        ({"output_config": {"effort": "low"}}, Reasoning(enabled=False, effort="low")),
    ],
)
def test_thinking(fields: dict[str, Any], expected: Reasoning) -> None:
    assert request_of(**fields).reasoning == expected


def test_json_schema_output_format() -> None:
    answer_format = {"type": "json_schema", "schema": {"type": "object"}}
    assert request_of(output_config={"format": answer_format}).grammar == Grammar(
        GrammarKind.JSON_SCHEMA, '{"type":"object"}', param="output_config.format"
    )
    assert request_of(output_format=answer_format).grammar == Grammar(
        GrammarKind.JSON_SCHEMA, '{"type":"object"}', param="output_format"
    )


def test_trailing_assistant_message_is_continued() -> None:
    begun = [*HI, {"role": "assistant", "content": "The answer is ("}]
    assert request_of(messages=begun).continues
    assert not request_of(messages=[*begun, *HI]).continues


CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "weather", "input": {}}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": [*HI, {"role": "assistant", "content": [CALL]}]}, "messages"),
    ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({"tools": [{**WEATHER, "input_schema": 1}]}, "tools[0].input_schema"),
    ({"tools": [{**WEATHER, "type": "function"}]}, "tools[0].type"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"tools": [{"type": "bash_20250124"}]}, "tools[0].name"),
    ({"tools": [SEARCH], "tool_choice": {"type": "any"}}, "tool_choice"),
    (
        {"tools": [WEATHER, SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        "tool_choice.name",
    ),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
    ({"stop_sequences": [""]}, "stop_sequences"),
    ({"output_format": {"type": "json_schema", "schema": []}}, "output_format.schema"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG)
def test_invalid_field_error_names_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        request_of(**fields)
    assert caught.value.param == param
