"""What a conversation is made of: messages, tools, and calls of them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

NO_PARAMETERS = '{"type":"object","properties":{}}'


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a model made; `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message, as chat templates see it: `role` is system, user, assistant or tool.

    `reasoning` and `tool_calls` belong to assistants. A tool's result names the call it answers in
    `tool_call_id`, and where known the tool in `name`.
    """

    role: str
    content: str
    name: str | None = None
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function the model may call; `parameters` is a JSON Schema of an object, as JSON text.

    Arguments of a `strict` tool match the schema to the letter wherever a grammar is in force; for
    others it is followed as far as its keywords are supported.
    """

    name: str
    description: str = ""
    parameters: str = NO_PARAMETERS
    strict: bool = False


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether tools are called: as the model likes, never, or in any case.

    Where `names` are given no other tool may be called, although the model sees them all.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: list[str] = []


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much a model thinks before it answers; None leaves it to the model.

    `effort` is a word for the template, such as low, medium or high. After `budget` tokens the
    thoughts are ended, and the answer begins.
    """

    enabled: bool | None = None
    effort: str | None = None
    budget: int | None = None


class InfillFile(msgspec.Struct, frozen=True):
    """A piece of another file, which helps to fill a gap."""

    name: str
    text: str


class Infill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gap in a text: what stands before it and behind it.

    `middle` is the beginning of what fills it. `files` are the least important first; what does not
    fit is left out, and of `prefix` and `suffix` what is farthest from the gap.
    """

    prefix: str
    suffix: str
    middle: str = ""
    files: list[InfillFile] = []


TemplateVariables = dict[str, Any]
"""Switches of a chat template, JSON values by name."""
