"""Model manager: starting, leasing, keep-alive, eviction, reloading and unloading of models."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import LoadFailed, OutOfMemory, WorkerDied
from ingle.backends.base.events import Delta
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.daemon.errors import (
    Conflict,
    MemoryBusy,
    MemoryExhausted,
    ModelQuarantined,
    ModelStopped,
    ShuttingDown,
)
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.machine.boot_clock import boot_time
from ingle.daemon.memory.memory_allocator import AllocationTimes
from ingle.daemon.model_process import model_run
from ingle.models.errors import ModelNotFound
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]

GIB = 2**30


async def generate(
    harness: ManagerHarness, name: str = "a", priority: Priority = Priority.INTERACTIVE
) -> str:
    """Run one request to completion and return its text; a batch request is not retried."""
    async with harness.manager.lease(name, priority=priority) as lease:
        events = stream_events(lease.backend, GenerateRequest(id="r", prompt="x"))
        return "".join([event.text async for event in events if isinstance(event, Delta)])


async def test_concurrent_leases_share_one_start(make_manager: MakeManager) -> None:
    harness = make_manager()
    gate = harness.plans["a"].start_gate = asyncio.Event()
    answers = [asyncio.create_task(generate(harness)) for _ in range(8)]
    await harness.until(lambda: len(harness.backends) == 1)
    assert harness.states() == {"a": "starting"}
    gate.set()
    assert await asyncio.gather(*answers) == ["Hello"] * 8
    assert len(harness.backends) == 1
    assert harness.states() == {"a": "ready"}


async def test_failed_start_fails_all_waiters_and_next_lease_retries(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    plan = harness.plans["a"]
    plan.start_error = LoadFailed("The file is damaged.")
    results = await asyncio.gather(*(generate(harness) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, LoadFailed) for result in results)
    assert len(harness.backends) == 1
    assert harness.states() == {"a": "failed"}
    assert harness.manager.loaded()[0].error == "The file is damaged."
    plan.start_error = None
    assert await generate(harness) == "Hello"


async def test_file_removed_while_loading_is_model_not_found(
    make_manager: MakeManager, tmp_path: Path
) -> None:
    harness = make_manager()
    gate = harness.plans["a"].start_gate = asyncio.Event()
    harness.plans["a"].start_error = LoadFailed("The file cannot be opened.")
    answer = asyncio.create_task(generate(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    (tmp_path / "a.gguf").unlink()
    gate.set()
    with pytest.raises(ModelNotFound, match="removed while it was loading"):
        await answer


async def test_crash_during_a_stream_is_raised_and_next_request_restarts(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].die_after = 1
    with pytest.raises(WorkerDied, match="signal 9"):
        await generate(harness)
    harness.plans["a"].die_after = None
    assert await generate(harness) == "Hello"
    assert len(harness.backends) == 2
    assert harness.backends[0].active == 0


async def test_crash_of_an_idle_worker_is_detected(make_manager: MakeManager) -> None:
    harness = make_manager()
    await generate(harness)
    harness.backends[0].pid = os.getpid()
    assert harness.manager.loaded()[0].pid == os.getpid()
    harness.backends[0].die("It was killed.")
    await harness.until(lambda: harness.states() == {"a": "failed"})
    assert harness.manager.loaded()[0].error == "It was killed."
    assert harness.manager.loaded()[0].pid is None
    assert await generate(harness) == "Hello"


async def test_three_crashes_quarantine_a_model_until_unload(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].die_after = 0
    for _ in range(3):
        with pytest.raises(WorkerDied):
            await generate(harness, priority=Priority.BATCH)
        await harness.until(lambda: harness.states() == {"a": "failed"})
    with pytest.raises(ModelQuarantined, match="three times") as caught:
        await generate(harness)
    assert "ingle unload a" in str(caught.value.hint)
    assert len(harness.backends) == 3
    assert await generate(harness, "b") == "Hello"
    harness.plans["a"].die_after = None
    await harness.manager.unload("a")
    assert await generate(harness) == "Hello"


async def test_loaded_model_can_be_unloaded_after_its_file_is_removed(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    await generate(harness)
    harness.missing.add("a")
    with pytest.raises(ModelNotFound):
        await harness.manager.unload("b2")
    assert await harness.manager.unload("a") == ["a"]


async def test_idle_model_is_unloaded_after_its_keep_alive(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alive=0.05)
    async with harness.manager.lease("a"):
        await asyncio.sleep(0.1)
        assert harness.states() == {"a": "ready"}
        assert harness.manager.loaded()[0].expires_in is None
    expires_in = harness.manager.loaded()[0].expires_in
    assert expires_in is not None
    assert expires_in > 0
    await harness.until(lambda: harness.states() == {})
    assert harness.backends[0].stops
    assert await generate(harness) == "Hello"


async def test_negative_keep_alive_never_expires(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alive=0.02)
    loaded = await harness.manager.load("a", keep_alive=-1)
    assert loaded.state == "ready"
    await asyncio.sleep(0.06)
    assert harness.states() == {"a": "ready"}
    assert harness.manager.loaded()[0].expires_in is None


async def test_unload_drains_requests_and_new_requests_start_a_new_worker(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    gate = harness.plans["a"].token_gate = asyncio.Event()
    first = asyncio.create_task(generate(harness))
    await harness.until(lambda: bool(harness.backends) and harness.backends[0].active == 1)
    unloading = asyncio.create_task(harness.manager.unload("a"))
    await harness.until(lambda: harness.states() == {"a": "draining"})
    second = asyncio.create_task(generate(harness))
    await asyncio.sleep(0.02)
    assert len(harness.backends) == 1
    gate.set()
    assert await first == "Hello"
    assert await unloading == ["a"]
    assert await second == "Hello"
    assert len(harness.backends) == 2


async def test_unload_cancels_a_hanging_start(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(generate(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    assert await harness.manager.unload("a") == ["a"]
    with pytest.raises(ModelStopped):
        await waiting
    assert harness.states() == {}
    assert harness.backends[0].stops


async def test_start_without_waiters_continues_for_a_grace_period(
    make_manager: MakeManager,
) -> None:
    harness = make_manager(abandon_after=0.2)
    gate = harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(generate(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(0.02)
    again = asyncio.create_task(generate(harness))
    await asyncio.sleep(0.02)
    gate.set()
    assert await again == "Hello"
    assert len(harness.backends) == 1


async def test_start_without_waiters_is_cancelled_after_the_grace_period(
    make_manager: MakeManager,
) -> None:
    harness = make_manager(abandon_after=0.05)
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(generate(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await harness.until(lambda: harness.states() == {})
    assert harness.backends[0].stops


async def test_least_recently_used_idle_model_is_evicted(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory["available"] = 3 * GIB + GIB // 2  # of which 1 GiB is reserved for the system
    await generate(harness, "a")
    await generate(harness, "b")
    await generate(harness, "a")
    assert await generate(harness, "c") == "Hello"
    assert harness.states() == {"a": "ready", "c": "ready"}


async def test_busy_model_is_not_evicted(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(patience=0.0, settle=0.0))
    harness.memory["available"] = 2 * GIB + GIB // 2
    async with harness.manager.lease("a"):
        with pytest.raises(MemoryBusy, match=r"needs 1.1 GB .* 0.5 GB .* 'a'"):
            await generate(harness, "b")
        assert harness.states() == {"a": "ready", "b": "failed"}
    assert await generate(harness, "b") == "Hello"
    assert harness.states() == {"b": "ready"}


async def test_model_larger_than_the_machine_evicts_nothing(make_manager: MakeManager) -> None:
    harness = make_manager()
    await generate(harness, "a")
    harness.sizes["b"] = 100 * GIB
    with pytest.raises(MemoryExhausted, match=r"needs 107.4 GB"):
        await generate(harness, "b")
    assert harness.states()["a"] == "ready"


async def test_concurrent_starts_do_not_reserve_the_same_memory(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.memory["available"] = 2 * GIB + GIB // 2
    gate = harness.plans["a"].start_gate = asyncio.Event()
    first = asyncio.create_task(generate(harness, "a"))
    await harness.until(lambda: len(harness.backends) == 1)
    second = asyncio.create_task(generate(harness, "b"))
    await harness.until(lambda: any("Waits until 'a'" in m.reason for m in harness.loaded()))
    assert len(harness.backends) == 1
    gate.set()
    assert await asyncio.gather(first, second) == ["Hello", "Hello"]
    assert harness.states() == {"b": "ready"}


async def test_start_waits_until_a_busy_model_can_be_evicted(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory["available"] = 2 * GIB + GIB // 2
    async with harness.manager.lease("a"):
        waiting = asyncio.create_task(generate(harness, "b"))
        await harness.until(lambda: "b" in harness.states())
    assert await waiting == "Hello"
    assert harness.states() == {"b": "ready"}
    assert harness.manager.loaded()[0].reason == ""


async def test_constantly_used_model_is_drained_for_a_waiting_one(
    make_manager: MakeManager,
) -> None:
    harness = make_manager(allocation_times=AllocationTimes(drain_after=0.02))
    harness.memory["available"] = 2 * GIB + GIB // 2
    done = asyncio.Event()

    async def keep_using() -> None:
        while not done.is_set():
            async with harness.manager.lease("a"):
                await asyncio.sleep(0.01)

    # Two slots are shared by four users, so the model is always leased.
    leases = [asyncio.create_task(keep_using()) for _ in range(4)]
    await harness.until(lambda: harness.states().get("a") == "ready")
    assert await generate(harness, "b") == "Hello"
    done.set()
    await asyncio.gather(*leases)


async def test_small_model_does_not_wait_behind_a_large_one(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(drain_after=0.0))
    harness.memory["available"] = 6 * GIB
    harness.sizes |= {"a": 3 * GIB, "b": 4 * GIB}
    async with harness.manager.lease("a"):
        large = asyncio.create_task(generate(harness, "b"))
        await harness.until(lambda: "b" in harness.states())
        assert await generate(harness, "c") == "Hello"
        assert harness.states()["b"] == "starting"
    assert await large == "Hello"


async def test_pinned_model_is_not_evicted_or_expired(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alive=0.01)
    harness.memory["available"] = 2 * GIB + GIB // 2
    pinned = await harness.manager.load("a", pin=True)
    assert pinned.pinned
    await asyncio.sleep(0.05)
    with pytest.raises(MemoryExhausted, match="'a' cannot be unloaded while pinned") as caught:
        await generate(harness, "b")
    assert "--no-pin" in str(caught.value.hint)
    assert harness.states()["a"] == "ready"
    await harness.manager.load("a", pin=False, keep_alive=60)
    assert await generate(harness, "b") == "Hello"
    assert harness.states() == {"b": "ready"}


async def test_memory_limit_is_enforced_despite_free_memory(make_manager: MakeManager) -> None:
    harness = make_manager(memory_limit=2 * GIB + GIB // 2)
    await generate(harness, "a")
    await generate(harness, "b")
    await generate(harness, "c")
    assert harness.states() == {"b": "ready", "c": "ready"}
    harness.sizes["a"] = 3 * GIB
    with pytest.raises(MemoryExhausted) as caught:
        await generate(harness, "a")
    assert "memory_limit" in str(caught.value.hint)


async def test_gpu_memory_is_allocated_and_evicted(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory |= {"gpu_total": 4 * GIB, "gpu_available": 3 * GIB}
    harness.gpu_sizes |= {"a": GIB, "b": GIB, "c": GIB + GIB // 2}
    await generate(harness, "a")
    await generate(harness, "b")
    harness.memory["gpu_available"] = GIB * 3 // 4
    requested = asyncio.create_task(generate(harness, "c"))
    await harness.until(lambda: "a" not in harness.states())
    assert not requested.done(), "the driver has not released the memory yet"
    harness.memory["gpu_available"] = 2 * GIB
    assert await requested == "Hello"
    assert harness.states() == {"b": "ready", "c": "ready"}


async def test_memory_of_every_gpu_is_allocated_and_evicted(make_manager: MakeManager) -> None:
    harness = make_manager()
    second = {"total": 4 * GIB, "available": 3 * GIB}
    harness.memory |= {"gpu_total": 4 * GIB, "gpu_available": 3 * GIB, "other_gpus": [second]}
    harness.gpu_sizes |= {"a": (GIB, GIB), "b": GIB, "c": (GIB // 2, 2 * GIB)}
    await generate(harness, "a")
    await generate(harness, "b")
    second["available"] = 2 * GIB
    (a,) = (model for model in harness.loaded() if model.name == "a")
    assert a.memory.predicted.gpus == [GIB, GIB]
    requested = asyncio.create_task(generate(harness, "c"))
    await harness.until(lambda: "a" not in harness.states())
    second["available"] = 3 * GIB
    assert await requested == "Hello"
    assert harness.states() == {"b": "ready", "c": "ready"}
    second["available"] = GIB
    harness.gpu_sizes["a"] = (GIB // 4, 4 * GIB)
    with pytest.raises(MemoryExhausted, match=r"needs 4\.3 GB of memory of GPU 1, and 3\.0 GB can"):
        await generate(harness, "a")


async def test_memory_of_each_rank_is_what_its_gpu_lacks(make_manager: MakeManager) -> None:
    """The processes of a divided model are a process and its children, each on another GPU."""
    harness = make_manager()
    harness.gpu_sizes["a"] = 2 * GIB, 2 * GIB
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    harness.memory["gpu_available"] = 8 * GIB
    harness.memory["other_gpus"] = [{"available": 8 * GIB, "processes": {child.pid: GIB}}]
    await harness.manager.load("a", LoadOptions(tensor_parallel=2))
    harness.backends[0].pid = os.getpid()
    assert harness.manager.allocator.ledger.free().gpus == (8 * GIB, 7 * GIB)
    harness.memory["gpu_processes"] = {os.getpid(): GIB // 2}
    assert harness.manager.allocator.ledger.free().gpus == (8 * GIB - GIB * 3 // 2, 7 * GIB)
    assert harness.loaded()[0].memory.measured.gpus == [GIB // 2, GIB]
    child.kill()
    await child.wait()


@pytest.mark.slow
async def test_start_waits_for_memory_that_is_being_released(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(settle=60.0))
    harness.memory |= {"gpu_total": 4 * GIB, "gpu_available": 2 * GIB}
    harness.gpu_sizes |= {"a": GIB, "b": GIB}
    await generate(harness, "a")
    harness.memory["gpu_available"] = GIB
    await harness.manager.unload("a")
    requested = asyncio.create_task(generate(harness, "b"))
    await harness.until(lambda: any("Waits" in model.reason for model in harness.loaded()))
    harness.memory["gpu_available"] = 2 * GIB
    assert await requested == "Hello"


async def test_out_of_memory_on_start_is_retried_once_with_less(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].start_errors = [OutOfMemory("There is no memory for its context.")]
    assert await generate(harness) == "Hello"
    assert [backend.spec.batch for backend in harness.backends] == [512, 128]
    (loaded,) = harness.manager.loaded()
    assert loaded.warnings == ["Memory ran out, so it was loaded with steps of 128 tokens."]
    await harness.manager.unload("a")
    lacking = OutOfMemory("There is no memory for its weights.")
    harness.plans["a"].start_errors = [lacking, lacking]
    with pytest.raises(OutOfMemory, match=r"weights\. A retry with steps of 128"):
        await generate(harness)
    assert len(harness.backends) == 4
    assert harness.states() == {"a": "failed"}


async def test_memory_pressure_evicts_idle_models(make_manager: MakeManager) -> None:
    harness = make_manager()
    allocator = harness.manager.allocator
    await generate(harness, "a")
    await generate(harness, "b")
    assert not allocator.ledger.is_short()
    harness.memory["available"] = 2 * GIB
    assert allocator.ledger.is_short()
    async with harness.manager.lease("a"):
        evicted = await allocator.evict_for_pressure("A game began.")
        assert [run.model.name for run in evicted] == ["b"]
        assert harness.states() == {"a": "ready"}
        harness.memory["available"] = GIB // 2
        assert await allocator.evict_for_pressure("A game began.") == []
    evicted = await allocator.evict_for_pressure("A game began.")
    assert [run.reason for run in evicted] == ["A game began."]
    assert harness.states() == {}


async def test_models_are_reloaded_after_resume_if_the_gpu_lost_them(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].layers_on_gpu = 2
    await harness.manager.load("a", pin=True)
    await generate(harness, "b")
    await harness.manager.resumed()
    assert len(harness.backends) == 2, "the models on the GPU still work"
    harness.plans["a"].die_after = 0
    resuming = asyncio.create_task(harness.manager.resumed())
    await harness.until(lambda: len(harness.backends) == 3)
    await resuming
    assert harness.states() == {"a": "ready", "b": "ready"}
    assert {model.name for model in harness.manager.loaded() if model.pinned} == {"a"}


async def test_keep_alive_includes_the_time_of_a_suspend(
    make_manager: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_manager(keep_alive=3600.0)
    await generate(harness)
    time_after_sleep = boot_time() + 7200
    monkeypatch.setattr(model_run, "boot_time", lambda: time_after_sleep)
    await harness.manager.resumed()
    await harness.until(lambda: harness.states() == {})


async def test_configured_keep_alive_and_pin_per_model(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alives=(("a", 5.0), ("b", -1.0)), pinned=("c",))
    for name in "abc":
        await generate(harness, name)
    kept = {model.name: (model.expires_in, model.pinned) for model in harness.manager.loaded()}
    assert kept["a"][0] is not None
    assert kept["a"][0] <= 5.0
    assert kept["b"] == (None, False)
    assert kept["c"] == (None, True)
    async with harness.manager.lease("a", keep_alive=50.0):
        pass
    assert 40 < (harness.loaded()[0].expires_in or 0) <= 50, (
        "the keep-alive of the request takes precedence"
    )


async def test_load_with_another_context_restarts_an_idle_model(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    assert (await harness.manager.load("a", LoadOptions(context=1024))).context == 1024
    assert (await harness.manager.load("a", LoadOptions(context=1024))).context == 1024
    assert len(harness.backends) == 1
    assert (await harness.manager.load("a", LoadOptions(context=2048))).context == 2048
    assert len(harness.backends) == 2
    async with harness.manager.lease("a"):
        with pytest.raises(Conflict):
            await harness.manager.load("a", LoadOptions(context=4096))


async def test_load_with_another_draft_restarts(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    for draft, starts in [(None, 1), ("off", 2), ("off", 2), (None, 2), ("b", 3)]:
        await manager.load("a", LoadOptions(draft=draft))
        assert len(harness.backends) == starts


async def test_load_with_another_kv_type_restarts(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    quantized = LoadOptions(kv_type=KVType.Q8_0)
    assert (await manager.load("a")).kv_type == "f16"
    assert (await manager.load("a", LoadOptions(kv_type=KVType.F16))).kv_type == "f16"
    assert len(harness.backends) == 1
    assert (await manager.load("a", quantized)).kv_type == "q8_0"
    assert (await manager.load("a")).kv_type == "q8_0", "no other KV type was requested"
    assert len(harness.backends) == 2
    async with manager.lease("a"):
        with pytest.raises(Conflict):
            await manager.load("a", LoadOptions(kv_type=KVType.Q4_0))


async def test_reduced_context_is_reported_as_a_warning(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    assert (await manager.load("a", LoadOptions(context=8192))).warnings == []
    cut = await manager.load("b", LoadOptions(context=20000))
    assert (cut.context, len(cut.warnings)) == (8192, 1)
    assert "20000" in cut.warnings[0]
    assert "8192" in cut.warnings[0]
    again = await manager.load("b", LoadOptions(context=20000))
    assert again.warnings == cut.warnings
    assert len(harness.backends) == 2


async def test_requests_with_smaller_contexts_share_the_larger_load(
    make_manager: MakeManager,
) -> None:
    """Requests alternating between contexts of 4,096 and 8,192 do not cause a reload each time."""
    manager = (harness := make_manager()).manager
    for requested in (512, 8192, 512, 4096, 8192, None, 512):
        async with manager.lease("a", options=LoadOptions(context=requested)) as lease:
            assert lease.info.context >= (requested or 0)
    assert [backend.spec.context for backend in harness.backends] == [4096, 8192]


async def test_request_for_more_context_restarts_a_pending_start(
    make_manager: MakeManager,
) -> None:
    manager = (harness := make_manager()).manager
    harness.plans["a"].start_gate = gate = asyncio.Event()

    async def context(requested: int) -> int:
        async with manager.lease("a", options=LoadOptions(context=requested)) as lease:
            return lease.info.context

    first = asyncio.create_task(context(512))
    await harness.until(lambda: len(harness.backends) == 1)
    second = asyncio.create_task(context(8192))
    third = asyncio.create_task(context(512))
    await asyncio.sleep(0)
    gate.set()
    assert await second == 8192
    assert (await first, await third) in ((4096, 4096), (4096, 8192), (8192, 8192))
    assert [backend.spec.context for backend in harness.backends] == [4096, 8192]


async def test_pin_and_keep_alive_survive_a_restart_with_more_context(
    make_manager: MakeManager,
) -> None:
    manager = (harness := make_manager(keep_alive=60.0)).manager
    await manager.load("a", LoadOptions(context=1024), keep_alive=900.0, pin=True)
    async with manager.lease("a", options=LoadOptions(context=8192)):
        assert len(harness.backends) == 2
        assert harness.loaded()[0].pinned
    assert (await manager.load("a", LoadOptions(context=2048))).pinned
    await manager.load("a", pin=False)
    assert (harness.loaded()[0].expires_in or 0) > 800
    await manager.load("a", pin=True)
    await manager.unload("a")
    assert not (await manager.load("a")).pinned, "unloading removes the pin"


async def test_pin_survives_a_worker_crash(make_manager: MakeManager) -> None:
    harness = make_manager()
    await harness.manager.load("a", pin=True)
    harness.backends[0].die("killed")
    await harness.until(lambda: harness.states() == {"a": "failed"})
    assert await generate(harness) == "Hello"
    assert harness.loaded()[0].pinned


async def test_load_with_other_options_restarts_a_pending_start(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    harness.plans["a"].start_gate = gate = asyncio.Event()
    first = asyncio.create_task(manager.load("a"))
    await harness.until(lambda: len(harness.backends) == 1)
    second = asyncio.create_task(manager.load("a", LoadOptions(context=1024)))
    await harness.until(lambda: harness.manager.in_motion)
    await asyncio.sleep(0.05)
    gate.set()
    assert (await first).context == 4096
    assert (await second).context == 1024
    assert len(harness.backends) == 2


async def test_shutdown_fails_requests_waiting_for_a_start(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(generate(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    await harness.manager.close(0.1)
    with pytest.raises(ShuttingDown):
        await waiting


async def test_load_progress_is_reported_to_waiters(make_manager: MakeManager) -> None:
    harness = make_manager()
    seen: list[float] = []
    async with harness.manager.lease("a", on_progress=seen.append):
        assert seen == [0.5]


async def test_close_refuses_requests_and_kills_after_the_grace_period(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].token_gate = asyncio.Event()
    generating = asyncio.create_task(generate(harness))
    await harness.until(lambda: bool(harness.backends) and harness.backends[0].active == 1)
    closing = asyncio.create_task(harness.manager.close(0.1))
    await asyncio.sleep(0.02)
    with pytest.raises(ShuttingDown):
        await generate(harness, "b")
    await closing
    assert harness.backends[0].state == "dead"
    # The shutdown is not counted as a crash, and the next request does not restart the model.
    harness.plans["a"].token_gate.set()
    with pytest.raises(ShuttingDown, match="stopped before the answer was complete"):
        await generating


async def test_state_changes_are_published_in_order(make_manager: MakeManager) -> None:
    harness = make_manager()
    states: list[str] = []
    with harness.hub.subscribe() as subscription:
        await generate(harness)
        await harness.manager.unload()
        subscription.end()
        async for event in subscription:
            states.append(msgspec.json.decode(event.data)["state"])
    assert states == ["starting", "ready", "stopping", "stopped"]
