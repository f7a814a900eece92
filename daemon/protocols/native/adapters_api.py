"""Adapters of models: under `/ingle/v1/adapters`, and by vLLM's two routes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.models.adapters.adapter_folder import SEPARATOR, without_adapter
from ingle.models.adapters.adapter_settings import weights_of
from ingle.models.errors import ModelError
from ingle.models.metadata.stored_model import StoredModel

from ...access.permission import KeyNotAllowed, current_permission
from ...client.adapter_types import AdapterEntries, AdapterEntry
from ...errors import InvalidBody
from ...http.bodies import OPENAI
from ...http.route_access import LISTS, MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import route
from ..services_api import ServicesApi
from .native_api import native_route

_ERRORS = (400, 404, 413, 422)


class AdapterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter to add: the model that it is for, the folder or GGUF file, and its name."""

    model: str
    path: str
    name: str


class LoraRequest(msgspec.Struct, frozen=True, kw_only=True):
    """vLLM's request; `lora_name` is the model's with `+` and the adapter's own."""

    lora_name: str
    lora_path: str = ""


class AdaptersApi(ServicesApi):
    """Routes about adapters. A loaded model takes up a new one at its first request."""

    @native_route("GET", "/ingle/v1/adapters", access=LISTS)
    async def adapters(self) -> AdapterEntries:
        """The adapters of all models that the sender may use."""
        return AdapterEntries(adapters=await asyncio.to_thread(self._list))

    @native_route("POST", "/ingle/v1/adapters", access=MODELS_UNRESTRICTED, errors=_ERRORS)
    async def add_adapter(self, body: AdapterRequest) -> AdapterEntry:
        """Copy a LoRA adapter, saved by PEFT or a GGUF file, and give it a name."""
        return await self._add(body.model, body.path, body.name)

    @native_route("DELETE", "/ingle/v1/adapters/{name:path}", access=MODELS, errors=(404, 422))
    async def remove_adapter(self, name: str) -> AdapterEntry:
        """Remove an adapter's files; a loaded model frees it once it computes nothing."""
        return await self._remove(name)

    @route(
        "POST",
        "/v1/load_lora_adapter",
        access=MODELS_UNRESTRICTED,
        error_format=OPENAI,
        errors=_ERRORS,
    )
    async def load_lora(self, body: LoraRequest) -> AdapterEntry:
        """Add an adapter, as vLLM does."""
        model, plus, name = body.lora_name.rpartition(SEPARATOR)
        if not plus:
            raise InvalidBody(
                f"'lora_name' must be MODEL{SEPARATOR}NAME, by which requests name it.",
                param="lora_name",
            )
        return await self._add(model, body.lora_path, name)

    @route("POST", "/v1/unload_lora_adapter", access=MODELS, error_format=OPENAI, errors=_ERRORS)
    async def unload_lora(self, body: LoraRequest) -> AdapterEntry:
        """Remove an adapter, as vLLM does."""
        return await self._remove(body.lora_name)

    def _list(self) -> list[AdapterEntry]:
        adapters = self._services.store.adapters
        entries: list[AdapterEntry] = []
        for name in adapters.models():
            with suppress(ModelError, KeyNotAllowed):  # it is gone, or not for this key
                entries += map(_entry, adapters.of_model(self._services.resolve(name)))
        return entries

    async def _add(self, model: str, path: str, name: str) -> AdapterEntry:
        base, before = await asyncio.to_thread(self._find_same, model, name)
        found = await asyncio.to_thread(self._add_files, base, path, name)
        if before is not None and before != found.adapter:
            self._drop(base, before)
        return _entry(found)

    def _find_same(self, model: str, name: str) -> tuple[StoredModel, str | None]:
        """Return the model, and the folder of its adapter of this name, if there is one."""
        base = without_adapter(self._services.resolve(model))
        wanted = f"{base.name}{SEPARATOR}{name}"
        known = self._services.store.adapters.of_model(base)
        return base, next((each.adapter for each in known if each.name == wanted), None)

    def _drop(self, base: StoredModel, folder: str) -> None:
        run = self._services.manager.find(base)
        if run is not None and run.backend is not None:
            run.backend.drop_adapter(folder)

    def _add_files(self, base: StoredModel, path: str, name: str) -> StoredModel:
        if not Path(path).is_absolute():
            raise InvalidBody("The path of an adapter must be absolute.", param="path")
        return self._services.store.adapters.add(base, Path(path), name)

    async def _remove(self, name: str) -> AdapterEntry:
        found, entry = await asyncio.to_thread(self._remove_files, name)
        self._drop(without_adapter(found), found.adapter)
        return entry

    def _remove_files(self, name: str) -> tuple[StoredModel, AdapterEntry]:
        found = self._services.resolve(name)
        current_permission().check_model(without_adapter(found).name)
        if not found.adapter:
            raise InvalidBody(f"{found.name} is a model, not an adapter.", param="name")
        entry = _entry(found)
        self._services.store.adapters.remove(found)
        return found, entry


def _entry(model: StoredModel) -> AdapterEntry:
    return AdapterEntry(
        name=model.name,
        model=without_adapter(model).name,
        size=weights_of(Path(model.adapter)).stat().st_size,
        path=model.adapter,
    )
