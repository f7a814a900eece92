"""A folder of safetensors that sees: what the daemon says of it, and an answer about a picture."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.vision.picture_encoders import encoder_bytes
from tests.harness.seeing_models import picture, pixels_of, write_seeing_model

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PICTURE_TOKENS = 16


def image_url(seed: int) -> dict[str, Any]:
    out = BytesIO()
    Image.fromarray(pixels_of(picture(seed))).save(out, "PNG")
    data = base64.b64encode(out.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


@pytest.mark.slow
async def test_own_engine_sees_through_the_api(run_daemon: DaemonFactory, tmp_path: Path) -> None:
    write_seeing_model(tmp_path / "eyes", "gemma3")
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess, context=512) as daemon:
        path = str(tmp_path / "eyes")
        planned = daemon.services.store.resolve(path)
        assert planned.projector == tmp_path / "eyes"
        assert encoder_bytes(planned.projector) > 0
        text = {"type": "text", "text": "what is in it then " * 4}
        counts: list[dict[str, Any]] = []
        for content in ([text], [image_url(1), text], [image_url(1), text], [image_url(2), text]):
            body = {
                "model": path,
                "messages": [{"role": "user", "content": content}],
                "max_tokens": 4,
            }
            answer = await daemon.tcp.post("/v1/chat/completions", json=body, timeout=120)
            assert answer.status_code == 200, answer.text
            counts.append(answer.json()["usage"])
        alone, first, again, other = counts
        added = first["prompt_tokens"] - alone["prompt_tokens"]
        # With two line breaks and a mark on either side.
        assert PICTURE_TOKENS < added < PICTURE_TOKENS + 10
        assert again["prompt_tokens_details"]["cached_tokens"] > PICTURE_TOKENS
        assert other["prompt_tokens_details"]["cached_tokens"] < PICTURE_TOKENS
        loaded = (await daemon.tcp.get("/ingle/v1/models")).json()["models"]
        assert not [entry for entry in loaded if entry["name"] == path and not entry["vision"]]
