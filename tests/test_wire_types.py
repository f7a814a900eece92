"""The client's wire types have the same JSON as the types in `models` and `backends`."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from ingle.backends.base import kv_page_map, load_spec
from ingle.backends.base.events import FinishReason
from ingle.daemon.client import daemon_types, generation_types, model_types
from ingle.daemon.client.model_types import LoadedModel
from ingle.daemon.client.routing_types import Explanation
from ingle.daemon.routing.policy.policy import Verdict
from ingle.models.download import pull_progress
from ingle.models.fit import memory_needs
from ingle.models.metadata import stored_model
from ingle.models.model_task import ModelTask
from ingle.tui.session.chat_client import clean_answer

PAIRS: list[tuple[type[msgspec.Struct], type[msgspec.Struct]]] = [
    (model_types.MemoryBytes, memory_needs.MemoryNeeds),
    (model_types.DownloadProgress, pull_progress.PullProgress),
    (model_types.UnusableEntry, stored_model.UnusableModel),
    (daemon_types.PageGroupGauge, kv_page_map.KVPageGroup),
]


def _type_of(kind: type[msgspec.Struct], name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(kind) if field.name == name)


@pytest.mark.parametrize(("wire", "own"), PAIRS, ids=lambda kind: kind.__name__)
def test_wire_type_has_the_same_fields(
    wire: type[msgspec.Struct], own: type[msgspec.Struct]
) -> None:
    def fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
        return [(field.encode_name, field.type) for field in msgspec.structs.fields(kind)]

    assert fields(wire) == fields(own)


def test_pages_event_has_all_fields_of_the_page_map() -> None:
    wire = {field.name for field in msgspec.structs.fields(daemon_types.PagesEvent)}
    own = {field.name for field in msgspec.structs.fields(kv_page_map.KVPageMap)}
    assert wire == own | {"model"}


@pytest.mark.parametrize(
    ("wire", "own"),
    [
        (model_types.TaskName, ModelTask),
        (generation_types.FinishReasonName, FinishReason),
        (_type_of(Explanation, "verdict"), Verdict),
        (_type_of(LoadedModel, "quantize"), load_spec.Quantize),
        (_type_of(LoadedModel, "speculation"), load_spec.SpeculationKind),
    ],
)
def test_literals_equal_the_enum_values(wire: Any, own: Any) -> None:
    assert set(get_args(wire)) == set(get_args(own) or own)


def test_control_characters_of_other_programs_are_removed() -> None:
    event = {"conversations": ["chat-1", "\x1b]0;owned\x07two\nlines"]}
    group = clean_answer(msgspec.convert(event, daemon_types.PageGroupGauge))
    assert group.conversations[0] == "chat-1"
    assert group.conversations[1].isprintable()
    assert "two lines" in group.conversations[1]
