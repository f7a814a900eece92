"""A conversation with a real model: what was computed for one turn serves the next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest

from ingle.backends.selection import create_backend

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


@pytest.mark.model
async def test_the_next_turn_computes_only_what_is_new(
    run_daemon: DaemonFactory, smollm2_path: Path
) -> None:
    model = str(smollm2_path)
    settings: dict[str, Any] = {"temperature": 0, "max_output_tokens": 12}
    async with (
        run_daemon(prepares_files=True, create_backend=create_backend, context=1024) as daemon,
        openai.AsyncOpenAI(
            api_key="none", max_retries=0, base_url=f"{daemon.base_url}/v1"
        ) as client,
    ):
        first = await client.responses.create(
            model=model, input="Name a city in France." + " Please." * 50, **settings
        )
        assert first.usage is not None
        second = await client.responses.create(
            model=model, input="And one in Italy?", previous_response_id=first.id, **settings
        )
        assert second.usage is not None
        # All of the first turn but the end of its answer, which the template closes differently.
        known = first.usage.input_tokens + first.usage.output_tokens
        assert second.usage.input_tokens_details.cached_tokens >= known - 4
        counted = await client.responses.input_tokens.count(
            model=model, input="And one in Italy?", previous_response_id=first.id
        )
        assert counted.input_tokens == second.usage.input_tokens
