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


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a model that are known without opening its files; manifests hold them too.

    `sampling` holds recommended values by the names of the request fields; `chat_template` replaces
    the file's own, if it is set; `dimensions` are the lengths that vectors may be cut to; `place`
    is the program that keeps the file, empty for the store. A model that was made from another, its
    `parent`, may have a `system` prompt, first `messages`, and `options` with Ollama's names.
    """

    name: str
    size: int
    licence: str
    description: str
    parameters: int
    quantization: str
    architecture: str
    context: int
    chat: bool
    sampling: dict[str, float] = {}
    source: str
    task: ModelTask = ModelTask.GENERATE
    chat_template: str | None = None
    dimensions: list[int] = []
    parent: str = ""
    system: str = ""
    messages: list[FirstMessage] = []
    options: dict[str, Any] = {}
    place: str = ""

    def details(self, **changes: Any) -> dict[str, Any]:
        """The fields of this base class by name, with `changes` in place of their values."""
        return {name: getattr(self, name) for name in ModelDetails.__struct_fields__} | changes


class StoredModel(ModelDetails, frozen=True, kw_only=True):
    """A model on this machine, a file or a folder.

    `sha256` is that of the file, the fingerprint of a folder, and None for a file that was not
    fetched by the store; `draft` names a model that can draft for this one; `adapter` is the folder
    of a LoRA adapter that it is computed with; `notes` are for people. With a `projector` it sees
    pictures.
    """

    path: Path
    sha256: str | None
    draft: str | None = None
    projector: Path | None = None
    adapter: str = ""
    notes: list[str] = []


class UnusableModel(msgspec.Struct, frozen=True):
    """A model file or folder that cannot be used, and the reason."""

    name: str
    path: str
    place: str
    reason: str
