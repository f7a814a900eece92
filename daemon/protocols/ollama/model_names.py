"""Models under the names that Ollama's clients use."""

from __future__ import annotations

import asyncio

from ingle.models.errors import ModelError, ModelNotFound
from ingle.models.metadata.stored_model import StoredModel

from ...access.permission import KeyNotAllowed
from ...errors import InvalidBody
from ...services import Services

LATEST = ":latest"


def required_name(*given: str | None) -> str:
    """The first name that is not empty; raises `InvalidBody`."""
    for name in given:
        if name and name.strip():
            return name
    raise InvalidBody("'model' is missing.", hint="Name a model.", param="model")


async def resolve_model(services: Services, name: str) -> StoredModel:
    """The model that a client's name means.

    Raises `ModelNotFound` in the words that clients look for, and what `Services.resolve` raises.
    """
    try:
        return await asyncio.to_thread(services.resolve, name)
    except ModelNotFound as error:
        raise not_found(name, error) from None


def not_found(name: str, error: ModelError) -> ModelNotFound:
    """The error as clients know it: some tell by its words that they have to pull the model."""
    shown = name if len(name) <= 200 and name.isprintable() else f"{name[:40]!r}…"
    return ModelNotFound(f"model '{shown}' not found", hint=f"({error.message} {error.hint or ''})")


def named_models(services: Services) -> list[tuple[str, StoredModel]]:
    """The installed models and their aliases by name; blocking."""
    named = [(model.name, model) for model in services.models()]
    for alias, _ in services.aliases.entries():
        try:
            named.append((alias, services.resolve(alias)))
        except (ModelError, KeyNotAllowed):
            continue  # it leads to a model that is not installed, or is not for this key
    return named


def tagged(name: str) -> str:
    """The name with a tag, as lists show it."""
    has_tag = ":" in name.rpartition("/")[2] or name.startswith("/")
    return name if has_tag else f"{name}{LATEST}"
