"""Candidate models for a recommendation: installed ones, and those of the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from ingle.backends.advice.advice_request import Candidate
from ingle.backends.advice.typical_model import typical_costs
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.engine_choice import why_not_preferred
from ingle.backends.selection.load_spec_builder import describe
from ingle.models.catalog import Catalog, CatalogEntry
from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

_PLAIN_BITS = 15.0
_CODE = ("coder", "code", "starcoder", "devstral")
"""Words in the names of models made for code."""


def find_candidates(models: list[StoredModel], catalog: Catalog) -> Iterator[Candidate]:
    """Yield a candidate for each model that can be read, by its header."""
    here = {model.name for model in models}
    for model in models:
        candidate = stored_candidate(model)
        if candidate is not None:
            yield candidate
    for entry in catalog.entries:
        if entry.full_name not in here:
            yield _offered(entry)


def stored_candidate(model: StoredModel) -> Candidate | None:
    """Return a candidate by its header; None if that cannot be read."""
    try:
        description = describe(model.path)
        costs = ModelCosts.of(description)
        own = costs.config is not None and not why_not_preferred(description)
    except (ModelError, OSError):
        return None
    bits = costs.stored * 8 / max(1, costs.parameters)
    return Candidate(
        name=model.name,
        costs=costs,
        quantization=model.quantization,
        licence=model.licence,
        chat=model.chat,
        codes=_for_code(model.name),
        embeds=model.task is ModelTask.EMBED,
        installed=True,
        runs_on_own=own,
        plain=not isinstance(description, GGUFHeader) and bits >= _PLAIN_BITS,
        draft=model.draft,
    )


def _offered(entry: CatalogEntry) -> Candidate:
    embeds = entry.task is ModelTask.EMBED
    return Candidate(
        name=entry.full_name,
        costs=typical_costs(
            entry.parameters,
            entry.size,
            entry.context,
            tensor_type=_tensor_type(entry.quantization),
            embeds=embeds,
            active=entry.active_parameters,
        ),
        quantization=entry.quantization,
        licence=entry.licence,
        chat=entry.chat,
        codes=_for_code(entry.full_name),
        embeds=embeds,
        exact=False,
        runs_on_own=not embeds and not entry.active_parameters,
        draft=entry.draft,
    )


def _tensor_type(quantization: str) -> str:
    """Return the type of most tensors: "Q4_K" for "Q4_K_M"."""
    parts = quantization.split("_")
    return "_".join(parts[:2]) if len(parts) > 2 else quantization


def _for_code(name: str) -> bool:
    return any(word in name.lower() for word in _CODE)
