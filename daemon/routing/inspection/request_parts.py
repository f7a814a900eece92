"""Enumerates all texts that a request would send."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage, Infill
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams

from ..detectors.finding import TextPart

_NO_SAMPLING = SamplingParams()
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_INSTRUCTIONS = ("system", "developer")
_LONGEST_OWN_INSTRUCTIONS = 2_000  # characters; longer ones are those of a program
_NO_PROSE = ("tools[", "tool_choice.", "grammar.", "reasoning.", "stop[", "sampling.")

Value = TypeVar("Value", bound=msgspec.Struct)


def parts_of(request: GenerateRequest) -> list[TextPart]:
    """Return all texts of a request in conversation order, without empty ones.

    Content that is not text is not included, see `opaque_part`.
    """
    parts: list[TextPart] = []

    unwritten = _unwritten(request)

    def note(where: str, text: str) -> str:
        prose = not where.startswith(_NO_PROSE) and where.partition(".")[0] not in unwritten
        parts.append(TextPart(where, text, prose))
        return text

    _Rewriter(note).request(request)
    return parts


def _unwritten(request: GenerateRequest) -> frozenset[str]:
    """Return the places of messages that no person wrote: answers, and an agent's instructions."""
    return frozenset(
        f"messages[{number}]"
        for number, message in enumerate(request.messages or ())
        if message.role == "assistant"
        or (
            message.role in _INSTRUCTIONS
            and (request.tools or len(message.content) > _LONGEST_OWN_INSTRUCTIONS)
        )
    )


def with_texts(request: GenerateRequest, texts: Sequence[str]) -> GenerateRequest:
    """Return the request with its parts replaced by `texts`, in their order."""
    left = iter(texts)
    changed = _Rewriter(lambda where, text: next(left)).request(request)
    if next(left, None) is not None:
        raise ValueError("there are more texts than the request has parts")
    return changed


def opaque_part(request: GenerateRequest) -> str | None:
    """Return where the request has content that is not text, such as token ids; None if nowhere."""
    if isinstance(request.prompt, list):
        return "prompt"
    if request.pictures:
        return "pictures"
    for number, message in enumerate(request.messages or ()):
        if message.pictures or message.documents:
            return f"messages[{number}].{'pictures' if message.pictures else 'documents'}"
    return "sampling.logit_bias" if request.sampling.logit_bias else None


def parts_digest(parts: Iterable[TextPart]) -> bytes:
    """Return the SHA-256 of texts and their places."""
    digest = hashlib.sha256()
    for part in parts:
        for text in (part.where, part.text):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8))
            digest.update(encoded)
    return digest.digest()


class _Rewriter:
    """Applies `change` to every non-empty text of a request, with its place."""

    def __init__(self, change: Callable[[str, str], str]) -> None:
        self._change = change

    def request(self, request: GenerateRequest) -> GenerateRequest:
        changed: dict[str, Any] = {}
        if request.messages is not None:
            changed["messages"] = [
                self._message(f"messages[{number}]", message)
                for number, message in enumerate(request.messages)
            ]
        if isinstance(request.prompt, str):
            changed["prompt"] = self._text("prompt", request.prompt)
        if request.infill is not None:
            changed["infill"] = self._infill(request.infill)
        changed["tools"] = [
            self._fields(f"tools[{number}]", tool, "name", "description", "parameters")
            for number, tool in enumerate(request.tools)
        ]
        names = self._texts("tool_choice.names", request.tool_choice.names)
        changed["tool_choice"] = replace(request.tool_choice, names=names)
        if request.grammar is not None:
            changed["grammar"] = self._fields("grammar", request.grammar, "text")
        changed["template_variables"] = self._json("template_variables", request.template_variables)
        if request.reasoning.effort:
            changed["reasoning"] = self._fields("reasoning", request.reasoning, "effort")
        changed["stop"] = self._texts("stop", request.stop)
        breakers = request.sampling.dry_sequence_breakers
        if breakers != _NO_SAMPLING.dry_sequence_breakers:
            texts = tuple(self._texts("sampling.dry_sequence_breakers", breakers))
            changed["sampling"] = replace(request.sampling, dry_sequence_breakers=texts)
        return replace(request, **changed)

    def _message(self, where: str, message: ChatMessage) -> ChatMessage:
        if message.role not in _ROLES:
            message = self._fields(where, message, "role")
        message = self._fields(where, message, "name", "reasoning", "content")
        calls = [
            self._fields(f"{where}.tool_calls[{number}]", call, "name", "arguments", "id")
            for number, call in enumerate(message.tool_calls)
        ]
        return self._fields(where, replace(message, tool_calls=calls), "tool_call_id")

    def _infill(self, infill: Infill) -> Infill:
        files = [
            self._fields(f"infill.files[{number}]", file, "name", "text")
            for number, file in enumerate(infill.files)
        ]
        return self._fields("infill", replace(infill, files=files), "prefix", "middle", "suffix")

    def _fields(self, where: str, value: Value, *names: str) -> Value:
        """Return the struct with its texts of these names changed."""
        texts = {name: self._text(f"{where}.{name}", getattr(value, name)) for name in names}
        return replace(value, **texts)

    def _texts(self, where: str, texts: Sequence[str]) -> list[str]:
        return [
            self._change(f"{where}[{number}]", text) if text else text
            for number, text in enumerate(texts)
        ]

    def _text(self, where: str, text: str | None) -> str | None:
        return self._change(where, text) if text else text

    def _json(self, where: str, value: Any) -> Any:
        """Return a JSON value with its texts changed, including keys and numbers."""
        match value:
            case dict():
                pairs = cast(dict[str, Any], value).items()
                return {
                    self._text(f"{where} (key)", key): self._json(f"{where}.{key}", inner)
                    for key, inner in pairs
                }
            case list():
                inner = enumerate(cast(list[Any], value))
                return [self._json(f"{where}[{number}]", each) for number, each in inner]
            case None | bool():
                return value
            case _:
                changed = self._text(where, str(value))
                return value if changed == str(value) else changed
