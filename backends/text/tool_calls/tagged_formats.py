"""Call formats with a tag or a sign for each argument."""

from __future__ import annotations

from dataclasses import replace

from .call_format import CallFormat, Opener
from .json_calls import JsonCalls
from .named_calls import GemmaCalls
from .tagged_calls import TaggedCalls

_PYTHON = "«name»(«arguments»)"
_BARE_PYTHON = ("«name»(", "print(«name»(")
_FUNCTION_TAGS = TaggedCalls((">",), "<parameter=", ">", "</parameter>", "</function>")


def _function_tags(name: str, signs: tuple[str, ...], section: str, *, lines: bool) -> CallFormat:
    """Return a format of `<function=f>` with `<parameter=p>`, one section per call."""
    line = "\n" if lines else ""
    return CallFormat(
        name,
        signs,
        f"<{section}>\n<function=«name»>\n«arguments»</function>\n</{section}>",
        (
            Opener("<function=", replace(_FUNCTION_TAGS, on_lines=lines)),
            Opener(f"<{section}>"),
        ),
        ("</function>", f"</{section}>"),
        around=("", "\n", ""),
        member=f"<parameter=«key»>{line}«value»{line}</parameter>\n",
        values="text",
    )


def _invoke_tags(
    name: str, signs: str, prefix: str, section: str, attribute: str = ""
) -> CallFormat:
    """Return a format of `<invoke name="f">` with `<parameter name="p">`, one section for all
    calls.
    """
    member = f'<{prefix}parameter name="'
    return CallFormat(
        name,
        (signs,),
        f'<{prefix}invoke name="«name»">\n«arguments»</{prefix}invoke>',
        (
            Opener(
                f'<{prefix}invoke name="',
                TaggedCalls((">",), member, ">", f"</{prefix}parameter>", f"</{prefix}invoke>"),
            ),
            Opener(f"<{section}>"),
        ),
        (f"</{prefix}invoke>", f"</{section}>"),
        around=(f"<{section}>\n", "\n", f"\n</{section}>"),
        member=f'{member}«key»"{attribute}>«value»</{prefix}parameter>\n',
        values="text",
    )


def _key_tags(name: str, signs: tuple[str, ...], suffix: str = "", line: str = "") -> CallFormat:
    """Return a format with pairs of `<arg_key>` and `<arg_value>`."""
    key, value = f"arg_key{suffix}", f"arg_value{suffix}"
    call, mark = f"tool_call{suffix}", f"<tool_sep{suffix}>" if suffix else ""
    tags = TaggedCalls(
        (mark or "\n", f"<{key}>"),
        f"<{key}>",
        f"</{key}>",
        f"</{value}>",
        f"</{call}>",
        value_open=f"<{value}>",
    )
    section = (f"<tool_calls{suffix}>\n", f"\n</tool_calls{suffix}>") if suffix else ("", "")
    wrappers = (Opener(section[0].strip()),) if suffix else ()
    return CallFormat(
        name,
        signs,
        f"<{call}>«name»{mark}{line}«arguments»</{call}>",
        (Opener(f"<{call}>", tags), *wrappers),
        (f"</{call}>", *((section[1].strip(),) if suffix else ())),
        around=(section[0], line, section[1]),
        member=f"<{key}>«key»</{key}>{line}<{value}>«value»</{value}>{line}",
        values="text",
    )


def _gemma(name: str, opened: str, closed: str, result: str, quote: str) -> CallFormat:
    """Return a format of Google, in which `result` begins the result that the model waits for."""
    return CallFormat(
        name,
        (opened,),
        f"{opened}call:«name»{{«arguments»}}{closed}",
        (Opener(opened, GemmaCalls(quote)),),
        (closed, result),
        ("<|channel>", "<channel|>"),
        member="«key»:«value»",
        separator=",",
        quotes=(quote, quote),
        bare=("call:«name»{",),
    )


_SPACE = "]<]minimax[>["

