"""Coding agents, each as its users run it, without a terminal.

Each is asked twice. A real model answers a question: what it says is its own affair, that it
arrives is ours. Then a scripted model has it run a command, whose output only the agent can know,
and says something that contains this output.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Daemon, Installed, Runner

pytestmark = [
    pytest.mark.model,
    pytest.mark.clients,
    pytest.mark.usefixtures("reports_prompt"),
]

QUESTION = "What is the capital of France? Answer in one word. Use no tools."
COMMAND = "echo ghent-$((6 * 7))"
RESULT = "ghent-42"
ANSWER = "The command printed ghent-42, as it should."

Call = Callable[..., str]


def test_codex_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    said = _codex(daemon, coder, installed, run_client, QUESTION)
    assert said.strip()


def test_codex_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    model = daemon.play(
        "codex-plays", first=called("exec_command", cmd=COMMAND), after={RESULT: ANSWER}
    )
    assert ANSWER in _codex(daemon, model, installed, run_client, "Run the command.")


def test_codex_calls_a_tool_in_a_namespace(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    """Only who found tool and namespace again knows that there is no such agent."""
    nobody = "00000000-0000-0000-0000-000000000000"
    call = called("multi_agent_v1__close_agent", target=nobody)
    known = {f"agent with id {nobody} not found": ANSWER}
    model = daemon.play("codex-leads", first=call, after=known)
    assert ANSWER in _codex(daemon, model, installed, run_client, "Close the agent.")


def test_codex_calls_a_tool_of_lm_studio(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    """Without any settings: it looks for the model, has it loaded, and asks."""
    call = called("exec_command", cmd=COMMAND)
    model = daemon.play("codex-finds", first=call, after={RESULT: ANSWER})
    said = run_client(
        *(installed.path("codex", "node_modules", ".bin", "codex"), "exec"),
        *("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--oss", "--local-provider", "lmstudio", "-m", model, "Run the command."),
        path=[installed.node()],
        env={"CODEX_OSS_BASE_URL": f"{daemon.url}/v1"},
    )
    assert ANSWER in said


def test_codex_edits_a_file(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    """For models it knows it has a tool that takes a patch as it is, and no JSON."""
    patch = '*** Begin Patch\n*** Add File: made.txt\n+ghent "42"\n*** End Patch\n'
    call = called("apply_patch", input=patch)
    daemon.play("gpt-5.5", first=call, after={"made.txt": ANSWER})
    assert ANSWER in _codex(daemon, "gpt-5.5", installed, run_client, "Make a file.")
    assert (run_client.work / "made.txt").read_text() == 'ghent "42"\n'


@pytest.mark.parametrize("peer", ["ollama", "lmstudio"])
def test_codex_oss_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call, peer: str
) -> None:
    """Codex takes us for another server, asks for its version and its models, and goes on."""
    model = daemon.play(
        f"codex-{peer}-plays", first=called("exec_command", cmd=COMMAND), after={RESULT: ANSWER}
    )
    said = run_client(
        installed.path("codex", "node_modules", ".bin", "codex"),
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--oss", "--local-provider", peer, "--model", model, "Run the command."),
        path=[installed.node()],
        env={"CODEX_OSS_BASE_URL": f"{daemon.url}/v1"},
    )
    assert ANSWER in said


def _codex(
    daemon: Daemon, model: str, installed: Installed, run_client: Runner, prompt: str
) -> str:
    settings = run_client.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(
        f'model = "{model}"\nmodel_provider = "ingle"\n'
        '[model_providers.ingle]\nname = "ingle"\n'
        f'base_url = "{daemon.url}/v1"\nwire_api = "responses"\n'
    )
    codex = installed.path("codex", "node_modules", ".bin", "codex")
    return run_client(
        *(codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        prompt,
        path=[installed.node()],
    )


def test_claude_code_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    assert _claude(daemon, coder, installed, run_client, QUESTION).strip()


def test_claude_code_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    call = called("Bash", command=COMMAND, description="Print a word")
    model = daemon.play("claude-plays", first=call, after={RESULT: ANSWER})
    assert ANSWER in _claude(daemon, model, installed, run_client, "Run the command.")


def _claude(
    daemon: Daemon, model: str, installed: Installed, run_client: Runner, prompt: str
) -> str:
    return run_client(
        installed.path("claude-code", "node_modules", ".bin", "claude"),
        *("-p", prompt, "--allowedTools", "Bash"),
        path=[installed.node()],
        env={
            "ANTHROPIC_BASE_URL": daemon.url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )


def test_opencode_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    assert _opencode(daemon, coder, installed, run_client, QUESTION).strip()


def test_opencode_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call
) -> None:
    call = called("bash", command=COMMAND, description="Print a word")
    model = daemon.play("opencode-plays", first=call, after={RESULT: ANSWER})
    assert ANSWER in _opencode(daemon, model, installed, run_client, "Run the command.")


def _opencode(
    daemon: Daemon, model: str, installed: Installed, run_client: Runner, prompt: str
) -> str:
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {
            "ingle": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{daemon.url}/v1", "apiKey": "none"},
                "models": {model: {"tool_call": True}},
            }
        },
        "model": f"ingle/{model}",
        "permission": {"bash": "allow"},
        "autoupdate": False,
        "share": "disabled",
    }
    (run_client.work / "opencode.json").write_text(json.dumps(settings))
    opencode = installed.path("opencode", "node_modules", ".bin", "opencode")
    return run_client(opencode, "run", prompt, path=[installed.node()])


CONTINUE = {"openai": "/v1", "ollama": "", "anthropic": "/v1"}
"""How Continue may be told to speak, and what it wants behind the address for that."""


def test_continue_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    assert _continue(daemon, "openai", coder, installed, run_client, QUESTION).strip()


@pytest.mark.parametrize("provider", list(CONTINUE))
def test_continue_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, called: Call, provider: str
) -> None:
    model = daemon.play(
        f"continue-{provider}", first=called("Bash", command=COMMAND), after={RESULT: ANSWER}
    )
    said = _continue(daemon, provider, model, installed, run_client, "Run the command.")
    assert ANSWER in said


def _continue(
    daemon: Daemon,
    provider: str,
    model: str,
    installed: Installed,
    run_client: Runner,
    prompt: str,
) -> str:
    settings = run_client.work / "config.yaml"
    settings.write_text(
        "name: ingle\nversion: 1.0.0\nschema: v1\nmodels:\n"
        f"  - name: ingle\n    provider: {provider}\n    model: {model}\n"
        f"    apiBase: {daemon.url}{CONTINUE[provider]}\n    apiKey: none\n"
        "    roles: [chat]\n    capabilities: [tool_use]\n"
    )
    cn = installed.path("continue", "node_modules", ".bin", "cn")
    return run_client(
        *(cn, "-p", prompt, "--auto", "--config", settings),
        path=[installed.node()],
        env={"CONTINUE_TELEMETRY_ENABLED": "0"},
    )


def test_aider_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    assert "Paris" in _aider(daemon, coder, installed, run_client, QUESTION)


def test_aider_edits_a_file(daemon: Daemon, installed: Installed, run_client: Runner) -> None:
    """aider calls no tools: the model writes what to replace, and aider does so."""
    file = run_client.work / "greet.py"
    file.write_text('print("hello")\n')
    edit = (
        'I greet a city.\n\ngreet.py\n```python\n<<<<<<< SEARCH\nprint("hello")\n=======\n'
        'print("hello, Ghent")\n>>>>>>> REPLACE\n```\n'
    )
    model = daemon.play("aider-plays", first=edit, after={})
    _aider(daemon, model, installed, run_client, "Greet Ghent.", "--edit-format", "diff", file)
    assert file.read_text() == 'print("hello, Ghent")\n'


def _aider(
    daemon: Daemon,
    model: str,
    installed: Installed,
    run_client: Runner,
    prompt: str,
    *more: str | Path,
) -> str:
    return run_client(
        *(installed.path("aider", "bin", "aider"), "--model", f"openai/{model}"),
        *("--message", prompt, "--yes-always", "--no-git", "--no-check-update"),
        *("--no-show-model-warnings", "--analytics-disable", "--no-pretty", *more),
        env={
            "OPENAI_API_BASE": f"{daemon.url}/v1",
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )
