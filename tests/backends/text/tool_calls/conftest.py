"""Reading whole answers through a parser, however they are cut."""

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
    """What an answer was told apart into."""

    text: str
    thought: str
    calls: list[tuple[str, Any]]
    ids: list[str | None]


def parameters(**properties: Any) -> str:
    """The schema of an object; a bare word stands for a type."""
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
    """Some tools."""
    return TOOLS


def gather(parts: Iterable[Part]) -> Answer:
    """The whole of each kind; arguments must parse as objects."""
    text, thought, names, arguments, ids = "", "", list[str](), list[str](), list[str | None]()
    for part in parts:
        match part:
            case AnswerText(piece):
                text += piece
            case AnswerReasoning(piece):
                thought += piece
            case CallStart(name, call_id):
                names.append(name)
                ids.append(call_id)
                arguments.append("")
            case CallArguments(piece):
                arguments[-1] += piece
    objects = [json.loads(piece) for piece in arguments]
    assert all(isinstance(each, dict) for each in objects), arguments
    return Answer(text, thought, list(zip(names, objects, strict=True)), ids)


def read(parser: AnswerParser, pieces: Sequence[str]) -> Answer:
    """What a parser makes of an answer that comes in these pieces."""
    parts = [part for piece in pieces for part in parser.push(piece)]
    return gather([*parts, *parser.finish()])


ReadAll = Callable[[Callable[[], AnswerParser], str], Answer]


@pytest.fixture(scope="session")
def read_all() -> ReadAll:
    """Reads an answer at once and character by character, which must come to the same."""

    def read_both(new_parser: Callable[[], AnswerParser], text: str) -> Answer:
        whole = read(new_parser(), [text])
        assert read(new_parser(), list(text)) == whole
        return whole

    return read_both
