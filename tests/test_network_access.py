"""Network access: the modules that may open a connection, each with its reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("backends", "daemon", "kernels", "models", "tui")

MAY_CONNECT = {
    "backends/remote/metered_connection.py": "to providers, with what was cleared",
    "backends/remote/http_client.py": "speaks HTTP over that",
    "daemon/client/async_client.py": "to our own daemon",
    "daemon/client/client_connection.py": "speaks HTTP over that",
    "daemon/client/sync_client.py": "to our own unix socket",
    "daemon/connect/connection_probe.py": "to our own daemon, to prove that a client can",
    "daemon/tools/servers/mcp_server.py": "to servers that the user has set up, by the next",
    "daemon/tools/servers/mcp_transport.py": "to the same, once the ledger has a line",
    "daemon/web/web_client.py": "to pages and pictures that the user allows, likewise",
    "daemon/doctor/read_system_state.py": "to ports of this machine, to see who has them",
    "models/sources/http_source.py": "to where models are pulled from",
    "models/sources/hub_source.py": "to where models are pulled from",
    "models/sources/ranged_file.py": "to where models are pulled from",
}
MODULES = {
    *("aiohttp", "anyio", "ftplib", "h11", "h2", "http.client", "httpcore", "httpx", "httpx2"),
    *(
        "huggingface_hub",
        "imaplib",
        "mcp",
        "poplib",
        "requests",
        "smtplib",
        "telnetlib",
        "urllib.request",
    ),
    *("urllib3", "websockets", "xmlrpc.client", "openai", "anthropic", "ollama"),
}
CALLS = {
    *("open_connection", "create_connection", "open_unix_connection", "urlopen", "sock_connect"),
    *("create_unix_connection", "connect_ex"),
}
MAKERS = {"RemoteBackend", "RemoteBackends", "exchange", "Clearance"}
HARMLESS = {"urllib.request.url2pathname", "urllib.request.pathname2url"}


def connection_uses(path: Path) -> set[str]:
    """The imports and calls of a module that can open a connection."""
    text = path.read_text()
    if not any(word in text for word in MODULES | CALLS):
        return set()  # parsing would be slow
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                found |= {each.name for each in names if _network(each.name)}
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                names = [f"{module}.{each.name}" for each in names]
                found |= {name for name in names if _network(name) and name not in HARMLESS}
            case ast.Call(func=ast.Attribute(attr=name)) if name in CALLS:
                found.add(name)
            case _:
                pass
    return found


def _network(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:end]) in MODULES for end in range(1, len(parts) + 1))


def test_only_listed_modules_can_open_a_connection() -> None:
    connecting = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if connection_uses(path)
    }
    assert connecting == MAY_CONNECT.keys()


def test_remote_backends_are_created_in_one_place() -> None:
    """Without `RemoteBackends` and guarded calls, which `offline` prevents, nothing can be sent."""
    callers = {
        (path.relative_to(ROOT).as_posix(), name.id)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if any(f"{word}(" in path.read_text() for word in MAKERS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(name := node.func, ast.Name)
        and name.id in MAKERS
    }
    clearing = {path for path, name in callers if name == "Clearance"}
    assert {caller for caller in callers if caller[1] != "Clearance"} == {
        ("daemon/routing/egress/provider_egress.py", "RemoteBackends"),
        ("backends/remote/remote_backend_factory.py", "RemoteBackend"),
        ("backends/remote/remote_backend.py", "exchange"),
        ("backends/remote/served_models.py", "exchange"),
        ("daemon/routing/guard/guarded_call.py", "exchange"),
    }
    assert all(
        name.startswith(
            (
                "daemon/routing/",
                "daemon/cli/routing/provider.py",
                "daemon/protocols/native/tool_egress_api.py",
            )
        )
        for name in clearing
    )
