"""Checks after a resume from sleep whether a model's process still has its GPU."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import RequestRejected, WorkerDied
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.model_task import ModelTask

from .model_run import ModelRun, ModelState

PATIENCE = 30.0


def may_have_lost_gpu(run: ModelRun) -> bool:
    """Whether it is idle and uses a GPU, which drivers may reset while a machine sleeps."""
    info = run.info
    return (
        run.state is ModelState.READY
        and not run.busy
        and info is not None
        and info.layers_on_gpu > 0
        and info.task is ModelTask.GENERATE
    )


async def still_computes(backend: Backend, patience: float = PATIENCE) -> bool:
    """Generate one token; return False if the process dies or does not answer within `patience`
    seconds.
    """
    request = GenerateRequest(
        id="after-resume",
        prompt="a",
        max_tokens=1,
        private=True,
        sampling=SamplingParams(temperature=0.0),
    )
    try:
        async with asyncio.timeout(patience), aclosing(backend.generate(request)) as events:
            async for _ in events:
                pass
    except (WorkerDied, TimeoutError):
        return False
    except RequestRejected:
        return True  # it answers
    return True
