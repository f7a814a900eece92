"""A request of a guarded program: what is judged of it, and what of it leaves."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ingle.backends.base.conversation import ChatMessage, ToolCall
from ingle.backends.base.requests import GenerateRequest

from ..egress.redaction import RedactedPart
from ..inspection.request_parts import parts_of
from .json_nodes import (
    JsonObject,
    JsonString,
    NotJson,
    quoted,
    read_nodes,
    replaced,
    written_places,
)
from .request_texts import Form, RequestText, request_texts, without_random_ids

Headers = list[tuple[str, str]]

CREDENTIALS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "chatgpt-account-id",
    }
)
"""Headers of a program's own login, which are neither judged nor changed."""


class CannotMask(ValueError):
    """What was found stands where no placeholder can."""


@dataclass(frozen=True)
class GuardedRequest:
    """A request as the program sent it; `body` is its decoded text, `target` the path and query.

    `texts` are all that would leave, `view` the request that the policy judges: one message for
    each of them.
    """

    target: str
    headers: Headers
    body: str
    texts: tuple[RequestText, ...]
    view: GenerateRequest
    model: str = ""

    @classmethod
    def read(
        cls, name: str, target: str, headers: Headers, body: str, received: Container[str]
    ) -> GuardedRequest:
        """Return the request `name`; raises `NotJson` for a body that is not JSON.

        `received` are signed texts that came from the provider.
        """
        texts: list[RequestText] = []
        model = ""
        if body:
            root = read_nodes(body)
            texts = request_texts(root, received)
            if isinstance(root, JsonObject):
                model = root.word("model")[:200]
        texts.append(RequestText(Form.GENERATED, unquote(target), fixed=True))
        texts += [
            RequestText(Form.PROGRAM, without_random_ids(value), header=number)
            for number, (key, value) in enumerate(headers)
            if key not in CREDENTIALS and value
        ]
        view = GenerateRequest(id=name, messages=[_message(text) for text in texts])
        return cls(target, headers, body, tuple(texts), view, model)

    def masked(self, changed: Sequence[RedactedPart]) -> tuple[Headers, str]:
        """Return headers and body with these parts of the view replaced; all else is unchanged.

        Raises `CannotMask`.
        """
        wheres = [part.where for part in parts_of(self.view)]
        by_where = dict(zip(wheres, self.texts, strict=True))
        headers = list(self.headers)
        changes: list[tuple[int, int, str]] = []
        for part in changed:
            text = by_where[part.where]
            if text.fixed:
                raise CannotMask
            if text.header is not None:
                name, value = headers[text.header]
                spans = [(start, end, f"[{mask}]") for start, end, mask in part.spans]
                headers[text.header] = name, replaced(value, spans)
            else:
                changes += _changes(self.body, text, part)
        return headers, replaced(self.body, sorted(changes))

    def for_model(self, model: str) -> str:
        """Return the body with the name of another model."""
        root = read_nodes(self.body)
        named = root.find("model") if isinstance(root, JsonObject) else None
        if not isinstance(named, JsonString):
            raise NotJson("it names no model")
        return replaced(self.body, [(named.start, named.end, f'"{quoted(model)}"')])


def _message(text: RequestText) -> ChatMessage:
    match text.form:
        case Form.WRITTEN:
            return ChatMessage("user", text.text)
        case Form.GENERATED | Form.PROGRAM:
            return ChatMessage("assistant", text.text)
        case Form.NAME:
            return ChatMessage("assistant", "", tool_calls=[ToolCall("", text.text, "")])


def _changes(body: str, text: RequestText, part: RedactedPart) -> list[tuple[int, int, str]]:
    """Return what a redacted part changes in the body; raises `CannotMask`."""
    literal = body[text.start : text.end]
    outer = "" if text.inner is None else str(json.loads(literal))
    inner = literal if text.inner is None else outer[text.inner[0] : text.inner[1]]
    changes: list[tuple[int, int, str]] = []
    for start, end, name in part.spans:
        # Blanks and signs before a value may count to it, but its label cannot be replaced.
        if end <= text.label or any(map(str.isalnum, text.text[start : text.label])):
            raise CannotMask
        places = [max(start, text.label) - text.label, end - text.label]
        new = name if text.form is Form.NAME else f"[{name}]"
        if text.quoted:
            places = written_places(inner, places)
        else:  # a number becomes a string
            places, new = [0, len(inner)], f'"[{name}]"'
        if text.inner is not None:
            places = written_places(literal, [text.inner[0] + place for place in places])
            new = quoted(new)
        first, last = places
        changes.append((text.start + first, text.start + last, new))
    return changes
