"""Traits of a chat template: what it drops silently, and which formats it expects."""

from __future__ import annotations

from dataclasses import dataclass

from .tool_messages import CallStyle

Message = dict[str, object]
"""One message as a template sees it: `role`, `content`, and other fields."""


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """The formats that one template expects; the defaults are those of a simple one.

    `tools` is the variable in which it looks for tools; None if it supports none. Without `calls`
    it cannot express calls, and `call_marks` are what its model writes around a call.
    """

    drops_system: bool = False
    one_system: bool = False
    """It accepts a single system message and drops others."""

    expects_parts: bool = False
    tools: str | None = None
    needs_tools: bool = False
    """It fails unless a list of tools is given, even an empty one."""

    calls: CallStyle | None = None
    call_marks: tuple[str, str] = ("", "")
    reasoning_fields: tuple[str, ...] = ()
    """The fields in which it looks for the reasoning of earlier answers."""
