"""Coding agents against the daemon, each run non-interactively.

Each is run twice. First a real model answers a question; only the arrival of an answer is checked.
Then a scripted model calls the agent's tool to run a command, whose output only the agent can know,
and answers with text that contains this output.
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
    pytest.mark.usefixtures("record_prompt_tokens"),
]

QUESTION = "What is the capital of France? Answer in one word. Use no tools."
COMMAND = "echo ghent-$((6 * 7))"
RESULT = "ghent-42"
ANSWER = "The command printed ghent-42, as it should."

MakeToolCall = Callable[..., str]


def test_codex_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    output = _codex(daemon, coder, installed, run_client, QUESTION)
    assert output.strip()


def test_codex_calls_a_tool(
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    model = daemon.install_scripted(
        "codex-plays", first=make_tool_call("exec_command", cmd=COMMAND), after={RESULT: ANSWER}
    )
    assert ANSWER in _codex(daemon, model, installed, run_client, "Run the command.")


def test_codex_calls_a_tool_in_a_namespace(
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    """Codex reports the unknown agent only if it resolved the tool and its namespace."""
    agent_id = "00000000-0000-0000-0000-000000000000"
    call = make_tool_call("multi_agent_v1__close_agent", target=agent_id)
    known = {f"agent with id {agent_id} not found": ANSWER}
    model = daemon.install_scripted("codex-leads", first=call, after=known)
    assert ANSWER in _codex(daemon, model, installed, run_client, "Close the agent.")


def test_codex_calls_a_tool_of_lm_studio(
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    """Without a configuration file: Codex finds the model, has it loaded, and sends the prompt."""
    call = make_tool_call("exec_command", cmd=COMMAND)
    model = daemon.install_scripted("codex-finds", first=call, after={RESULT: ANSWER})
    output = run_client(
        *(installed.path("codex", "node_modules", ".bin", "codex"), "exec"),
        *("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--oss", "--local-provider", "lmstudio", "-m", model, "Run the command."),
        path=[installed.node()],
        env={"CODEX_OSS_BASE_URL": f"{daemon.url}/v1"},
    )
    assert ANSWER in output


def test_codex_edits_a_file(
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    """For models it knows, Codex has a tool whose input is a raw patch instead of JSON."""
    patch = '*** Begin Patch\n*** Add File: made.txt\n+ghent "42"\n*** End Patch\n'
    call = make_tool_call("apply_patch", input=patch)
    daemon.install_scripted("gpt-5.5", first=call, after={"made.txt": ANSWER})
    assert ANSWER in _codex(daemon, "gpt-5.5", installed, run_client, "Make a file.")
    assert (run_client.work / "made.txt").read_text() == 'ghent "42"\n'


@pytest.mark.parametrize("peer", ["ollama", "lmstudio"])
def test_codex_oss_calls_a_tool(
    daemon: Daemon,
    installed: Installed,
    run_client: Runner,
    make_tool_call: MakeToolCall,
    peer: str,
) -> None:
    """Codex takes the daemon for another server and asks for its version and models first."""
    model = daemon.install_scripted(
        f"codex-{peer}-plays",
        first=make_tool_call("exec_command", cmd=COMMAND),
        after={RESULT: ANSWER},
    )
    output = run_client(
        installed.path("codex", "node_modules", ".bin", "codex"),
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--oss", "--local-provider", peer, "--model", model, "Run the command."),
        path=[installed.node()],
        env={"CODEX_OSS_BASE_URL": f"{daemon.url}/v1"},
    )
    assert ANSWER in output


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
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    call = make_tool_call("Bash", command=COMMAND, description="Print a word")
    model = daemon.install_scripted("claude-plays", first=call, after={RESULT: ANSWER})
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
    daemon: Daemon, installed: Installed, run_client: Runner, make_tool_call: MakeToolCall
) -> None:
    call = make_tool_call("bash", command=COMMAND, description="Print a word")
    model = daemon.install_scripted("opencode-plays", first=call, after={RESULT: ANSWER})
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
"""The protocols of Continue, and the path that each needs after the address."""


def test_continue_streams(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> None:
    assert _continue(daemon, "openai", coder, installed, run_client, QUESTION).strip()


@pytest.mark.parametrize("provider", list(CONTINUE))
def test_continue_calls_a_tool(
    daemon: Daemon,
    installed: Installed,
    run_client: Runner,
    make_tool_call: MakeToolCall,
    provider: str,
) -> None:
    model = daemon.install_scripted(
        f"continue-{provider}",
        first=make_tool_call("Bash", command=COMMAND),
        after={RESULT: ANSWER},
    )
    output = _continue(daemon, provider, model, installed, run_client, "Run the command.")
    assert ANSWER in output


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
    """aider calls no tools: it applies the edit that the model writes."""
    file = run_client.work / "greet.py"
    file.write_text('print("hello")\n')
    edit = (
        'I greet a city.\n\ngreet.py\n```python\n<<<<<<< SEARCH\nprint("hello")\n=======\n'
        'print("hello, Ghent")\n>>>>>>> REPLACE\n```\n'
    )
    model = daemon.install_scripted("aider-plays", first=edit, after={})
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
