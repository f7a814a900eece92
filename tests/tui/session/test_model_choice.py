"""The choice of a model at the start of a chat, offered downloads, and typed model names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.daemon.client.model_types import ModelEntry, ModelFit
from ingle.tui.session.model_choice import choose_model, custom_model, offered_models


def _entry(name: str, state: Any, *, default: bool = False, chat: bool = True) -> ModelEntry:
    installed = state not in ("available", "downloading")
    return ModelEntry(name=name, installed=installed, state=state, default=default, chat=chat)


def _offered(name: str, billions: float, state: Any = "fits", *, chat: bool = True) -> ModelEntry:
    return ModelEntry(
        name=name,
        installed=False,
        state="available",
        size=int(billions * 6e8),
        parameters=int(billions * 1e9),
        chat=chat,
        fit=ModelFit(device="cpu", state=state),
    )


DEFAULT = _entry("small:1b", "available", default=True)
DISK = _entry("disk:3b", "stopped")
WARM = _entry("warm:7b", "ready")
BASE = _entry("base:1b", "ready", chat=False)


@pytest.mark.parametrize(
    ("models", "wanted", "chosen"),
    [
        ([DEFAULT, DISK, WARM, BASE], None, WARM),
        ([DEFAULT, DISK], None, DISK),
        ([DEFAULT, _entry("other", "available")], None, DEFAULT),
        ([BASE], None, None),
        ([DEFAULT, DISK], "disk:3b", DISK),
        ([DEFAULT, DISK], "small", DEFAULT),
        ([DEFAULT, DISK], "unknown", None),
        ([DEFAULT, DISK], "/tmp/own.gguf", custom_model("/tmp/own.gguf")),
        ([], None, None),
    ],
)
def test_most_available_model_is_chosen(
    models: list[ModelEntry], wanted: str | None, chosen: ModelEntry | None
) -> None:
    assert choose_model(models, wanted) == chosen


SMALL, MIDDLE, LARGE = _offered("small", 0.1), _offered("middle", 3), _offered("large", 8)
HUGE, CODER = _offered("huge", 70, "no"), _offered("coder", 1.5)


def test_best_fitting_download_is_chosen_without_a_model() -> None:
    assert choose_model([SMALL, HUGE, LARGE, MIDDLE], None) == LARGE
    assert choose_model([_offered("base", 4, chat=False), SMALL], None) == SMALL
    downloading = _entry("coming", "downloading")
    assert choose_model([LARGE, downloading], None) == downloading


def test_three_downloads_are_offered() -> None:
    offers = offered_models([SMALL, HUGE, MIDDLE, LARGE, CODER])
    assert [offer.model.name for offer in offers] == ["large", "small", "coder"]
    assert [offer.reason for offer in offers][2] == "best at code"


def test_offered_downloads_fit_and_differ() -> None:
    assert [offer.model for offer in offered_models([CODER, SMALL, HUGE])] == [CODER, SMALL]
    assert [offer.model for offer in offered_models([SMALL])] == [SMALL]
    assert offered_models([HUGE, DEFAULT]) == []


def test_models_for_the_gpu_are_offered_before_larger_ones_for_the_processor() -> None:
    """Whether its engine is installed or offered."""
    fit = ModelFit(device="cuda", state="fits", needs_engine="cuda")
    middle, small = (msgspec.structs.replace(each, fit=fit) for each in (MIDDLE, SMALL))
    offers = offered_models([small, HUGE, middle, LARGE, CODER])
    assert [offer.model for offer in offers] == [middle, small]


@pytest.mark.parametrize(
    ("text", "name", "installed"),
    [
        ("hf.co/owner/repo", "hf.co/owner/repo", False),
        ("hf.co/owner/repo:Q4_K_M", "hf.co/owner/repo:Q4_K_M", False),
        ("https://huggingface.co/owner/repo", "hf.co/owner/repo", False),
        ("https://hf.co/owner/repo", "hf.co/owner/repo", False),
        ("~/models/some.gguf", "~/models/some.gguf", True),
        ("some.gguf", "some.gguf", True),
        ("/models/folder", "/models/folder", True),
    ],
)
def test_typed_text_can_name_a_custom_model(text: str, name: str, installed: bool) -> None:
    model = custom_model(text)
    assert model is not None
    assert (model.name, model.installed) == (name, installed)


@pytest.mark.parametrize("text", ["", "qwen", "qwen2.5:1.5b", "hf.co/", "hf.co/owner", "/", "a/b"])
def test_other_typed_text_is_a_filter(text: str) -> None:
    assert custom_model(text) is None


def test_models_that_would_answer_slowly_are_not_offered() -> None:
    """Two cores fit a large model into their memory, and take minutes for its answers."""

    def at(model: ModelEntry, speed: float, context: int = 8192) -> ModelEntry:
        fit = ModelFit(device="cpu", state="fits", tokens_per_second=speed, context=context)
        return msgspec.structs.replace(model, fit=fit)

    models = [at(LARGE, 4.6), at(MIDDLE, 12), at(SMALL, 121), at(CODER, 20)]
    assert [offer.model.name for offer in offered_models(models)] == ["middle", "small", "coder"]
    short = [at(LARGE, 40, context=512), at(MIDDLE, 12), at(SMALL, 121)]
    assert [offer.model.name for offer in offered_models(short)] == ["middle", "small"]
    slow = [at(LARGE, 0.4), at(MIDDLE, 2), at(SMALL, 6)]
    assert [offer.model.name for offer in offered_models(slow)] == ["small"]


def test_best_model_at_a_useful_speed_is_chosen_of_those_on_disk() -> None:
    def at(model: ModelEntry, speed: float) -> ModelEntry:
        fit = ModelFit(device="cpu", state="fits", tokens_per_second=speed)
        return msgspec.structs.replace(model, installed=True, state="stopped", fit=fit)

    small, middle, large = at(SMALL, 121), at(MIDDLE, 12), at(LARGE, 4)
    assert choose_model([small, large, middle], None) == middle
    assert choose_model([large, at(MIDDLE, 8)], None) == at(MIDDLE, 8)
    default = msgspec.structs.replace(small, default=True)
    assert choose_model([default, large, middle], None) == default
