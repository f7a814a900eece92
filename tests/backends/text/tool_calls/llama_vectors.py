"""Extracts the parser test vectors of llama.cpp from its C++ source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from ingle.backends.base.conversation import Tool

_LITERAL = re.compile(r'R"([A-Za-z#]*)\((.*?)\)\1"|"((?:\\.|[^"\\])*)"', re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_TESTER = re.compile(
    r'peg_tester\("models/templates/([^"]+)\.jinja"|tst2?\.test\(|for \(const auto'
)
_METHOD = re.compile(r"\s*\.\s*(\w+)\(")
# Truncated and continued answers and response formats are tested elsewhere.
_OTHER_KINDS = {"is_partial", "continue_final_message", "json_schema", "messages"}


class Vector(NamedTuple):
    """An answer, and its expected parts."""

    template: str
    line: int
    answer: str
    tools: list[Tool]
    enables_thinking: bool
    text: str
    reasoning: str
    calls: list[tuple[str, str]]


def read_vectors(source: str) -> Iterator[Vector]:
    """All vectors that are complete answers and written out literally."""
    tools = dict(_tools(source))
    messages = dict(_messages(source))
    for template, line, answer, methods in _statements(source):
        if methods.keys() & _OTHER_KINDS or _LITERAL.sub("", answer).strip():
            continue
        text = "".join(_strings(answer)[:1])
        unparsed = "NONE" in methods.get("reasoning_format", "NONE")
        if unparsed and re.search("think|channel|analysis", text, re.IGNORECASE):
            continue
        offered = re.findall(r"\w+", _LITERAL.sub("", methods.get("tools", "")))
        expected = _expected(methods, messages)
        if expected is None or not all(name in tools for name in offered):
            continue
        enables_thinking = "true" in methods.get("enable_thinking", "true")
        yield Vector(
            template, line, text, [tools[name] for name in offered], enables_thinking, *expected
        )


Expected = tuple[str, str, list[tuple[str, str]]]


def _expected(methods: dict[str, str], messages: dict[str, Expected]) -> Expected | None:
    if "expect" in methods:
        named = methods["expect"].strip()
        if named in messages:
            return messages[named]
        call = re.match(r"(\w+)\(", named)
        return _message(call[1], _strings(named[call.end() - 1 :])) if call else None
    calls: list[tuple[str, str]] = []
    body, position = methods.get("expect_tool_calls", "").strip()[1:-1], 0
    while (position := body.find("{", position)) >= 0:
        end = _balanced(body, position)
        found = _strings(body[position:end])
        if len(found) < 2:
            return None
        calls.append((found[0], found[1]))
        position = end
    content = "".join(_strings(methods.get("expect_content", ""))[:1])
    reasoning = "".join(_strings(methods.get("expect_reasoning", ""))[:1])
    return content, reasoning, calls


def _message(function: str, strings: list[str]) -> Expected | None:
    """The expected message of a helper function of the C++ tests."""
    padded = [*strings, "", "", "", "", ""]
    first, second, third, fourth, *_ = padded
    pairs = list(zip(strings[2::2], strings[3::2], strict=False))
    call_format: dict[str, Expected] = {
        "simple_assist_msg": (first, second, [(third, fourth)] if third else []),
        "message_with_tool_calls": ("", "", [(first, second)]),
        "message_with_tool_calls_and_reasoning": ("", third, [(first, second)]),
        "message_with_content_and_tool_call": (first, "", [(second, third)]),
        "message_with_reasoning_and_tool_call": ("", first, [(second, third)]),
        "message_with_reasoning_content_and_multiple_tool_calls": (second, first, pairs),
    }
    return call_format.get(function)


def _statements(source: str) -> Iterator[tuple[str, int, str, dict[str, str]]]:
    """Every `tst.test(…).method(…)…` with its template, line and method arguments."""
    template = ""
    for match in _TESTER.finditer(source):
        if match[1]:
            template = match[1]
        elif not match[0].endswith(".test("):
            template = ""  # several templates at once
        elif template:
            start = match.end() - 1
            end = _balanced(source, start)
            answer = _LINE_COMMENT.sub("", source[start + 1 : end - 1])
            methods: dict[str, str] = {}
            while method := _METHOD.match(source, end):
                end = _balanced(source, method.end() - 1)
                methods[method[1]] = source[method.end() : end - 1]
            yield template, source.count("\n", 0, match.start()) + 1, answer, methods


def _tools(source: str) -> Iterator[tuple[str, Tool]]:
    for match in re.finditer(r"common_chat_tool\s+(\w+)\s*\{", source):
        body = source[match.end() : _balanced(source, match.end() - 1)]
        strings = _strings(_COMMENT.sub("", body))
        if len(strings) == 3:
            yield match[1], Tool(strings[0], strings[1], strings[2])


def _messages(source: str) -> Iterator[tuple[str, Expected]]:
    for match in re.finditer(r"common_chat_msg\s+(message_\w+)\s*=\s*(\w+)\s*\(", source):
        body = source[match.end() - 1 : _balanced(source, match.end() - 1)]
        message = _message(match[2], _strings(body))
        if message is not None:
            yield match[1], message


def _strings(text: str) -> list[str]:
    """The strings of a list, each possibly written as several adjacent literals."""
    found: list[str] = []
    joins = False
    position = 0
    while position < len(text):
        literal = _LITERAL.match(text, position)
        if literal:
            raw = literal[3] is None
            value = literal[2] if raw else json.loads('"' + literal[3].replace("\\'", "'") + '"')
            found[-1:] = [found[-1] + value] if joins else [*found[-1:], value]
            joins = True
            position = literal.end()
        else:
            joins = joins and text[position].isspace()
            position += 1
    return found


def _balanced(text: str, position: int) -> int:
    """The position after the bracket that closes the one at this position."""
    depth = 0
    while True:
        literal = _LITERAL.match(text, position)
        if literal:
            position = literal.end()
            continue
        if text.startswith("//", position):
            position = text.index("\n", position)
        depth += (text[position] in "({") - (text[position] in ")}")
        position += 1
        if depth == 0:
            return position
