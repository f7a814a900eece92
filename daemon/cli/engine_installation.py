"""Installs engines from the command line: progress, and the question before a large one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ..client.client_errors import ClientError, ConnectionLost
from ..settings.config import load_config
from ..terminal.terminal_output import format_bytes, print_status
from .command_errors import CommandError
from .daemon_launcher import ensure_daemon
from .progress_report import ProgressReport

if TYPE_CHECKING:
    from ..client.engine_types import EngineEntries, EngineEntry
    from ..client.sync_client import DaemonClient


def list_engines(client: DaemonClient) -> EngineEntries:
    """Return the engines of this machine; raises `ClientError`."""
    from ..client.engine_types import EngineEntries

    return client.get("/ingle/v1/engines", EngineEntries)


def install_engine(
    client: DaemonClient, name: str, source: str | None = None, *, quiet: bool = False
) -> EngineEntry:
    """Install an engine, with progress on standard error.

    Raises `ClientError`; Ctrl-C stops the installation, whose downloads are kept.
    """
    from ..client.engine_types import EngineEntries, EngineEntry, InstallProgress
    from ..client.sync_client import read_event

    body = {"engine": name, "source": source}
    try:
        with ProgressReport() as report:
            for event in client.events("POST", "/ingle/v1/engines/install", body):
                if event.event == "progress" and not quiet:
                    report.show_install(read_event(event, InstallProgress))
                elif event.event == "done":
                    return read_event(event, EngineEntry)
    except KeyboardInterrupt:
        # If the daemon is gone, there is nothing left to cancel.
        with suppress(ClientError):
            client.post("/ingle/v1/engines/cancel", {"engine": name}, EngineEntries)
        print_status(f"Stopped. `ingle engine install {name}` goes on.")
        raise
    raise ConnectionLost(
        "The daemon ended the installation without a reason.",
        f"`ingle engine install {name}` goes on where it was.",
    )


def required_import_path(*engines: str) -> list[str]:
    """Return the folders of all installed engines, for a job that needs `engines`.

    Missing ones that are fetched without a question are installed first; raises `CommandError` for
    others.
    """
    from ingle.backends.packages.engine_packages import all_engine_packages
    from ingle.backends.registry.engines import get_engine

    from ..engines.engine_paths import engine_import_path

    config = load_config(os.environ)
    import_path = engine_import_path(config.paths)
    for engine in engines:
        if get_engine(engine).is_importable(import_path):
            continue
        packages = all_engine_packages()[engine]
        if not packages.unasked:
            raise CommandError(
                f"{packages.title} is not installed.",
                f"Install it with `ingle engine install {engine}` "
                f"({format_bytes(packages.download_bytes)} to download).",
            )
        print_status(f"{packages.title} is being installed, once for this machine.")
        install_engine(ensure_daemon(config), engine)
        import_path = engine_import_path(config.paths)
    return import_path


def offer_engine(client: DaemonClient) -> None:
    """Ask in a terminal whether to install the engine that this machine would profit from.

    A refusal is remembered.
    """
    from ..client.engine_types import EngineEntries

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    offer = list_engines(client).offer
    if offer is None:
        return
    print(f"{offer.question} [Y/n] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if answer.strip().lower() in ("", "y", "yes") and answer:
        entry = install_engine(client, offer.name)
        print_status(f"{entry.title} is installed ({format_bytes(entry.bytes)}).")
    else:
        client.post("/ingle/v1/engines/decline", {"engine": offer.name}, EngineEntries)
        print_status(f"`ingle engine install {offer.name}` does it later.")


def follow_engines(client: DaemonClient) -> None:
    """Show the installations that a load waits for, until they end.

    Without a terminal to ask at, also print how to install the engine that would be offered there.
    """
    listing = list_engines(client)
    for entry in listing.engines:
        if entry.state == "installing":
            print_status(f"{entry.title} is being installed, once for this machine.")
            install_engine(client, entry.name)
    if listing.offer is not None and not (sys.stdin.isatty() and sys.stderr.isatty()):
        machine = listing.offer.question.rpartition(". ")[0]
        print_status(f"{machine}; `ingle engine install {listing.offer.name}` makes use of it.")
