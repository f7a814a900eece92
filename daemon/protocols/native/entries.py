"""Models as the native API lists them: what is here, then what the catalog offers."""

from __future__ import annotations

import shutil

from ingle.models.catalog import CatalogEntry
from ingle.models.stored_model import StoredModel

from ...model_fit import ModelFit
from ...services import Services
from .types import ModelEntries, ModelEntry


def list_entries(services: Services) -> ModelEntries:
    """All of them; blocking, since it reads the store."""
    installed = services.models()
    names = {model.name for model in installed}
    offered = [entry for entry in services.catalog.entries if entry.full_name not in names]
    pulling = services.pulls.running()
    available = services.manager.available()
    return ModelEntries(
        models=[
            *(_entry(services, model, available) for model in installed),
            *(
                _catalog_entry(services, entry, entry.full_name in pulling, available)
                for entry in offered
            ),
        ],
        pulls=services.pulls.progress(),
        disk_free=_disk_free(services),
    )


def model_entry(services: Services, model: StoredModel) -> ModelEntry:
    """A model that is here."""
    return _entry(services, model, services.manager.available())


def _entry(services: Services, model: StoredModel, available: int) -> ModelEntry:
    run = services.manager.find(model)
    measured = services.fits.measure(run, available=available) if run is not None else None
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
        task=model.task,
        fit=measured or _forecast(services, model, available),
        draft=model.draft,
    )


def _catalog_entry(
    services: Services, entry: CatalogEntry, downloading: bool, available: int
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
        task=entry.task,
        fit=_forecast(services, entry, available),
        draft=entry.draft,
    )


def _forecast(services: Services, model: StoredModel | CatalogEntry, available: int) -> ModelFit:
    return services.fits.forecast(
        size=model.size,
        parameters=model.parameters,
        trained=model.context,
        available=available,
    )


def _disk_free(services: Services) -> int:
    """Room where models are kept; 0 where nobody can tell."""
    folder = services.config.paths.models
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return 0
