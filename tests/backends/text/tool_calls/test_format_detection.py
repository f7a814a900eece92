"""Answers of each model family are parsed by the format detected from the template."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.conversation import ChatMessage, Tool
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.answers.answer_parser import AnswerParser
from ingle.backends.text.answers.harmony_parser import HarmonyParser
from ingle.backends.text.answers.tagged_answer_parser import TaggedAnswerParser
from ingle.backends.text.templates.reasoning_tags import THINK
from ingle.backends.text.tool_calls.call_format import CallFormat
from ingle.backends.text.tool_calls.format_detection import FORMATS
from ingle.backends.text.tool_calls.format_detection import HARMONY as HARMONY_FORMAT

from .conftest import TOOLS, Answer, ReadAll
from .conftest import read as read_pieces

CALL = ("get_weather", {"city": "Paris", "days": 2})
SEARCH = ("search", {"query": "17", "tags": ["a", 1], "deep": False})
JSON = '{"city": "Paris", "days": 2}'
NAMED = f'{{"name": "get_weather", "arguments": {JSON}}}'
USER = ChatMessage("user", "x")

# A marker of the format in the template, the end of the prompt, an answer, and the expected parts.
ANSWERS: list[tuple[str, str, str, Answer]] = [
    ("[CALL_ID]", "", f"Hi[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]{JSON}",
     Answer("Hi", "", [CALL], ["abc123def"])),
    ("[ARGS]", "", f"[TOOL_CALLS]get_weather[ARGS]{JSON}[TOOL_CALLS]now[ARGS]{{}}",
     Answer("", "", [CALL, ("now", {})], [None] * 2)),
    ("[ARGS]", "", f"[TOOL_CALLS]get_weather{JSON}", Answer("", "", [CALL], [None])),
    ("[THINK][/THINK][ARGS]", "", f"[THINK]Hm.[/THINK]So[TOOL_CALLS]get_weather[ARGS]{JSON}",
     Answer("So", "Hm.", [CALL], [None])),
    ("[TOOL_CALLS]", "", f"[TOOL_CALLS] [{NAMED}, {NAMED}]",
     Answer("", "", [CALL] * 2, [None] * 2)),
    ("<|python_tag|>{\"name\": function name, \"parameters\"", "",
     f'<|python_tag|>{{"type": "function", "name": "get_weather", "parameters": {JSON}}}',
     Answer("", "", [CALL], [None])),
    ('{"name": function name, "parameters"', "",
     f'{{"name": "get_weather", "parameters": {JSON}}}; {{"name": "now", "parameters": {{}}}}',
     Answer("", "", [CALL, ("now", {})], [None] * 2)),
    ('{"name": function name, "parameters"', "",
     '<|python_tag|>search.call(query="17", tags=["a", 1], deep=False)',
     Answer("", "", [SEARCH], [None])),
    ("[func_name1(", "", "[search(query='17', tags=('a', 1), deep=False), now()]",
     Answer("", "", [SEARCH, ("now", {})], [None] * 2)),
    ("[func_name1(", "", 'get_weather("Paris", days=2)', Answer("", "", [CALL], [None])),
    ("[func_name1(", "", "[fly(to='Rome')] I said", Answer("[fly(to='Rome')] I said", "", [], [])),
    ("<start_of_turn>", "", '```tool_code\nprint(get_weather(city="Paris", days=2))\n```',
     Answer("", "", [CALL], [None])),
    ("<|tool_call_start|><think>", "",
     "<think>Hm</think>On it.<|tool_call_start|>[get_weather(city='Paris', days=2)]"
     "<|tool_call_end|>", Answer("On it.", "Hm", [CALL], [None])),
    ("<|tool_list_start|>", "", "<|tool_call_start|>[search(query='''a\n'b' \"c\"''')]"
     "<|tool_call_end|>", Answer("", "", [("search", {"query": "a\n'b' \"c\""})], [None])),
    ("<function=<parameter=", "",
     "<tool_call>\n<function=search>\n<parameter=query>\n17\n</parameter>\n<parameter=tags>\n"
     "['a', 1]\n</parameter>\n<parameter=deep>\nFalse\n</parameter>\n</function>\n</tool_call>",
     Answer("", "", [SEARCH], [None])),
    ("<function=<parameter=", "",
     "Well.\n<function=write_file>\n<parameter=content>\na < b\n\n</parameter>\n<parameter=path>"
     "x</parameter></function>",
     Answer("Well.", "", [("write_file", {"content": "a < b\n", "path": "x"})], [None])),
    ("<function=<parameter=", "", "<tool_call>\n<function=now>\n</function>\n</tool_call>",
     Answer("", "", [("now", {})], [None])),
    ("<function=<parameter=", "", "<tool_call>\n<function=write_file>\n<parameter=path>\na/b",
     Answer("", "", [("write_file", {"path": "a/b"})], [None])),
    ("<function=", "", f"<function=get_weather>{JSON}</function><function=now>{{}}</function>",
     Answer("", "", [CALL, ("now", {})], [None] * 2)),
    (">>>all\\n", "assistant\n>>>", f"all\nHi>>>get_weather\n{JSON}",
     Answer("Hi", "", [CALL], [None])),
    (">>>all\\n", "assistant\n>>>", f"get_weather\n{JSON}", Answer("", "", [CALL], [None])),
    ("<think>｜DSML｜", "<think>",
     'Hm</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="search">\n'
     '<｜DSML｜parameter name="query" string="true">17</｜DSML｜parameter>\n'
     '<｜DSML｜parameter name="tags" string="false">["a", 1]</｜DSML｜parameter>\n'
     '<｜DSML｜parameter name="deep" string="false">false</｜DSML｜parameter>\n'
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>", Answer("", "Hm", [SEARCH], [None])),
    ("<｜tool▁call▁begin｜>", "",
     f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{JSON}\n"
     f"```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>now<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>", Answer("", "", [CALL, ("now", {})], [None] * 2)),
    ("<|tool_call_argument_begin|>", "",
     "Hi<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     f"<|tool_call_argument_begin|>{JSON}<|tool_call_end|><|tool_calls_section_end|>",
     Answer("Hi", "", [CALL], ["functions.get_weather:0"])),
    ("<|START_ACTION|>START_THINKING", "",
     '<|START_THINKING|>Hm<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", '
     f'"tool_name": "get_weather", "parameters": {JSON}}}\n]<|END_ACTION|>',
     Answer("", "Hm", [CALL], [None])),
    ("<|START_ACTION|>START_THINKING", "",
     "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>",
     Answer("Hello", "Hm", [], [])),
    ("<think><arg_key>", "<think>",
     "Hm</think><tool_call>search<arg_key>query</arg_key><arg_value>17</arg_value><arg_key>tags"
     '</arg_key><arg_value>["a", 1]</arg_value><arg_key>deep</arg_key><arg_value>false</arg_value>'
     "</tool_call>", Answer("", "Hm", [SEARCH], [None])),
    ("<arg_key>", "", "<tool_call>now</tool_call>", Answer("", "", [("now", {})], [None])),
    ("<minimax:tool_call>", "",
     '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
     '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n'
     "</minimax:tool_call>", Answer("", "", [CALL, ("now", {})], [None] * 2)),
    ("<|tool_call><|channel>thought", "",
     "<|channel>thought\nHm\n<channel|><|tool_call>call:search{query:<|\"|>17<|\"|>,tags:["
     "<|\"|>a<|\"|>,1],deep:false}<tool_call|>", Answer("", "Hm", [SEARCH], [None])),
    ("<|tool_call><|channel>thought", "", "<|channel>thought<channel|>Hi",
     Answer("Hi", "", [], [])),
    ("<|tools_prefix|>", "", f'Hi<|tools_prefix|>[{{"get_weather": {JSON}}}]<|tools_suffix|>',
     Answer("Hi", "", [CALL], [None])),
    ("<|tool_call|>", "", f"<|tool_call|>[{NAMED}]", Answer("", "", [CALL], [None])),
    ("<|tool_call|><think>", "", "<think>Hm</think>\n<response>Hello</response>",
     Answer("Hello", "Hm", [], [])),
    ("<|/tool|>", "", f"<|tool_call|>[{NAMED}]<|/tool_call|>", Answer("", "", [CALL], [None])),
    ("<TOOLCALL>", "", f"<TOOLCALL>[{NAMED}]</TOOLCALL>\n", Answer("", "", [CALL], [None])),
    ("functools[", "", f" functools[{NAMED}]", Answer("", "", [CALL], [None])),
    ("<|function_call|>", "", f"Hi<|function_call|>{NAMED}", Answer("Hi", "", [CALL], [None])),
    ("Action:\\n```json\\n[", "",
     f'Action:\n```json\n[{{"tool_name": "get_weather", "parameters": {JSON}}}]\n```',
     Answer("", "", [CALL], [None])),
    ('<function name="', "",
     '<function name="write_file"><param name="path">x</param><param name="content"><![CDATA[<a> '
     "</param>]]></param></function>",
     Answer("", "", [("write_file", {"path": "x", "content": "<a> </param>"})], [None])),
    ("<tool_call:begin|><|tool_call:begin|>assistant<|think|>", "",
     "<|think|>Hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>"
     f"get_weather<|tool_call:args|>{JSON}<|tool_call:end|>", Answer("", "Hm", [CALL], ["c1"])),
    ("<atem:function_calls>to=self<|message|>", "<|start|>assistant",
     " to=self<|message|>Hm<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>"
     '\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n'
     '<atem:parameter name="days">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
     Answer("", "Hm", [CALL], [None])),
    ("<|open|>open_tag('think')", "<|open|>think<|sep|>",
     "Hm<|close|>think<|sep|><|open|>response<|sep|>On it.<|close|>response<|sep|><|open|>tools"
     '<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" '
     'type="string"<|sep|>Paris<|close|>argument<|sep|><|open|>argument key="days" type="number"'
     "<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message"
     "<|sep|>", Answer("On it.", "Hm", [CALL], [None])),
]  # fmt: skip


def read(read_all: ReadAll, template: str, tail: str, answer: str, **fields: Any) -> Answer:
    tools: list[Tool] = fields.pop("tools", TOOLS)
    request = GenerateRequest(id="r", messages=[USER], tools=tools, **fields)
    form = AnswerFormats(ByteTokenizer(), template).of(request, tail)
    assert form.new_parser is not None
    return read_all(form.new_parser, answer)


@pytest.mark.parametrize(("template", "tail", "answer", "expected"), ANSWERS)
def test_answers_of_each_model_family(
    read_all: ReadAll, template: str, tail: str, answer: str, expected: Answer
) -> None:
    assert read(read_all, template, tail, answer) == expected
    if expected.calls and answer.endswith((">", "]", "}", "```")):
        assert read(read_all, template, tail, answer + "\n") == expected


HARMONY = "<|channel|>analysis"
START = "<|start|>assistant"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("<|channel|>final<|message|>Hello", Answer("Hello", "", [], [])),
        ("<|channel|>commentary<|message|>Hello", Answer("Hello", "", [], [])),
        (f"<|channel|>analysis<|message|>Hm<|end|>{START}<|channel|>final<|message|>Hello",
         Answer("Hello", "Hm", [], [])),
        (f" to=functions.get_weather<|channel|>analysis<|message|>{JSON}",
         Answer("", "", [CALL], [None])),
        (f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON}"
         "<|call|>", Answer("", "", [CALL], [None])),
        (f"<|channel|>analysis<|message|>Hm<|end|>{START}<|channel|>commentary to=functions.now"
         " <|constrain|>json<|message|>{", Answer("", "Hm", [("now", {})], [None])),
        ("<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm",
         Answer("", "Hm", [], [])),
        ("Hello", Answer("Hello", "", [], [])),
        ("assistants help", Answer("assistants help", "", [], [])),
    ],
)  # fmt: skip
def test_harmony_channels(read_all: ReadAll, answer: str, expected: Answer) -> None:
    assert read(read_all, HARMONY, f"x{START}", answer) == expected


def test_continued_answer_stays_in_its_channel(read_all: ReadAll) -> None:
    tail = f"{START}<|channel|>analysis<|message|>I thi"
    answer = f"nk.<|end|>{START}<|channel|>final<|message|>So"
    assert read(read_all, HARMONY, tail, answer) == Answer("So", "nk.", [], [])
    found = read(read_all, HARMONY, START, f"to=functions.now<|message|>{JSON}", tools=[])
    assert found == Answer(JSON, "", [], [])


def test_format_names_are_unique() -> None:
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len(names)


WORDS = [
    JSON,
    NAMED,
    "get_weather",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    "\\",
    "\n",
    " ",
    "x",
    "=",
]


@given(st.sampled_from(FORMATS), st.data(), st.booleans())
def test_result_does_not_depend_on_how_the_text_is_split(
    call_format: CallFormat, data: st.DataObject, parallel: bool
) -> None:
    tags = [tag for tag in (*call_format.tags, "<think>", "</think>", *call_format.signs) if tag]
    text = "".join(data.draw(st.lists(st.sampled_from([*tags, *WORDS]), max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    def new_parser() -> AnswerParser:
        if call_format is HARMONY_FORMAT:
            return HarmonyParser(TOOLS, parallel=parallel)
        return TaggedAnswerParser(call_format, THINK, TOOLS, parallel=parallel)

    assert read_pieces(new_parser(), pieces) == read_pieces(new_parser(), [text])


@pytest.mark.slow
def test_parsing_time_is_linear() -> None:
    """Steps are counted as executed lines, not measured as time."""
    for call_format in FORMATS:
        for piece in (
            "<",
            call_format.openers[0].tag if call_format.openers else "x",
            '{"',
            "[",
            "a ",
            "\n",
        ):
            short, long = (
                count_lines(call_format, piece * trace_line) for trace_line in (200, 800)
            )
            assert long < 6 * short + 2000, (call_format.name, piece)


def count_lines(call_format: CallFormat, text: str) -> int:
    """The number of lines executed while parsing an answer in pieces of seven characters."""
    parser = TaggedAnswerParser(call_format, THINK, TOOLS)
    lines = 0

    def trace_line(_frame: object, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace_line

    sys.settrace(trace_line)
    try:
        read_pieces(parser, [text[start : start + 7] for start in range(0, len(text), 7)])
    finally:
        sys.settrace(None)
    return lines
