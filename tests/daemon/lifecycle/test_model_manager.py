"""Tests of how models come and go."""

from __future__ import annotations

import asyncio
import os
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
from ingle.daemon.load_planning.load_planner import LoadOptions
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


async def ask(
    harness: ManagerHarness, name: str = "a", priority: Priority = Priority.INTERACTIVE
) -> str:
    """One whole answer; a batch request is not retried."""
    async with harness.manager.lease(name, priority=priority) as lease:
        events = stream_events(lease.backend, GenerateRequest(id="r", prompt="x"))
        return "".join([event.text async for event in events if isinstance(event, Delta)])


async def test_concurrent_leases_share_one_start(make_manager: MakeManager) -> None:
    harness = make_manager()
    gate = harness.plans["a"].start_gate = asyncio.Event()
    answers = [asyncio.create_task(ask(harness)) for _ in range(8)]
    await harness.until(lambda: len(harness.backends) == 1)
    assert harness.states() == {"a": "starting"}
    gate.set()
    assert await asyncio.gather(*answers) == ["Hello"] * 8
    assert len(harness.backends) == 1
    assert harness.states() == {"a": "ready"}


async def test_a_failed_start_fails_all_waiters_and_the_next_lease_starts_anew(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    plan = harness.plans["a"]
    plan.start_error = LoadFailed("The file is damaged.")
    results = await asyncio.gather(*(ask(harness) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, LoadFailed) for result in results)
    assert len(harness.backends) == 1
    assert harness.states() == {"a": "failed"}
    assert harness.manager.loaded()[0].error == "The file is damaged."
    plan.start_error = None
    assert await ask(harness) == "Hello"


async def test_a_file_that_goes_while_it_is_loaded_is_a_model_not_found(
    make_manager: MakeManager, tmp_path: Path
) -> None:
    harness = make_manager()
    gate = harness.plans["a"].start_gate = asyncio.Event()
    harness.plans["a"].start_error = LoadFailed("The file cannot be opened.")
    answer = asyncio.create_task(ask(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    (tmp_path / "a.gguf").unlink()
    gate.set()
    with pytest.raises(ModelNotFound, match="removed while it was loading"):
        await answer


async def test_a_death_in_a_stream_reaches_its_client_and_the_next_request_is_answered(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].die_after = 1
    with pytest.raises(WorkerDied, match="signal 9"):
        await ask(harness)
    harness.plans["a"].die_after = None
    assert await ask(harness) == "Hello"
    assert len(harness.backends) == 2
    assert harness.backends[0].active == 0


async def test_an_idle_death_is_seen_without_a_request(make_manager: MakeManager) -> None:
    harness = make_manager()
    await ask(harness)
    harness.backends[0].pid = os.getpid()
    assert harness.manager.loaded()[0].pid == os.getpid()
    harness.backends[0].die("It was killed.")
    await harness.until(lambda: harness.states() == {"a": "failed"})
    assert harness.manager.loaded()[0].error == "It was killed."
    assert harness.manager.loaded()[0].pid is None
    assert await ask(harness) == "Hello"


async def test_three_deaths_put_a_model_into_quarantine_until_it_is_unloaded(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].die_after = 0
    for _ in range(3):
        with pytest.raises(WorkerDied):
            await ask(harness, priority=Priority.BATCH)
        await harness.until(lambda: harness.states() == {"a": "failed"})
    with pytest.raises(ModelQuarantined, match="three times") as caught:
        await ask(harness)
    assert "ingle unload a" in str(caught.value.hint)
    assert len(harness.backends) == 3
    assert await ask(harness, "b") == "Hello"
    harness.plans["a"].die_after = None
    await harness.manager.unload("a")
    assert await ask(harness) == "Hello"


async def test_a_loaded_model_can_be_unloaded_after_its_file_is_gone(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    await ask(harness)
    harness.missing.add("a")
    with pytest.raises(ModelNotFound):
        await harness.manager.unload("b2")
    assert await harness.manager.unload("a") == ["a"]


async def test_a_model_goes_when_its_keep_alive_is_over(make_manager: MakeManager) -> None:
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
    assert await ask(harness) == "Hello"


async def test_a_negative_keep_alive_is_for_ever(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alive=0.02)
    loaded = await harness.manager.load("a", keep_alive=-1)
    assert loaded.state == "ready"
    await asyncio.sleep(0.06)
    assert harness.states() == {"a": "ready"}
    assert harness.manager.loaded()[0].expires_in is None


async def test_unload_lets_answers_finish_and_newcomers_get_a_new_process(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    gate = harness.plans["a"].token_gate = asyncio.Event()
    first = asyncio.create_task(ask(harness))
    await harness.until(lambda: bool(harness.backends) and harness.backends[0].active == 1)
    unloading = asyncio.create_task(harness.manager.unload("a"))
    await harness.until(lambda: harness.states() == {"a": "draining"})
    second = asyncio.create_task(ask(harness))
    await asyncio.sleep(0.02)
    assert len(harness.backends) == 1
    gate.set()
    assert await first == "Hello"
    assert await unloading == ["a"]
    assert await second == "Hello"
    assert len(harness.backends) == 2


async def test_unload_breaks_a_hanging_start_off(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(ask(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    assert await harness.manager.unload("a") == ["a"]
    with pytest.raises(ModelStopped):
        await waiting
    assert harness.states() == {}
    assert harness.backends[0].stops


async def test_a_start_nobody_waits_for_any_more_goes_on_for_a_while(
    make_manager: MakeManager,
) -> None:
    harness = make_manager(abandon_after=0.2)
    gate = harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(ask(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(0.02)
    again = asyncio.create_task(ask(harness))
    await asyncio.sleep(0.02)
    gate.set()
    assert await again == "Hello"
    assert len(harness.backends) == 1


async def test_a_start_nobody_waits_for_any_more_is_given_up_in_the_end(
    make_manager: MakeManager,
) -> None:
    harness = make_manager(abandon_after=0.05)
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(ask(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await harness.until(lambda: harness.states() == {})
    assert harness.backends[0].stops


async def test_the_idle_model_used_longest_ago_makes_room(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory["available"] = 3 * GIB + GIB // 2  # of which 1 GiB stays for the system
    await ask(harness, "a")
    await ask(harness, "b")
    await ask(harness, "a")
    assert await ask(harness, "c") == "Hello"
    assert harness.states() == {"a": "ready", "c": "ready"}


async def test_a_busy_model_is_never_evicted(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(patience=0.0, settle=0.0))
    harness.memory["available"] = 2 * GIB + GIB // 2
    async with harness.manager.lease("a"):
        with pytest.raises(MemoryBusy, match=r"needs 1024 MiB .* 512 MiB .* 'a'"):
            await ask(harness, "b")
        assert harness.states() == {"a": "ready", "b": "failed"}
    assert await ask(harness, "b") == "Hello"
    assert harness.states() == {"b": "ready"}


async def test_a_model_larger_than_the_machine_evicts_nobody(make_manager: MakeManager) -> None:
    harness = make_manager()
    await ask(harness, "a")
    harness.sizes["b"] = 100 * GIB
    with pytest.raises(MemoryExhausted, match="needs 102400 MiB"):
        await ask(harness, "b")
    assert harness.states()["a"] == "ready"


async def test_two_starts_at_once_do_not_count_the_same_memory_twice(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.memory["available"] = 2 * GIB + GIB // 2
    gate = harness.plans["a"].start_gate = asyncio.Event()
    first = asyncio.create_task(ask(harness, "a"))
    await harness.until(lambda: len(harness.backends) == 1)
    second = asyncio.create_task(ask(harness, "b"))
    await harness.until(lambda: any("Waits until 'a'" in m.reason for m in harness.loaded()))
    assert len(harness.backends) == 1
    gate.set()
    assert await asyncio.gather(first, second) == ["Hello", "Hello"]
    assert harness.states() == {"b": "ready"}


async def test_a_model_waits_until_a_busy_one_can_go(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory["available"] = 2 * GIB + GIB // 2
    async with harness.manager.lease("a"):
        waiting = asyncio.create_task(ask(harness, "b"))
        await harness.until(lambda: "b" in harness.states())
    assert await waiting == "Hello"
    assert harness.states() == {"b": "ready"}
    assert harness.manager.loaded()[0].reason == ""


async def test_models_in_constant_use_do_not_keep_another_out(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(drain_after=0.02))
    harness.memory["available"] = 2 * GIB + GIB // 2
    done = asyncio.Event()

    async def keep_using() -> None:
        while not done.is_set():
            async with harness.manager.lease("a"):
                await asyncio.sleep(0.01)

    # Two at a time, so that one of them always has it.
    users = [asyncio.create_task(keep_using()) for _ in range(4)]
    await harness.until(lambda: harness.states().get("a") == "ready")
    assert await ask(harness, "b") == "Hello"
    done.set()
    await asyncio.gather(*users)


async def test_a_small_model_need_not_wait_behind_a_large_one(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(drain_after=0.0))
    harness.memory["available"] = 6 * GIB
    harness.sizes |= {"a": 3 * GIB, "b": 4 * GIB}
    async with harness.manager.lease("a"):
        large = asyncio.create_task(ask(harness, "b"))
        await harness.until(lambda: "b" in harness.states())
        assert await ask(harness, "c") == "Hello"
        assert harness.states()["b"] == "starting"
    assert await large == "Hello"


async def test_a_pinned_model_never_goes_by_itself(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alive=0.01)
    harness.memory["available"] = 2 * GIB + GIB // 2
    pinned = await harness.manager.load("a", pin=True)
    assert pinned.pinned
    await asyncio.sleep(0.05)
    with pytest.raises(MemoryExhausted, match="'a' cannot be unloaded while pinned") as caught:
        await ask(harness, "b")
    assert "--no-pin" in str(caught.value.hint)
    assert harness.states()["a"] == "ready"
    await harness.manager.load("a", pin=False, keep_alive=60)
    assert await ask(harness, "b") == "Hello"
    assert harness.states() == {"b": "ready"}


async def test_the_owners_limit_counts_whatever_the_machine_has(make_manager: MakeManager) -> None:
    harness = make_manager(memory_limit=2 * GIB + GIB // 2)
    await ask(harness, "a")
    await ask(harness, "b")
    await ask(harness, "c")
    assert harness.states() == {"b": "ready", "c": "ready"}
    harness.sizes["a"] = 3 * GIB
    with pytest.raises(MemoryExhausted) as caught:
        await ask(harness, "a")
    assert "memory_limit" in str(caught.value.hint)


async def test_memory_of_the_gpu_is_placed_like_the_machines(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.memory |= {"gpu_total": 4 * GIB, "gpu_available": 3 * GIB}
    harness.gpu_sizes |= {"a": GIB, "b": GIB, "c": GIB + GIB // 2}
    await ask(harness, "a")
    await ask(harness, "b")
    harness.memory["gpu_available"] = GIB * 3 // 4
    asked = asyncio.create_task(ask(harness, "c"))
    await harness.until(lambda: "a" not in harness.states())
    assert not asked.done(), "the driver has not given it back yet"
    harness.memory["gpu_available"] = 2 * GIB
    assert await asked == "Hello"
    assert harness.states() == {"b": "ready", "c": "ready"}


@pytest.mark.slow
async def test_memory_that_is_on_its_way_back_is_waited_for(make_manager: MakeManager) -> None:
    harness = make_manager(allocation_times=AllocationTimes(settle=60.0))
    harness.memory |= {"gpu_total": 4 * GIB, "gpu_available": 2 * GIB}
    harness.gpu_sizes |= {"a": GIB, "b": GIB}
    await ask(harness, "a")
    harness.memory["gpu_available"] = GIB
    await harness.manager.unload("a")
    asked = asyncio.create_task(ask(harness, "b"))
    await harness.until(lambda: any("Waits" in model.reason for model in harness.loaded()))
    harness.memory["gpu_available"] = 2 * GIB
    assert await asked == "Hello"


async def test_a_start_that_lacks_memory_is_tried_once_more_with_less(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].start_errors = [OutOfMemory("There is no memory for its context.")]
    assert await ask(harness) == "Hello"
    assert [backend.spec.batch for backend in harness.backends] == [512, 128]
    (loaded,) = harness.manager.loaded()
    assert loaded.warnings == ["Memory ran out, so it was loaded with steps of 128 tokens."]
    await harness.manager.unload("a")
    lacking = OutOfMemory("There is no memory for its weights.")
    harness.plans["a"].start_errors = [lacking, lacking]
    with pytest.raises(OutOfMemory, match=r"weights\. A retry with steps of 128"):
        await ask(harness)
    assert len(harness.backends) == 4
    assert harness.states() == {"a": "failed"}


async def test_idle_models_go_when_others_take_the_memory(make_manager: MakeManager) -> None:
    harness = make_manager()
    allocator = harness.manager.allocator
    await ask(harness, "a")
    await ask(harness, "b")
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


async def test_a_gpu_that_forgot_its_model_gets_it_again(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].layers_on_gpu = 2
    await harness.manager.load("a", pin=True)
    await ask(harness, "b")
    await harness.manager.resumed()
    assert len(harness.backends) == 2, "they still compute"
    harness.plans["a"].die_after = 0
    resuming = asyncio.create_task(harness.manager.resumed())
    await harness.until(lambda: len(harness.backends) == 3)
    await resuming
    assert harness.states() == {"a": "ready", "b": "ready"}
    assert {model.name for model in harness.manager.loaded() if model.pinned} == {"a"}


async def test_a_keep_alive_goes_on_while_the_machine_sleeps(
    make_manager: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_manager(keep_alive=3600.0)
    await ask(harness)
    slept = boot_time() + 7200
    monkeypatch.setattr(model_run, "boot_time", lambda: slept)
    await harness.manager.resumed()
    await harness.until(lambda: harness.states() == {})


async def test_what_the_owner_settled_for_a_name_counts(make_manager: MakeManager) -> None:
    harness = make_manager(keep_alives=(("a", 5.0), ("b", -1.0)), pinned=("c",))
    for name in "abc":
        await ask(harness, name)
    kept = {model.name: (model.expires_in, model.pinned) for model in harness.manager.loaded()}
    assert kept["a"][0] is not None
    assert kept["a"][0] <= 5.0
    assert kept["b"] == (None, False)
    assert kept["c"] == (None, True)
    async with harness.manager.lease("a", keep_alive=50.0):
        pass
    assert 40 < (harness.loaded()[0].expires_in or 0) <= 50, "a request's own wish counts more"


async def test_loading_with_another_context_starts_again_unless_in_use(
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


async def test_loading_with_another_draft_starts_again(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    for draft, starts in [(None, 1), ("off", 2), ("off", 2), (None, 2), ("b", 3)]:
        await manager.load("a", LoadOptions(draft=draft))
        assert len(harness.backends) == starts


async def test_loading_with_another_kv_type_starts_again(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    quantized = LoadOptions(kv_type=KVType.Q8_0)
    assert (await manager.load("a")).kv_type == "f16"
    assert (await manager.load("a", LoadOptions(kv_type=KVType.F16))).kv_type == "f16"
    assert len(harness.backends) == 1
    assert (await manager.load("a", quantized)).kv_type == "q8_0"
    assert (await manager.load("a")).kv_type == "q8_0", "nobody asks for another one"
    assert len(harness.backends) == 2
    async with manager.lease("a"):
        with pytest.raises(Conflict):
            await manager.load("a", LoadOptions(kv_type=KVType.Q4_0))


async def test_a_context_that_could_not_be_had_is_told(make_manager: MakeManager) -> None:
    manager = (harness := make_manager()).manager
    assert (await manager.load("a", LoadOptions(context=8192))).warnings == []
    cut = await manager.load("b", LoadOptions(context=20000))
    assert (cut.context, len(cut.warnings)) == (8192, 1)
    assert "20000" in cut.warnings[0]
    assert "8192" in cut.warnings[0]
    again = await manager.load("b", LoadOptions(context=20000))
    assert again.warnings == cut.warnings
    assert len(harness.backends) == 2


async def test_requests_with_other_contexts_share_the_larger_load(
    make_manager: MakeManager,
) -> None:
    """Clients that ask for 4,096 and 8,192 in turns do not make each other wait for loads."""
    manager = (harness := make_manager()).manager
    for asked in (512, 8192, 512, 4096, 8192, None, 512):
        async with manager.lease("a", options=LoadOptions(context=asked)) as lease:
            assert lease.info.context >= (asked or 0)
    assert [backend.spec.context for backend in harness.backends] == [4096, 8192]


async def test_who_needs_more_than_a_start_that_is_on_its_way_gets_another(
    make_manager: MakeManager,
) -> None:
    manager = (harness := make_manager()).manager
    harness.plans["a"].start_gate = gate = asyncio.Event()

    async def context(asked: int) -> int:
        async with manager.lease("a", options=LoadOptions(context=asked)) as lease:
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


async def test_a_pin_and_a_keep_alive_outlast_a_start_with_more_context(
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
    assert not (await manager.load("a")).pinned, "who unloads a model lets go of it"


async def test_a_pin_outlasts_the_death_of_a_process(make_manager: MakeManager) -> None:
    harness = make_manager()
    await harness.manager.load("a", pin=True)
    harness.backends[0].die("killed")
    await harness.until(lambda: harness.states() == {"a": "failed"})
    assert await ask(harness) == "Hello"
    assert harness.loaded()[0].pinned


async def test_what_a_start_on_its_way_lacks_is_loaded_anew(make_manager: MakeManager) -> None:
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


async def test_who_waits_for_a_start_hears_that_the_daemon_ends(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_gate = asyncio.Event()
    waiting = asyncio.create_task(ask(harness))
    await harness.until(lambda: len(harness.backends) == 1)
    await harness.manager.close(0.1)
    with pytest.raises(ShuttingDown):
        await waiting


async def test_progress_reaches_whoever_waits(make_manager: MakeManager) -> None:
    harness = make_manager()
    seen: list[float] = []
    async with harness.manager.lease("a", on_progress=seen.append):
        assert seen == [0.5]


async def test_closing_refuses_new_work_and_ends_what_outlasts_the_grace(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].token_gate = asyncio.Event()
    answering = asyncio.create_task(ask(harness))
    await harness.until(lambda: bool(harness.backends) and harness.backends[0].active == 1)
    closing = asyncio.create_task(harness.manager.close(0.1))
    await asyncio.sleep(0.02)
    with pytest.raises(ShuttingDown):
        await ask(harness, "b")
    await closing
    assert harness.backends[0].state == "dead"
    # The model is not to blame, and the next request does not start it again.
    harness.plans["a"].token_gate.set()
    with pytest.raises(ShuttingDown, match="stopped before the answer was complete"):
        await answering


async def test_every_change_of_state_is_published_in_order(make_manager: MakeManager) -> None:
    harness = make_manager()
    states: list[str] = []
    with harness.hub.subscribe() as subscription:
        await ask(harness)
        await harness.manager.unload()
        subscription.end()
        async for event in subscription:
            states.append(msgspec.json.decode(event.data)["state"])
    assert states == ["starting", "ready", "stopping", "stopped"]
