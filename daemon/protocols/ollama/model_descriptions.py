"""Models as Ollama names and describes them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from ingle.backends.base.sampling_params import SAMPLING_OPTIONS
from ingle.models.errors import ModelError, ModelNotFound
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...access.permission import KeyNotAllowed
from ...errors import InvalidBody
from ...library.model_facts import Capabilities, ModelFacts
from ...model_process.loaded_model import loaded_model
from ...model_process.model_run import ModelRun
from ...services import Services
from .types import Details, ListedModel, RunningModel, ShownModel, ShownTensor

FOR_EVER = timedelta(days=365 * 290)
_LONGEST_LIST = 5
_PARAMETER_WIDTH = 30
INSERT_NOTE = "{{- /* Fills what is between .Prompt and .Suffix. */ -}}"
"""Clients look for `.Suffix` in a template to find out whether a model fills gaps."""

_HIDDEN = frozenset({"general.name", "tokenizer.chat_template"})


def capability_words(capabilities: Capabilities) -> list[str]:
    """The capabilities of a model, in Ollama's format."""
    if capabilities.task is ModelTask.EMBED:
        return ["embedding"]
    if capabilities.task in (ModelTask.RERANK, ModelTask.TRANSCRIBE):
        return []
    has = {
        "completion": True,
        "tools": capabilities.calls_tools,
        "insert": capabilities.infills,
        "vision": capabilities.sees,
        "thinking": capabilities.reasons,
    }
    return [word for word, is_true in has.items() if is_true]


def details(model: StoredModel, facts: ModelFacts, context: int) -> Details:
    """The details of a model, which gives a request this context."""
    return Details(
        parent_model=model.parent,
        format=facts.format,
        family=model.architecture,
        families=[model.architecture],
        parameter_size=human_number(model.parameters),
        quantization_level=model.quantization,
        context_length=context or UNSET,
        embedding_length=facts.embedding_length or UNSET,
    )


def listed(name: str, model: StoredModel, facts: ModelFacts, context: int) -> ListedModel:
    """A row of the list of models."""
    shown = tagged(name)
    return ListedModel(
        name=shown,
        model=shown,
        modified_at=_time(facts.modified),
        size=model.size,
        digest=digest_of(model, facts),
        details=details(model, facts, context),
        capabilities=capability_words(facts.capabilities),
    )


def running(run: ModelRun, facts: ModelFacts) -> RunningModel:
    """A row of the list of loaded models."""
    loaded, model = loaded_model(run), run.model
    size = loaded.weights_bytes + loaded.kv_bytes + loaded.compute_bytes or run.needs.total
    on_gpu = loaded.layers_on_gpu / loaded.layers if loaded.layers else 0.0
    # The driver's figure is more accurate than the share of layers, though it includes libraries.
    vram = sum(loaded.memory.measured.gpus) or round(size * min(1.0, on_gpu))
    size = max(size, vram)
    for_ever = run.pinned or run.keep_alive < 0
    left = FOR_EVER if for_ever else timedelta(seconds=run.keep_alive)
    if loaded.expires_in is not None:
        left = timedelta(seconds=loaded.expires_in)
    name, context = tagged(model.name), loaded.longest_context
    return RunningModel(
        name=name,
        model=name,
        size=size,
        digest=digest_of(model, facts),
        details=details(model, facts, context),
        expires_at=datetime.now(UTC) + left,
        size_vram=vram,
        context_length=context,
    )


def shown(
    name: str, model: StoredModel, facts: ModelFacts, context: int, *, verbose: bool
) -> ShownModel:
    """Everything about a model that the client calls `name`, and that gives a request `context`."""
    template = facts.template
    if facts.capabilities.infills:
        template = f"{INSERT_NOTE}{template}"
    parameters = _parameters({**model.sampling, **model.options})
    return ShownModel(
        license=model.licence,
        modelfile=_modelfile(name, model, template, parameters),
        parameters="\n".join(parameters),
        template=template,
        system=model.system,
        details=details(model, facts, context),
        messages=model.messages,
        model_info=_model_info(model, facts, context),
        tensors=[ShownTensor(t.name, t.type, list(t.shape)) for t in facts.tensors]
        if verbose
        else UNSET,
        capabilities=capability_words(facts.capabilities),
        modified_at=_time(facts.modified),
    )


