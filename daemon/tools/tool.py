"""What a tool is to its host: arguments in, a plan that may need consent, an outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import msgspec

from ..client.tool_types import PreviewFormat, ToolEffect, ToolInfo
from ..terminal.unsafe_characters import EscapeFilter

MOST_CHARACTERS = 32_000
"""Of a result that the model reads."""
_MOST_OF_LINE = 200

T = TypeVar("T", bound=msgspec.Struct)


class ToolFailed(Exception):
    """A call cannot be done; the message is for the model, and says what to do instead."""


class ConsentTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the user decides about; the fields are those of `ConsentRequest`."""

    effect: ToolEffect
    title: str
    scope: str
    preview: str = ""
    preview_format: PreviewFormat = "text"
    leaves: str = ""
    confined: bool = True


class ToolOutcome(msgspec.Struct, frozen=True):
    """What a call has brought: `text` for the model, `summary` for the user."""

    text: str
    summary: str
    failed: bool = False
    undoable: bool = False


class PlannedCall(msgspec.Struct, frozen=True):
    """A call whose arguments are valid; without `terms` it needs no consent.

    `run` raises `ToolFailed`.
    """

    run: Callable[[], Awaitable[ToolOutcome]]
    terms: ConsentTerms | None = None


class HostedTool(Protocol):
    """One tool; a call is planned, and then run once the user consents."""

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        ...

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return what the call would do; `output` takes pieces of output while it runs.

        Changes nothing, and raises `ToolFailed`.
        """
        ...


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    _, components = msgspec.json.schema_components([arguments])
    schema = cast("dict[str, Any]", components[arguments.__name__])
    kept = {"type": "object", "properties": schema["properties"]}
    return kept | ({"required": schema["required"]} if schema.get("required") else {})


def read_arguments(text: str, arguments: type[T]) -> T:
    """Return the arguments that a model wrote, numbers in quotes included; raises `ToolFailed`."""
    try:
        return msgspec.json.decode(text or "{}", type=arguments, strict=False)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ToolFailed(f"The arguments are not valid: {error}. Call the tool again.") from error


def bounded(text: str, limit: int = MOST_CHARACTERS) -> str:
    """Return valid Unicode without escape sequences; of a long text the beginning and end."""
    text = EscapeFilter().feed(text)
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[{left_out} characters left out]\n{text[-tail:]}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as "2 lines"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def one_line(text: str, limit: int = _MOST_OF_LINE) -> str:
    """Return a text for one line of the screen."""
    line = " ".join(EscapeFilter().feed(text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
