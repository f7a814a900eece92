"""Call formats whose arguments are JSON, with or without a name before them."""

from __future__ import annotations

from dataclasses import replace

from .call_format import Body, CallFormat, Opener
from .json_calls import JsonCalls
from .named_calls import NamedCalls

_JSON = JsonCalls()
_CALL = '{"name": "«name»", "arguments": «arguments»}'
_COHERE = '{"tool_call_id": "«id»", "tool_name": "«name»", "parameters": «arguments»}'

_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL_BEGIN, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_KIMI_BEGIN, _KIMI_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"

GENERIC = CallFormat("generic", (), _CALL, around=("", "\n", ""), strays=True)
HERMES = CallFormat(
    "hermes",
    ("<tool_call>",),
    f"<tool_call>\n{_CALL}\n</tool_call>",
    (Opener("<tool_call>", _JSON),),
    ("</tool_call>",),
    around=("", "\n", ""),
    strays=True,
)


def _array(
    name: str, sign: str, opened: str, closed: str = "", *, call: str = _CALL, body: Body = _JSON
) -> CallFormat:
    """Return a format with all calls in an array between two tags."""
    return CallFormat(
        name,
        (sign,),
        call,
        (Opener(opened, body),),
        (closed,) if closed else (),
        around=(f"{opened}[", ", ", f"]{closed}"),
    )


def _cohere(name: str, sign: str, text: str) -> CallFormat:
    """Return a format of Cohere, in which tags around `text` enclose the text for the user."""
    before, behind = f"<|START_{text}|>", f"<|END_{text}|>"
    return CallFormat(
        name,
        (sign,),
        _COHERE,
        (Opener("<|START_ACTION|>", _JSON),),
        ("<|END_ACTION|>",),
        (before, behind),
        around=("<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>"),
        before_text=before,
        behind_text=behind,
    )


def _deepseek(name: str, signs: tuple[str, ...], call: str, between: str = "") -> CallFormat:
    return CallFormat(
        name,
        signs,
        f"{_CALL_BEGIN}{call}{_CALL_END}",
        (Opener(_CALL_BEGIN, NamedCalls(("<｜tool▁sep｜>",))), Opener(_CALLS_BEGIN)),
        (_CALL_END, _CALLS_END, "```"),
        around=(_CALLS_BEGIN, between, _CALLS_END),
    )


def _mistral(
    name: str, sign: str, call: str, around: tuple[str, str, str] = ("", "", "")
) -> CallFormat:
    opener = Opener("[TOOL_CALLS]", NamedCalls(("[ARGS]",), "[CALL_ID]"))
    return CallFormat(name, (sign,), call, (opener,), around=around)


