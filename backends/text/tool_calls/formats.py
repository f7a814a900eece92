"""Every way of writing calls that is in use, and how to tell which one a model has."""

from __future__ import annotations

from .call_format import CallFormat, Opener, WrittenCalls
from .json_calls import JsonCalls

_JSON = JsonCalls()
_JSON_CALL = '{"name": "«name»", "arguments": «arguments»}'

GENERIC = CallFormat("generic", WrittenCalls(_JSON_CALL, between="\n"), strays=True)
HERMES = CallFormat(
    "hermes",
    WrittenCalls(f"<tool_call>\n{_JSON_CALL}\n</tool_call>", between="\n"),
    openers=(Opener("<tool_call>", _JSON),),
    closers=("</tool_call>",),
    strays=True,
)


def tell_format(template: str | None) -> CallFormat:
    """The format of a model, told from its chat template."""
    source = template or ""
    if "<tool_call>" in source:
        return HERMES
    return GENERIC
