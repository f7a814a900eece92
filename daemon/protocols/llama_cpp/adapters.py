"""Adapters as llama-server's requests name them: by their numbers in `GET /lora-adapters`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ingle.models.adapters.adapter_folder import without_adapter
from ingle.models.adapters.adapter_settings import weights_of
from ingle.models.metadata.stored_model import StoredModel

from ...errors import InvalidBody
from ...services import Services
from .types import LoraAdapter, LoraScale


def adapters_of(services: Services, model: str) -> list[LoraAdapter]:
    """The adapters of a model; reads the store."""
    return [
        LoraAdapter(number, str(weights_of(Path(each.adapter))))
        for number, each in enumerate(_stored(services, model))
    ]


def adapted_model(services: Services, model: str, scales: Sequence[LoraScale]) -> str:
    """The name of a model with the adapter that has a scale; reads the store.

    Raises `InvalidBody` for what one request cannot be computed with.
    """
    wanted = [scale for scale in scales if scale.scale]
    if not wanted:
        return model
    if len(wanted) > 1 or wanted[0].scale != 1:
        raise InvalidBody(
            "'lora' must name one adapter with the scale 1: ingle computes a request with one, "
            "as it is.",
            param="lora",
        )
    found = _stored(services, model)
    if not 0 <= wanted[0].id < len(found):
        raise InvalidBody(
            f"{model} has no adapter {wanted[0].id}: `GET /lora-adapters` lists {len(found)}.",
            param="lora",
        )
    return found[wanted[0].id].name


def _stored(services: Services, model: str) -> list[StoredModel]:
    return services.store.adapters.of_model(without_adapter(services.resolve(model)))
