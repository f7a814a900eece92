"""Model files that are truncated or replaced while a worker has them mapped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.selection.load_spec_builder import complete_spec, describe
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.file_stamp import FileStamp, first_changed

WriteSmallLlama = Callable[..., Path]


@pytest.fixture
def model(tmp_path: Path, write_small_llama: WriteSmallLlama) -> Path:
    """A model of a few megabytes, so that the first answer does not read every page."""
    return write_small_llama(tmp_path / "model.gguf", width=256, layers=4)


def test_truncating_a_mapped_file_kills_only_its_worker(target_daemon: Any, model: Path) -> None:
    content = model.read_bytes()
    assert target_daemon.ask(model).status == 200
    os.truncate(model, 4096)
    answer = target_daemon.ask(model)
    answer.assert_typed()
    assert str(model) in answer.message
    assert "changed while it was in use" in answer.message or "truncated" in answer.message
    target_daemon.assert_lives()
    model.write_bytes(content)
    assert target_daemon.ask(model).status == 200


def test_file_replaced_after_its_check_is_refused(model: Path, tmp_path: Path) -> None:
    """Between reading the header and loading the weights."""
    spec = _checked_spec(model)
    other = tmp_path / "other.gguf"
    other.write_bytes(model.read_bytes())
    other.replace(model)
    with pytest.raises(LoadFailed, match="changed while the model was loaded"):
        asyncio.run(_start(spec))


def test_file_modified_after_its_check_is_refused(model: Path) -> None:
    spec = _checked_spec(model)
    with model.open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(bytes(64))
    with pytest.raises(LoadFailed, match="changed"):
        asyncio.run(_start(spec))


def _checked_spec(model: Path) -> LoadSpec:
    partial_spec = LoadSpec(engine="llama.cpp", path=str(model), context=128, slots=1)
    return complete_spec(partial_spec, describe(model))


async def _start(spec: LoadSpec) -> None:
    worker = WorkerProcess(spec)
    try:
        await worker.start()
    finally:
        await worker.stop(grace=0)


@pytest.mark.slow
def test_file_stamps_detect_changes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    stamp = FileStamp.of(path, path.stat())
    assert first_changed([stamp]) is None
    os.utime(path, ns=(1, 1))
    assert first_changed([stamp]) == str(path)
    stamp = FileStamp.of(path, path.stat())
    path.unlink()
    assert not stamp.holds
