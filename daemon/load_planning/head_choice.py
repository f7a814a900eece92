"""Chooses the head that drafts for a model: its own, one beside it, or one that a load names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import OWN_HEAD
from ingle.backends.registry.engines import get_engine
from ingle.backends.registry.model_costs import ModelCosts
from ingle.models.errors import ModelError, UnsupportedModel
from ingle.models.fit.paged_fit import check_paged_kv_type
from ingle.models.heads.eagle_settings import is_eagle_folder, read_eagle_settings
from ingle.models.heads.medusa_settings import is_medusa_folder
from ingle.models.heads.mtp_file import is_mtp_file
from ingle.models.metadata.stored_model import StoredModel, UnusableModel


class HeadChoice(NamedTuple):
    """A head, where it is, and the costs of the model with it."""

    name: str
    path: Path
    costs: ModelCosts


def choose_head(
    model: StoredModel,
    costs: ModelCosts,
    spec: LoadSpec,
    named: str | None,
    find_heads: Callable[[StoredModel], Iterable[UnusableModel]],
    resolve: Callable[[str], StoredModel],
) -> HeadChoice | None:
    """The head that a load names as its draft, or the best one; None if there is none.

    A model's name stands for its own head; a divided model uses none. Raises `ModelError` for a
    named one that does not fit.
    """
    able = get_engine(spec.engine).has_heads and spec.tensor_parallel == 1
    beside = Path(named) if named is not None else None
    if beside is not None and any(
        is_head(beside) for is_head in (is_eagle_folder, is_medusa_folder, is_mtp_file)
    ):
        if not able:
            raise UnsupportedModel(
                f"{named} is a draft head, which only ingle's own engine can use, on one GPU.",
                hint="Choose the engine cuda, and tensor_parallel 1.",
            )
        return _beside(costs, spec, beside.name, beside)
    if not able or costs.config is None:
        return None
    own = HeadChoice(OWN_HEAD, Path(spec.path), costs.headed) if costs.headed else None
    if named is not None:
        return own if own is not None and resolve(named).path == model.path else None
    if own is not None:
        return own
    for found in find_heads(model):
        with suppress(ModelError):  # it is of another model, or damaged
            return _beside(costs, spec, found.name, Path(found.path))
    return None


def _beside(costs: ModelCosts, spec: LoadSpec, name: str, path: Path) -> HeadChoice:
    if path.is_file():
        return HeadChoice(name, path, costs.with_mtp_file(path))
    if is_medusa_folder(path):
        return HeadChoice(name, path, costs.with_medusa_heads(path))
    settings = read_eagle_settings(path)
    check_paged_kv_type(name, settings.config, spec.kv_type)
    if costs.config is not None:
        settings.check_fits(costs.config)
    return HeadChoice(name, path, costs.with_eagle_head(settings))
