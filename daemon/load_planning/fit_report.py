"""Reports whether and how a model would run here, before it is loaded or downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingle.models.catalog import CatalogEntry
from ingle.models.errors import ModelNotFound
from ingle.models.fit.llama_cpp_fit import MemoryEstimate
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.model_reference import HubReference, parse_reference

from ..client.model_types import FitReport, MemoryShare
from ..client.model_types import MemoryNeeds as WireMemoryNeeds
from ..services import Services
from .load_planner import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingle.backends.selection.model_placement import Placement
    from ingle.models.gguf.gguf_header import GGUFHeader
    from ingle.models.safetensors.model_folder import ModelFolder

_STEP = 256
_SHORTEST = 256


@dataclass(frozen=True)
class _Subject:
    """A model to report on; `select` returns its placement with a context."""

    name: str
    installed: bool
    size: int
    licence: str
    architecture: str
    parameters: int
    quantization: str
    trained: int
    select: Callable[[int | None], Placement]
    fetched: int = 0


def report_fit(services: Services, reference: str, context: int | None = None) -> FitReport:
    """Report on a model that is installed, in the catalog or on the hub; blocking, may use the
    network.

    `context` is the context to assume. Raises the `ModelError`s of finding and describing the
    model, `SourceUnavailable` among them, and `LoadFailed` if no engine is installed for it.
    """
    available = services.manager.available()
    subject = _find(services, reference, available)
    selection = subject.select(context)
    fits = selection.needs.fits_in(available)
    return FitReport(
        name=subject.name,
        installed=subject.installed,
        size=subject.size,
        licence=subject.licence,
        architecture=subject.architecture,
        parameters=subject.parameters,
        quantization=subject.quantization,
        trained_context=subject.trained,
        fits=fits,
        reason=selection.reason,
        engine=selection.engine.replace(".", "_"),  # as the API has always named it
        device=selection.device,
        layers=selection.layers,
        gpu_layers=selection.gpu_layers,
        cpu_experts=selection.cpu_experts,
        context=selection.context,
        longest_context=_longest(subject, available),
        host=_share(selection.estimate.host),
        gpu=_share(selection.estimate.gpu),
        needs=_needs(selection.needs),
        available=_needs(available),
        fetched=subject.fetched,
    )


def _longest(subject: _Subject, available: MemoryNeeds) -> int:
    """Return the largest context in tokens that would fit, by bisection; 0 for none."""

    def fits(steps: int) -> bool:
        context = min(steps * _STEP, subject.trained)
        return subject.select(context).needs.fits_in(available)

    low, high = 0, max(1, -(-subject.trained // _STEP))
    if fits(high):
        return subject.trained
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * _STEP


def _find(services: Services, reference: str, available: MemoryNeeds) -> _Subject:
    try:
        model = services.resolve(reference)
    except ModelNotFound:
        entry = services.catalog.find(reference)
        if entry is not None and entry.shape is not None:
            return _of_entry(services, entry, available)
        where = entry if entry is not None else parse_reference(reference)
        if not isinstance(where, CatalogEntry | HubReference):
            raise
        name = where.full_name if isinstance(where, CatalogEntry) else str(where)
        services.store.check_online(name)
        return _of_remote(services, where, available)
    from ingle.backends.selection.load_spec_builder import describe

    description = describe(model.path)
    return _Subject(
        name=model.name,
        installed=True,
        size=model.size,
        licence=model.licence,
        architecture=model.architecture,
        parameters=model.parameters,
        quantization=model.quantization,
        trained=model.context,
        select=_selector(services, description, available),
    )


def _of_entry(services: Services, entry: CatalogEntry, available: MemoryNeeds) -> _Subject:
    assert entry.shape is not None
    return _Subject(
        name=entry.full_name,
        installed=False,
        size=entry.size,
        licence=entry.licence,
        architecture=entry.shape.architecture,
        parameters=entry.parameters,
        quantization=entry.quantization,
        trained=entry.context,
        select=lambda context: services.planner.select_entry(
            entry, available=available, context=context
        ),
    )


def _of_remote(
    services: Services, where: CatalogEntry | HubReference, available: MemoryNeeds
) -> _Subject:
    from ingle.models.download.remote_model import read_remote_model
    from ingle.models.download.wanted_models import catalog_model, hub_model
    from ingle.models.gguf.gguf_header import GGUFHeader

    listed = isinstance(where, CatalogEntry)
    found = read_remote_model(catalog_model(where) if listed else hub_model(where))
    description = found.description
    is_file = isinstance(description, GGUFHeader)
    return _Subject(
        name=found.name,
        installed=False,
        size=found.size or description.tensor_bytes,
        licence=where.licence if listed else found.licence,
        architecture=description.architecture if is_file else description.config.architecture,
        parameters=description.parameters,
        quantization=description.quantization,
        trained=description.context if is_file else description.config.context,
        select=_selector(services, description, available),
        fetched=found.fetched,
    )


def _selector(
    services: Services, description: GGUFHeader | ModelFolder, available: MemoryNeeds
) -> Callable[[int | None], Placement]:
    def select(context: int | None) -> Placement:
        options = LoadOptions(context=context)
        return services.planner.select(description, options, available=available)

    return select


def _share(estimate: MemoryEstimate) -> MemoryShare:
    return MemoryShare(
        weights=estimate.weights,
        kv=estimate.kv,
        compute=estimate.compute,
        runtime=estimate.runtime,
        total=estimate.total,
    )


def _needs(needs: MemoryNeeds) -> WireMemoryNeeds:
    return WireMemoryNeeds(needs.host, needs.gpu)
