"""The programs that ingle can be connected to, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .client_program import ClientProgram
from .coding_agents import AIDER, CLAUDE_CODE, CODEX, OPENCODE
from .editors import CLINE, CONTINUE, JETBRAINS, LLAMA_VIM, OPEN_WEBUI, VSCODE, ZED
from .terminal_agents import COPILOT, CRUSH, GOOSE, GPTME, PI, QWEN_CODE, VIBE

_ALL = (
    *(CONTINUE, ZED, VSCODE, CLINE, JETBRAINS, LLAMA_VIM),
    *(OPENCODE, CODEX, CLAUDE_CODE, AIDER, COPILOT, QWEN_CODE, PI),
    *(VIBE, GPTME, GOOSE, CRUSH, OPEN_WEBUI),
)

CLIENTS: Mapping[str, ClientProgram] = MappingProxyType({client.name: client for client in _ALL})
"""In the order in which they are listed."""


def find_program(name: str) -> tuple[ClientProgram | None, str | None]:
    """Return the program of that name, else the most similar name."""
    from difflib import get_close_matches

    by_alias = {alias: client for client in _ALL for alias in client.aliases}
    by_name = {**CLIENTS, **by_alias}
    near = get_close_matches(name.lower(), by_name, n=1)
    return by_name.get(name.lower()), near[0] if near else None
