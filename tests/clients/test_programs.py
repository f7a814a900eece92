"""Clients that need Node.js or their own virtual environment, run by small programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Daemon, Installed, Runner

pytestmark = [pytest.mark.model, pytest.mark.clients]

PROGRAMS = Path(__file__).parent / "programs"
RESULT = "drizzle-17"
ANSWER = "In Ghent it is drizzle-17."


class Programs:
    """Runs a program of `programs/` with the package it uses, and parses its output."""

    def __init__(self, daemon: Daemon, installed: Installed, run_client: Runner) -> None:
        self._daemon, self._installed, self._run = daemon, installed, run_client

    def node(self, client: str, part: str, scripted: str = "") -> dict[str, Any]:
        """One part of `CLIENT.mjs`."""
        modules = self._installed.path(f"npm-{client}", "node_modules")
        node = self._installed.node() / "node"
        program = PROGRAMS / f"{client}.mjs"
        facts = self._facts(scripted) | {"MODULES": f"{modules}/"}
        output = self._run(node, program, part, env=facts)
        return json.loads(output)

    def python(self, client: str, part: str, kind: str, scripted: str = "") -> dict[str, Any]:
        """One part of `CLIENT_client.py`, with the mode or provider `kind`."""
        python = self._installed.path(client, "bin", "python")
        program = PROGRAMS / f"{client}_client.py"
        facts = self._facts(scripted) | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        output = self._run(python, program, part, kind, env=facts)
        return json.loads(output.splitlines()[-1])

    def _facts(self, scripted: str) -> dict[str, str]:
        return {
            "BASE_URL": self._daemon.url,
            "REAL_MODEL": "smollm2",
            "SCRIPTED_MODEL": scripted,
            "RESULT": RESULT,
        }


@pytest.fixture
def programs(daemon: Daemon, installed: Installed, run_client: Runner) -> Programs:
    return Programs(daemon, installed, run_client)


@pytest.fixture(scope="module")
def weather_model(daemon: Daemon) -> str:
    """A scripted model that calls the weather tool, then answers with its result."""
    call = json.dumps({"name": "weather", "arguments": {"city": "Ghent"}})
    first = f"<tool_call>\n{call}\n</tool_call>"
    return daemon.install_scripted("node-forecaster", first=first, after={RESULT: ANSWER})


@pytest.mark.parametrize("client", ["openai", "anthropic", "ollama"])
def test_npm_streams(programs: Programs, client: str) -> None:
    output = programs.node(client, "streams")
    assert "Paris" in output["answer"]
    assert output["pieces"] > 1


@pytest.mark.parametrize("client", ["openai", "anthropic", "ollama"])
def test_npm_calls_a_tool(programs: Programs, weather_model: str, client: str) -> None:
    assert programs.node(client, "callsATool", weather_model)["called"] == ANSWER


def test_npm_openai_responses_calls_a_tool(programs: Programs, weather_model: str) -> None:
    output = programs.node("openai", "callsAToolOverResponses", weather_model)
    assert output["calledOverResponses"] == ANSWER


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama_chat"])
def test_litellm_streams(programs: Programs, provider: str) -> None:
    output = programs.python("litellm", "streams", provider)
    assert "Paris" in output["answer"]
    assert output["pieces"] > 1


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama_chat"])
def test_litellm_calls_a_tool(programs: Programs, weather_model: str, provider: str) -> None:
    assert programs.python("litellm", "callsATool", provider, weather_model)["called"] == ANSWER


@pytest.mark.parametrize("kind", ["tools", "json"])
def test_instructor_streams(programs: Programs, kind: str) -> None:
    """SmolLM2 is not trained for tools: the grammar makes it call one."""
    output = programs.python("instructor", "streams", kind)
    assert output["answer"]
    assert output["pieces"] > 1


def test_instructor_calls_a_tool(programs: Programs, daemon: Daemon) -> None:
    call = json.dumps({"name": "Capital", "arguments": {"city": "Ghent"}})
    model = daemon.install_scripted(
        "mayor", first=f"<tool_call>\n{call}\n</tool_call>", after={"unused": "unused"}
    )
    assert programs.python("instructor", "callsATool", "tools", model)["called"] == "Ghent"
