"""Where readers of calls put what they find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from ...base.conversation import Tool
from .answer_parts import CallArguments, CallStart, Part, Text


class CallSink:
    """Collects parts; of several calls only the first where they may not be made at once."""

    def __init__(self, tools: Sequence[Tool], *, parallel: bool, names: Sequence[str] = ()) -> None:
        """Where there are `names`, no other one of the tools may be called."""
        self._barred = {tool.name for tool in tools if names and tool.name not in names}
        self._schemas = {tool.name: tool.parameters for tool in tools}
        self._parallel = parallel
        self._parts: list[Part] = []
        self.calls = 0
        """Calls that were begun, those that are not passed on among them."""

    @property
    def closed(self) -> bool:
        """Whether nothing is passed on any more, since the only call is complete."""
        return self.calls > 0 and not self._parallel

    def knows(self, name: str) -> bool:
        """Whether a tool has this name."""
        return name in self._schemas

    def accepts(self, name: str, *, known_only: bool) -> bool:
        """Whether a call with this name is one."""
        return name not in self._barred and (not known_only or self.knows(name))

    def properties(self, name: str) -> dict[str, Any]:
        """The schema of each of a tool's parameters, in their order."""
        return _properties(self.schema(name))

    def schema(self, name: str) -> dict[str, Any]:
        """The schema of a tool's parameters; empty where it has none that could be read."""
        try:
            schema = json.loads(self._schemas.get(name, "{}"))
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}

    def sole_parameter(self, name: str) -> str:
        """What an argument that stands alone is the value of."""
        properties = list(self.properties(name))
        required = self.schema(name).get("required")
        names = [key for key in properties if isinstance(required, list) and key in required]
        return (names or properties or ["value"])[0]

    def put(self, part: Part) -> None:
        """Pass on text or a thought."""
        if not self.closed:
            self._parts.append(part)

    def begin(self, name: str, call_id: str | None = None) -> None:
        """Begin a call."""
        self.calls += 1
        if self._parallel or self.calls == 1:
            self._parts.append(CallStart(name, call_id))

    def arguments(self, text: str) -> None:
        """Pass on arguments of the call begun last."""
        if self._parallel or self.calls == 1:
            self._parts.append(CallArguments(text))

    def text(self, text: str) -> None:
        """Pass on what turned out to be no call."""
        if text:
            self.put(Text(text))

    def take(self) -> list[Part]:
        """What was passed on since the last time."""
        parts, self._parts = self._parts, []
        return parts


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
