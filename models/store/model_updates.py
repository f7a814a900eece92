"""Compare installed models with what their sources have now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ..errors import ModelNotFound, SourceUnavailable
from ..metadata.manifest import file_digests
from ..metadata.stored_model import StoredModel
from ..model_reference import HubReference, parse_reference

if TYPE_CHECKING:
    from ..download.model_download import WantedModel
    from .model_store import ModelStore


class ModelUpdate(msgspec.Struct, frozen=True):
    """Whether the source of a model has another file now; `reason` explains `unknown`."""

    name: str
    state: Literal["current", "changed", "unknown"]
    reason: str = ""


def find_update(store: ModelStore, model: StoredModel) -> ModelUpdate:
    """Compare one model; the hub is asked about its own models, and the catalog about others.

    Blocks. Raises `Offline`.
    """
    if model.place or model.parent:
        return ModelUpdate(model.name, "unknown", "it was added or made on this machine")
    entry = store.catalog.find(model.name)
    if entry is not None:
        same = entry.sha256 == model.sha256
        return ModelUpdate(model.name, "current" if same else "changed")
    try:
        parsed = parse_reference(model.name)
    except ModelNotFound:  # a name by its path
        parsed = None
    if not isinstance(parsed, HubReference):
        return ModelUpdate(model.name, "unknown", "it has no source")
    store.check_online(model.name)
    from ..download.wanted_models import hub_model

    try:
        wanted = hub_model(parsed)
    except (ModelNotFound, SourceUnavailable) as error:
        return ModelUpdate(model.name, "unknown", error.message)
    return _compare(model, wanted, file_digests(store.folders.path(model.name)))


def _compare(model: StoredModel, wanted: WantedModel, here: dict[str, str]) -> ModelUpdate:
    """Compare the files of which the hub states digests."""
    stated = {
        Path(each.file.name).name: each.file.sha256 for each in wanted.files if each.file.sha256
    }
    if not stated:
        return ModelUpdate(model.name, "unknown", "its repository states no digests")
    same = all(here.get(name) == digest for name, digest in stated.items())
    return ModelUpdate(model.name, "current" if same else "changed")
