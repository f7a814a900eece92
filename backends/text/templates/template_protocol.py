"""Messages between `TemplateRenderer` and its helper process, one answer per request.

Framed as the worker protocol: a little-endian u32 length, then that many bytes of msgpack.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ...base.framing import frame


class Compile(msgspec.Struct, frozen=True, tag="compile"):
    """The first request: the template, and the bytes of memory the helper may add to itself.

    With `memory` None the parent watches memory instead.
    """

    source: str
    memory: int | None


class Render(msgspec.Struct, frozen=True, tag="render"):
    """Render within `cpu_seconds` into at most `characters`."""

    variables: dict[str, object]
    characters: int
    cpu_seconds: int


ToHelper = Compile | Render


class HelperReady(msgspec.Struct, frozen=True, tag="ready"):
    """Sent unasked once the helper's imports are done, and once the template is compiled."""


class Rendered(msgspec.Struct, frozen=True, tag="rendered"):
    """The whole prompt."""

    text: str


class RenderFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The reason why a template could not be compiled or rendered; for `refused` its own words."""

    kind: Literal["syntax", "refused", "error", "memory", "recursion", "output"]
    message: str


FromHelper = HelperReady | Rendered | RenderFailed


def pack(message: ToHelper | FromHelper) -> bytes:
    """Return one frame; raises `UnicodeEncodeError` if a text holds a lone surrogate."""
    return frame(msgspec.msgpack.encode(message))
