"""Enumerates all texts in the JSON body of a request in any protocol, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from .json_nodes import JsonList, JsonNode, JsonObject, JsonPlain, JsonString, NotJson, read_nodes

_LONGEST_OWN_INSTRUCTIONS = 2_000  # characters; longer ones are those of a program
_WORDS = frozenset(
    {
        *("text", "image", "tool_use", "tool_result", "function_call", "function_call_output"),
        *("custom_tool_call", "custom_tool_call_output", "reasoning", "thinking", "input_text"),
        *("output_text", "input_image", "message", "user", "assistant", "system", "developer"),
        *("tool", "model", "function", "custom", "ephemeral", "5m", "1h", "auto", "none"),
        *("enabled", "adaptive", "completed", "object", "array", "string", "number", "boolean"),
    }
)
"""Words of the protocols, which are values of almost every object."""

_MODEL_TYPES = frozenset(
    {
        *("function_call", "custom_tool_call", "local_shell_call", "reasoning", "thinking"),
        *("tool_use", "server_tool_use"),
    }
)
"""Types of what a model wrote."""

_FREE_KEYS = frozenset({"input", "input_schema", "parameters", "args", "response", "schema"})
"""Keys of objects with names of their own, which say what the values are."""

_CONVERSATION = ("messages", "input", "contents", "prompt")
_AROUND = ("system", "instructions", "tools")
_PROGRAM_KEYS = frozenset(
    {"metadata", "client_metadata", "prompt_cache_key", "safety_identifier", "user"}
)
_NAME_KEYS = frozenset({"name", "id", "call_id", "tool_use_id", "tool_call_id", "item_id"})
_SIGNED = frozenset({"signature", "encrypted_content", "thoughtSignature"})
_SIGNED_BY_MODEL = _SIGNED | {"data", "thinking"}
"""Keys of what a provider verifies when it comes back, so that it may not be changed."""

_CODE = re.compile(r"[A-Za-z0-9+/_=-]{256,}")
_PIECE, _OVERLAP = 200, 100
_LONG_NUMBER = re.compile(r"-?\d{12,}")
_NUMBER = re.compile(r"-?\d[\d.]{3,}")
_RANDOM_ID = re.compile(
    r"\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}(?:[0-9a-f]{32})?)\b"
)
_LINE_NUMBER = re.compile(r"^( {0,8})(\d{1,6})(\t|→|\| )", re.MULTILINE)


class Form(Enum):
    """How a text is judged and replaced: as prose or not, or as a name without brackets.

    Of what a `PROGRAM` says of itself, random ids are not judged: its provider must recognise them.
    """

    WRITTEN = auto()
    GENERATED = auto()
    NAME = auto()
    PROGRAM = auto()


@dataclass(frozen=True, slots=True)
class RequestText:
    """A text as it is judged: `label` characters that say what it is, and the text itself.

    `start` and `end` are characters of the body: those of a JSON string, or if it is not `quoted`
    of a number. `inner` is its place within the text of that string, if the string holds JSON. One
    that is `fixed` cannot be changed. `header` is the number of the header that it is.
    """

    form: Form
    text: str
    start: int = 0
    end: int = 0
    label: int = 0
    quoted: bool = True
    inner: tuple[int, int] | None = None
    fixed: bool = False
    header: int | None = None


def request_texts(root: JsonNode, received: Container[str]) -> list[RequestText]:
    """Return the texts, those of the conversation first.

    Signed texts that are in `received` came from the provider, and are left out.
    """
    has_tools = isinstance(root, JsonObject) and root.find("tools") is not None
    finder = _TextFinder(received, has_tools=has_tools)
    found = list(finder.texts(root, Form.GENERATED, ""))
    if finder.others:
        found.append(RequestText(Form.GENERATED, "\n".join(sorted(finder.others)), fixed=True))
    return found


class _TextFinder:
    def __init__(self, received: Container[str], *, has_tools: bool) -> None:
        self._received = received
        self._has_tools = has_tools
        self.others: set[str] = set()
        """Keys and long numbers, which cannot be replaced."""

    def texts(self, node: JsonNode, form: Form, key: str) -> Iterator[RequestText]:
        """Yield the texts of a value with this key; `form` is that of what is around it."""
        match node:
            case JsonString():
                yield from self._string(node, form, key)
            case JsonObject() if key in _FREE_KEYS:
                yield from self._free(node, key)
            case JsonObject():
                yield from self._object(node, form)
            case JsonList(items=items):
                for item in items:
                    yield from self.texts(item, form, f"{key}[]")
            case JsonPlain(text=text) if _LONG_NUMBER.match(text):
                self.others.add(text)
            case _:
                pass

    def _object(self, node: JsonObject, form: Form) -> Iterator[RequestText]:
        self.others.update(key.text for key, _ in node.members)
        form = self._form(node, form)
        # The conversation is first: what changes around it must not hide that it continues.
        for key, value in sorted(node.members, key=lambda one: one[0].text in _AROUND):
            inner = form
            if key.text in ("system", "instructions"):
                inner = self._instructions(value)
            elif key.text in _CONVERSATION and isinstance(value, JsonString | JsonList):
                inner = Form.WRITTEN
            elif key.text == "tools":
                inner = Form.GENERATED
            elif key.text in _PROGRAM_KEYS:
                inner = Form.PROGRAM
            yield from self.texts(value, inner, key.text)

    def _form(self, node: JsonObject, form: Form) -> Form:
        role, kind = node.word("role"), node.word("type")
        if role in ("system", "developer"):
            return self._instructions(node)
        if role in ("assistant", "model") or kind in _MODEL_TYPES:
            return Form.GENERATED
        if form is Form.PROGRAM:
            return form
        if role or kind == "tool_result" or kind.endswith("_output"):
            return Form.WRITTEN
        return form

    def _instructions(self, node: JsonNode) -> Form:
        is_long = node.end - node.start > _LONGEST_OWN_INSTRUCTIONS
        return Form.GENERATED if self._has_tools or is_long else Form.WRITTEN

    def _string(self, node: JsonString, form: Form, key: str) -> Iterator[RequestText]:
        text = node.text
        if not text or text in _WORDS:
            return
        fixed = key in (_SIGNED_BY_MODEL if form is Form.GENERATED else _SIGNED)
        if fixed:
            if text in self._received:
                return
            if _CODE.fullmatch(text):
                # Not a code that keeps it here; but a key in it would.
                steps = range(0, len(text), _PIECE - _OVERLAP)
                text = "\n\n".join(text[at : at + _PIECE] for at in steps)
        elif form is Form.PROGRAM:
            text = without_random_ids(text)
        elif key in _NAME_KEYS:
            form, text = Form.NAME, without_random_ids(text)
        elif key == "arguments" and (values := self._json(node)):
            yield from values
            return
        else:
            text = _without_line_numbers(text)
        yield RequestText(form, text, node.start, node.end, fixed=fixed)

    def _json(self, node: JsonString) -> list[RequestText]:
        """Return the texts of JSON in a string; none for other text."""
        try:
            root = read_nodes(node.text)
        except NotJson:
            return []
        return [
            replace(each, start=node.start, end=node.end, inner=(each.start, each.end))
            for each in self._free(root, "")
        ]

    def _free(self, node: JsonNode, key: str) -> Iterator[RequestText]:
        """Yield the texts of a value with names of its own, each behind its name."""
        label = f"{key}: " if key else ""
        match node:
            case JsonString(text=text) if text and text not in _WORDS:
                text = label + _without_line_numbers(text)
                yield RequestText(Form.GENERATED, text, node.start, node.end, label=len(label))
            case JsonPlain(text=text) if _NUMBER.match(text):
                yield RequestText(
                    Form.GENERATED,
                    label + text,
                    node.start,
                    node.end,
                    label=len(label),
                    quoted=False,
                )
            case JsonObject(members=members):
                self.others.update(name.text for name, _ in members)
                for name, value in members:
                    yield from self._free(value, name.text)
            case JsonList(items=items):
                for item in items:
                    yield from self._free(item, key)
            case _:
                pass


def without_random_ids(text: str) -> str:
    """Return the text with blanks for UUIDs, and for hexadecimal codes of their length or twice."""
    return _RANDOM_ID.sub(lambda match: " " * len(match[0]), text)


def _without_line_numbers(text: str) -> str:
    """Return a listing with blanks for its line numbers, which hide fields and columns."""
    found = list(_LINE_NUMBER.finditer(text))
    pieces: list[str] = []
    at, before = 0, -1
    for match, following in zip(found, [*found[1:], None], strict=False):
        number = int(match[2])
        after = -1 if following is None else int(following[2])
        if match[1] or match[3] == "→" or number - before == 1 or after - number == 1:
            pieces += [text[at : match.start()], " " * len(match[0])]
            at = match.end()
        before = number
    return "".join([*pieces, text[at:]])
