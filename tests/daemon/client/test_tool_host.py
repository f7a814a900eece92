"""The client's side of a tool host, against a scripted host in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ingle.daemon.client.tool_host import ToolHost, ToolHostFailed
from ingle.daemon.client.tool_types import ConsentChoice, ConsentRequest, StartHost
from tests.harness.scripted_tool_host import COMMAND

OpenHost = Callable[..., ToolHost]


@pytest.fixture
async def open_host(tmp_path: Path) -> AsyncIterator[OpenHost]:
    """`open_host("once", "always")` answers the questions in turn."""
    hosts: list[ToolHost] = []
    (tmp_path / "notes.txt").write_text("old\n")

    def opened(*choices: ConsentChoice | None, command: tuple[str, ...] = COMMAND) -> ToolHost:
        waiting = list(choices)

        async def ask(_request: ConsentRequest) -> ConsentChoice | None:
            return waiting.pop(0)

        settings = StartHost(str(tmp_path), str(tmp_path / "state"))
        hosts.append(ToolHost(settings, ask, command))
        return hosts[-1]

    yield opened
    for host in hosts:
        await host.close()


async def test_a_call_without_effect_is_answered_at_once(open_host: OpenHost) -> None:
    host = open_host()
    result = await host.call("1", "read", '{"path": "notes.txt"}')
    assert (result.text, result.failed) == ("old\n", False)
    assert {tool.name for tool in host.tools} == {"read", "edit", "run", "die"}


async def test_output_arrives_before_the_result(open_host: OpenHost) -> None:
    pieces: list[str] = []
    result = await open_host("once").call("1", "run", "{}", pieces.append)
    assert (pieces, result.text) == (["one\n"], "one\ntwo\n")


async def test_always_holds_for_the_chat_and_for_the_next_host(open_host: OpenHost) -> None:
    host = open_host("always")
    first = await host.call("1", "edit", "{}")
    second = await host.call("2", "edit", "{}")
    assert first.undoable
    assert second.undoable
    assert host.settings.consents == {"edit": "always"}
    await host.call("3", "die", "{}")
    assert (await host.call("4", "edit", "{}")).undoable


async def test_an_edit_is_undone(open_host: OpenHost, tmp_path: Path) -> None:
    host = open_host("once")
    await host.call("1", "edit", "{}")
    assert (tmp_path / "notes.txt").read_text() == "new\n"
    assert not (await host.undo("1")).failed
    assert (tmp_path / "notes.txt").read_text() == "old\n"


async def test_a_host_that_ends_fails_the_call_and_starts_again(open_host: OpenHost) -> None:
    host = open_host()
    result = await host.call("1", "die", "{}")
    assert result.failed
    assert "ended with status 3: out of cheese" in result.text
    assert (await host.call("2", "read", '{"path": "notes.txt"}')).text == "old\n"


async def test_a_cancelled_call_ends_in_the_host(open_host: OpenHost, tmp_path: Path) -> None:
    host, began = open_host("once"), asyncio.Event()
    call = asyncio.create_task(
        host.call("7", "run", '{"command": "wait"}', lambda text: began.set())
    )
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await host.call("8", "read", '{"path": "notes.txt"}')  # answered after the cancellation
    assert (tmp_path / "cancelled").read_text() == "7"


async def test_what_is_wrong_at_the_start_is_said(open_host: OpenHost, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(ToolHostFailed, match=r"mcp\.json cannot be read"):
        await open_host().start()
    result = await open_host(command=(str(tmp_path / "missing"),)).call("1", "read", "{}")
    assert result.failed
    assert "cannot start" in result.text


async def test_a_host_that_sends_no_messages_is_ended(open_host: OpenHost) -> None:
    flood = "import sys, time; sys.stdout.write('x' * 9); sys.stdout.flush(); time.sleep(60)"
    with pytest.raises(ToolHostFailed, match="no message"):
        await open_host(command=(sys.executable, "-c", flood)).start()


@pytest.mark.parametrize(("choice", "state"), [("once", "ready"), (None, "stopped")])
async def test_the_start_of_a_server_asks_without_a_call(
    open_host: OpenHost, tmp_path: Path, choice: ConsentChoice | None, state: str
) -> None:
    (tmp_path / "servers").touch()
    host = open_host(choice)
    await host.start()
    while not host.servers:
        await host.call("1", "read", '{"path": "notes.txt"}')
    assert [(server.name, server.state) for server in host.servers] == [("files", state)]
    assert host.settings.consents == {}


async def test_an_added_server_is_waited_for(open_host: OpenHost) -> None:
    host = open_host()
    assert (await host.add_server("files", {"command": "files"})).state == "ready"
    assert [server.name for server in host.servers] == ["files"]
