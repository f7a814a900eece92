"""Write errors in every step of every store: old data stays, and the next attempt succeeds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.batches.batch_run import ResultError, ResultFile, ResultLine
from ingle.daemon.batches.file_store import FileStore, UploadedFile
from ingle.daemon.errors import StorageFull
from ingle.daemon.stores.atomic_file import write_atomically
from ingle.models import failpoints
from ingle.models.errors import DiskFull, PullFailed
from ingle.models.sources.partial_file import PartialFile

if TYPE_CHECKING:
    from .conftest import MakeDaemon

ERRORS = ("ENOSPC", "EIO", "EROFS")

Fail = Callable[[str], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Sets the failpoints of this process; an empty string removes them."""

    def set_failpoints(rules: str) -> None:
        active = failpoints.Failpoints.parse(rules) if rules else None
        monkeypatch.setattr(failpoints, "ACTIVE", active)

    return set_failpoints


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_atomic_write_leaves_the_old_or_the_new_file(
    tmp_path: Path, fail: Fail, step: str, error: str
) -> None:
    path = tmp_path / "keys.json"
    write_atomically(path, b"old")
    fail(f"atomic.{step}=error:{error}@1")
    with pytest.raises(OSError, match="failpoint"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_download_appears_completely_or_not_at_all(tmp_path: Path, fail: Fail, step: str) -> None:
    target = tmp_path / "model.gguf"
    for error, kind in (("ENOSPC", DiskFull), ("EIO", PullFailed)):
        with PartialFile(tmp_path / "model.gguf.partial") as partial:
            partial.append(b"first ")
            fail(f"pull.{step}=error:{error}@1")
            with pytest.raises(kind):
                _finish(partial, target)
            fail("")
            assert not target.exists()
    with PartialFile(tmp_path / "model.gguf.partial") as partial:
        partial.truncate(6)
        partial.append(b"second")
        partial.publish(target)
    assert target.read_bytes() == b"first second"


def _finish(partial: PartialFile, target: Path) -> None:
    partial.append(b"second")
    partial.publish(target)


def test_failed_write_of_a_batch_result_is_not_counted(tmp_path: Path, fail: Fail) -> None:
    results = ResultFile(tmp_path / "b.output.jsonl")
    line = ResultLine(id="1", custom_id="a", error=ResultError("x", "y"))
    fail("batch.result=error:ENOSPC@1")
    with pytest.raises(StorageFull):
        results.add(line)
    assert results.done == set()
    results.add(line)
    results.close()
    assert ResultFile(results.path).done == {"a"}


@pytest.mark.parametrize("point", ["files.write", "files.commit", "atomic.write", "atomic.rename"])
def test_failed_upload_is_not_listed(tmp_path: Path, fail: Fail, point: str) -> None:
    store = FileStore(tmp_path)
    fail(f"{point}=error:ENOSPC@1")
    with pytest.raises((StorageFull, OSError)):
        _keep(store)
    assert store.list() == []
    kept = _keep(store)
    assert store.path(kept.id).read_bytes() == b"content"
    assert [stored.id for stored in store.list()] == [kept.id]


def _keep(store: FileStore) -> UploadedFile:
    writer = store.begin()
    try:
        writer.write(b"content")
        return store.commit(writer.finish(), filename="f", purpose="user_data", lifetime=None)
    finally:
        writer.discard()


@pytest.mark.slow
def test_full_disk_refuses_responses_that_are_to_be_stored(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon({"reply": "Here."}, failpoints="responses.write=error:ENOSPC@1")
    body = {"model": "echo:1", "input": "a"}
    refused = daemon.http.post("/v1/responses", json=body)
    assert refused.status_code == 507
    assert refused.json()["error"]["code"] == "disk_full"
    assert daemon.log.read_text().count("cannot be stored") == 1
    first = daemon.http.post("/v1/responses", json=body).json()
    second = body | {"previous_response_id": first["id"]}
    assert daemon.http.post("/v1/responses", json=second).json()["status"] == "completed"


SYSTEM_CALLS = ("write", "fsync", "rename", "ftruncate")
NOT_CALLED = (("file", "ftruncate"), ("results", "rename"), ("results", "ftruncate"))
PROGRAMS = {
    "file": """
import sys; from pathlib import Path
from ingle.daemon.stores.atomic_file import write_atomically
write_atomically(Path(sys.argv[1]) / "kept", b"new" * 1000)
""",
    "pull": """
import sys; from pathlib import Path
from ingle.models.sources.partial_file import PartialFile
with PartialFile(Path(sys.argv[1]) / "kept.partial") as partial:
    partial.restart()
    for _ in range(3):
        partial.append(b"new" * 1000)
    partial.truncate(3000)
    partial.publish(Path(sys.argv[1]) / "kept")
""",
    "results": """
import sys; from pathlib import Path
from ingle.daemon.batches.batch_run import ResultError, ResultFile, ResultLine
results = ResultFile(Path(sys.argv[1]) / "kept")
for name in "ab":
    results.add(ResultLine(id="1", custom_id=name, error=ResultError("x", "y")))
results.close()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("call", SYSTEM_CALLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_failing_system_call_leaves_no_partial_file(
    tmp_path: Path, program: str, call: str, error: str
) -> None:
    """Let the Nth call fail, for every N until the program succeeds."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    new = {"file": b"new" * 1000, "pull": b"new" * 1000}.get(program)
    for number in range(1, 40):
        folder = tmp_path / str(number)
        folder.mkdir()
        if program == "file":
            (folder / "kept").write_bytes(b"old")
        done = subprocess.run(
            [
                *("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"),
                *("-e", f"inject={call}:error={error}:when={number}"),
                *(sys.executable, "-P", "-c", PROGRAMS[program], str(folder)),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        kept = folder / "kept"
        content = kept.read_bytes() if kept.exists() else b""
        if program == "results":
            done_ids = ResultFile(kept).done if kept.exists() else set[str]()
            assert done_ids in ({"a", "b"}, {"a"}, set())
            assert done.returncode != 0 or done_ids == {"a", "b"}
        else:
            assert content in (new, b"old" if program == "file" else b""), done.stderr
            assert done.returncode != 0 or content == new
        if done.returncode == 0:
            assert number > 1 or (program, call) in NOT_CALLED
            return
    raise AssertionError("the program never succeeded")
