"""MCP servers made with the SDK: by stdio and HTTP, of the user, of the folder, added."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from ingle.daemon.client.tool_types import AddServer
from ingle.daemon.tools.servers.mcp_config import InvalidMcpConfig, read_entry, read_mcp_file

from ...harness.tool_client import tool_client

HONEST = Path(__file__).with_name("honest_server.py")
HOSTILE = Path(__file__).with_name("hostile_server.py")
BRIEF = {"command": sys.executable, "args": [str(HONEST)]}
ENTRY = {"command": sys.executable, "args": [str(HONEST)], "env": {"NAMED": "${GIVEN}!"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
async def http_server() -> AsyncGenerator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HONEST), str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.1)
        writer.close()
        await writer.wait_closed()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
async def test_server_of_the_user_gets_only_the_variables_named_for_it(folder: Path) -> None:
    environ = {"GIVEN": "given", "OPENAI_API_KEY": "sk-secret", "INGLE_KEY": "secret"}
    async with tool_client(folder, servers={"honest": ENTRY}, environ=environ) as client:
        assert (await client.server("honest", "ready")).tools == 3
        added = await client.call("honest__add", a=20, b=22)
        assert added.text.endswith("\n42")
        question = client.asked[0]
        assert (question.effect, question.confined) == ("server", False)
        assert '"a": 20' in question.preview
        variables = (await client.call("honest__environment")).text
        assert "NAMED=given!" in variables
        assert "secret" not in variables
        wrong = await client.call("honest__add", a="x")
        assert wrong.failed
        client.choice = "never"
        assert (await client.call("honest__add", a=1, b=1)).declined


@pytest.mark.slow
async def test_servers_without_their_variable_or_program_say_so(folder: Path) -> None:
    servers = {"honest": ENTRY, "absent": {"command": "/no/such/program"}}
    async with tool_client(folder, servers=servers) as client:
        status = await client.server("honest", "failed")
        assert status.message.startswith("The variable GIVEN is not set.")
        status = await client.server("absent", "failed")
        assert status.message.startswith("/no/such/program was not found.")


async def test_server_that_ended_is_started_again_by_the_next_call(folder: Path) -> None:
    async with tool_client(folder, servers={"brief": BRIEF}) as client:
        await client.server("brief", "ready")
        ended = await client.call("brief__end")
        assert "It has ended. Its last line was: no more room." in ended.text
        await client.server("brief", "failed")
        assert (await client.call("brief__add", a=1, b=2)).text.endswith("\n3")


async def test_server_on_this_machine_by_http(folder: Path, http_server: str) -> None:
    servers = {"web": {"url": http_server}, "not": {"url": f"{http_server}/no"}}
    async with tool_client(folder, servers=servers, private=True) as client:
        assert "answered HTTP 404" in (await client.server("not", "failed")).message
        await client.server("web", "ready")
        assert (await client.call("web__add", a=1, b=2)).text.endswith("\n3")


async def test_server_on_another_machine_is_not_asked_without_a_ledger(folder: Path) -> None:
    far = {"far": {"url": "https://mcp.example.org/mcp"}}
    for private, reason in ((True, "private"), (False, "ledger")):
        async with tool_client(folder, servers=far, private=private) as client:
            assert reason in (await client.server("far", "failed")).message


async def test_server_of_the_folder_starts_only_with_consent(folder: Path) -> None:
    mark = folder.parent / "mark"
    entry = {"command": "/bin/sh", "args": ["-c", f"touch {mark}"], "env": {"KEY": "value"}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry, "mine": entry}}))
    async with tool_client(folder, servers={"mine": ENTRY}, environ={"GIVEN": ""}) as client:
        client.choice = "never"
        assert (await client.server("theirs", "stopped")).message
        await client.server("mine", "ready")  # the user's entry of that name
        (question,) = client.asked
        assert (question.id, question.effect) == ("server:theirs", "server")
        assert "touch" in question.preview
        assert "variable KEY" in question.preview
        assert not mark.exists()
        client.choice = "once"
    async with tool_client(folder) as client:
        await client.server("theirs", "failed")
        assert mark.exists()


@pytest.mark.slow
async def test_server_that_the_user_adds_replaces_one_of_its_name(folder: Path) -> None:
    async with tool_client(folder, environ={"GIVEN": "1"}) as client:
        await client.send(AddServer("new", {"command": sys.executable, "args": ["-c", ""]}))
        await client.server("new", "failed")
        await client.send(AddServer("new", ENTRY))
        await client.server("new", "ready")
        assert (await client.call("new__add", a=1, b=1)).text.endswith("\n2")
        await client.send(AddServer("bad", {"command": "x", "url": "https://example.org"}))
        assert "either" in (await client.server("bad", "failed")).message


@pytest.mark.slow
async def test_tools_of_all_servers_have_names_of_their_own(folder: Path) -> None:
    servers = {
        name: {"command": sys.executable, "args": [str(HOSTILE), "colliding-names"]}
        for name in ("s", "s!")
    }
    async with tool_client(folder, servers=servers) as client:
        for name in servers:
            await client.server(name, "ready")
        names = [tool.name for tool in client.tools.tools if tool.server]
        assert len(set(names)) == len(names) == 8
        for name in names:
            assert not (await client.call(name, what=name)).failed


def test_files_of_the_usual_shape_and_others(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    assert read_mcp_file(path) == {}
    path.write_text(
        '{"mcpServers": {"a": {"type": "stdio", "command": "x", "timeout": 9}}, "inputs": []}'
    )
    assert read_mcp_file(path)["a"].command == "x"
    for text in ("{", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": {}}}', " " * 2**21):
        path.write_text(text)
        with pytest.raises(InvalidMcpConfig):
            read_mcp_file(path)
    for url in ("file:///etc/passwd", "ftp://x", "http://[", "x"):
        with pytest.raises(InvalidMcpConfig):
            read_entry("a", {"url": url})
    assert read_entry("a", {"url": "http://localhost:1/mcp"}).remote_host == ""
    assert read_entry("a", {"url": "http://localhost.example.org"}).remote_host
