"""`TaggedAnswerParser`: text, reasoning and tool calls, for any split and with malformed input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.conversation import Tool
from ingle.backends.text.answers.answer_parser import AnswerParser
from ingle.backends.text.answers.tagged_answer_parser import TaggedAnswerParser
from ingle.backends.text.templates.reasoning_tags import THINK
from ingle.backends.text.tool_calls.call_sink import (
    AnswerReasoning,
    AnswerText,
    CallArguments,
    CallStart,
)
from ingle.backends.text.tool_calls.json_formats import GENERIC, HERMES

from .conftest import TOOLS, Answer, ReadAll, read

WEATHER = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}'
CALL = ("get_weather", {"city": "Paris", "days": 2})
UNKNOWN = '{"name": "fly", "arguments": {"to": "Rome"}}'


def hermes(**options: Any) -> Callable[[], AnswerParser]:
    return lambda: TaggedAnswerParser(HERMES, THINK, TOOLS, **options)


def generic(**options: Any) -> Callable[[], AnswerParser]:
    return lambda: TaggedAnswerParser(GENERIC, None, TOOLS, **options)


CASES: list[tuple[str, str, str, list[Any]]] = [
    ("Hello, world!\n", "Hello, world!\n", "", []),
    ("  42", "  42", "", []),
    (f"<tool_call>\n{WEATHER}\n</tool_call>", "", "", [CALL]),
    (f"<tool_call>{WEATHER}</tool_call>\n<tool_call>{WEATHER}</tool_call>", "", "", [CALL] * 2),
    (f"I look.\n\n<tool_call>\n{WEATHER}\n</tool_call>\n", "I look.", "", [CALL]),
    (f"<think>\nHm.\n</think>\n\n<tool_call>{WEATHER}", "", "Hm.", [CALL]),
    ("<think>\nHm.\n</think>\n\nHello", "Hello", "Hm.", []),
    ("<think>\n\n</think>\n\nHello", "Hello", "", []),
    ("</think>\n\nHello", "Hello", "", []),
    ("<think>Hm", "", "Hm", []),
    (f"<think>Hm <tool_call>{WEATHER}</tool_call>\n", "", "Hm", [CALL]),
    (
        f"<think>Hm <tool_call>{WEATHER}</tool_call> " + f"<tool_call>{WEATHER}",
        "",
        "Hm",
        [CALL] * 2,
    ),
    (f"<think>Hm <tool_call>{WEATHER}", "", "Hm", [CALL]),
    (f"<think>Hm <tool_call>{WEATHER[:-9]}", "", f"Hm <tool_call>{WEATHER[:-9]}", []),
    (
        f"<think>Maybe <tool_call>{WEATHER}</tool_call>?</think><tool_call>{WEATHER}",
        "",
        f"Maybe <tool_call>{WEATHER}</tool_call>?",
        [CALL],
    ),
    ("<think>A <tool_call> tag? </think>No.", "No.", "A <tool_call> tag?", []),
    ("a < b <tool> <tool_cal", "a < b <tool> <tool_cal", "", []),
    (f"<tool_call>{UNKNOWN}</tool_call>", "", "", [("fly", {"to": "Rome"})]),
    ("<tool_call>no JSON</tool_call> x", "<tool_call>no JSON</tool_call> x", "", []),
    (WEATHER, "", "", [CALL]),
    (f"[{WEATHER}, {WEATHER}]", "", "", [CALL] * 2),
    (f"{WEATHER}\n{WEATHER}", "", "", [CALL] * 2),
    (UNKNOWN, UNKNOWN, "", []),
    ('{"name": "now", "age": 3}', '{"name": "now", "age": 3}', "", []),
    (f"```json\n{WEATHER}\n```", "", "", [CALL]),
    (f"Sure:\n```json\n{WEATHER}\n```\n", "Sure:", "", [CALL]),
    (f"<tools>\n{WEATHER}\n</tools>", "", "", [CALL]),
    (f"```json\n{UNKNOWN}\n```", f"```json\n{UNKNOWN}\n```", "", []),
    ("```python\nprint(1)\n```", "```python\nprint(1)\n```", "", []),
    ("[1] a note", "[1] a note", "", []),
    ("```python\n" + "print(" * 5000, "```python\n" + "print(" * 5000, "", []),
    ('{"type":"function","function":{"name":"now","arguments":"{}"}}', "", "", [("now", {})]),
    ('{"name": "now"}', "", "", [("now", {})]),
    ('{"arguments": {"query": "x"}, "name": "search"}', "", "", [("search", {"query": "x"})]),
    ('[get_weather(city="Paris", days=2)]', "", "", [CALL]),
    ("<tool_call>" + WEATHER[:-1] + "</tool_call>", "", "", [CALL]),
    ("<tool_call>" + WEATHER + "}</tool_call> Done", "Done", "", [CALL]),
    ('<tool_call>{"name": "now", "arguments": null}</tool_call>', "", "", [("now", {})]),
    ("<tool_call>\n{" + WEATHER + "}\n</tool_call> Done", "Done", "", [CALL]),
    ("<tool_call>{" + WEATHER + "</tool_call>", "", "", [CALL]),
    ("{" + WEATHER + "}", "", "", [CALL]),
    ("```json\n{" + WEATHER + "}\n```", "", "", [CALL]),
    ("{" + UNKNOWN + "}", "{" + UNKNOWN + "}", "", []),
    ("{{ user.name }} is", "{{ user.name }} is", "", []),
    ("{{{ raw }}}", "{{{ raw }}}", "", []),
    ('<tool_call>{"name": "no', '<tool_call>{"name": "no', "", []),
]


@pytest.mark.parametrize(("answer", "text", "reasoning", "calls"), CASES)
def test_answers_are_split_into_text_reasoning_and_calls(
    read_all: ReadAll, answer: str, text: str, reasoning: str, calls: list[Any]
) -> None:
    assert read_all(hermes(), answer) == Answer(text, reasoning, calls, [None] * len(calls))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"city": "Paris", "days": 2', {"city": "Paris", "days": 2}),
        ('{"city": "Par', {"city": "Par"}),
        ('{"city": ', {"city": None}),
        ("{'city': 'Paris', 'days': None,}", {"city": "Paris", "days": None}),
        ('{"city": "a\nb", "x": True}', {"city": "a\nb", "x": True}),
        ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}),
        ('"Paris"', {"city": "Paris"}),
        ('""', {}),
        ("[1, 2]", {"city": [1, 2]}),
        ("{city: Paris, days: [1, 2}", {"city": "Paris", "days": [1, 2]}),
        ('{"city": "say "hi" to"}', {"city": 'say "hi" to'}),
        ('{"city": "</tool_call>"}', {"city": "</tool_call>"}),
        ('{"city": "\\ud83d\\ude00 \\ud800"}', {"city": "😀 \ufffd"}),
        ('{"city": "C:\\dir\\x"}', {"city": "C:\\dir\\x"}),
        ('{"city": ' + "[" * 3000, None),
        ('{"days": ' + "9" * 5000 + "}", {"days": "9" * 5000}),
    ],
)
def test_malformed_arguments_become_an_object(
    read_all: ReadAll, arguments: str, expected: dict[str, Any] | None
) -> None:
    for end in ("", "}", "}\n</tool_call>"):
        answer = f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}{end}'
        found = read_all(hermes(), answer)
        assert (found.text, [name for name, _ in found.calls]) == ("", ["get_weather"])
        assert end or expected is None or found.calls[0][1] == expected


def test_arguments_are_streamed() -> None:
    parser = hermes()()
    assert parser.push('<tool_call>\n{"name": "write_file",') == []
    start, *arguments = parser.push(' "arguments": {"pa')
    assert start == CallStart("write_file")
    assert "".join(part.text for part in arguments if isinstance(part, CallArguments)) == '{"pa'
    assert parser.push("th") == [CallArguments("th")]
    arguments = parser.push('": "line\nlin')
    assert "".join(part[0] for part in arguments if part) == '":"line\\nlin'


def test_only_a_possible_tag_is_held_back() -> None:
    parser = hermes()()
    assert parser.push("a <tool") == [AnswerText("a")]
    assert "".join(part[0] or "" for part in parser.push("s of")) == " <tools of"
    assert parser.push(" x") == [AnswerText(" x")]
    assert parser.push(" <tool_") == []
    assert "".join(part[0] or "" for part in parser.finish()) == " <tool_"


def test_parallel_calls_are_dropped_if_not_allowed(read_all: ReadAll) -> None:
    answer = f"Hm <tool_call>{WEATHER}</tool_call> <tool_call>{WEATHER}</tool_call> so"
    assert read_all(hermes(parallel=False), answer) == Answer("Hm", "", [CALL], [None])


def test_without_tools_only_reasoning_is_parsed(read_all: ReadAll) -> None:
    answer = f"<think>Hm.</think> <tool_call>{WEATHER}</tool_call> "
    found = read_all(lambda: TaggedAnswerParser(HERMES, THINK), answer)
    assert found == Answer(f"<tool_call>{WEATHER}</tool_call> ", "Hm.", [], [])
    parser = TaggedAnswerParser(HERMES, THINK)
    assert parser.push("x  ") == [AnswerText("x  ")], "nothing is held back"


def test_answer_may_begin_inside_reasoning(read_all: ReadAll) -> None:
    answer = f"Hm.\n</think>\n<tool_call>{WEATHER}</tool_call>"
    assert read_all(hermes(thinking=True), answer) == Answer("", "Hm.", [CALL], [None])
    parser = hermes(thinking=True)()
    assert parser.thinking
    assert parser.push("a </think") == [AnswerReasoning("a")]
    assert parser.thinking
    parser.push(">")
    assert not parser.thinking


def test_strict_parser_accepts_only_the_format_of_the_model(read_all: ReadAll) -> None:
    for answer in (WEATHER, f"```json\n{WEATHER}\n```"):
        assert read_all(hermes(lenient=False), answer).text == answer


PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "```json\n",
        "```",
        WEATHER,
        UNKNOWN,
        WEATHER[:40],
        '{"name": "',
        '"arguments": ',
        "now",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        ":",
        ",",
        "\\",
        "\\u",
        "\n",
        " ",
        "<",
        "d83d",
        "text",
        "é",
        "-1e5",
        "get_weather(",
        "city=",
    ]
)


@given(st.lists(PIECES, max_size=12), st.data(), st.booleans(), st.sampled_from([hermes, generic]))
def test_result_does_not_depend_on_how_the_text_is_split(
    pieces: list[str], data: st.DataObject, parallel: bool, make: Callable[..., Any]
) -> None:
    new_parser = make(parallel=parallel)
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    complete = read(new_parser(), [text])
    assert read(new_parser(), parts) == complete
    assert complete.calls or complete.reasoning or complete.text.strip() in text or not parallel


def test_tools_fixture(tools: list[Tool]) -> None:
    assert [tool.name for tool in tools] == ["get_weather", "write_file", "search", "now"]