TAGGED_FORMATS = (
    _gemma("gemma-4", "<|tool_call>", "<tool_call|>", "<|tool_response>", '<|"|>'),
    _gemma(
        "functiongemma",
        "<start_function_call>",
        "<end_function_call>",
        "<start_function_response>",
        "<escape>",
    ),
    CallFormat(
        "kimi-k3",
        ("<|open|>",),
        '<|open|>call tool="«name»" index="«id»"<|sep|>«arguments»<|close|>call<|sep|>',
        (
            Opener(
                '<|open|>call tool="',
                TaggedCalls(
                    ("<|sep|>",),
                    '<|open|>argument key="',
                    "<|sep|>",
                    "<|close|>argument<|sep|>",
                    "<|close|>call<|sep|>",
                ),
            ),
            Opener("<|open|>tools<|sep|>"),
        ),
        ("<|close|>call<|sep|>", "<|close|>tools<|sep|>", "<|close|>message<|sep|>"),
        ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
        before_text="<|open|>response<|sep|>",
        behind_text="<|close|>response<|sep|>",
        around=("<|open|>tools<|sep|>", "", "<|close|>tools<|sep|>"),
        member='<|open|>argument key="«key»"<|sep|>«value»<|close|>argument<|sep|>',
        values="text",
    ),
    _invoke_tags(
        "deepseek-v4",
        "+ dsml_token + 'tool_calls>",
        "｜DSML｜",
        "｜DSML｜tool_calls",
        ' string="«text»"',
    ),
    _invoke_tags(
        "deepseek-v3.2", "｜DSML｜", "｜DSML｜", "｜DSML｜function_calls", ' string="«text»"'
    ),
    CallFormat(
        "minimax-m3",
        (_SPACE,),
        f'{_SPACE}<invoke name="«name»">«arguments»{_SPACE}</invoke>\n',
        (
            Opener(
                f'{_SPACE}<invoke name="',
                TaggedCalls(
                    (">",),
                    f"{_SPACE}<",
                    ">",
                    f"{_SPACE}</«key»>",
                    f"{_SPACE}</invoke>",
                    nests=_SPACE,
                ),
            ),
            Opener(f"{_SPACE}<tool_call>"),
        ),
        (f"{_SPACE}</invoke>", f"{_SPACE}</tool_call>"),
        around=(f"{_SPACE}<tool_call>\n", "", f"{_SPACE}</tool_call>"),
        member=f"{_SPACE}<«key»>«value»{_SPACE}</«key»>",
        values="text",
    ),
    replace(
        _invoke_tags("muse", "<atem:function_calls>", "atem:", "atem:function_calls"),
        dropped=(
            "to=user<|message|>",
            " to=user<|message|>",
            "to=«name»<|message|>",
            " to=«name»<|message|>",
            "<|start|>assistant",
            "<|eom|>",
        ),
        before_text=" to=user<|message|>",
    ),
    _invoke_tags("minimax-m2", "<minimax:tool_call>", "", "minimax:tool_call"),
    _function_tags("seed", ("<seed:tool_call>",), "seed:tool_call", lines=False),
    _key_tags("hunyuan-3", ("set toolsep_token",), ":opensource", "\n"),
    _key_tags("glm-lines", ("</arg_key>\n",), line="\n"),
    _key_tags("glm", ("<arg_key>",)),
    _function_tags("qwen-tags", ("<parameter=",), "tool_call", lines=True),
    CallFormat(
        "functionary-3.1",
        ("<function=",),
        "<function=«name»>«arguments»</function>",
        (Opener("<function=", _FUNCTION_TAGS), Opener("<|python_tag|>", JsonCalls())),
        ("</function>",),
    ),
    CallFormat(
        "minicpm-5",
        ('<function name="', "<function name="),
        '<function name="«name»">«arguments»</function>',
        # Some conversions of the vocabulary lose the blank within a tag.
        tuple(
            Opener(
                f'<function{blank}name="',
                TaggedCalls(
                    (">",),
                    '<param name="',
                    ">",
                    "</param>",
                    "</function>",
                    variants=('<paramname="', '<paramĠname="'),
                ),
            )
            for blank in (" ", "", "Ġ")
        ),
        ("</function>",),
        around=("", "\n", ""),
        member='<param name="«key»">«value»</param>',
        values="text",
    ),
    CallFormat(
        "lfm-2",
        ("<|tool_call_start|>", "<|tool_list_start|>", "List of tools: ["),
        _PYTHON,
        (Opener("<|tool_call_start|>", JsonCalls()),),
        ("<|tool_call_end|>",),
        around=("<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
        member="«key»=«value»",
        separator=", ",
    ),
    CallFormat(
        "pythonic",
        ("[func_name1(", "[func1("),
        _PYTHON,
        (Opener("<|python_start|>", JsonCalls()), Opener("<|python_tag|>", JsonCalls())),
        ("<|python_end|>",),
        bare=_BARE_PYTHON,
        around=("[", ", ", "]"),
        member="«key»=«value»",
        separator=", ",
    ),
    CallFormat(
        "olmo-3",
        ("<function_calls>",),
        _PYTHON,
        (Opener("<function_calls>", JsonCalls()),),
        ("</function_calls>",),
        bare=_BARE_PYTHON,
        around=("<function_calls>", "\n", "</function_calls>"),
        member="«key»=«value»",
        separator=", ",
    ),
)
