"""Parses objects and arrays written as nested tags, as MiniMax M3 does."""

from __future__ import annotations

import re
from typing import Any, cast

from ..streaming.json_repair import quoted
from .argument_types import alternatives, kinds, typed

_ITEM = "item"
_DEEPEST = 50


class _Node:
    """One tag: its own text, and its child tags."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[_Node] = []


def nested_value(text: str, mark: str, schema: object, root: dict[str, Any]) -> str | None:
    """Return the JSON of a value made of tags, each after a `mark`; None if it has none."""
    if not text.lstrip().startswith(f"{mark}<"):
        return None
    top = _Node("")
    open_nodes = [top]
    end = 0
    for match in re.finditer(rf"{re.escape(mark)}<(/?)([^<>]*)>", text):
        open_nodes[-1].text += text[end : match.start()]
        end = match.end()
        if match[1]:
            if len(open_nodes) > 1:
                open_nodes.pop()
        elif len(open_nodes) < _DEEPEST:
            node = _Node(match[2].strip())
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
    return _value(top, schema, root)


def _value(node: _Node, schema: object, root: dict[str, Any]) -> str:
    if not node.children:
        return typed(node.text, kinds(schema, root))
    if all(child.name == _ITEM for child in node.children):
        items = [_value(child, _part(schema, root, None), root) for child in node.children]
        return f"[{','.join(items)}]"
    members = {
        child.name: _value(child, _part(schema, root, child.name), root) for child in node.children
    }
    return "{" + ",".join(f"{quoted(name)}:{value}" for name, value in members.items()) + "}"


def _part(schema: object, root: dict[str, Any], name: str | None) -> object:
    """Return the schema of a member or of the items; None if it does not say."""
    for each in alternatives(schema, root):
        fields = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        properties = fields.get("properties")
        if name is None and "items" in fields:
            return fields["items"]
        if name is not None and isinstance(properties, dict) and name in properties:
            return cast("dict[str, Any]", properties)[name]
    return None
