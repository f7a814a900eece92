"""`ingle bench` on a small model with random weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import EventSink
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.worker.supervisor import worker_process
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.main import main
from ingle.daemon.settings.paths import find_paths

Capture = pytest.CaptureFixture[str]
WriteSmallLlama = Callable[..., Path]
QUICK = ["--prompt", "16", "--tokens", "4", "--runs", "2"]


@pytest.fixture
def model(tmp_path: Path, write_small_llama: WriteSmallLlama) -> str:
    return str(write_small_llama(tmp_path / "small.gguf"))


@pytest.mark.slow
def test_measures_combinations_and_compares_with_a_saved_report(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    report_file = tmp_path / "kept.json"
    vary = ["--only", "", "--only", "clients=2", "--only", "flash=off"]
    assert main(["bench", model, *QUICK, *vary, "--save", str(report_file), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    found = {entry["name"]: entry for entry in values["measurements"]}
    assert set(found) == {"baseline", "clients=2", "flash=off"}
    for entry in found.values():
        assert entry["error"] is None
        assert len(entry["decode"]["runs"]) == 2
        assert min(entry["decode"]["runs"]) > 0
        assert entry["memory_bytes"] > 1_000_000
        assert entry["reason"]
    assert main(["bench", model, *QUICK, *vary, "--against", str(report_file)]) == 0
    shown = capsys.readouterr().out
    assert "COMBINATION" in shown
    assert "Since 2" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_next_run_is_compared_with_the_previous_one(model: str, capsys: Capture) -> None:
    assert main(["bench", model, *QUICK, "--only", ""]) == 0
    assert "Since 2" not in capsys.readouterr().out
    assert main(["bench", model, *QUICK, "--only", ""]) == 0
    assert "Since 2" in capsys.readouterr().out
    assert main(["bench", model, "--prompt", "20", "--tokens", "4", "--runs", "2"]) == 0
    assert "Since 2" not in capsys.readouterr().out
    for report in Path(find_paths(os.environ).benches).iterdir():
        report.write_bytes(b"\xff")
    assert main(["bench", model, *QUICK, "--only", ""]) == 0
    assert "Since 2" not in capsys.readouterr().out


@pytest.mark.slow
def test_unavailable_combination_reports_the_reason(model: str, capsys: Capture) -> None:
    combinations = ["--only", "kv=q8_0", "--only", "clients=2", "--only", "speculation=draft"]
    assert main(["bench", model, *QUICK, *combinations]) == 0
    shown = capsys.readouterr().out
    assert "speculation=draft: There is no draft model" in shown
    assert "kv=q8_0: small.gguf has heads of 16 elements" in shown
    assert main(["bench", model, *QUICK, "--only", "speculation=draft"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "speed"], "'speed' is not one of clients"),
        (["--only", "kv=9"], "kv is one of f16"),
        (["--only", "kv=q8_0", "--vary", "kv"], "exclude each other"),
        (["--runs", "0"], "--runs must be a whole number"),
        (["--against", "nowhere.json"], "cannot be read"),
    ],
)
def test_invalid_arguments_are_rejected(
    arguments: list[str], message: str, model: str, capsys: Capture
) -> None:
    assert main(["bench", model, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_against_rejects_a_file_that_is_not_a_report(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert main(["bench", model, "--against", str(path)]) == 2
    assert "is not a report of `ingle bench`" in capsys.readouterr().err


@pytest.mark.slow
def test_memory_limit_skips_only_combinations_that_do_not_fit(
    tmp_path: Path,
    write_small_llama: WriteSmallLlama,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    model = str(write_small_llama(tmp_path / "small.gguf", context=1 << 20))
    work = ["--prompt", "200", "--tokens", "2", "--runs", "1", "--json", "--only", ""]
    assert main(["bench", model, *work]) == 0
    (alone,) = json.loads(capsys.readouterr().out)["measurements"]
    monkeypatch.setenv("INGLE_MEMORY_LIMIT", str(alone["predicted_bytes"] + (4 << 20)))
    assert main(["bench", model, *work, "--only", "clients=64"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert [entry["name"] for entry in found] == ["baseline", "clients=64"]
    assert found[0]["error"] is None
    assert "can be freed" in found[1]["error"]


@pytest.mark.slow
def test_results_are_printed_when_the_report_cannot_be_saved(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "kept"
    assert main(["bench", model, "--save", str(folder / "x.json")]) == 2
    assert "is not a folder that can be written to" in capsys.readouterr().err
    folder.mkdir()
    assert main(["bench", model, *QUICK, "--only", "", "--save", str(folder)]) == 1
    found = capsys.readouterr()
    assert "baseline" in found.out
    assert "cannot be written" in found.err


def test_worker_imports_its_engine_from_where_it_is_installed(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    store = EngineStore(find_paths(os.environ).engines)
    folder = store.target(all_engine_packages()["llama.cpp"])
    folder.mkdir(parents=True)
    (folder / "installed.json").write_text("{}")
    specs = list[LoadSpec]()

    def create(spec: LoadSpec) -> WorkerProcess:
        specs.append(spec)
        raise WorkerDied("The worker is gone.")

    monkeypatch.setattr(worker_process, "WorkerProcess", create)
    main(["bench", model, *QUICK, "--only", "engine=llama.cpp"])
    assert "The worker is gone." in capsys.readouterr().out
    assert [spec.import_path for spec in specs] == [[str(folder)]]


class _SingleRequestBackend:
    """A backend whose worker dies on a second concurrent request."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        if request.id != "r0":
            raise WorkerDied("The worker is gone.")
        await self._backend.run(request, sink)


@pytest.mark.slow
def test_failed_measurement_does_not_discard_earlier_ones(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def create(spec: LoadSpec) -> _SingleRequestBackend:
        return _SingleRequestBackend(WorkerProcess(spec))

    monkeypatch.setattr(worker_process, "WorkerProcess", create)
    arguments = ["--only", "", "--only", "clients=2", "--json"]
    assert main(["bench", model, *QUICK, *arguments]) == 0
    one, two = json.loads(capsys.readouterr().out)["measurements"]
    assert one["error"] is None
    assert two["error"] == "The worker is gone."
