"""Call formats whose arguments are JSON, with or without a name before them."""

from __future__ import annotations

from .call_format import CallFormat, Opener, WrittenCalls
from .json_calls import JsonCalls
from .named_calls import NamedCalls

_JSON = JsonCalls()
_CALL = '{"name": "«name»", "arguments": «arguments»}'
_PARAMETERS = '{"name": "«name»", "parameters": «arguments»}'
_COHERE = '{"tool_call_id": "«id»", "tool_name": "«name»", "parameters": «arguments»}'

_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL_BEGIN, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_DEEPSEEK = (Opener(_CALL_BEGIN, NamedCalls(("<｜tool▁sep｜>",))), Opener(_CALLS_BEGIN))
_KIMI_BEGIN, _KIMI_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"

GENERIC = CallFormat("generic", (), WrittenCalls(_CALL, between="\n"), strays=True)
HERMES = CallFormat(
    "hermes",
    ("<tool_call>",),
    WrittenCalls(f"<tool_call>\n{_CALL}\n</tool_call>", between="\n"),
    (Opener("<tool_call>", _JSON),),
    ("</tool_call>",),
    strays=True,
)


def _array(name: str, signs: str, opened: str, closed: str = "") -> CallFormat:
    """Return a format with all calls in an array between two tags."""
    return CallFormat(
        name,
        (signs,),
        WrittenCalls(_CALL, f"{opened}[", ", ", f"]{closed}"),
        (Opener(opened, _JSON),),
        (closed,) if closed else (),
    )


