"""Edits JSON with comments and trailing commas in place; all other text stays as written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import cast

from .document_path import CannotEdit, DocumentItem, Path

_BLANK = re.compile(r"[ \t\r\n]+")
_LINE_COMMENT = re.compile(r"//[^\n]*")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?[A-Za-z0-9.+-]+")
_SAME_LINE = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")
_DEEPEST = 200


@dataclass
class Node:
    """A value with its position, and its members or items in order.

    A member or an item begins at `outer`, a member with its key. `comma` is the position after the
    comma that follows it, or -1.
    """

    start: int
    end: int
    value: object
    children: list[Node] = field(default_factory=list["Node"])
    key: str | None = None
    outer: int = 0
    comma: int = -1


class JSONDocument:
    """One text; `changed` and `without` return the text with one value different."""

    def __init__(self, text: str) -> None:
        """Raises `CannotEdit` if it is not JSON."""
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._root = _Parser(text).document()
        self._unit = self._find_unit()

    @property
    def data(self) -> object:
        """The parsed value; None if there is none."""
        return None if self._root is None else self._root.value

    def changed(self, path: Path, value: object) -> str:
        """Return the text with `value` at the path."""
        if self._root is None:
            whole = _nested(path, value)
            head = self._text
            if head and not head.endswith("\n"):
                head += self._newline
            return head + self._written(whole, "") + self._newline
        node, depth = self._root, 0
        while depth < len(path):
            child = _child(node, path[depth])
            if child is None:
                return self._inserted(node, path[depth], _nested(path[depth + 1 :], value))
            node, depth = child, depth + 1
            if depth < len(path) and node.value is None:
                value, path = _nested(path[depth:], value), path[:depth]
        indent = self._indent_at(node.start)
        text = self._written(value, indent, flat="\n" not in self._text)
        return self._text[: node.start] + text + self._text[node.end :]

    def without(self, path: Path) -> str:
        """Return the text without the value at the path."""
        assert self._root is not None
        parent = node = self._root
        for part in path:
            child = _child(node, part)
            assert child is not None
            parent, node = node, child
        return self._dropped(parent, parent.children.index(node))

    def _inserted(self, parent: Node, part: str | DocumentItem, value: object) -> str:
        text = self._text
        flat = "\n" not in text[parent.start : parent.end]
        flat = flat and (bool(parent.children) or "\n" not in text.strip())
        indent = self._children_indent(parent)
        written = self._written(value, indent, flat=flat)
        if isinstance(part, str):
            written = f"{json.dumps(part, ensure_ascii=False)}: {written}"
        if not parent.children:
            return self._first_child(parent, written, indent, flat=flat)
        last = parent.children[-1]
        if flat:
            end = last.end
            return text[:end] + ", " + written + text[end:]
        behind = _behind(last)
        end = _end_of_line_comment(text, behind)
        comma, own = ("", ",") if last.comma >= 0 else (",", "")
        between = text[behind:end]
        return text[:behind] + comma + between + self._newline + indent + written + own + text[end:]

    def _first_child(self, parent: Node, written: str, indent: str, *, flat: bool) -> str:
        text = self._text
        inside = text[parent.start + 1 : parent.end - 1]
        if flat and not inside.strip():
            return text[: parent.start + 1] + written + text[parent.end - 1 :]
        closing = self._newline + self._indent_at(parent.start)
        kept = inside.rstrip() if inside.strip() else ""
        middle = kept + self._newline + indent + written + closing
        return text[: parent.start + 1] + middle + text[parent.end - 1 :]

    def _dropped(self, parent: Node, index: int) -> str:
        text, children = self._text, parent.children
        child = children[index]
        if len(children) == 1:
            before = text[parent.start + 1 : child.outer].rstrip()
            after = text[_behind(child) : parent.end - 1].strip()
            inside = before + after
            if inside:
                inside = before + (self._newline if after else "") + after
                inside += self._newline + self._indent_at(parent.start)
            return text[: parent.start + 1] + inside + text[parent.end - 1 :]
        if index == len(children) - 1:
            previous = children[index - 1]
            start = _end_of_line_comment(text, previous.comma)
            if child.comma >= 0:  # the file uses trailing commas
                return text[:start] + text[child.comma :]
            between = text[previous.comma : start]
            return text[: previous.comma - 1] + between + text[child.end :]
        following = children[index + 1]
        return text[: child.outer] + text[following.outer :]

    def _written(self, value: object, indent: str, *, flat: bool = False) -> str:
        if flat:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, indent=self._unit, ensure_ascii=False)
        return text.replace("\n", self._newline + indent)

    def _children_indent(self, parent: Node) -> str:
        if parent.children:
            return self._indent_at(parent.children[0].outer)
        return self._indent_at(parent.start) + self._unit

    def _indent_at(self, index: int) -> str:
        line = self._text[self._text.rfind("\n", 0, index) + 1 : index]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _find_unit(self) -> str:
        """Return the indentation of one level: that of the first member on a line of its own."""
        if self._root is not None and self._root.children:
            indent = self._indent_at(self._root.children[0].outer)
            outer = self._indent_at(self._root.start)
            if len(indent) > len(outer):
                return indent[len(outer) :]
        return "  "


class _Parser:
    """Recursive-descent parser whose values record their position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> Node | None:
        """Return the root; None if there are only blanks and comments."""
        self._at = 1 if self._text.startswith("\ufeff") else 0
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("text follows the end of the value")
        return node

    def _value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self._wrong("it is nested too deeply")
        start = self._at
        character = self._text[start : start + 1]
        if character == "{":
            return self._container(start, depth, "}")
        if character == "[":
            return self._container(start, depth, "]")
        pattern = _STRING if character == '"' else _WORD
        match = pattern.match(self._text, start)
        if match is None:
            raise self._wrong("a value is missing")
        self._at = match.end()
        return Node(start, self._at, self._scalar(match[0]))

    def _container(self, start: int, depth: int, closing: str) -> Node:
        self._at += 1
        children: list[Node] = []
        while True:
            self._skip()
            if self._text[self._at : self._at + 1] == closing:
                self._at += 1
                break
            if children and children[-1].comma < 0:
                raise self._wrong("a comma is missing")
            children.append(self._child(depth, named=closing == "}"))
        if closing == "}":
            members = {cast("str", child.key): child.value for child in children}
            if len(members) < len(children):
                raise self._wrong("a name occurs twice")
            return Node(start, self._at, members, children)
        return Node(start, self._at, [child.value for child in children], children)

    def _child(self, depth: int, *, named: bool) -> Node:
        start, key = self._at, None
        if named:
            match = _STRING.match(self._text, start)
            if match is None:
                raise self._wrong("a name in quotes is missing")
            key = cast("str", self._scalar(match[0]))
            self._at = match.end()
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                raise self._wrong("a colon is missing")
            self._at += 1
            self._skip()
        child = self._value(depth + 1)
        child.key, child.outer = key, start
        self._skip()
        if self._text[self._at : self._at + 1] == ",":
            self._at += 1
            child.comma = self._at
        return child

    def _scalar(self, text: str) -> object:
        try:
            return json.loads(text)
        except ValueError:
            raise self._wrong(f"{text[:20]} is no value") from None

    def _skip(self) -> None:
        patterns = (_BLANK, _LINE_COMMENT, _BLOCK_COMMENT)
        while any(match := pattern.match(self._text, self._at) for pattern in patterns):
            assert match is not None
            self._at = match.end()

    def _wrong(self, what: str) -> CannotEdit:
        line = self._text.count("\n", 0, self._at) + 1
        return CannotEdit(f"It is not JSON: {what} in line {line}.")


def _child(node: Node, part: str | DocumentItem) -> Node | None:
    for child in node.children:
        if child.key == part if isinstance(part, str) else part.matches(child.value):
            return child
    return None


def _nested(path: Path, value: object) -> object:
    """Return the value nested in the rest of the path."""
    for part in reversed(path):
        value = [value] if isinstance(part, DocumentItem) else {part: value}
    return value


def _behind(child: Node) -> int:
    """Return the position after a child and its comma."""
    return child.end if child.comma < 0 else child.comma


def _end_of_line_comment(text: str, start: int) -> int:
    """Return the end of a comment that follows on the same line, else `start`."""
    match = _SAME_LINE.match(text, start)
    end = match.end() if match is not None else start
    rest = text[end : end + 1]
    return end if rest in ("", "\r", "\n") and text[start:end].strip() else start
