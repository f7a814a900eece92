"""Agents as `ingle connect NAME --write --launch` starts them for one task, without a terminal."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
PROMPT = "{prompt}"


@dataclass(frozen=True)
class AgentProgram:
    """A program, where scripts/test-clients installs it, and its arguments for one task.

    `tool` is what it calls its tool that runs a command, and `argument` the command in it; aider
    has none.
    """

    name: str
    folder: str
    arguments: tuple[str, ...]
    tool: str = ""
    argument: str = "command"


AGENTS = (
    AgentProgram(
        "codex",
        "codex/node_modules/.bin",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
        "exec_command",
        "cmd",
    ),
    AgentProgram(
        "claude-code",
        "claude-code/node_modules/.bin",
        ("-p", PROMPT, "--allowedTools", "Bash"),
        "Bash",
    ),
    AgentProgram("opencode", "opencode/node_modules/.bin", ("run", PROMPT), "bash"),
    AgentProgram(
        "qwen-code", "qwen-code/node_modules/.bin", ("--yolo", "-p", PROMPT), "run_shell_command"
    ),
    AgentProgram(
        "copilot-cli", "copilot-cli/node_modules/.bin", ("--allow-all-tools", "-p", PROMPT), "bash"
    ),
    AgentProgram(
        "cline", "cline/node_modules/.bin", ("--auto-approve", "true", PROMPT), "run_commands"
    ),
    AgentProgram("pi", "pi/node_modules/.bin", ("-p", PROMPT), "bash"),
    AgentProgram("vibe", "vibe/bin", ("--trust", "--yolo", "-p", PROMPT), "bash"),
    AgentProgram(
        "aider",
        "aider/bin",
        ("--yes-always", "--no-git", "--no-check-update", "--no-pretty", "--message", PROMPT),
    ),
)


def run_agent(
    agent: AgentProgram,
    prompt: str,
    *,
    model: str,
    clients: Path,
    work: Path,
    environ: dict[str, str],
    limit: float,
) -> subprocess.CompletedProcess[str]:
    """Connect an agent to the daemon of `environ`, and start it in `work`; for `limit` seconds."""
    given = [prompt if argument == PROMPT else argument for argument in agent.arguments]
    command = [INGLE, "connect", agent.name, "--write", "--launch", "--model", model, "--", *given]
    return run_in(command, clients / agent.folder, clients, work, environ, limit)


def run_in(
    command: Sequence[str],
    programs: Path,
    clients: Path,
    work: Path,
    environ: dict[str, str],
    limit: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command with these programs and the clients' Node.js on its path."""
    folders = [programs, clients / "node/node_modules/.bin", "/usr/local/bin", "/usr/bin", "/bin"]
    return subprocess.run(
        list(command),
        cwd=work,
        env={**environ, "PATH": os.pathsep.join(map(str, folders)), "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=limit,
        check=False,
    )
