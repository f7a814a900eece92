"""A model on this machine: its name, path and the facts known without opening its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..model_task import ModelTask


class FirstMessage(msgspec.Struct, frozen=True):
    """A message that every conversation with a model begins with."""

    role: str
    content: str


class StoredModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this machine, a file or a folder, and what is known about it without opening it.

    `sampling` holds recommended values by the names of the request fields; `sha256` is that of the
    file, the fingerprint of a folder, and None for a file that was not fetched by the store;
    `chat_template` replaces the file's own, if it is set; `draft` names a model that can draft for
    this one; `dimensions` are the lengths that vectors may be cut to. A model that was made from
    another, its `parent`, may have a `system` prompt, first `messages`, and `options` in Ollama's
    words.
    """

    name: str
    path: Path
    size: int
    sha256: str | None
    licence: str
    description: str
    parameters: int
    quantization: str
    architecture: str
    context: int
    chat: bool
    sampling: dict[str, float]
    source: str
    chat_template: str | None = None
    draft: str | None = None
    task: ModelTask = ModelTask.GENERATE
    dimensions: list[int] = []
    parent: str = ""
    system: str = ""
    messages: list[FirstMessage] = []
    options: dict[str, Any] = {}
    place: str = ""
    notes: list[str] = []


class UnusableModel(msgspec.Struct, frozen=True):
    """A model file or folder that cannot be used, and the reason."""

    name: str
    path: str
    place: str
    reason: str
