"""The tools of a request: which of them the model may call, and under which names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ingle.backends.base.conversation import NO_PARAMETERS, Tool, ToolChoice

from ...errors import InvalidBody, UnsupportedField
from ...http.bodies import parse
from .types import ToolChoiceObject, ToolMode

ToolName = Annotated[str, Meta(min_length=1, max_length=256)]
JOINT = "__"
FREEFORM = (
    '{"type":"object","properties":{"input":{"type":"string"}},'
    '"required":["input"],"additionalProperties":false}'
)
"""The parameters of a tool that takes text as it is: models call functions only."""


class ClientTool(NamedTuple):
    """A tool as the client knows it."""

    kind: Literal["function", "custom"]
    name: str
    namespace: str | None


class _Head(msgspec.Struct):
    type: str


class _Function(msgspec.Struct):
    name: ToolName
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class _Format(msgspec.Struct):
    type: str | None = None
    syntax: str | None = None
    definition: str | None = None


class _Custom(msgspec.Struct):
    name: ToolName
    description: str | None = None
    format: _Format | None = None


class _Namespace(msgspec.Struct):
    name: ToolName
    tools: list[msgspec.Raw]


@dataclass
class ToolTable:
    """The tools that can be called, and what each of their names stands for.

    `hosted` counts those that only another server could run.
    """

    tools: list[Tool] = field(default_factory=list[Tool])
    hosted: int = 0
    _called: dict[str, ClientTool] = field(default_factory=dict[str, ClientTool])
    _joined: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def called(self, name: str) -> ClientTool:
        """The tool that a call is for; models forget namespaces, and some invent names."""
        if (tool := self._called.get(name)) is not None:
            return tool
        alike = self._joined.get(name, [])
        return self._called[alike[0]] if len(alike) == 1 else ClientTool("function", name, None)

    def names(self, name: str | None, namespace: str | None, kind: str | None) -> list[str]:
        """The names of the tools that a client means."""
        return [
            joined
            for joined in self._joined.get(name or "", [])
            if (namespace is None or self._called[joined].namespace == namespace)
            and (kind is None or self._called[joined].kind == kind)
        ]

    def add(self, tool: Tool, called: ClientTool) -> None:
        """Let the model call a tool; of two with one name the first counts."""
        if tool.name not in self._called:
            self._called[tool.name] = called
            self._joined.setdefault(called.name, []).append(tool.name)
            self.tools.append(tool)


def joined_name(namespace: str | None, name: str) -> str:
    """The one name under which the model knows a tool."""
    if not namespace:
        return name
    return f"{namespace}{name}" if namespace.endswith(JOINT) else f"{namespace}{JOINT}{name}"


def custom_arguments(text: str) -> str:
    """The arguments of a custom tool's call, as the model sees them."""
    return msgspec.json.encode({"input": text}).decode()


_FUNCTION_FIELDS = {"description": None, "parameters": None, "strict": False}


def read_tools(raws: list[msgspec.Raw] | None) -> ToolTable:
    """The tools of a request, those of unsupported types left out; raises `InvalidBody`."""
    table = ToolTable()
    for index, raw in enumerate(raws or ()):
        _add(table, bytes(raw), f"tools[{index}]", None)
    return table


def echoed_tools(raws: list[msgspec.Raw] | None) -> list[msgspec.Raw]:
    """The tools as a response repeats them: functions with all their fields."""
    return [_echoed(raw) for raw in raws or ()]


def _echoed(raw: msgspec.Raw) -> msgspec.Raw:
    fields = msgspec.json.decode(bytes(raw), type=dict[str, Any])
    if fields.get("type") != "function":
        return raw
    return msgspec.Raw(msgspec.json.encode(_FUNCTION_FIELDS | fields))


