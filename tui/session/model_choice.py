"""Chooses the model of a new chat, and the models that a first run offers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ingle.daemon.client.model_types import ModelEntry, ModelFit

USABLE_SPEED = 10.0
"""Tokens per second."""
USABLE_CONTEXT = 8192
CODER_SHARE = 0.5
"""The strength of a coding model outside code, as a share of its weights."""


class ModelOffer(NamedTuple):
    """A model for a user without one, and the reason in a few words."""

    model: ModelEntry
    reason: str


def choose_model(models: Sequence[ModelEntry], wanted: str | None) -> ModelEntry | None:
    """The wanted model, else in this order: loaded, on disk, downloading, the best that would fit.

    Of those on disk the default one, else the strongest at a useful speed, else the smallest.

    A file, a folder or a repository of the hub may be wanted that is on no list.
    """
    if wanted is not None:
        return find_model(models, wanted) or custom_model(wanted)
    candidates = [model for model in models if model.chat and model.writes]
    here = [model for model in candidates if model.installed or model.state == "downloading"]
    if here:
        return min(here, key=lambda model: (*_distance(model), *_rank(model)))
    offers = offered_models(candidates)
    return offers[0].model if offers else min(candidates, key=_distance, default=None)


def find_model(models: Sequence[ModelEntry], reference: str) -> ModelEntry | None:
    """The model of this name, or of this family, as in `smollm2` for `smollm2:135m`."""
    named = [model for model in models if model.name == reference]
    family = [model for model in models if model.name.partition(":")[0] == reference]
    return min(named or family, key=_distance, default=None)


def offered_models(
    models: Sequence[ModelEntry], unavailable: Collection[str] = ()
) -> list[ModelOffer]:
    """Up to three chat models that fit into this machine's memory, the best first.

    A model that would answer slowly, or hardly hold a chat, is not offered; if all would, only the
    smallest is. The others are the smallest, and the best for code; none if the memory needs are
    unknown. If any fit on a GPU, larger ones for the processor are not offered. Those in
    `unavailable`, whose downloads failed, are offered only if nothing else fits.
    """
    fits = {
        model.name: model.fit
        for model in models
        if model.chat and model.writes and model.fit is not None and model.fit.state == "fits"
    }
    on_gpu = [name for name, fit in fits.items() if fit.device == "cuda"]
    fitting = [model for model in models if model.name in (on_gpu or fits)]
    if not fitting:
        return []
    usable = [model for model in fitting if _is_usable(fits[model.name])]
    fitting = usable or [min(fitting, key=_strength)]
    fitting = [model for model in fitting if model.name not in unavailable] or fitting
    best = max(fitting, key=_strength)
    smallest = min(fitting, key=lambda model: model.size or 0)
    offers = [ModelOffer(best, "best at a useful speed")]
    if smallest is not best:
        offers.append(ModelOffer(smallest, "smallest, here soonest"))
    coders = [model for model in fitting if is_coder(model)]
    if coders and not is_coder(best) and (coder := max(coders, key=_strength)) is not smallest:
        offers.append(ModelOffer(coder, "best at code"))
    others = [model for model in fitting if all(model is not offer.model for offer in offers)]
    if len(offers) < 3 and others:
        offers.append(ModelOffer(max(others, key=_strength), "between the two"))
    return offers


def is_coder(model: ModelEntry) -> bool:
    """Whether it is a coding model, judging by its name and description."""
    return "code" in f"{model.name} {model.description or ''}".lower()


def custom_model(text: str) -> ModelEntry | None:
    """A typed repository of the hub, address or path as a model."""
    text = text.strip()
    path = text.startswith(("/", "./", "../", "~")) or text.endswith(".gguf")
    if path and len(text) > 2:
        return ModelEntry(name=text, installed=True, state="stopped", path=text)
    repository = text.removeprefix("https://").removeprefix("huggingface.co/")
    if repository != text and repository.count("/") >= 1 and not repository.startswith("hf.co"):
        repository = f"hf.co/{repository}"
    words = repository.removeprefix("hf.co/").split("/")
    if repository.startswith("hf.co/") and len(words) >= 2 and all(words[:2]):
        return ModelEntry(name=repository, installed=False, state="available")
    return None


def _distance(model: ModelEntry) -> tuple[bool, bool, bool]:
    """The sort key of readiness; the model that can answer soonest comes first."""
    return not model.installed, model.state != "ready", not model.default


def _rank(model: ModelEntry) -> tuple[bool, float]:
    """The sort key among models on disk; the best at a useful speed comes first."""
    usable = model.fit is None or (model.fit.state != "no" and _is_usable(model.fit))
    return not usable, -_strength(model) if usable else _strength(model)


def _is_usable(fit: ModelFit) -> bool:
    """Whether a model holds a chat and answers as fast as one reads, as far as known."""
    fast = fit.tokens_per_second is None or fit.tokens_per_second >= USABLE_SPEED
    return fast and not 0 < fit.context < USABLE_CONTEXT


def _strength(model: ModelEntry) -> float:
    return (model.parameters or model.size or 0) * (CODER_SHARE if is_coder(model) else 1)