JSON_FORMATS = (
    CallFormat(
        "kimi-k2",
        ("<|tool_call_argument_begin|>",),
        "<|tool_call_begin|>functions.«name»:«id»<|tool_call_argument_begin|>«arguments»"
        "<|tool_call_end|>",
        (
            Opener("<|tool_call_begin|>", NamedCalls(("<|tool_call_argument_begin|>",))),
            Opener(_KIMI_BEGIN),
        ),
        ("<|tool_call_end|>", _KIMI_END),
        around=(_KIMI_BEGIN, "", _KIMI_END),
    ),
    _deepseek(
        "deepseek-r1",
        ("<｜tool▁sep｜>' + tool['function']['name'] + '\n", "<｜tool▁sep｜>' + tool_name + '\n"),
        "function<｜tool▁sep｜>«name»\n```json\n«arguments»\n```",
        "\n",
    ),
    _deepseek("deepseek-v3.1", (_CALL_BEGIN,), "«name»<｜tool▁sep｜>«arguments»"),
    _mistral("mistral", "[CALL_ID]", "[TOOL_CALLS]«name»[CALL_ID]«id9»[ARGS]«arguments»"),
    _mistral("mistral-args", "[ARGS]", "[TOOL_CALLS]«name»[ARGS]«arguments»"),
    _mistral(
        "mistral-array",
        "[TOOL_CALLS]",
        '{"name": "«name»", "arguments": «arguments», "id": "«id9»"}',
        ("[TOOL_CALLS][", ", ", "]"),
    ),
    CallFormat(
        "solar",
        ("<|tool_call:begin|>",),
        "<|tool_call:begin|>call_«id»<|tool_call:name|>«name»<|tool_call:args|>«arguments»"
        "<|tool_call:end|>",
        (
            Opener(
                "<|tool_call:begin|>",
                NamedCalls(("<|tool_call:args|>",), "<|tool_call:name|>", id_first=True),
            ),
            Opener("<|tool_calls|>"),
        ),
        ("<|tool_call:end|>", "<|calls|>"),
        ("<|content|>", "<|begin|>assistant", "<|end|>"),
        around=("<|tool_calls|>", "", ""),
    ),
    CallFormat(
        "functionary-3.2",
        (">>>all\n",),
        "«name»\n«arguments»",
        (Opener(">>>", NamedCalls(("\n",)), known_only=True),),
        (),
        (">>>all\n",),
        around=("", ">>>", ""),
        prompt_prefix=">>>",
        before_text="all\n",
    ),
    _cohere("cohere-moe", "<|START_TEXT|>{{ msg", "TEXT"),
    _cohere("command-r7b", "<|START_ACTION|>", "RESPONSE"),
    CallFormat(
        "command-r-plus",
        ("Action:\n```json\n[",),
        '{"tool_name": "«name»", "parameters": «arguments»}',
        (Opener("Action:\n```json", _JSON), Opener("Action: ```json", _JSON)),
        ("```",),
        around=("Action:\n```json\n[\n    ", ",\n    ", "\n]\n```"),
    ),
    _array(
        "apertus",
        "<|tools_prefix|>",
        "<|tools_prefix|>",
        "<|tools_suffix|>",
        call='{"«name»": «arguments»}',
        body=JsonCalls(name_is_key=True),
    ),
    _array("nemotron", "<TOOLCALL>", "<TOOLCALL>", "</TOOLCALL>"),
    _array("apriel", "<tool_calls>[", "<tool_calls>", "</tool_calls>"),
    CallFormat(
        "minimax-m1",
        ("<tool_calls>\n",),
        _CALL,
        (Opener("<tool_calls>", _JSON),),
        ("</tool_calls>",),
        around=("<tool_calls>\n", "\n", "\n</tool_calls>"),
    ),
    replace(
        _array("phi-4-mini", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>"),
        openers=(Opener("<|tool_call|>", _JSON), Opener("functools", _JSON)),
    ),
    replace(
        _array("granite-3", "<|tool_call|>", "<|tool_call|>", "</tool_call>"),
        openers=(Opener("<|tool_call|>", _JSON), Opener("<tool_call>", _JSON)),
        around=("<|tool_call|>[", ", ", "]"),
        dropped=("<response>", "</response>"),
    ),
    CallFormat(
        "gigachat-3.1",
        ("<|function_call|>",),
        f"<|function_call|>{_CALL}",
        (Opener("<|function_call|>", _JSON),),
        ("<|message_sep|>",),
    ),
    CallFormat(
        "gigachat-3",
        ("function call<|role_sep|>", "'role': 'function call'"),
        f"<|message_sep|>\n\nfunction call<|role_sep|>\n{_CALL}",
        (Opener("function call<|role_sep|>", _JSON), Opener("<|message_sep|>")),
        ("<|message_sep|>",),
    ),
    _array("firefunction", "functools[", "functools"),
    CallFormat(
        "llama-3",
        ('{"name": function name, "parameters"',),
        '{"name": "«name»", "parameters": «arguments»}',
        (Opener("<|python_tag|>", _JSON),),
        around=("", "; ", ""),
    ),
    HERMES,
)
