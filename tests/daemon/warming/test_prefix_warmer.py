"""Beginnings of agents' prompts are remembered, and computed ahead while nothing is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.daemon.cli.server.ps import _details as details  # pyright: ignore[reportPrivateUsage]
from ingle.daemon.client.model_types import KnownAgent, LoadedModel, ModelState
from ingle.daemon.retention.data_inventory import DATA_INVENTORY
from ingle.daemon.settings.paths import find_paths
from ingle.daemon.warming.known_prefix import agent_name
from tests.daemon.conftest import DaemonFactory, RunningDaemon, install
from tests.harness.local_backend import LocalBackend

AGENT = {"user-agent": "claude-cli/2.1.329 (external, cli)"}
RULES = "You are an agent that works in a repository. Be brief, and read before you write. " * 30
TOOL = {"name": "read", "description": "Reads a file.", "parameters": {"type": "object"}}
SCRIPT = {"trained_context": 16384}


def with_kv_store(home: Path) -> Callable[[LoadSpec], LocalBackend]:
    """Create scripted models with a KV store in the home's folder."""

    def create(spec: LoadSpec) -> LocalBackend:
        folder = str(home / "state/kv")
        store = KVStoreSpec(folder=folder, model="0" * 64, disk_bytes=2**30, memory_bytes=0)
        return LocalBackend(msgspec.structs.replace(spec, kv_store=store))

    return create


async def ask(daemon: RunningDaemon, said: str, **more: Any) -> tuple[int, int]:
    """Ask as an agent; returns the tokens of the prompt, and those that were cached."""
    headers = {**AGENT, **more.pop("headers", {})}
    rules = more.pop("rules", RULES)
    body: dict[str, Any] = {
        "model": "echo:1",
        "messages": [{"role": "system", "content": rules}, {"role": "user", "content": said}],
        "tools": [{"type": "function", "function": TOOL}],
        "max_tokens": 4,
        **more,
    }
    answer = await daemon.tcp.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    usage = answer.json()["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def chunks(home: Path) -> list[Path]:
    return list(home.glob("state/kv/*/*.kv"))


def kept(home: Path) -> list[Path]:
    return list(home.glob("state/kv/prefixes/*.json"))


async def until_ready(daemon: RunningDaemon) -> KnownAgent:
    """Wait until a prompt has been computed ahead."""

    def is_ready() -> bool:
        return any(
            not a.computing for m in daemon.services.manager.loaded() for a in m.known_agents
        )

    await daemon.until(is_ready)
    ((agent,),) = [model.known_agents for model in daemon.services.manager.loaded()]
    return agent


async def test_a_known_prompt_is_read_again_once_its_model_is_loaded(
    run_daemon: DaemonFactory, ingle_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingle.daemon")
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        length, cached = await ask(daemon, "Hello")
        assert cached == 0
    assert [path.stat().st_mode & 0o777 for path in kept(ingle_home)] == [0o600]
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        daemon.services.warmer.idle_seconds = 0.0
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1", "context": 16384})
        agent = await until_ready(daemon)
        assert (agent.agent, agent.computing) == ("claude-cli", False)
        assert length - 40 < agent.tokens < length
        async with asyncio.timeout(10):  # gauges come a few times a second
            while daemon.services.manager.loaded()[0].restored_tokens <= agent.tokens - 256:
                await asyncio.sleep(0.01)
        assert "The prompt of claude-cli is ready on echo:1" in caplog.text
        assert RULES[:40] not in caplog.text
        assert (await ask(daemon, "Good morning"))[1] >= agent.tokens


async def test_a_prompt_is_computed_ahead_if_its_kv_is_gone(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        await ask(daemon, "Hello")
        await daemon.unix.post("/ingle/v1/unload", json={})
        for path in chunks(ingle_home):
            path.unlink()
        daemon.services.warmer.idle_seconds = 0.0
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1", "context": 16384})
        agent = await until_ready(daemon)
        await daemon.unix.post("/ingle/v1/unload", json={})
        assert chunks(ingle_home)
        assert (await ask(daemon, "Hello"))[1] >= agent.tokens - 1


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"Ingle-Private": "1"}},
        {"ingle": {"private": True}},
        {"ingle": {"priority": "batch"}},
        {"rules": "Be brief."},
    ],
)
async def test_private_and_short_prompts_and_those_of_batches_are_not_remembered(
    run_daemon: DaemonFactory, ingle_home: Path, fields: dict[str, Any]
) -> None:
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        await ask(daemon, "Hello", **fields)
    assert not kept(ingle_home)