JSON_FORMATS = (
    CallFormat(
        "kimi-k2",
        ("<|tool_call_argument_begin|>",),
        WrittenCalls(
            "<|tool_call_begin|>functions.«name»:«id»<|tool_call_argument_begin|>«arguments»"
            "<|tool_call_end|>",
            begin=_KIMI_BEGIN,
            end=_KIMI_END,
        ),
        (
            Opener("<|tool_call_begin|>", NamedCalls(("<|tool_call_argument_begin|>",))),
            Opener(_KIMI_BEGIN),
        ),
        ("<|tool_call_end|>", _KIMI_END),
    ),
    CallFormat(
        "deepseek-r1",
        ("<｜tool▁sep｜>' + tool['function']['name'] + '\n", "<｜tool▁sep｜>' + tool_name + '\n"),
        WrittenCalls(
            f"{_CALL_BEGIN}function<｜tool▁sep｜>«name»\n```json\n«arguments»\n```{_CALL_END}",
            begin=_CALLS_BEGIN,
            between="\n",
            end=_CALLS_END,
        ),
        _DEEPSEEK,
        (_CALL_END, _CALLS_END, "```"),
    ),
    CallFormat(
        "deepseek-v3.1",
        (_CALL_BEGIN,),
        WrittenCalls(
            f"{_CALL_BEGIN}«name»<｜tool▁sep｜>«arguments»{_CALL_END}",
            begin=_CALLS_BEGIN,
            end=_CALLS_END,
        ),
        _DEEPSEEK,
        (_CALL_END, _CALLS_END, "```"),
    ),
    CallFormat(
        "mistral",
        ("[CALL_ID]",),
        WrittenCalls("[TOOL_CALLS]«name»[CALL_ID]«id9»[ARGS]«arguments»"),
        (Opener("[TOOL_CALLS]", NamedCalls(("[ARGS]",), "[CALL_ID]")),),
    ),
    CallFormat(
        "mistral-args",
        ("[ARGS]",),
        WrittenCalls("[TOOL_CALLS]«name»[ARGS]«arguments»"),
        (Opener("[TOOL_CALLS]", NamedCalls(("[ARGS]",), "[CALL_ID]")),),
    ),
    CallFormat(
        "mistral-array",
        ("[TOOL_CALLS]",),
        WrittenCalls(
            '{"name": "«name»", "arguments": «arguments», "id": "«id9»"}',
            "[TOOL_CALLS][",
            ", ",
            "]",
        ),
        (Opener("[TOOL_CALLS]", NamedCalls(("[ARGS]",), "[CALL_ID]")),),
    ),
    CallFormat(
        "solar",
        ("<|tool_call:begin|>",),
        WrittenCalls(
            "<|tool_call:begin|>call_«id»<|tool_call:name|>«name»<|tool_call:args|>«arguments»"
            "<|tool_call:end|>",
            begin="<|tool_calls|>",
        ),
        (
            Opener(
                "<|tool_call:begin|>",
                NamedCalls(("<|tool_call:args|>",), "<|tool_call:name|>", id_first=True),
            ),
            Opener("<|tool_calls|>"),
        ),
        ("<|tool_call:end|>", "<|calls|>"),
        ("<|content|>", "<|begin|>assistant", "<|end|>"),
    ),
    CallFormat(
        "functionary-3.2",
        (">>>all\n",),
        WrittenCalls("«name»\n«arguments»", between=">>>"),
        (Opener(">>>", NamedCalls(("\n",)), known_only=True),),
        (),
        (">>>all\n",),
        prompt_prefix=">>>",
        before_text="all\n",
    ),
    CallFormat(
        "cohere-moe",
        ("<|START_TEXT|>{{ msg",),
        WrittenCalls(_COHERE, "<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>"),
        (Opener("<|START_ACTION|>", _JSON),),
        ("<|END_ACTION|>",),
        ("<|START_TEXT|>", "<|END_TEXT|>"),
        before_text="<|START_TEXT|>",
        behind_text="<|END_TEXT|>",
    ),
    CallFormat(
        "command-r7b",
        ("<|START_ACTION|>",),
        WrittenCalls(_COHERE, "<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>"),
        (Opener("<|START_ACTION|>", _JSON),),
        ("<|END_ACTION|>",),
        ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        before_text="<|START_RESPONSE|>",
        behind_text="<|END_RESPONSE|>",
    ),
    CallFormat(
        "command-r-plus",
        ("Action:\n```json\n[",),
        WrittenCalls(
            '{"tool_name": "«name»", "parameters": «arguments»}',
            "Action:\n```json\n[\n    ",
            ",\n    ",
            "\n]\n```",
        ),
        (Opener("Action:\n```json", _JSON), Opener("Action: ```json", _JSON)),
        ("```",),
    ),
    CallFormat(
        "apertus",
        ("<|tools_prefix|>",),
        WrittenCalls('{"«name»": «arguments»}', "<|tools_prefix|>[", ", ", "]<|tools_suffix|>"),
        (Opener("<|tools_prefix|>", JsonCalls(name_is_key=True)),),
        ("<|tools_suffix|>",),
    ),
    _array("nemotron", "<TOOLCALL>", "<TOOLCALL>", "</TOOLCALL>"),
    _array("apriel", "<tool_calls>[", "<tool_calls>", "</tool_calls>"),
    CallFormat(
        "minimax-m1",
        ("<tool_calls>\n",),
        WrittenCalls(_CALL, "<tool_calls>\n", "\n", "\n</tool_calls>"),
        (Opener("<tool_calls>", _JSON),),
        ("</tool_calls>",),
    ),
    _array("phi-4-mini", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>"),
    CallFormat(
        "granite-3",
        ("<|tool_call|>",),
        WrittenCalls(_CALL, "<|tool_call|>[", ", ", "]"),
        (Opener("<|tool_call|>", _JSON),),
        dropped=("<response>", "</response>"),
    ),
    CallFormat(
        "gigachat-3.1",
        ("<|function_call|>",),
        WrittenCalls(f"<|function_call|>{_CALL}"),
        (Opener("<|function_call|>", _JSON),),
        ("<|message_sep|>",),
    ),
    CallFormat(
        "gigachat-3",
        ("function call<|role_sep|>", "'role': 'function call'"),
        WrittenCalls(f"<|message_sep|>\n\nfunction call<|role_sep|>\n{_CALL}"),
        (Opener("function call<|role_sep|>", _JSON), Opener("<|message_sep|>")),
        ("<|message_sep|>",),
    ),
    _array("firefunction", "functools[", "functools"),
    CallFormat(
        "llama-3",
        ('{"name": function name, "parameters"',),
        WrittenCalls(_PARAMETERS, between="; "),
        (Opener("<|python_tag|>", _JSON),),
    ),
    HERMES,
)
