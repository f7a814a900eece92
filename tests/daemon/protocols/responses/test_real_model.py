"""Prefix caching between the turns of a conversation, with a real model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    import openai
    from openai.types.responses import ResponseUsage

    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


async def ask(
    client: openai.AsyncOpenAI, model: str, text: str, previous: str | None = None
) -> tuple[str, ResponseUsage]:
    answer = await client.responses.create(
        model=model,
        input=text,
        previous_response_id=previous,
        temperature=0,
        max_output_tokens=12,
    )
    assert answer.output_text
    assert answer.usage is not None
    return answer.id, answer.usage


@pytest.mark.slow
@pytest.mark.model
async def test_next_turn_reuses_the_cached_prefix(
    run_daemon: DaemonFactory, smollm2_path: Path
) -> None:
    import openai

    model, next_text = str(smollm2_path), "And one in Italy?"
    async with (
        run_daemon(prepares_files=True, create_backend=WorkerProcess, context=1024) as daemon,
        openai.AsyncOpenAI(
            api_key="none", max_retries=0, base_url=f"{daemon.base_url}/v1"
        ) as client,
    ):
        first, used = await ask(client, model, "Name a city in France." + " Please." * 50)
        _, then = await ask(client, model, next_text, first)
        # Everything but the end of the answer, which the template closes differently.
        known = used.input_tokens + used.output_tokens
        assert then.input_tokens_details.cached_tokens >= known - 4
        counted = await client.responses.input_tokens.count(
            model=model, input=next_text, previous_response_id=first
        )
        assert counted.input_tokens == then.input_tokens
