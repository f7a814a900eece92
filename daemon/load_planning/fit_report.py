"""Reports whether and how a model would run here, before it is loaded or downloaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ingle.models.catalog import CatalogEntry
from ingle.models.errors import ModelNotFound
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_reference import HubReference, parse_reference
from ingle.models.struct_preparation import prepared

from ..client.model_types import FitReport, MemoryShare
from ..machine.memory_reader import memory_bytes
from ..services import Services
from .context_choice import longest_context
from .load_options import LoadOptions

if TYPE_CHECKING:
    from ingle.backends.selection.model_placement import Placement
    from ingle.models.gguf.gguf_header import GGUFHeader
    from ingle.models.safetensors.model_folder import ModelFolder

    from .load_planner import ModelLoadPlanner

Select = Callable[["ModelLoadPlanner", int | None], "Placement"]
"""Returns the placement of a model with a context in tokens; None lets the planner choose."""


def report_fit(services: Services, reference: str, context: int | None = None) -> FitReport:
    """Report on a model that is installed, in the catalog or on the hub; blocking, may use the
    network.

    `context` is the context to assume. Raises the `ModelError`s of finding and describing the
    model, `SourceUnavailable` among them, and `LoadFailed` if no engine is installed for it.
    """
    available = services.manager.available()
    report, select, model = _find(services, reference, available)
    planner = services.planner
    placement = select(planner, context)
    needs, draft, draft_needs = placement.needs, "", MemoryNeeds()
    if model is not None:
        plan = planner(model, LoadOptions(context=context), available=available)
        needs, draft, draft_needs = plan.needs, plan.draft, plan.draft_needs
    with_engine = ""
    if placement.device == "cpu" and (offered := planner.offered) is not None:
        better = select(offered.planner, context)
        with_engine = offered.sentence(better.reason) if better.device == "gpu" else ""
    share = partial(msgspec.convert, type=prepared(MemoryShare), from_attributes=True)
    return msgspec.structs.replace(
        report,
        fits=needs.fits_in(available),
        reason=placement.reason,
        engine=placement.engine.replace(".", "_"),  # as the API has always named it
        device=placement.device,
        layers=placement.layers,
        gpu_layers=placement.gpu_layers,
        cpu_experts=placement.cpu_experts,
        context=placement.context,
        longest_context=longest_context(
            planner.most_context(report.trained_context), partial(select, planner), available
        ),
        host=share(placement.estimate.host),
        gpu=share(placement.estimate.gpu),
        other_gpus=[share(each) for each in placement.estimate.other_gpus],
        needs=memory_bytes(needs),
        available=memory_bytes(available),
        with_engine=with_engine,
        draft=draft,
        draft_needs=memory_bytes(draft_needs),
    )


def _find(
    services: Services, reference: str, available: MemoryNeeds
) -> tuple[FitReport, Select, StoredModel | None]:
    """Return the facts that do not depend on a placement, a selector, and the installed model."""
    try:
        model = services.resolve(reference)
    except ModelNotFound:
        entry = services.catalog.find(reference)
        if entry is not None and entry.shape is not None:
            return *_of_entry(entry, available), None
        where = entry if entry is not None else parse_reference(reference)
        if not isinstance(where, CatalogEntry | HubReference):
            raise
        name = where.full_name if isinstance(where, CatalogEntry) else str(where)
        services.store.check_online(name)
        return *_of_remote(where, available), None
    from ingle.backends.selection.load_spec_builder import describe

    report = _report(model, model.name, model.architecture, installed=True)
    return report, _selector(describe(model.path), available), model


def _report(
    model: StoredModel | CatalogEntry, name: str, architecture: str, *, installed: bool
) -> FitReport:
    return FitReport(
        name=name,
        installed=installed,
        size=model.size,
        licence=model.licence,
        architecture=architecture,
        parameters=model.parameters,
        quantization=model.quantization,
        trained_context=model.context,
    )


def _of_entry(entry: CatalogEntry, available: MemoryNeeds) -> tuple[FitReport, Select]:
    assert entry.shape is not None
    report = _report(entry, entry.full_name, entry.shape.architecture, installed=False)
    return report, lambda planner, context: planner.select_entry(
        entry, available=available, context=context
    )[0]


def _of_remote(
    where: CatalogEntry | HubReference, available: MemoryNeeds
) -> tuple[FitReport, Select]:
    from ingle.models.download.remote_model import read_remote_model
    from ingle.models.download.wanted_models import catalog_model, hub_model
    from ingle.models.gguf.gguf_header import GGUFHeader

    listed = isinstance(where, CatalogEntry)
    found = read_remote_model(catalog_model(where) if listed else hub_model(where))
    description = found.description
    shape = description if isinstance(description, GGUFHeader) else description.config
    report = FitReport(
        name=found.name,
        installed=False,
        size=found.size or description.tensor_bytes,
        licence=where.licence if listed else found.licence,
        architecture=shape.architecture,
        parameters=description.parameters,
        quantization=description.quantization,
        trained_context=shape.context,
        fetched=found.fetched,
    )
    return report, _selector(description, available)


def _selector(description: GGUFHeader | ModelFolder, available: MemoryNeeds) -> Select:
    return lambda planner, context: planner.select(
        description, LoadOptions(context=context), available=available
    )