def human_number(count: int) -> str:
    """A number of weights in short form.

    >>> human_number(134_515_008), human_number(7_000_000_000)
    ('134.52M', '7B')
    """
    for size, letter, digits in ((10**9, "B", 1), (10**6, "M", 2)):
        if count >= size:
            number = count / size
            return f"{number:.{0 if number.is_integer() else digits}f}{letter}"
    return f"{count / 1000:.0f}K" if count >= 1000 else str(count)


def digest_of(model: StoredModel, facts: ModelFacts) -> str:
    """64 hex digits: the file's digest if known, else one of its path, size and time."""
    if model.sha256 is not None:
        return model.sha256
    text = f"{model.path}\n{model.size}\n{facts.modified}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _model_info(model: StoredModel, facts: ModelFacts, context: int) -> dict[str, Any]:
    """The file's metadata, but for the context; long lists are left empty.

    Clients send as much as `context_length`, so it is what a request can have.
    """
    info: dict[str, Any] = {
        key: value for key, value in facts.metadata.items() if key not in _HIDDEN
    }
    for key, values in facts.lists.items():
        info[key] = values if values is not None and len(values) <= _LONGEST_LIST else []
    info.setdefault("general.architecture", model.architecture)
    info[f"{info['general.architecture']}.context_length"] = context
    info.setdefault("general.parameter_count", model.parameters)
    return dict(sorted(info.items()))


def _parameters(options: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in options.items():
        option = SAMPLING_OPTIONS.get(name)
        if option is not None and option.is_integer and isinstance(value, float):
            value = int(value)  # recommendations are stored as floats
        for item in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
            lines.append(f"{name:<{_PARAMETER_WIDTH}} {msgspec.json.encode(item).decode()}")
    return lines


def _modelfile(name: str, model: StoredModel, template: str, parameters: list[str]) -> str:
    """A Modelfile that would create the model again; its `TEMPLATE` is Jinja."""
    parts = [f"# Made by ingle for {name}.", f"FROM {model.path}"]
    if template:
        parts.append(f'TEMPLATE """{template}"""')
    if model.system:
        parts.append(f'SYSTEM """{model.system}"""')
    parts += [f"PARAMETER {line}" for line in parameters]
    parts += [f"MESSAGE {message.role} {message.content}" for message in model.messages]
    parts.append(f'LICENSE """{model.licence}"""')
    return "\n".join(parts) + "\n"


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


LATEST = ":latest"


def required_name(*given: str | None) -> str:
    """The first name that is not empty; raises `InvalidBody`."""
    for name in given:
        if name and name.strip():
            return name
    raise InvalidBody("'model' is missing.", hint="Name a model.", param="model")


async def resolve_model(services: Services, name: str) -> StoredModel:
    """The model that a client's name means.

    Raises `ModelNotFound` with Ollama's message, and what `Services.resolve` raises.
    """
    with ollama_not_found(name):
        return await asyncio.to_thread(services.resolve, name)


async def vacate(services: Services, name: str) -> None:
    """Unload the model that is about to be replaced; raises `UnusableName`."""
    full_name = services.copier.free_name(name)
    try:
        await services.manager.unload(full_name)
    except ModelError:
        return  # there is none yet


@contextmanager
def ollama_not_found(name: str) -> Generator[None]:
    """Give a `ModelNotFound` Ollama's message, on which some clients pull the model."""
    try:
        yield
    except ModelNotFound as error:
        shown = name if len(name) <= 200 and name.isprintable() else f"{name[:40]!r}…"
        hint = f"({error.message} {error.hint or ''})"
        raise ModelNotFound(f"model '{shown}' not found", hint=hint) from None


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