async def test_nothing_is_remembered_without_a_disk_tier(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    async with run_daemon(script=SCRIPT, kv_disk=0) as daemon:
        await ask(daemon, "Hello")
    assert not kept(ingle_home)


async def test_a_request_stops_what_is_computed_ahead(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        await ask(daemon, "Hello")
    for path in chunks(ingle_home):
        path.unlink()
    slow = {**SCRIPT, "step_seconds": 0.02}
    async with run_daemon(script=slow, create_backend=create) as daemon:
        warmer, manager = daemon.services.warmer, daemon.services.manager
        warmer.idle_seconds = 0.0
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1", "context": 16384})
        await daemon.until(lambda: bool(manager.loaded()[0].known_agents))
        assert manager.loaded()[0].known_agents[0].computing
        computing: list[bool] = []
        body = {"model": "echo:1", "prompt": "Hi", "max_tokens": 4, "stream": True}
        async for _ in daemon.stream("POST", "/v1/completions", json=body):
            computing.append(any(agent.computing for agent in manager.loaded()[0].known_agents))
        assert len(computing) > 1
        assert not any(computing[:-1])  # after the last one it may have begun again
        await until_ready(daemon)


async def test_a_change_of_instructions_is_reported(
    run_daemon: DaemonFactory, ingle_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingle.daemon")
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        for day in ("2026-11-27", "2026-11-28"):
            await ask(daemon, "Hello", rules=f"{RULES}\nToday's date: {day}\nRemember it.")
    (line,) = [each for each in caplog.messages if "changed at character" in each]
    assert line.startswith(f"The instructions of claude-cli changed at character {len(RULES) + 1}")
    assert "a date. `stable_prompts = true` moves" in line
    assert len(kept(ingle_home)) == 1


async def test_with_stable_prompts_a_new_date_costs_only_the_new_turn(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    create = with_kv_store(ingle_home)
    first = f"Today's date: 2026-11-27\n{RULES}"
    second = f"Today's date: 2026-11-28\n{RULES}"
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        await ask(daemon, "Hello", rules=first)
        assert (await ask(daemon, "Hello", rules=second))[1] < 200
        await daemon.services.manager.unload()
    async with run_daemon(script=SCRIPT, create_backend=create, stable_prompts=True) as daemon:
        await ask(daemon, "Hello", rules=first)
        length, cached = await ask(daemon, "Hello", rules=second)
        assert cached > length - 120


async def test_an_agents_prompt_is_prepared_for_another_model(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        install(daemon.services.store, "other:1")
        await ask(daemon, "Hello")
        await daemon.services.manager.unload()
        daemon.services.warmer.idle_seconds = 0.0
        asked = {"model": "other:1", "agent": "codex"}
        none = (await daemon.unix.post("/ingle/v1/prepare", json=asked)).json()
        assert none == {"model": "other:1", "known": 0}
        assert not daemon.services.manager.loaded()
        asked["agent"] = "claude-cli"
        some = (await daemon.unix.post("/ingle/v1/prepare", json=asked)).json()
        assert some == {"model": "other:1", "known": 1}
        missing = await daemon.unix.post("/ingle/v1/prepare", json={**asked, "model": "no:1"})
        assert missing.status_code == 404
        await daemon.until(lambda: bool(daemon.services.manager.loaded()))


async def test_what_erases_stored_kv_erases_prompts(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    create = with_kv_store(ingle_home)
    async with run_daemon(script=SCRIPT, create_backend=create) as daemon:
        await ask(daemon, "Hello")
    (place,) = [place for place in DATA_INVENTORY if place.name == "kv"]
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    names = {path for thing in place.things(paths) for path in thing.paths}
    assert set(kept(ingle_home)) <= names


def test_ps_names_the_agents_whose_prompts_are_known() -> None:
    agents = [
        KnownAgent(agent="claude-cli", tokens=17203),
        KnownAgent(agent="codex", tokens=9000, computing=True),
    ]
    model = LoadedModel(name="echo:1", state=ModelState.READY, context=32768, known_agents=agents)
    shown = dict(details(model))
    assert shown["agents"] == (
        "the prompt of claude-cli (17,203 tokens) is ready; "
        "the prompt of codex (9,000 tokens) is being computed ahead"
    )


@pytest.mark.parametrize(
    ("header", "instructions", "name"),
    [
        ("claude-cli/2.1.329 (external, cli)", "You are Cline, an agent.", "claude-cli"),
        ("ai-sdk/6.0", "You are Cline, an agent.", "Cline"),
        ("OpenAI/JS 7.5", "You are the GitHub Copilot CLI, a terminal.", "GitHub Copilot CLI"),
        ("OpenAI/JS 7.5", "You are an agent, a good one.", "OpenAI"),
        ("aider", "", "aider"),
        ("", "", "unknown"),
    ],
)
def test_agents_are_named_without_their_version(header: str, instructions: str, name: str) -> None:
    assert agent_name(header, instructions) == name
