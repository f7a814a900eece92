"""Entries of the model list in the native API: installed models, then those of the catalog."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import msgspec

from ingle.models.catalog import CatalogEntry
from ingle.models.errors import ModelNotFound
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_removal import RemovalReport

from ...client.model_types import (
    DownloadProgress,
    KeptVersion,
    ModelEntries,
    ModelEntry,
    Removed,
    UnfinishedPull,
    UnusableEntry,
)
from ...model_process.loaded_model import quarantine_left
from ...services import Services


def list_entries(services: Services) -> ModelEntries:
    """Return all entries; blocks, since it reads the store."""
    installed = services.models()
    names = {model.name for model in installed}
    twins = twins_of(installed)
    offered = [entry for entry in services.catalog.entries if entry.full_name not in names]
    pulling = services.pulls.running()
    available = services.manager.available()
    return ModelEntries(
        models=[
            *(_entry(services, model, available, twins.get(model.name)) for model in installed),
            *(
                _catalog_entry(services, entry, entry.full_name in pulling, available)
                for entry in offered
            ),
        ],
        pulls=msgspec.convert(
            services.pulls.progress(), list[DownloadProgress], from_attributes=True
        ),
        disk_free=_disk_free(services),
        unusable=msgspec.convert(
            services.store.unusable(), list[UnusableEntry], from_attributes=True
        ),
        unfinished=[
            UnfinishedPull(name, received)
            for name, received in sorted(services.store.folders.unfinished().items())
            if received and not {name, name.rpartition(":")[0]} & pulling
        ],
    )


def removed(services: Services, plan: RemovalReport) -> Removed:
    """Return the answer to a removal, or to its dry run."""
    loaded = next((m for m in services.manager.loaded() if m.name == plan.name), None)
    return Removed(
        removed=plan.name,
        freed=plan.frees,
        files=plan.files,
        keeps=plan.keeps,
        place=plan.place,
        shared_with=plan.shared_with,
        loaded=loaded is not None,
        running=loaded.running if loaded is not None else 0,
    )


def twins_of(models: Sequence[StoredModel]) -> dict[str, str]:
    """Return the name of the first model with the same weights, for each later one."""
    first: dict[str, str] = {}
    twins: dict[str, str] = {}
    for model in models:
        if model.sha256 is None:
            continue
        name = first.setdefault(model.sha256, model.name)
        if name != model.name:
            twins[model.name] = name
    return twins


def find_entry(services: Services, reference: str, *, catalog: bool = False) -> ModelEntry:
    """Return the entry of an installed model, with `catalog` also of one that is not.

    Blocks; raises what `Services.resolve` raises.
    """
    try:
        return model_entry(services, services.resolve(reference))
    except ModelNotFound:
        entry = services.catalog.find(services.canonical(reference)) if catalog else None
        if entry is None:
            raise
    downloading = entry.full_name in services.pulls.running()
    return _catalog_entry(services, entry, downloading, services.manager.available())


def model_entry(services: Services, model: StoredModel) -> ModelEntry:
    """Return the entry of an installed model, with its kept versions; blocks."""
    entry = _entry(services, model, services.manager.available())
    versions = services.store.versions_of(model)
    kept = versions.kept() if versions is not None else []
    return msgspec.structs.replace(
        entry, kept=[KeptVersion(each.sha256, each.size) for each in kept]
    )


def _entry(
    services: Services, model: StoredModel, available: MemoryNeeds, same_as: str | None = None
) -> ModelEntry:
    run = services.manager.find(model)
    measured = None
    if run is not None and run.info is not None:
        measured = services.fits.measure(
            run.info,
            run.needs,
            available,
            reason=run.reason,
            longest_context=run.longest_context,
        )
    return ModelEntry(
        name=model.name,
        installed=True,
        state=run.state.value if run is not None else "stopped",
        default=model.name == services.canonical(services.config.default_model),
        size=model.size,
        parameters=model.parameters,
        quantization=model.quantization,
        architecture=model.architecture,
        context=model.context,
        licence=model.licence,
        description=model.description,
        path=str(model.path),
        chat=model.chat,
        vision=model.projector is not None,
        task=model.task.value,
        fit=measured or services.fits.of_model(model, available),
        draft=model.draft,
        place=model.place,
        same_as=same_as,
        notes=model.notes,
        error=run.error if run is not None else None,
        quarantined_for=round(quarantine_left(run), 1) if run is not None else 0.0,
    )


def _catalog_entry(
    services: Services, entry: CatalogEntry, downloading: bool, available: MemoryNeeds
) -> ModelEntry:
    return ModelEntry(
        name=entry.full_name,
        installed=False,
        state="downloading" if downloading else "available",
        default=entry.full_name == services.canonical(services.config.default_model),
        size=entry.size,
        parameters=entry.parameters,
        quantization=entry.quantization,
        architecture="",
        context=entry.context,
        licence=entry.licence,
        description=entry.description,
        path=None,
        chat=entry.chat,
        task=entry.task.value,
        fit=services.fits.of_entry(entry, available),
        draft=entry.draft,
    )


def _disk_free(services: Services) -> int:
    """Return the free bytes of the models' disk; 0 if unknown."""
    folder = services.config.paths.models
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return 0
