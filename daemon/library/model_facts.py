"""Metadata and capabilities of a model, read from its file before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from ingle.backends.base.model_info import ModelInfo
from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import GGUFHeader, TensorInfo, read_header
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

_FIM_WORDS = ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "<｜fim▁begin｜>")
_FIM_KEYS = ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id")
_FIM_NAMES = ("coder", "codestral", "codellama", "codegemma", "starcoder", "code-", "fim")
_THOUGHTS = ("<think>", "enable_thinking", "reasoning_effort", "<|channel|>analysis")
_LARGEST_HEADER = 64 * 2**20
_MOST = 512

Scalar = int | float | bool | str


class Capabilities(msgspec.Struct, frozen=True):
    """What a model can do, for clients that ask before they offer it to users."""

    task: ModelTask
    calls_tools: bool = False
    reasons: bool = False
    infills: bool = False
    sees: bool = False


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One file's metadata without long lists, and the model's capabilities.

    `lists` has the short lists of numbers, and None for long ones.
    """

    format: Literal["gguf", "safetensors"]
    capabilities: Capabilities
    modified: float
    """Modification time of the file, in seconds since 1970."""
    template: str = ""
    metadata: Mapping[str, Scalar] = MappingProxyType({})
    lists: Mapping[str, list[int] | None] = MappingProxyType({})
    embedding_length: int = 0
    tensors: tuple[TensorInfo, ...] = ()


class FactsReader:
    """Reads model facts and caches them while files do not change; safe in any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Path], tuple[float, int, ModelFacts]] = {}

    def read(self, model: StoredModel) -> ModelFacts:
        """Return the facts of an installed model; fewer if its file cannot be read."""
        try:
            status = model.path.stat()
        except OSError:
            return _few(model, 0.0)
        key = model.name, model.projector or model.path  # copies of a model share its file
        known = self._known.get(key)
        if known is None or known[:2] != (status.st_mtime, status.st_size):
            if len(self._known) >= _MOST:
                self._known.clear()
            facts = _read(model, status.st_mtime)
            self._known[key] = known = (status.st_mtime, status.st_size, facts)
        facts = known[2]
        if model.chat_template is None or model.chat_template == facts.template:
            return facts
        # Several models may share one file but have different templates.
        return msgspec.structs.replace(
            facts,
            template=model.chat_template,
            capabilities=msgspec.structs.replace(
                facts.capabilities, **_of_template(model.chat_template)
            ),
        )


def loaded_capabilities(info: ModelInfo) -> Capabilities:
    """Return the capabilities that a loaded model reported."""
    return Capabilities(info.task, info.calls_tools, info.reasons, info.infills, info.sees)


def _read(model: StoredModel, modified: float) -> ModelFacts:
    if model.path.is_dir():
        return _few(model, modified, "safetensors")
    try:
        header = read_header(model.path)
    except ModelError:
        return _few(model, modified)
    template = header.chat_template or ""
    capabilities = Capabilities(model.task)
    if model.task is ModelTask.GENERATE:
        capabilities = Capabilities(
            model.task,
            infills=_infills(header, model),
            sees=model.projector is not None,
            **_of_template(template),
        )
    return ModelFacts(
        format="gguf",
        capabilities=capabilities,
        modified=modified,
        template=template,
        metadata=header.metadata,
        lists={
            key: list(header.per_layer[key]) if key in header.per_layer else None
            for key in header.arrays
        },
        embedding_length=header.embedding_length,
        tensors=header.tensors,
    )


def _few(
    model: StoredModel, modified: float, kind: Literal["gguf", "safetensors"] = "gguf"
) -> ModelFacts:
    architecture = model.architecture
    template = model.chat_template or ""
    return ModelFacts(
        format=kind,
        capabilities=Capabilities(
            model.task, sees=model.projector is not None, **_of_template(template)
        ),
        modified=modified,
        template=template,
        metadata={
            "general.architecture": architecture,
            f"{architecture}.context_length": model.context,
        },
    )


def _of_template(template: str) -> dict[str, bool]:
    return {
        "calls_tools": "tools" in template,
        "reasons": any(mark in template for mark in _THOUGHTS),
    }


def _infills(header: GGUFHeader, model: StoredModel) -> bool:
    """Whether it is trained for infill: it has the tokens, and a family trained with them."""
    if any(key in header.metadata for key in _FIM_KEYS):
        return True
    names = f"{model.name} {header.name} {header.metadata.get('general.basename', '')}".lower()
    if not any(word in names for word in _FIM_NAMES):
        return False
    start = min((t.offset for t in header.tensors if t.file == 0), default=_LARGEST_HEADER)
    with header.path.open("rb") as file:
        words = file.read(min(start, _LARGEST_HEADER))
    return any(word.encode() in words for word in _FIM_WORDS)
