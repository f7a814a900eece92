"""Descriptions of models for the picker and the welcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.daemon.client.model_types import ModelEntry, ModelFit

from ..text import number_format

ASSUMED_RATE = 100e6 / 8
"""Assumed bytes per second of a download before one was measured: 100 Mbit/s, which is shown."""
ASK_FROM = 2 * 10**9
"""Bytes from which a download is confirmed first."""
QUALITIES = ((14e9, "excellent"), (7e9, "very good"), (3e9, "good"), (1e9, "fair"))
"""Words for the answers of a model, by its least number of weights."""
WARM = frozenset({"ready", "starting", "draining", "stopping"})


class ModelGroup(NamedTuple):
    """Models under one heading."""

    title: str
    models: list[ModelEntry]


def group_models(models: Sequence[ModelEntry], query: str = "") -> list[ModelGroup]:
    """Group models that match all of `query`: loaded, on disk, to download."""
    words = query.lower().split()
    found = [model for model in models if all(word in _searchable(model) for word in words)]
    warm = [model for model in found if model.state in WARM]
    disk = [model for model in found if model.installed and model.state not in WARM]
    remote = [model for model in found if not model.installed]
    groups = (
        ModelGroup("warm", warm),
        ModelGroup("on disk", disk),
        ModelGroup("to download", remote),
    )
    return [ModelGroup(title, sorted(some, key=_order)) for title, some in groups if some]


def _searchable(model: ModelEntry) -> str:
    parts = (model.name, model.description, model.quantization, model.licence, model.place)
    return " ".join(part for part in parts if part).lower()


def _order(model: ModelEntry) -> tuple[bool, bool, bool]:
    return not model.writes, not model.chat, model.state != "downloading"


def quality_word(model: ModelEntry) -> str:
    """How good its answers are to be expected, by its size."""
    return next((word for least, word in QUALITIES if model.parameters >= least), "basic")


def fit_words(fit: ModelFit | None) -> str:
    """`fits in RAM`, in few words; "" if unknown."""
    if fit is None:
        return ""
    memory = "VRAM" if fit.device == "cuda" else "RAM"
    words = {"fits": f"fits in {memory}", "spills": "partly in VRAM", "no": "does not fit"}
    return words.get(fit.state, "")


def fit_style(fit: ModelFit | None) -> str:
    """The colour that goes with `fit_words`."""
    styles = {"fits": "$success", "spills": "$warning", "no": "$error"}
    return styles.get(fit.state, "$muted") if fit is not None else "$muted"


def fit_sentence(fit: ModelFit | None, *, loaded: bool = False) -> str:
    """The memory that a model needs, and that is available; for a `loaded` one, that in use."""
    if fit is None:
        return ""
    memory = "VRAM" if fit.device == "cuda" else "RAM"
    needs, free = number_format.size(fit.needs_bytes), number_format.size(fit.free_bytes)
    context = f", with {number_format.tokens(fit.context)} tokens of context" if fit.context else ""
    if loaded:
        where = "partly in VRAM" if fit.state == "spills" else f"in {memory}"
        return f"{where}: takes {needs}{context}"
    engine = f" with the engine {fit.needs_engine}" if fit.needs_engine else ""
    if fit.state == "fits":
        speed = fit.tokens_per_second
        fast = f", at about {number_format.speed(speed)}" if speed else ""
        return f"fits in {memory}{engine}: takes about {needs} of {free}{context}{fast}"
    if fit.state == "spills":
        return (
            f"partly in VRAM{engine}: takes about {needs}, and the GPU has {free}; slower{context}"
        )
    return f"does not fit: it needs at least {needs}, and {free} of {memory} is available"


def facts(model: ModelEntry) -> list[str]:
    """Size, licence, weights, quantisation, context and place, as far as known."""
    parts = [
        number_format.size(model.size) if model.size else "",
        licence(model),
        f"{number_format.parameters(model.parameters)} weights" if model.parameters else "",
        model.quantization or "",
        f"{number_format.tokens(model.context)} tokens of context" if model.context else "",
        f"file of {model.place}" if model.place else "",
    ]
    return [part for part in parts if part]


def licence(model: ModelEntry) -> str:
    """The licence, "" if it is not known."""
    return "" if model.licence == "unknown" else model.licence


def download_sentence(size: int | None, disk_free: int, rate: float | None = None) -> str:
    """The size and duration of a download, and the free space on the disk."""
    if not size:
        return "size unknown until the download begins"
    seconds = number_format.remaining(size / (rate or ASSUMED_RATE))
    pace = f"at {number_format.size(rate)}/s" if rate else "at 100 Mbit/s"
    room = f" · {number_format.size(disk_free)} free on the disk" if disk_free else ""
    return f"{number_format.size(size)} · about {seconds} {pace}{room}"


def lacks_room(size: int | None, disk_free: int) -> bool:
    """Whether the disk is too full for it."""
    return bool(size and disk_free and size > disk_free)
