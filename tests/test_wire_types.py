"""What the chat reads from the daemon is what the daemon writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.backends.base.kv_page_map import PageGroup
from ingle.daemon.errors import ErrorDetail
from ingle.daemon.generations import generation
from ingle.daemon.load_planning.fit_forecast import ModelFit
from ingle.daemon.machine.device_meters import DeviceGauges
from ingle.daemon.machine.memory_reader import MemorySnapshot
from ingle.daemon.model_process.kv_map_watch import PagesEvent
from ingle.daemon.model_process.loaded_model import LoadedModel
from ingle.daemon.protocols.native import types
from ingle.models.download.pull_progress import PullProgress
from ingle.tui.client import api_types

PAIRS: dict[type[Any], type[Any]] = {
    api_types.DeviceGauges: DeviceGauges,
    api_types.ErrorBody: ErrorDetail,
    api_types.ModelFit: ModelFit,
    api_types.TextDelta: generation.DeltaEvent,
    api_types.Finished: generation.FinishedEvent,
    api_types.GaugesEvent: types.GaugesEvent,
    api_types.GenerationCreated: types.GenerationStarted,
    api_types.LoadedModel: LoadedModel,
    api_types.Loading: generation.LoadingEvent,
    api_types.Memory: MemorySnapshot,
    api_types.ModelEntry: types.ModelEntry,
    api_types.ModelList: types.ModelEntries,
    api_types.PageGroup: PageGroup,
    api_types.PagesEvent: PagesEvent,
    api_types.PullProgress: PullProgress,
    api_types.Started: generation.StartedEvent,
    api_types.Status: types.Status,
    api_types.ReasoningDelta: generation.DeltaEvent,
    api_types.TokenCounts: types.TokenCounts,
}


@pytest.mark.parametrize("read", PAIRS, ids=lambda kind: kind.__name__)
def test_every_field_that_is_read_is_written(read: type[Any]) -> None:
    # A field that nobody writes would stay at its default for ever, and no error tell of it.
    written = {field.encode_name for field in msgspec.structs.fields(PAIRS[read])}
    assert {field.encode_name for field in msgspec.structs.fields(read)} <= written


def test_what_other_programs_call_their_conversations_is_safe_to_show() -> None:
    event = msgspec.json.encode({"conversations": ["chat-1", "\x1b]0;owned\x07two\nlines"]})
    group = msgspec.json.decode(event, type=api_types.PageGroup)
    assert group.conversations[0] == "chat-1"
    assert group.conversations[1].isprintable()
    assert "two lines" in group.conversations[1]