def _add(table: ToolTable, raw: bytes, place: str, namespace: str | None) -> None:
    match parse(raw, _Head, place).type:
        case "function":
            _add_function(table, parse(raw, _Function, place), place, namespace)
        case "custom":
            _add_custom(table, parse(raw, _Custom, place), namespace)
        case "namespace" if namespace is None:
            inner = parse(raw, _Namespace, place)
            for index, tool in enumerate(inner.tools):
                _add(table, bytes(tool), f"{place}.tools[{index}]", inner.name)
        case _:
            table.hosted += 1


def _add_function(table: ToolTable, function: _Function, place: str, namespace: str | None) -> None:
    parameters = bytes(function.parameters).decode().strip()
    if parameters in ("", "null"):
        parameters = NO_PARAMETERS
    if not parameters.startswith("{"):
        raise InvalidBody(
            f"'{place}.parameters' is not a JSON Schema.",
            hint="Send an object that describes the arguments, or leave it out.",
            param=f"{place}.parameters",
        )
    tool = Tool(
        name=joined_name(namespace, function.name),
        description=function.description or "",
        parameters=parameters,
        strict=bool(function.strict),
    )
    table.add(tool, ClientTool("function", function.name, namespace))


def _add_custom(table: ToolTable, custom: _Custom, namespace: str | None) -> None:
    description = custom.description or ""
    if custom.format is not None and custom.format.definition:
        description = (
            f"{description}\n\nThe input must match this grammar"
            f" ({custom.format.syntax or 'lark'}):\n{custom.format.definition}"
        ).strip()
    tool = Tool(
        name=joined_name(namespace, custom.name),
        description=description,
        parameters=FREEFORM,
        strict=True,
    )
    table.add(tool, ClientTool("custom", custom.name, namespace))


def tool_choice(asked: ToolMode | ToolChoiceObject | None, table: ToolTable) -> ToolChoice:
    """Whether tools are called; raises `InvalidBody` for one that is not among them, or hosted."""
    if asked is None or isinstance(asked, str):
        return _mode(asked or "auto", table)
    if asked.type in ("function", "custom"):
        names = table.names(asked.name, asked.namespace, asked.type)
        if not names:
            raise InvalidBody(
                f"'tool_choice' names {_shown(asked.name)}, which is not among the tools.",
                hint="Name one of 'tools'.",
                param="tool_choice",
            )
        return ToolChoice("required", names)
    if asked.type == "allowed_tools":
        return _allowed(asked, table)
    raise _hosted(f"'tool_choice' demands {asked.type[:40]!r}, which cannot run here.")


def _mode(mode: ToolMode, table: ToolTable) -> ToolChoice:
    if table.tools or mode != "required":
        return ToolChoice(mode if table.tools else "none")
    if table.hosted:
        raise _hosted("'tool_choice' demands a call, and none of 'tools' can run here.")
    raise InvalidBody(
        "'tool_choice' demands a call, and there are no tools.",
        hint="Send 'tools', or leave 'tool_choice' out.",
        param="tool_choice",
    )


def _allowed(asked: ToolChoiceObject, table: ToolTable) -> ToolChoice:
    names: list[str] = []
    for index, tool in enumerate(asked.tools or ()):
        if tool.type not in ("function", "custom"):
            continue
        found = table.names(tool.name, tool.namespace, tool.type)
        if not found:
            raise InvalidBody(
                f"'tool_choice.tools[{index}]' names {_shown(tool.name)}, "
                "which is not among the tools.",
                hint="Name some of 'tools'.",
                param=f"tool_choice.tools[{index}]",
            )
        names += found
    if not names and asked.mode == "required":
        raise _hosted("'tool_choice' demands a call, and none of its 'tools' can run here.")
    return ToolChoice(asked.mode or "auto", names) if names else ToolChoice("none")


def _hosted(message: str) -> UnsupportedField:
    hint = "Send functions or custom tools, or leave 'tool_choice' out."
    return UnsupportedField(message, hint=hint, param="tool_choice")


def _shown(name: Any) -> str:
    return "nothing" if name is None else repr(str(name)[:80])
