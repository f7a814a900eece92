"""What a template does without a word, and how it wants things put."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tool_messages import CallStyle

_TOOLS = re.compile(r"\b(tools|xml_tools|functions)\b")
_THOUGHTS = re.compile(
    r"</?(seed:|mm:)?think(ing)?\b|\[THINK\]|START_THINKING|enable_thinking|reasoning_content"
    r"|<\|channel|inner_prefix|<\|think\|>"
)

Message = dict[str, object]
"""One message as a template sees it: `role`, `content`, and what else there is."""


@dataclass(frozen=True, slots=True)
class TemplateHabits:
    """How a conversation is put for one template; the defaults are those of a simple one.

    `tools` is the variable in which it looks for tools; without one it knows none. Without `calls`
    it cannot say what was called, and `call_marks` are what its model writes around a call.
    """

    drops_system: bool = False
    one_system: bool = False
    """It has a place for a single system message, and leaves out others."""

    wants_parts: bool = False
    tools: str | None = None
    needs_tools: bool = False
    """It fails where there is not even an empty list of them."""

    calls: CallStyle | None = None
    call_marks: tuple[str, str] = ("", "")
    reasoning_fields: tuple[str, ...] = ()
    """Where it looks for the thoughts of earlier answers."""


def names_tools(source: str) -> bool:
    """Whether a template looks for tools."""
    return _TOOLS.search(source) is not None


def names_thoughts(source: str) -> bool:
    """Whether a template knows of thoughts before an answer."""
    return _THOUGHTS.search(source) is not None
