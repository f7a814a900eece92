"""Helpers that parse complete answers, in one piece and character by character."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from ingle.backends.base.conversation import Tool
from ingle.backends.text.answers.answer_parser import AnswerParser
from ingle.backends.text.tool_calls.call_sink import (
    AnswerReasoning,
    AnswerText,
    CallArguments,
    CallStart,
    Part,
)


class Answer(NamedTuple):
    """The parts of a parsed answer."""

    text: str
    reasoning: str
    calls: list[tuple[str, Any]]
    ids: list[str | None]


def parameters(**properties: Any) -> str:
    """The JSON schema of an object; a string stands for a type."""
    typed = {
        name: {"type": schema} if isinstance(schema, str) else schema
        for name, schema in properties.items()
    }
    return json.dumps({"type": "object", "properties": typed, "required": list(typed)})


TOOLS = [
    Tool("get_weather", parameters=parameters(city="string", days="integer")),
    Tool("write_file", parameters=parameters(path="string", content="string")),
    Tool("search", parameters=parameters(query="string", tags={"type": "array"}, deep="boolean")),
    Tool("now"),
]


@pytest.fixture(scope="session")
def tools() -> list[Tool]:
    """The tools of these tests."""
    return TOOLS


def collect(parts: Iterable[Part]) -> Answer:
    """Join the parts of each kind; arguments must parse as objects."""
    text, reasoning, names, arguments, ids = "", "", list[str](), list[str](), list[str | None]()
    for part in parts:
        match part:
            case AnswerText(piece):
                text += piece
            case AnswerReasoning(piece):
                reasoning += piece
            case CallStart(name, call_id):
                names.append(name)
                ids.append(call_id)
                arguments.append("")
            case CallArguments(piece):
                arguments[-1] += piece
    objects = [json.loads(piece) for piece in arguments]
    assert all(isinstance(each, dict) for each in objects), arguments
    return Answer(text, reasoning, list(zip(names, objects, strict=True)), ids)


def read(parser: AnswerParser, pieces: Sequence[str]) -> Answer:
    """Parse an answer that arrives in these pieces."""
    parts = [part for piece in pieces for part in parser.push(piece)]
    return collect([*parts, *parser.finish()])


ReadAll = Callable[[Callable[[], AnswerParser], str], Answer]


@pytest.fixture(scope="session")
def read_all() -> ReadAll:
    """Parse an answer at once and character by character, and assert that the results are equal."""

    def read_both(new_parser: Callable[[], AnswerParser], text: str) -> Answer:
        complete = read(new_parser(), [text])
        assert read(new_parser(), list(text)) == complete
        return complete

    return read_both
