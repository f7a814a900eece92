"""What the chat reads from the daemon is what the daemon writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.backends.page_map import PageGroup
from ingle.daemon import generations
from ingle.daemon.device_meters import DeviceGauges
from ingle.daemon.errors import ErrorDetail
from ingle.daemon.loaded_model import LoadedModel
from ingle.daemon.memory import MemorySnapshot
from ingle.daemon.model_fit import ModelFit
from ingle.daemon.page_watch import PagesEvent
from ingle.daemon.protocols.native import types
from ingle.models.progress import PullProgress
from ingle.tui import api

PAIRS: dict[type[Any], type[Any]] = {
    api.DeviceGauges: DeviceGauges,
    api.ErrorBody: ErrorDetail,
    api.ModelFit: ModelFit,
    api.Delta: generations.DeltaEvent,
    api.Finished: generations.FinishedEvent,
    api.GaugesEvent: types.GaugesEvent,
    api.GenerationCreated: types.GenerationStarted,
    api.LoadedModel: LoadedModel,
    api.Loading: generations.LoadingEvent,
    api.Memory: MemorySnapshot,
    api.ModelEntry: types.ModelEntry,
    api.ModelList: types.ModelEntries,
    api.PageGroup: PageGroup,
    api.PagesEvent: PagesEvent,
    api.PullProgress: PullProgress,
    api.Started: generations.StartedEvent,
    api.Status: types.Status,
    api.Thought: generations.DeltaEvent,
    api.TokenCounts: types.TokenCounts,
}


@pytest.mark.parametrize("read", PAIRS, ids=lambda kind: kind.__name__)
def test_every_field_that_is_read_is_written(read: type[Any]) -> None:
    # A field that nobody writes would stay at its default for ever, and no error tell of it.
    written = {field.encode_name for field in msgspec.structs.fields(PAIRS[read])}
    assert {field.encode_name for field in msgspec.structs.fields(read)} <= written


def test_what_other_programs_call_their_conversations_is_safe_to_show() -> None:
    event = msgspec.json.encode({"conversations": ["chat-1", "\x1b]0;owned\x07two\nlines"]})
    group = msgspec.json.decode(event, type=api.PageGroup)
    assert group.conversations[0] == "chat-1"
    assert group.conversations[1].isprintable()
    assert "two lines" in group.conversations[1]
