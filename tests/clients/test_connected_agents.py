"""Agents that `ingle connect NAME --write --launch` sets up and starts, twice: two sessions.

A scripted model has each run a command, whose output only the agent can know; aider, which has no
tools, edits a file. Most of the second session's prompt is then known.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_programs import AGENTS, AgentProgram, run_agent

if TYPE_CHECKING:
    from .conftest import Daemon, Installed, Runner

pytestmark = [pytest.mark.model, pytest.mark.clients]

RESULT = "ghent-42"
ANSWER = "The command printed ghent-42, as it should."
BEFORE, AFTER = 'print("hello")\n', 'print("hello, Ghent")\n'
EDIT = (
    "I greet a city.\n\ngreet.py\n```python\n"
    f"<<<<<<< SEARCH\n{BEFORE}=======\n{AFTER}>>>>>>> REPLACE\n```\n"
)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_connected_agent_calls_a_tool(
    daemon: Daemon,
    installed: Installed,
    run_client: Runner,
    make_tool_call: Callable[..., str],
    agent: AgentProgram,
    record_property: Callable[[str, object], None],
) -> None:
    clients = installed.path(*agent.folder.split("/")).parents[agent.folder.count("/")]
    first = EDIT if agent.call is None else make_tool_call(agent.call[0], **agent.call[1])
    model = daemon.install_scripted(f"{agent.name}-is-set-up", first=first, after={RESULT: ANSWER})
    environ = {
        "HOME": str(run_client.home),
        "INGLE_HOME": str(daemon.home),
        "INGLE_SOCKET": str(daemon.socket),
        "INGLE_PORT": daemon.url.rpartition(":")[2],
    }
    sessions: list[dict[str, Any]] = []
    for _ in range(2):
        (run_client.work / "greet.py").write_text(BEFORE)
        with _watching(daemon) as seen:
            done = run_agent(
                agent,
                "Run the command in greet.py." if agent.call else "Greet Ghent in greet.py.",
                model=model,
                clients=clients,
                work=run_client.work,
                environ=environ,
                limit=300,
            )
        assert done.returncode == 0, done.stdout
        if agent.call is None:
            assert (run_client.work / "greet.py").read_text() == AFTER
        else:
            assert ANSWER in done.stdout
        sessions.append(max(seen[:2], key=lambda request: request["prompt_tokens"]))
    record_property("prompt_tokens", sessions[0]["prompt_tokens"])
    assert sessions[1]["cached_tokens"] > sessions[1]["prompt_tokens"] / 2


@contextmanager
def _watching(daemon: Daemon) -> Generator[list[dict[str, Any]]]:
    """Collect the requests that the daemon answers."""
    seen: list[dict[str, Any]] = []

    def follow(lines: Iterator[str]) -> None:
        with suppress(httpx.HTTPError):  # the stream is closed below, while this reads
            for line in lines:
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))

    with daemon.http.stream("GET", "/ingle/v1/watch") as stream:
        following = threading.Thread(target=follow, args=(stream.iter_lines(),))
        following.start()
        yield seen
    following.join()
