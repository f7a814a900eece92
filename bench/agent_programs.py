"""Agents as `ingle connect NAME --write --launch` starts them for one task, without a terminal."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
PROMPT = "{prompt}"
COMMAND = "echo ghent-$((6 * 7))"
_SHELL: dict[str, object] = {"command": COMMAND, "description": "Print a word"}


@dataclass(frozen=True)
class AgentProgram:
    """A program, where scripts/test-clients installs it, and its arguments for one task.

    `call` has it run `COMMAND`: the name of its tool, and the arguments; aider has none.
    """

    name: str
    folder: str
    arguments: tuple[str, ...]
    call: tuple[str, dict[str, object]] | None = None


AGENTS = (
    AgentProgram(
        "codex",
        "codex/node_modules/.bin",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
        ("exec_command", {"cmd": COMMAND}),
    ),
    AgentProgram(
        "claude-code",
        "claude-code/node_modules/.bin",
        ("-p", PROMPT, "--allowedTools", "Bash"),
        ("Bash", _SHELL),
    ),
    AgentProgram("opencode", "opencode/node_modules/.bin", ("run", PROMPT), ("bash", _SHELL)),
    AgentProgram(
        "qwen-code",
        "qwen-code/node_modules/.bin",
        ("--yolo", "-p", PROMPT),
        ("run_shell_command", _SHELL),
    ),
    AgentProgram(
        "copilot-cli",
        "copilot-cli/node_modules/.bin",
        ("--allow-all-tools", "-p", PROMPT),
        ("bash", _SHELL),
    ),
    AgentProgram(
        "cline",
        "cline/node_modules/.bin",
        ("--auto-approve", "true", PROMPT),
        ("run_commands", {"commands": [COMMAND]}),
    ),
    AgentProgram("pi", "pi/node_modules/.bin", ("-p", PROMPT), ("bash", {"command": COMMAND})),
    AgentProgram(
        "vibe", "vibe/bin", ("--trust", "--yolo", "-p", PROMPT), ("bash", {"command": COMMAND})
    ),
    AgentProgram(
        "aider",
        "aider/bin",
        (
            *("--yes-always", "--no-git", "--no-check-update", "--no-pretty", "--no-auto-lint"),
            *("--analytics-disable", "--edit-format", "diff", "--message", PROMPT, "greet.py"),
        ),
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
    folders = [clients / agent.folder, clients / "node/node_modules/.bin", "/usr/bin", "/bin"]
    return subprocess.run(
        command,
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
