"""Requests whose tools and old results are disclosed when the model asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.requests import GenerateRequest

from .old_results import digest_of, shorten_results
from .outlined_tools import outlined

DESCRIBE, RECALL = "describe_tool", "recall_result"
"""The daemon's own tools; they get other names if the client has tools of these."""
DESCRIBED = "_described"
"""How the id of a call ends before which its tool was described.

Clients send ids back, so that later prompts have the description in the same place.
"""


@dataclass(frozen=True)
class Disclosure:
    """The daemon's own tools for one request, and what they tell.

    `tools` are descriptions by the names of the client's tools, `results` old results by digest, of
    which a call returns `most` characters.
    """

    describe: str
    recall: str
    tools: Mapping[str, str]
    results: Mapping[str, str]
    most: int

    def owns(self, name: str) -> bool:
        """Whether the daemon answers calls of this tool."""
        return name in (self.describe, self.recall)

    def described(self, call: ToolCall) -> str | None:
        """The client's tool that a call has described, if there is one of its name."""
        name = _arguments(call).get("name") if call.name == self.describe else None
        return name if isinstance(name, str) and name in self.tools else None

    def answer(self, calls: Sequence[ToolCall]) -> list[ChatMessage]:
        """The messages with calls of own tools and their results, for the conversation."""
        asked = list({call.id: call for call in map(_named, calls)}.values())
        results = [
            ChatMessage("tool", self._result(call), tool_call_id=call.id, name=call.name)
            for call in asked
        ]
        return [ChatMessage("assistant", "", tool_calls=asked), *results]

    def with_descriptions(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """The conversation with the descriptions that the model saw before its calls."""
        said: list[ChatMessage] = []
        known: set[str] = set()
        for message in messages:
            names = dict.fromkeys(
                call.name
                for call in message.tool_calls
                if call.id.endswith(DESCRIBED) and call.name in self.tools
            )
            if new := [name for name in names if name not in known]:
                known.update(new)
                said += self.answer(
                    [ToolCall("", self.describe, json.dumps({"name": name})) for name in new]
                )
            said.append(message)
        return said

    def _result(self, call: ToolCall) -> str:
        given = _arguments(call)
        if call.name == self.describe:
            if (name := self.described(call)) is not None:
                return self.tools[name]
            return f"There is no tool {given.get('name')!r}. The tools are {', '.join(self.tools)}."
        text = self.results.get(str(given.get("digest")))
        if text is None:
            return f"No result was shortened that has the digest {given.get('digest')!r}."
        start = given.get("start")
        start = start if isinstance(start, int) and 0 <= start < len(text) else 0
        part = text[start : start + self.most]
        if start + len(part) < len(text):
            part += f'\n[Of {len(text)} characters. "start": {start + len(part)} returns the rest.]'
        return part

    def own_tools(self) -> list[Tool]:
        """The tools that the daemon answers."""
        describe = Tool(
            self.describe,
            "Returns the full description and all arguments of one of the other tools. They are "
            "listed in short, with their required arguments only.",
            _schema({"name": {"type": "string"}}, "name"),
        )
        recall = Tool(
            self.recall,
            "Returns the full text of a result that was shortened, by its digest.",
            _schema({"digest": {"type": "string"}, "start": {"type": "integer"}}, "digest"),
        )
        return [describe, recall] if self.tools else [recall]


def may_disclose(request: GenerateRequest) -> bool:
    """Whether a request can be answered in several turns of the model."""
    return (
        bool(request.tools and request.messages)
        and request.tool_choice.mode != "none"
        and request.n == 1
        and request.prompt_logprobs is None
        and not (request.raw or request.continues)
    )


def disclose(request: GenerateRequest, context: int) -> tuple[GenerateRequest, Disclosure]:
    """Return a request with outlined tools and shortened results, and what it can ask for.

    Old results are shortened once all take about a quarter of the model's `context` of tokens.
    """
    taken = {tool.name for tool in request.tools}
    choice = request.tool_choice
    outlines = outlined(request.tools, choice.names if choice.mode == "required" else ())
    recall = _free(RECALL, taken)
    messages, results = shorten_results(request.messages or (), context, recall)
    details = {tool.name: _details(tool) for tool in request.tools} if outlines else {}
    own = Disclosure(_free(DESCRIBE, taken), recall, details, results, context // 2)
    ours = own.own_tools()
    asked = replace(
        request,
        messages=own.with_descriptions(messages),
        tools=[*request.tools, *ours],
        shown_tools=[*(outlines.get(tool.name, tool) for tool in request.tools), *ours],
    )
    return asked, own


def _free(name: str, taken: set[str]) -> str:
    """Return the name, or the first with a number that is not taken."""
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


def _named(call: ToolCall) -> ToolCall:
    """Return the call with an id that follows from what it asks, the same in every turn."""
    arguments = json.dumps(_arguments(call), ensure_ascii=False)
    return replace(call, id=f"own_{digest_of(call.name + arguments)}", arguments=arguments)


def _details(tool: Tool) -> str:
    named = json.dumps({"name": tool.name, "description": tool.description}, ensure_ascii=False)
    return f'{named[:-1]}, "parameters": {tool.parameters}}}'


def _schema(properties: dict[str, Any], *required: str) -> str:
    fields = {"type": "object", "properties": properties, "required": list(required)}
    return json.dumps(fields, separators=(",", ":"))


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; none if they are not an object."""
    try:
        given: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}
