"""Edits YAML in place: top-level keys and items of their lists; all other text stays as written."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any, cast

from .document_path import CannotEdit, DocumentItem, Path

# PyYAML's type stubs do not describe nodes.
yaml: Any = import_module("yaml")

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class YAMLDocument:
    """One text; the caller checks that an edit has the intended effect."""

    def __init__(self, text: str) -> None:
        """Raises `CannotEdit` if it is not YAML, or holds several documents."""
        try:
            self._root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data: object = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            problem = str(getattr(error, "problem", None) or error)
            raise CannotEdit(f"It is not YAML that ingle can read: {problem}.") from None
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def changed(self, path: Path, value: object) -> str:
        """Return the text with `value` at the path: a top-level key, or an item of its list."""
        key, item = _parts(path)
        member = self._member(key)
        if member is None:
            return self._appended(_block({key: [value] if item else value}))
        node = member[1]
        if item is None:
            return self._replaced(node, _scalar(value))
        if not isinstance(node, yaml.SequenceNode):
            if node.tag != "tag:yaml.org,2002:null":
                raise CannotEdit(f"'{key}' in it is not a list.")
            return self._replaced(node, self._newline + self._lines(_block([value], "  ")))
        found = _find_item(node, item)
        if node.flow_style:
            return self._changed_flow(node, found, value)
        indent = " " * node.start_mark.column
        written = self._lines(_block([value], indent))
        if found is not None:
            start = self._line_start(found.start_mark.index)
            return self._text[:start] + written + self._after(found)
        end = self._end_of_line(node.value[-1])
        before = self._text[:end]
        if not before.endswith("\n"):
            before += self._newline
        return before + written + self._newline + self._text[end:]

    def without(self, path: Path) -> str:
        """Return the text without the key or the item at the path."""
        key, item = _parts(path)
        member = self._member(key)
        assert member is not None
        name, node = member
        if item is None:
            return self._without_lines(name, node)
        if len(node.value) == 1:
            if node.flow_style:
                return self._replaced(node, "[]")
            # Leave an empty list: some programs do not read null as a list.
            end = self._end_of_line(node)
            return self._text[: name.end_mark.index] + ": []" + self._newline + self._text[end:]
        if node.flow_style:
            raise CannotEdit(f"'{key}' in it is written in a way that ingle does not change.")
        found = _find_item(node, item)
        assert found is not None
        return self._without_lines(found, found)

    def _without_lines(self, first: Any, last: Any) -> str:
        """Return the text without the lines from the start of one node to the end of another."""
        start = self._line_start(first.start_mark.index)
        return self._text[:start] + self._text[self._end_of_line(last) :]

    def _changed_flow(self, node: Any, found: Any, value: object) -> str:
        written = json.dumps(value, ensure_ascii=False)
        if found is not None:
            return self._replaced(found, written)
        end: int = node.end_mark.index - 1
        comma = ", " if node.value else ""
        return self._text[:end].rstrip() + comma + written + self._text[end:]

    def _appended(self, block: str) -> str:
        text = self._text
        if text and not text.endswith("\n"):
            text += self._newline
        if not isinstance(self._root, yaml.MappingNode | None) or (
            self._root is not None and self._root.flow_style
        ):
            raise CannotEdit("It is YAML, but not a list of keys, one a line.")
        return text + self._lines(block) + self._newline

    def _replaced(self, node: Any, written: str) -> str:
        start, end = node.start_mark.index, node.end_mark.index
        if start == end:
            written = written if written.startswith(self._newline) else f" {written}"
        return self._text[:start] + written + self._text[end:]

    def _after(self, item: Any) -> str:
        end: int = _last(item).end_mark.index
        if self._text[end - 1 : end] == "\n":
            return self._newline + self._text[end:]
        return self._text[end:]

    def _member(self, key: str) -> tuple[Any, Any] | None:
        if not isinstance(self._root, yaml.MappingNode):
            return None
        members: list[tuple[Any, Any]] = self._root.value
        return next((member for member in members if member[0].value == key), None)

    def _lines(self, block: str) -> str:
        return block.replace("\n", self._newline)

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _end_of_line(self, node: Any) -> int:
        """Return the end of the line that a node ends on, including a comment."""
        index: int = _last(node).end_mark.index
        if index and self._text[index - 1 : index] == "\n":
            return index
        end = self._text.find("\n", index)
        return len(self._text) if end < 0 else end + 1


def _parts(path: Path) -> tuple[str, DocumentItem | None]:
    if len(path) == 1 and isinstance(path[0], str):
        return path[0], None
    if len(path) == 2 and isinstance(path[0], str) and isinstance(path[1], DocumentItem):
        return path[0], path[1]
    raise CannotEdit("It is YAML, which ingle does not change that deep inside.")


def _last(node: Any) -> Any:
    """Return the value that ends last in a block; a block's own end is after trailing comments."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        children: list[Any] = node.value
        node = children[-1][1] if node.id == "mapping" else children[-1]
    return node


def _find_item(node: Any, item: DocumentItem) -> Any:
    for child in node.value:
        if isinstance(child, yaml.MappingNode):
            members: list[tuple[Any, Any]] = child.value
            if any(name.value == item.key and value.value == item.value for name, value in members):
                return child
    return None


def _block(value: object, indent: str = "") -> str:
    """Return lines without a final newline; objects and lists of plain values inside them."""
    lines: list[str] = []
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            if _is_filled(inner):
                lines += [f"{indent}{_scalar(key)}:", _block(inner, indent + "  ")]
            else:
                lines.append(f"{indent}{_scalar(key)}: {_scalar(inner)}")
    else:
        for inner in cast("list[Any]", value):
            if _is_filled(inner):
                text = _block(inner, indent + "  ")
                lines.append(f"{indent}- {text[len(indent) + 2 :]}")
            else:
                lines.append(f"{indent}- {_scalar(inner)}")
    return "\n".join(lines)


def _is_filled(value: object) -> bool:
    return isinstance(value, dict | list) and bool(cast("object", value))


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)  # which is YAML as well
