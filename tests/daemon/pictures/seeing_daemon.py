"""A daemon with a small model that sees, and pictures for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.store.model_copies import ModelOverrides
from tests.harness.small_projector import write_small_projector

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}a {% endif %}"
)


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    out = BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@asynccontextmanager
async def seeing_daemon(
    run_daemon: Callable[..., AbstractAsyncContextManager[RunningDaemon]],
    tmp_path: Path,
    **settings: Any,
) -> AsyncGenerator[RunningDaemon]:
    """Run a daemon with the models `seeing` and `blind`."""
    from gpu.small_llama import write_small_llama

    folder = tmp_path / "files"
    folder.mkdir()
    model = write_small_llama(folder / "small.gguf", context=2048)
    async with run_daemon(
        prepares_files=True, create_backend=WorkerProcess, context=1024, **settings
    ) as daemon:
        copier, overrides = daemon.services.copier, ModelOverrides(chat_template=TEMPLATE)
        copier.copy(daemon.services.store.resolve(str(model)), "blind", overrides)
        write_small_projector(folder / "mmproj-small.gguf", "gemma3")
        copier.copy(daemon.services.store.resolve(str(model)), "seeing", overrides)
        yield daemon
