"""Tools of agents in fewer words, for the models and keys that the settings name."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.base.conversation import Tool
from ingle.daemon.cli.server.watch import lines
from ingle.daemon.client.watch_types import WatchedRequest
from ingle.daemon.diet.diet_rules import diet_of
from ingle.daemon.diet.slim_tools import shortened, slim_tool
from ingle.daemon.settings.config import load_config
from tests.daemon.conftest import DaemonFactory, RunningDaemon

SAID = "Runs a command. It returns what the command prints. " + "Prefer absolute paths. " * 40
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Arguments",
    "type": "object",
    "properties": {
        "title": {"type": "string", "title": "Title", "description": "Five words. " * 40},
        "limit": {"type": "integer", "minimum": 1, "maximum": 2**53 - 1, "examples": [3]},
        "how": {"enum": ["title", "examples"], "default": {"title": "a"}},
        "names": {"type": "object", "additionalProperties": {"type": "string", "title": "A"}},
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "$defs": {"item": {"type": "object", "properties": {}, "additionalProperties": False}},
    "required": ["title"],
    "additionalProperties": False,
}


def test_names_types_and_limits_stay() -> None:
    slim = slim_tool(Tool("run", SAID, json.dumps(SCHEMA)))
    assert slim.name == "run"
    assert slim.description.startswith("Runs a command. It returns what the command prints.")
    assert len(slim.description) <= 400
    assert slim.description.endswith("paths.")
    schema = json.loads(slim.parameters)
    title = schema["properties"].pop("title")
    assert (title["type"], len(title["description"]) <= 160) == ("string", True)
    assert schema == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1},
            "how": {"enum": ["title", "examples"], "default": {"title": "a"}},
            "names": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        },
        "$defs": {"item": {"type": "object", "properties": {}}},
        "required": ["title"],
    }
    assert slim_tool(slim) == slim


def test_what_a_strict_tool_accepts_stays() -> None:
    schema = json.loads(slim_tool(Tool("run", SAID, json.dumps(SCHEMA), strict=True)).parameters)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 2**53 - 1,
    }


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Reads a file. Slowly.", "Reads a file. Slowly."),
        ("Reads version 1.2 of a file. Then it writes the file.", "Reads version 1.2 of a file."),
        ("Reads\n- a file\n- a folder and all the files below it", "Reads\n- a file"),
        ("one two three four five six seven eight nine", "one two three four five six…"),
        ("x" * 50, "x" * 31 + "…"),
    ],
)
def test_text_is_cut_where_a_sentence_ends(text: str, short: str) -> None:
    assert shortened(text, 32) == short


def test_a_key_overrules_a_model_and_that_the_default(ingle_home: Path) -> None:
    rules = {"agent_diets": {"Coder:1.5b": "slim", "key:ci": "off"}}
    config = load_config({"INGLE_HOME": str(ingle_home)}, rules)
    assert diet_of(config, ("coder:1.5b",), None) == "slim"
    assert diet_of(config, ("mine", "coder:1.5b"), "laptop") == "slim"
    assert diet_of(config, ("coder:1.5b",), "ci") == "off"
    assert diet_of(config, ("other",), None) == "off"
    assert diet_of(replace(config, agent_diet="slim"), ("other",), None) == "slim"


CHAT = [{"role": "user", "content": "Hi"}]
FLAT = {"name": "run", "description": SAID}
FUNCTION = {"type": "function", "function": {**FLAT, "parameters": SCHEMA}}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": CHAT, "tools": [FUNCTION]},
    "/v1/messages": {
        "messages": CHAT,
        "max_tokens": 9,
        "tools": [{**FLAT, "input_schema": SCHEMA}],
    },
    "/v1/responses": {
        "input": CHAT,
        "tools": [{**FLAT, "type": "function", "parameters": SCHEMA}],
    },
    "/api/chat": {"messages": CHAT, "stream": False, "tools": [FUNCTION]},
}


async def test_every_protocol_slims_and_watch_shows_it(run_daemon: DaemonFactory) -> None:
    diets = (("echo:1", "slim"),)
    async with run_daemon(script={"trained_context": 16384}, agent_diets=diets) as daemon:
        seen, prompts = await _watched(daemon)
        counted = await daemon.tcp.post(
            "/v1/messages/count_tokens", json={"model": "echo:1", **BODIES["/v1/messages"]}
        )
    (left_out,) = {request.slimmed for request in seen}
    assert left_out > 900
    assert all("maximum" not in prompt and "Runs a command." in prompt for prompt in prompts)
    assert f"{left_out:,} characters left out" in "\n".join(lines(seen[0]))
    (messages,) = [request for request in seen if request.path == "/v1/messages"]
    assert counted.json()["input_tokens"] == messages.prompt_tokens


async def _watched(daemon: RunningDaemon) -> tuple[list[WatchedRequest], list[str]]:
    """Send all requests, and return what was seen of them, and their prompts."""
    seen: list[WatchedRequest] = []
    prompts: list[str] = []
    async with daemon.unix.stream("GET", "/ingle/v1/watch") as stream:
        events = stream.aiter_lines()
        for path, body in BODIES.items():
            answer = await daemon.tcp.post(path, json={"model": "echo:1", **body})
            assert answer.status_code == 200, answer.text
            async with asyncio.timeout(30):
                while not (line := await anext(events)).startswith("data: "):
                    pass
            seen.append(msgspec.json.decode(line.removeprefix("data: "), type=WatchedRequest))
            kept = await daemon.unix.get(f"/ingle/v1/watch/{seen[-1].id}")
            prompts.append(kept.json()["text"])
    return seen, prompts
