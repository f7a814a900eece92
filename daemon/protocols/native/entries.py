"""Models as the native API lists them: what is here, then what the catalog offers."""

from __future__ import annotations

from ingle.models.catalog import CatalogEntry
from ingle.models.stored_model import StoredModel

from ...services import Services
from .types import ModelEntry


def list_entries(services: Services) -> list[ModelEntry]:
    """All of them; blocking, since it reads the store."""
    installed = services.models()
    names = {model.name for model in installed}
    offered = [entry for entry in services.catalog.entries if entry.full_name not in names]
    pulling = services.pulls.running()
    return [
        *(model_entry(services, model) for model in installed),
        *(_catalog_entry(services, entry, entry.full_name in pulling) for entry in offered),
    ]


def model_entry(services: Services, model: StoredModel) -> ModelEntry:
    """A model that is here."""
    run = services.manager.find(model)
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
    )


def _catalog_entry(services: Services, entry: CatalogEntry, downloading: bool) -> ModelEntry:
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
    )
