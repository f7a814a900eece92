"""Loading a model in a worker: templates, progress, rejected settings, engine fallback."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.worker.model_loader import load_model
from ingle.backends.worker.worker_protocol import FromWorker, Loading

MakeSpec = Callable[..., LoadSpec]


def load(spec: LoadSpec) -> tuple[ModelInfo, list[FromWorker]]:
    sent: list[FromWorker] = []
    with load_model(spec, sent.append, queue.SimpleQueue()) as (_, info):
        return info, sent


def test_info_reports_a_missing_chat_template(
    scripted_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template may come from the file, the load specification or our default."""
    spec = scripted_spec()
    assert load(spec)[0].has_chat_template
    monkeypatch.setattr(ByteTokenizer, "chat_template", None)
    assert load(spec)[0].has_chat_template, "the vocabulary was made for ChatML"
    monkeypatch.setattr(ByteTokenizer, "find_token", lambda _self, _text: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert not load(spec)[0].has_chat_template
    given = msgspec.structs.replace(spec, chat_template="{{ messages[0].content }}")
    assert load(given)[0].has_chat_template


def test_progress_is_in_whole_percents(scripted_spec: MakeSpec) -> None:
    _, sent = load(scripted_spec())
    assert sent == [Loading(fraction) for fraction in (0.0, 0.25, 0.5, 0.75, 1.0)]


@pytest.mark.parametrize("field", ["context", "slots", "batch"])
def test_settings_below_one_are_rejected(scripted_spec: MakeSpec, field: str) -> None:
    spec = msgspec.structs.replace(scripted_spec(), **{field: 0})
    with pytest.raises(LoadFailed, match=f"with {field} 0"):
        load(spec)


@pytest.mark.model
def test_missing_packages_of_the_engine_fail_the_load(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like without PyTorch: the import fails when the runner is needed."""
    for name in ("model_runner", "state_model_runner"):
        monkeypatch.setitem(sys.modules, f"ingle.backends.cuda.{name}", None)
    spec = LoadSpec(engine="cuda", path=str(smollm2_path), context=256, may_fall_back=True)
    with pytest.raises(LoadFailed, match="packages that are not installed"):
        load(spec)
