"""Conversations: messages, tools and tool calls."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

NO_PARAMETERS = '{"type":"object","properties":{}}'


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a model made; `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


class Picture(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture in a message, before the character `at` of its text.

    `data` is the file as it was sent, or `address` says where it is. Decoded, it is `rgb` instead:
    3 bytes for each of `width` × `height` pixels, row by row.
    """

    at: int = 0
    data: bytes = b""
    width: int = 0
    height: int = 0
    rgb: bytes = b""
    address: str = ""


class PDFFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PDF file in a message, before the character `at` of its text; it becomes text, too."""

    at: int = 0
    name: str = ""
    data: bytes = b""


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message, as chat templates see it: `role` is system, user, assistant or tool.

    `reasoning` and `tool_calls` belong to assistants. The result of a tool has the id of its call
    in `tool_call_id` and, if known, the tool in `name`.
    """

    role: str
    content: str
    name: str | None = None
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    pictures: list[Picture] = []
    documents: list[PDFFile] = []


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function the model may call; `parameters` is a JSON Schema of an object, as JSON text.

    With a grammar, arguments of a `strict` tool match the schema exactly; for other tools,
    unsupported keywords of the schema are ignored.
    """

    name: str
    description: str = ""
    parameters: str = NO_PARAMETERS
    strict: bool = False


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether tools are called: the model decides, never, or always.

    If `names` are given, no other tool may be called, although the model sees all of them.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: list[str] = []


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether and how long a model reasons before it answers; None leaves it to the model.

    `effort` is passed to the template, such as low, medium or high. After `budget` tokens the
    reasoning is ended, and the answer begins.
    """

    enabled: bool | None = None
    effort: str | None = None
    budget: int | None = None


class InfillFile(msgspec.Struct, frozen=True):
    """A part of another file, as context for an infill."""

    name: str
    text: str


class Infill(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text before and after a gap that the model fills.

    `middle` is the beginning of the text to generate. `files` are sorted, the least important
    first. What does not fit into the context is left out: of `prefix` and `suffix`, the parts
    farthest from the gap.
    """

    prefix: str
    suffix: str
    middle: str = ""
    files: list[InfillFile] = []


TemplateVariables = dict[str, Any]
"""Variables of a chat template: JSON values by name."""
