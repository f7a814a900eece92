"""What the chat knows of its model."""

from __future__ import annotations

from ingle.daemon.client.model_types import LoadedModel, ModelState
from ingle.tui.session.chat_state import ChatState


def test_context_is_the_longest_that_a_request_may_have() -> None:
    """An answer reports that one too: the gauge must not change when it ends."""
    state = ChatState()
    state.loaded = LoadedModel(
        name="m", state=ModelState.READY, context=16384, longest_context=32768
    )
    assert state.context(None) == 32768
