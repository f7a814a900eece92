"""How programs are started so that they send their requests to the guard."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex sends its requests if it is logged in with an account of ChatGPT."""

_ANTHROPIC_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
_OPENAI_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
"""Reports of errors and usage do not go through the guard."""

Started = tuple[list[str], dict[str, str]]
"""A command line, and variables of its environment."""


def upstreams(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the servers of a program's requests by name; variables may name others."""
    anthropic = next(filter(None, map(environ.get, _ANTHROPIC_VARIABLES)), ANTHROPIC)
    openai = next(filter(None, map(environ.get, _OPENAI_VARIABLES)), "")
    servers = {"anthropic": anthropic, "openai": openai or OPENAI}
    return servers if openai else {**servers, "chatgpt": CHATGPT}


def guarded(command: Sequence[str], base: str, environ: Mapping[str, str]) -> Started:
    """Return how a command is started with its requests below the address `base`."""
    variables = {
        **dict.fromkeys(_ANTHROPIC_VARIABLES, f"{base}/anthropic"),
        **dict.fromkeys(_OPENAI_VARIABLES, f"{base}/openai"),
        **_QUIET,
    }
    make = KNOWN.get(command[0])
    if make is None:
        return list(command), variables
    arguments, more = make(base, environ)
    return [command[0], *arguments, *command[1:]], variables | more


def _claude(base: str, environ: Mapping[str, str]) -> Started:
    # The settings of the user, which may name another address, come before the environment.
    settings = {"env": {"ANTHROPIC_BASE_URL": f"{base}/anthropic"}}
    return ["--settings", json.dumps(settings)], {}


def _codex(base: str, environ: Mapping[str, str]) -> Started:
    # A provider of another name gets neither compressed requests nor WebSockets.
    provider = (
        f'{{name="OpenAI through ingle", base_url="{base}/openai", wire_api="responses", '
        "requires_openai_auth=true}"
    )
    settings = ('model_provider="ingle-guard"', f"model_providers.ingle-guard={provider}")
    return [part for setting in settings for part in ("-c", setting)], {}


def _opencode(base: str, environ: Mapping[str, str]) -> Started:
    try:
        config: Any = json.loads(environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError:
        config = {}
    config = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    providers = config.setdefault("provider", {})
    for name, path in (("anthropic", "anthropic/v1"), ("openai", "openai")):
        options = providers.setdefault(name, {}).setdefault("options", {})
        options["baseURL"] = f"{base}/{path}"
    return [], {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}


KNOWN: Mapping[str, Callable[[str, Mapping[str, str]], Started]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}
"""Programs that need more than the variables of the SDKs."""
