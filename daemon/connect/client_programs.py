"""The programs that ingle can be connected to, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .client_program import ClientProgram
from .coding_agents import AIDER, CLAUDE_CODE, CODEX, OPENCODE
from .editors import CLINE, CONTINUE, JETBRAINS, LLAMA_VIM, OPEN_WEBUI, VSCODE, ZED

_ALL = (
    *(CONTINUE, ZED, VSCODE, CLINE, JETBRAINS, LLAMA_VIM),
    *(OPENCODE, CODEX, CLAUDE_CODE, AIDER, OPEN_WEBUI),
)

CLIENTS: Mapping[str, ClientProgram] = MappingProxyType({client.name: client for client in _ALL})
"""In the order in which they are listed."""

ALSO: Mapping[str, str] = MappingProxyType(
    {
        "claude": "claude-code",
        "claudecode": "claude-code",
        "copilot": "vscode",
        "code": "vscode",
        "vs-code": "vscode",
        "cn": "continue",
        "vim": "llama.vim",
        "nvim": "llama.vim",
        "neovim": "llama.vim",
        "llamavim": "llama.vim",
        "llama-vim": "llama.vim",
        "webui": "open-webui",
        "openwebui": "open-webui",
        "intellij": "jetbrains",
        "pycharm": "jetbrains",
    }
)
"""Alternative names of the same programs."""


def find_program(name: str) -> tuple[ClientProgram | None, str | None]:
    """Return the program of that name, else the most similar name."""
    from difflib import get_close_matches

    wanted = name.lower()
    wanted = ALSO.get(wanted, wanted)
    near = get_close_matches(wanted, [*CLIENTS, *ALSO], n=1)
    return CLIENTS.get(wanted), near[0] if near else None
