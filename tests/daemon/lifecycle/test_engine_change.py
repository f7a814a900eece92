"""A model whose engine fails starts on the next engine, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import EngineFault, LoadFailed, OutOfMemory, WorkerDied
from ingle.backends.base.events import Delta
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.engines.engine_failures import EngineFailures

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

MakeManager = Callable[..., "ManagerHarness"]


class Setting:
    """The GPU, driver and kernels, as a test sets them."""

    text = "RTX 4090, driver 580"


@pytest.fixture
def setting() -> Setting:
    return Setting()


@pytest.fixture
def failures(tmp_path: Path, setting: Setting) -> EngineFailures:
    return EngineFailures(tmp_path / "failures.json", lambda: setting.text)


@pytest.fixture
def harness(make_manager: MakeManager, failures: EngineFailures) -> ManagerHarness:
    return make_manager(engine_failures=failures)


async def answer(harness: ManagerHarness) -> str:
    request = GenerateRequest(id="r", prompt="Hi")
    async with harness.manager.lease("a") as lease:
        events = [event async for event in stream_events(lease.backend, request)]
    return "".join(event.text for event in events if isinstance(event, Delta))


def engines(harness: ManagerHarness) -> list[str]:
    """The engine of each process that was started."""
    return [backend.spec.engine for backend in harness.backends]


@pytest.mark.parametrize(
    "error",
    [
        EngineFault("The kernels are wrong."),
        LoadFailed("Its packages are damaged."),
        OutOfMemory("It does not fit."),
        WorkerDied("It was killed by SIGSEGV.", is_fault=True),
    ],
)
async def test_failed_load_is_repeated_by_llama_cpp(
    harness: ManagerHarness, error: LoadFailed | WorkerDied
) -> None:
    harness.plans["a"].start_errors = [error]
    assert await answer(harness) == "Hello"
    assert engines(harness) == ["cuda", "llama.cpp"]
    (loaded,) = harness.loaded()
    assert loaded.warnings == [
        f"llama.cpp runs this model, since ingle's own engine could not: {error.message}"
    ]


async def test_engine_that_was_asked_for_is_not_changed(harness: ManagerHarness) -> None:
    from ingle.daemon.load_planning.load_options import LoadOptions

    harness.plans["a"].start_errors = [EngineFault("The kernels are wrong.")]
    with pytest.raises(LoadFailed, match="The kernels are wrong"):
        await harness.manager.load("a", LoadOptions(engine="cuda"))
    assert engines(harness) == ["cuda"]


async def test_process_that_was_killed_keeps_its_engine(harness: ManagerHarness) -> None:
    harness.plans["a"].start_errors = [WorkerDied("It was killed by SIGKILL.")]
    assert await answer(harness) == "Hello"
    assert engines(harness) == ["cuda", "cuda"]


async def test_fault_while_answering_retries_on_the_other_engine(harness: ManagerHarness) -> None:
    plan = harness.plans["a"]
    plan.deaths, plan.dies_of_a_fault = [0], True
    assert await answer(harness) == "Hello"
    assert engines(harness) == ["cuda", "llama.cpp"]


async def test_failure_is_remembered_until_the_setting_changes(
    harness: ManagerHarness, setting: Setting
) -> None:
    harness.plans["a"].start_errors = [EngineFault("The kernels are wrong.")]
    await answer(harness)
    await harness.manager.close(0.0)
    harness.manager._closing = False  # pyright: ignore[reportPrivateUsage]  # as a new daemon
    await answer(harness)
    assert engines(harness) == ["cuda", "llama.cpp", "llama.cpp"]
    assert "The kernels are wrong." in harness.loaded()[0].warnings[0]
    setting.text = "RTX 4090, driver 590"
    await harness.manager.close(0.0)
    harness.manager._closing = False  # pyright: ignore[reportPrivateUsage]
    await answer(harness)
    assert engines(harness)[3:] == ["cuda"]


async def test_failure_is_recorded_with_the_name_and_the_time(
    harness: ManagerHarness, failures: EngineFailures
) -> None:
    harness.plans["a"].start_errors = [EngineFault("The kernels are wrong.")]
    await answer(harness)
    (failure,) = failures.all()
    assert failure.name == harness.loaded()[0].name
    assert failure.failed_at > 0


async def test_unload_forgets_the_failure(harness: ManagerHarness) -> None:
    harness.plans["a"].start_errors = [EngineFault("The kernels are wrong.")]
    await answer(harness)
    await harness.manager.unload("a")
    await answer(harness)
    assert engines(harness) == ["cuda", "llama.cpp", "cuda"]


async def test_failure_of_both_engines_is_reported(harness: ManagerHarness) -> None:
    errors = [EngineFault("The kernels are wrong."), LoadFailed("The file is damaged.")]
    harness.plans["a"].start_errors = list(errors)
    with pytest.raises(LoadFailed, match="The file is damaged"):
        await answer(harness)
    assert engines(harness) == ["cuda", "llama.cpp"]


async def test_memory_that_runs_out_on_the_other_engine_is_retried_with_less(
    harness: ManagerHarness,
) -> None:
    harness.plans["a"].start_errors = [EngineFault("Wrong."), OutOfMemory("It does not fit.")]
    assert await answer(harness) == "Hello"
    assert engines(harness) == ["cuda", "llama.cpp", "llama.cpp"]
    assert harness.backends[-1].spec.batch < harness.backends[0].spec.batch


def test_damaged_record_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "failures.json"
    path.write_text('[{"engine": 1}')
    failures = EngineFailures(path, lambda: "x")
    assert failures.find("cuda", "m") is None
    failures.add("cuda", "m", "Wrong.")
    assert failures.find("cuda", "m") == "Wrong."
    failures.forget("m")
    assert failures.find("cuda", "m") is None
