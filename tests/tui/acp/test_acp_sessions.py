"""Sessions of an editor: listed, loaded, resumed, closed; their options and MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from acp import RequestError
from acp.schema import EnvVariable, McpServerStdio, SseMcpServer

if TYPE_CHECKING:
    from ..conftest import FakeDaemon
    from .conftest import Connect

SERVER = Path(__file__).parents[2] / "daemon" / "tools" / "honest_server.py"
READ = ("read_file", json.dumps({"path": "notes.txt"}))


async def test_a_kept_session_is_listed_and_loaded_with_its_messages(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path, tmp_path: Path
) -> None:
    fake_daemon.script("I look.", thoughts=["Hm."], calls=[READ])
    fake_daemon.script("It is old.")
    async with connect() as client:
        opened = await client.agent.new_session(cwd=str(folder), mcp_servers=[])
        await client.prompt(opened.session_id, "What is in it?")
    async with connect() as client:
        listed = await client.agent.list_sessions(cwd=str(folder))
        assert [(one.session_id, one.cwd, one.title) for one in listed.sessions] == [
            (opened.session_id, str(folder), "What is in it?")
        ]
        assert (await client.agent.list_sessions(cwd=str(tmp_path))).sessions == []
        assert len((await client.agent.list_sessions()).sessions) == 1
        await client.agent.load_session(
            cwd=str(folder), session_id=opened.session_id, mcp_servers=[]
        )
        kinds = [u.session_update for u in client.updates]
        assert kinds[:6] == [
            *("user_message_chunk", "agent_thought_chunk", "agent_message_chunk"),
            *("tool_call", "tool_call_update", "agent_message_chunk"),
        ]
        fake_daemon.script("As I said.")
        await client.prompt(opened.session_id, "Are you sure?")
    assert [m["role"] for m in fake_daemon.prompts[-1]] == [
        *("system", "user", "assistant", "tool", "assistant", "user")
    ]


@pytest.mark.slow
async def test_a_resumed_session_is_not_sent_again(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script("Hello.")
    fake_daemon.script("Bye.")
    async with connect() as client:
        opened = await client.agent.new_session(cwd=str(folder), mcp_servers=[])
        await client.prompt(opened.session_id, "Hi")
        await client.agent.close_session(session_id=opened.session_id)
        with pytest.raises(RequestError, match="is not open"):
            await client.prompt(opened.session_id, "Hi")
        await client.agent.resume_session(session_id=opened.session_id, cwd=str(folder))
        await client.prompt(opened.session_id, "Leave")
    assert client.said == "Hello.Bye."
    assert [m["content"] for m in fake_daemon.prompts[-1][1:]] == ["Hi", "Hello.", "Leave"]


@pytest.mark.slow
async def test_the_model_and_thinking_are_chosen_by_options(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.add_model("qwen3:0.6b")
    fake_daemon.script("Hello.")
    async with connect() as client:
        opened = await client.agent.new_session(cwd=str(folder), mcp_servers=[])
        session = opened.session_id
        options = {one.id: one for one in opened.config_options or []}
        assert options["model"].current_value == "smollm2:135m"
        changed = await client.agent.set_config_option(
            config_id="model", session_id=session, value="qwen3:0.6b"
        )
        assert changed is not None
        values = {one.id: one.current_value for one in changed.config_options}
        assert values["model"] == "qwen3:0.6b"
        await client.agent.set_config_option(
            config_id="thought_level", session_id=session, value="low"
        )
        with pytest.raises(RequestError, match="no option colour"):
            await client.agent.set_config_option(
                config_id="colour", session_id=session, value="red"
            )
        await client.prompt(session, "Hi")
    request = next(r for r in fake_daemon.requests if r.target == "/ingle/v1/generations")
    assert request.body["model"] == "qwen3:0.6b"
    assert request.body["reasoning"] == {"enabled": True, "effort": "low"}


async def test_servers_of_the_client_are_offered_and_ask_for_consent(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script(calls=[("sums__add", json.dumps({"a": 2, "b": 3}))])
    fake_daemon.script("Five.")
    server = McpServerStdio(
        name="sums",
        command=sys.executable,
        args=[str(SERVER)],
        env=[EnvVariable(name="TOKEN", value="7")],
    )
    broken = McpServerStdio(name="broken", command="/missing", args=[], env=[])
    async with connect() as client:
        client.choices = ["once"]
        opened = await client.agent.new_session(cwd=str(folder), mcp_servers=[server, broken])
        await client.prompt(opened.session_id, "Add them")
        sse = SseMcpServer(type="sse", name="old", url="http://localhost/sse", headers=[])
        with pytest.raises(RequestError, match="only programs and http"):
            await client.agent.new_session(cwd=str(folder), mcp_servers=[sse])
    assert fake_daemon.prompts[-1][-1]["content"].endswith("\n5")
    assert client.said.startswith("broken did not start: ")
    assert client.asked[0][0].kind == "other"
