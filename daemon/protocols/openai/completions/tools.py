"""The tools of a request, and which of them may be called, in OpenAI's words."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ingle.backends.base.conversation import NO_PARAMETERS, Tool, ToolChoice

from ....errors import InvalidBody

# OpenAI takes 64 letters, digits, `_` and `-`. Names that say where a tool is from have more.
_NAME = re.compile(r"[\w./:@~+$#-]{1,256}")


class FunctionSpec(msgspec.Struct):
    """A function the model may call; `parameters` is a JSON Schema of an object."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class ToolSpec(msgspec.Struct):
    """One of `tools`; other types than `function` are passed over.

    Some clients write the function's fields beside `type`, as the Responses API has them.
    """

    type: str | None = None
    function: FunctionSpec | None = None
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class NamedFunction(msgspec.Struct):
    """Names a function."""

    name: str


class NamedTool(msgspec.Struct):
    """Names a tool."""

    type: str | None = None
    function: NamedFunction | None = None
    name: str | None = None


class AllowedTools(msgspec.Struct):
    """The tools that may be called, of all that the model is shown."""

    tools: list[NamedTool]
    mode: Literal["auto", "required"] = "auto"


class ChosenTool(NamedTool):
    """`tool_choice` as an object: one function, or the allowed ones."""

    allowed_tools: AllowedTools | None = None


ToolChoiceField = Literal["none", "auto", "required", "any"] | ChosenTool
FunctionChoiceField = Literal["none", "auto"] | NamedFunction


def called_tools(
    tools: list[ToolSpec] | None, choice: ToolChoiceField | None
) -> tuple[list[Tool], ToolChoice]:
    """What the model may call, and whether; raises `InvalidBody`."""
    specs = tools or []
    known = [_tool(spec, f"tools[{i}]") for i, spec in enumerate(specs) if _is_function(spec)]
    if choice is None or choice in ("auto", "none"):
        return known, ToolChoice("none" if choice == "none" else "auto")
    if not known:
        raise InvalidBody(
            "'tool_choice' demands a call, and 'tools' holds no function.",
            hint="Send the functions, or leave 'tool_choice' out.",
            param="tool_choice",
        )
    if isinstance(choice, str):
        return known, ToolChoice("required")
    if choice.allowed_tools is not None:
        return _allowed(known, choice.allowed_tools)
    return known, ToolChoice("required", [_known_name(_chosen_name(choice), _names(known))])


def called_functions(
    functions: list[FunctionSpec] | None, choice: FunctionChoiceField | None
) -> tuple[list[Tool], ToolChoice]:
    """The same for OpenAI's older fields `functions` and `function_call`."""
    known = [_function(spec, f"functions[{i}]") for i, spec in enumerate(functions or [])]
    if choice is None or isinstance(choice, str):
        return known, ToolChoice("none" if choice == "none" else "auto")
    name = _known_name(choice.name, _names(known), "function_call")
    return known, ToolChoice("required", [name])


def object_schema(raw: msgspec.Raw, place: str) -> str:
    """A JSON Schema of an object as text; absent, null and empty ones take no arguments.

    Raises `InvalidBody` for a schema of something else, which `place` names.
    """
    text = bytes(raw).strip()
    if text in (b"", b"null"):
        return NO_PARAMETERS
    try:
        schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InvalidBody(f"'{place}' is no JSON Schema: {error}.", param=place) from error
    kind = bytes(schema.get("type", msgspec.Raw(b"null")))
    if kind == b"null":
        schema["type"] = msgspec.Raw(b'"object"')
    elif b'"object"' not in kind:
        raise InvalidBody(
            f"'{place}' is not the schema of an object, but of {kind.decode()[:40]}.",
            hint='Give an object such as {"type": "object", "properties": {}}.',
            param=place,
        )
    properties = bytes(schema.get("properties", msgspec.Raw(b"null")))
    if properties == b"null":
        schema["properties"] = msgspec.Raw(b"{}")
    elif not properties.startswith(b"{"):
        raise InvalidBody(f"'{place}.properties' is not an object.", param=f"{place}.properties")
    return msgspec.json.encode(schema).decode()


def tool_name(name: str, place: str) -> str:
    """The name, where it is one; raises `InvalidBody`."""
    if _NAME.fullmatch(name):
        return name
    raise InvalidBody(
        f"'{place}' is {name[:40]!r}, which is no name for a tool.",
        hint="Give 1 to 256 letters, digits, or characters of _-./:@~+$#.",
        param=place,
    )


def _is_function(spec: ToolSpec) -> bool:
    named = spec.function is not None or spec.name is not None
    return spec.type == "function" or (spec.type is None and named)


def _tool(spec: ToolSpec, place: str) -> Tool:
    if spec.function is not None:
        return _function(spec.function, f"{place}.function")
    if spec.name is None:
        raise InvalidBody(f"'{place}.function' is missing.", param=f"{place}.function")
    flat = FunctionSpec(spec.name, spec.description, spec.parameters, spec.strict)
    return _function(flat, place)


def _function(spec: FunctionSpec, place: str) -> Tool:
    return Tool(
        tool_name(spec.name, f"{place}.name"),
        spec.description or "",
        object_schema(spec.parameters, f"{place}.parameters"),
        bool(spec.strict),
    )


def _allowed(known: list[Tool], allowed: AllowedTools) -> tuple[list[Tool], ToolChoice]:
    all_names = _names(known)
    names = [_known_name(_chosen_name(tool), all_names) for tool in allowed.tools]
    if not names:
        return known, ToolChoice("none")
    return known, ToolChoice(allowed.mode, names)


def _chosen_name(choice: NamedTool) -> str:
    name = choice.function.name if choice.function is not None else choice.name
    if name is None:
        raise InvalidBody(
            "'tool_choice' names no function.",
            hint='Send "none", "auto", "required" or {"type": "function", "function": {"name"}}.',
            param="tool_choice",
        )
    return name


def _names(known: list[Tool]) -> set[str]:
    return {tool.name for tool in known}


def _known_name(name: str, known: set[str], param: str = "tool_choice") -> str:
    if name not in known:
        raise InvalidBody(
            f"'{param}' names {name[:80]!r}, which is not among the functions.",
            hint="Name one of them.",
            param=param,
        )
    return name
