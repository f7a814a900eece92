"""The parts of an answer, and the sink that call parsers put them into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...base.conversation import Tool
from .argument_types import json_fields


class AnswerText(NamedTuple):
    """A piece of text for the user."""

    text: str


class AnswerReasoning(NamedTuple):
    """A piece of reasoning."""

    text: str


class CallStart(NamedTuple):
    """Begins a call, and completes the previous one."""

    name: str
    call_id: str | None = None
    """The model's id for the call, if its format has one."""


class CallArguments(NamedTuple):
    """A piece of the arguments of the current call; all pieces together are a JSON object."""

    text: str


Part = AnswerText | AnswerReasoning | CallStart | CallArguments


class CallSink:
    """Collects parts; without parallel calls only the first call is kept."""

    def __init__(self, tools: Sequence[Tool], *, parallel: bool, names: Sequence[str] = ()) -> None:
        """With `names`, no other tool may be called."""
        self._barred = {tool.name for tool in tools if names and tool.name not in names}
        self._schemas = {tool.name: tool.parameters for tool in tools}
        self._parallel = parallel
        self._parts: list[Part] = []
        self.calls = 0
        """Number of calls begun, including those dropped."""

    @property
    def closed(self) -> bool:
        """Return whether further output is dropped, since the only call is complete."""
        return self.calls > 0 and not self._parallel

    def knows(self, name: str) -> bool:
        """Return whether a tool has this name."""
        return name in self._schemas

    def accepts(self, name: str, *, known_only: bool) -> bool:
        """Return whether a call with this name is valid."""
        return name not in self._barred and (not known_only or self.knows(name))

    def properties(self, name: str) -> dict[str, Any]:
        """Return the schema of each of a tool's parameters, in order."""
        return json_fields(self.schema(name).get("properties"))

    def schema(self, name: str) -> dict[str, Any]:
        """Return the schema of a tool's parameters; empty if missing or unreadable."""
        try:
            return json_fields(json.loads(self._schemas.get(name, "{}")))
        except (ValueError, RecursionError):
            return {}

    def sole_parameter(self, name: str) -> str:
        """Return the parameter that a lone argument belongs to."""
        properties = list(self.properties(name))
        required = self.schema(name).get("required")
        names = [key for key in properties if isinstance(required, list) and key in required]
        return (names or properties or ["value"])[0]

    def put(self, part: Part) -> None:
        """Add text or reasoning."""
        if not self.closed:
            self._parts.append(part)

    def begin(self, name: str, call_id: str | None = None) -> None:
        """Begin a call."""
        self.calls += 1
        if self._parallel or self.calls == 1:
            self._parts.append(CallStart(name, call_id))

    def arguments(self, text: str) -> None:
        """Add arguments of the current call."""
        if self._parallel or self.calls == 1:
            self._parts.append(CallArguments(text))

    def text(self, text: str) -> None:
        """Add text that turned out not to be a call."""
        if text:
            self.put(AnswerText(text))

    def take(self) -> list[Part]:
        """Return the parts since the last call of `take`."""
        parts, self._parts = self._parts, []
        return parts
