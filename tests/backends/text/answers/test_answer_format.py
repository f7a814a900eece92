"""`AnswerFormats`: the grammar and parser of an answer, by request and chat template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolChoice
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.testing.byte_tokenizer import EOS, ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler
from ingle.backends.text.tool_calls.call_sink import AnswerText, CallStart

pytestmark = pytest.mark.quick

QWEN = "{{ messages }}{{ tools }}<tool_call>"
QWEN3 = QWEN + "<think></think>"
CITY = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
TOOLS = [Tool("weather", parameters=json.dumps(CITY)), Tool("now")]
WEATHER = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
REQUIRED = ToolChoice("required")
NUMBER = Grammar(GrammarKind.REGEX, "[0-9]+")


def request(**fields: Any) -> GenerateRequest:
    values: dict[str, Any] = {"messages": [ChatMessage("user", "x")], **fields}
    return GenerateRequest(id="r", **values)


def accepts(template: str, answer: str, tail: str = "assistant\n", **fields: Any) -> bool:
    """Whether the answer satisfies the grammar of the request completely."""
    tokenizer = ByteTokenizer()
    form = AnswerFormats(tokenizer, template).of(request(**fields), tail)
    assert form.grammar is not None
    constraint = GrammarCompiler(tokenizer).compile(form.grammar)
    for token in tokenizer.encode(answer, add_special=False, parse_special=True):
        if not constraint.allows(token):
            return False
        constraint.consume(token)
    return constraint.complete or constraint.allows(EOS)


@pytest.mark.parametrize(
    ("answer", "valid"),
    [
        (WEATHER, True),
        (NOW, True),
        (f"{WEATHER}\n{NOW}", True),
        ("", False),
        ("Hello", False),
        (WEATHER.replace("Rome", "Bonn"), False),
        (WEATHER.replace("weather", "leather"), False),
        (f"Well, {NOW}", False),
    ],
)
def test_required_tool_call_is_enforced(answer: str, valid: bool) -> None:
    assert accepts(QWEN, answer, tools=TOOLS, tool_choice=REQUIRED) is valid


def test_single_call_and_named_tools_are_enforced() -> None:
    single_call: dict[str, Any] = {
        "tools": TOOLS,
        "tool_choice": REQUIRED,
        "parallel_tool_calls": False,
    }
    assert accepts(QWEN, NOW, **single_call)
    assert not accepts(QWEN, f"{NOW}\n{NOW}", **single_call)
    named: dict[str, Any] = {"tools": TOOLS, "tool_choice": ToolChoice("required", ["weather"])}
    assert accepts(QWEN, WEATHER, **named)
    assert not accepts(QWEN, NOW, **named)
    assert not accepts(QWEN, f"{WEATHER}\n{WEATHER}", **named)
    both: dict[str, Any] = {
        "tools": TOOLS,
        "tool_choice": ToolChoice("required", ["weather", "now"]),
    }
    assert accepts(QWEN, f"{WEATHER}\n{NOW}", **both)


def test_only_the_first_call_of_a_named_tool_is_kept() -> None:
    named = request(tools=TOOLS, tool_choice=ToolChoice("required", ["weather"]))
    parser = AnswerFormats(ByteTokenizer(), QWEN).of(named, "assistant\n").new_parser
    assert parser is not None
    reading = parser()
    begun, rest = WEATHER[:-20], WEATHER[-20:]
    parts = reading.push(begun)
    assert not reading.is_complete
    parts += [*reading.push(f"{rest}\n"), *reading.push(WEATHER), *reading.finish()]
    assert reading.is_complete  # so that the answer ends here
    assert len([part for part in parts if isinstance(part, CallStart)]) == 1


BARE = '{"name": "weather", "arguments": {"city": "Rome"}}'


@pytest.mark.parametrize("template", [QWEN, "no tools"])
@pytest.mark.parametrize(
    ("answer", "valid"),
    [
        ("Hello", True),
        ("", True),
        ('  {"name": "Ada", "age": 3}', True),
        ("```python\nx = {}\n```", True),
        (BARE, True),
        (
            '```json\n{\n  "name": "weather",\n  "arguments": {\n    "city": "Rome"\n  }\n}\n```',
            True,
        ),
        (f"<tool_call>\n{BARE}\n</tool_call>", True),
        (f"{BARE}\n{BARE}", True),
        (f"<tool_call>\n{BARE}\n</tool_call>\n" * 2, True),
        (f"```json\n{BARE}\n```\n", True),
        (f"{BARE}\nSo.", False),
        (f"Text first. {BARE.replace('Rome', 'Bonn')}", True),
        (BARE.replace("Rome", "Bonn"), False),
        (BARE.replace("arguments", "description"), False),
        (BARE.replace("city", "town"), False),
        ('{"name": "now"}', False),
        ('{"name": "now", "parameters": {}}', True),
    ],
)
def test_text_that_begins_as_a_call_must_match_its_schema(
    template: str, answer: str, valid: bool
) -> None:
    assert accepts(template, answer, tools=TOOLS) is valid
    without: list[dict[str, Any]] = [{}, {"tools": TOOLS, "tool_choice": ToolChoice("none")}]
    for fields in without:
        forms = AnswerFormats(ByteTokenizer(), template)
        assert forms.of(request(**fields), "").grammar is None


def test_reliable_formats_get_no_grammar() -> None:
    for template in (QWEN3, "[TOOL_CALLS]"):
        forms = AnswerFormats(ByteTokenizer(), template)
        assert forms.of(request(tools=TOOLS), "").grammar is None


def test_auto_choice_of_some_tools_does_not_force_a_call() -> None:
    forms = AnswerFormats(ByteTokenizer(), QWEN)
    form = forms.of(request(tools=TOOLS, tool_choice=ToolChoice("auto", ["now"])), "")
    assert accepts(QWEN, "Hello", tools=TOOLS, tool_choice=ToolChoice("auto", ["now"]))
    assert form.new_parser is not None
    for answer, called in ((NOW, ["now"]), (WEATHER, [])):
        parser = form.new_parser()
        parts = [*parser.push(answer), *parser.finish()]
        assert [part.name for part in parts if isinstance(part, CallStart)] == called
        assert (
            called or "".join(part.text for part in parts if isinstance(part, AnswerText)) == answer
        )


def test_grammar_applies_to_the_final_channel() -> None:
    final = "<|channel|>final<|message|>42"
    off = Reasoning(enabled=False)
    assert accepts("<|channel|>", final, grammar=NUMBER, reasoning=off)
    cohere = "START_THINKING<|START_ACTION|>"
    reasoning_block = "<|START_THINKING|>Hm<|END_THINKING|>"
    response = "<|START_RESPONSE|>42<|END_RESPONSE|>"
    assert accepts(cohere, reasoning_block + response, grammar=NUMBER)
    assert accepts(cohere, response, grammar=NUMBER, reasoning=off)
    assert not accepts(cohere, reasoning_block + "42", grammar=NUMBER)


def test_reasoning_precedes_a_forced_call() -> None:
    fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": REQUIRED}
    assert accepts(QWEN3, f"<think>\nHm.\n</think>\n\n{NOW}", **fields)
    assert accepts(QWEN3, NOW, **fields)
    assert accepts(QWEN3, f"Hm.\n</think>\n\n{NOW}", tail="assistant\n<think>\n", **fields)
    assert not accepts(QWEN3, NOW, tail="assistant\n<think>\n", **fields)
    assert not accepts(QWEN3, f"<think>Hm.</think>{NOW}", tail="<think>\n</think>\n", **fields)
    off: dict[str, Any] = {**fields, "reasoning": Reasoning(enabled=False)}
    assert not accepts(QWEN3, f"<think>Hm.</think>{NOW}", **off)


@pytest.mark.parametrize(
    "grammar",
    [
        NUMBER,
        Grammar(GrammarKind.JSON_SCHEMA, '{"type":"integer"}'),
        Grammar(GrammarKind.LARK, "start: digit+\ndigit: /[0-9]/"),
        Grammar(GrammarKind.GBNF, "root ::= [0-9]+"),
    ],
)
def test_grammar_allows_tool_calls_and_follows_reasoning(grammar: Grammar) -> None:
    for answer, valid in (("42", True), (NOW, True), ("x", False), (f"42{NOW}", False)):
        assert accepts(QWEN, answer, tools=TOOLS, grammar=grammar) is valid
    for answer, valid in (("42", True), ("<think>x</think>42", True), ("<think>x</think>x", False)):
        assert accepts(QWEN3, answer, grammar=grammar) is valid
    assert not accepts(QWEN3, "42", tail="<think>", grammar=grammar)
    assert not accepts(QWEN, "42", tools=TOOLS, tool_choice=REQUIRED, grammar=grammar)


def test_raw_requests_keep_their_grammar_unchanged() -> None:
    forms = AnswerFormats(ByteTokenizer(), QWEN)
    cases: list[dict[str, Any]] = [
        {"raw": True, "tools": TOOLS},
        {"messages": None, "prompt": "x", "tools": TOOLS},
        {"tools": TOOLS, "tool_choice": ToolChoice("none")},
        {},
    ]
    for fields in cases:
        form = forms.of(request(grammar=NUMBER, **fields), "")
        assert (form.grammar, form.new_parser) == (NUMBER, None)


def test_unsupported_schema_allows_any_object_unless_strict() -> None:
    remote = '{"type":"object","properties":{"a":{"$ref":"https://x.invalid/y"}}}'
    fields: dict[str, Any] = {"tools": [Tool("f", parameters=remote)], "tool_choice": REQUIRED}
    answer = '<tool_call>\n{"name": "f", "arguments": {"b": 1}}\n</tool_call>'
    assert accepts(QWEN, answer, **fields)
    strict = [Tool("f", parameters=remote, strict=True)]
    with pytest.raises(RequestRejected, match="'f' cannot be enforced strictly") as caught:
        accepts(QWEN, answer, tools=strict, tool_choice=REQUIRED)
    assert caught.value.param == "tools"


def test_tool_choice_of_an_unknown_tool_is_rejected() -> None:
    with pytest.raises(RequestRejected, match="'fly'"):
        accepts(QWEN, NOW, tools=TOOLS, tool_choice=ToolChoice("required", ["fly"]))


def test_invalid_grammar_names_its_parameter() -> None:
    with pytest.raises(RequestRejected) as caught:
        accepts(QWEN3, "x", grammar=Grammar(GrammarKind.REGEX, "(", param="response_format"))
    assert caught.value.param == "response_format"
