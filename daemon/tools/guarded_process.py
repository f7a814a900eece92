"""Starts programs under the guard that ends them with the host."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.backends.base.child_process import child_environment

from .process_guard import VARIABLE, GuardedProgram

_GUARD = "ingle.daemon.tools.process_guard"
_GRACE_SECONDS = 5.0
_PLAIN = ("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SYSTEMROOT", "PATHEXT", "WINDIR")


def plain_environment(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return what each program needs to run, without keys and tokens, and `more`."""
    kept = {
        name: value for name, value in environ.items() if name in _PLAIN or name.startswith("LC_")
    }
    return kept | more


async def start_guarded(
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    *,
    writes: Sequence[Path] | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
    stderr: int = asyncio.subprocess.STDOUT,
    limit: int = 1 << 16,
) -> asyncio.subprocess.Process:
    """Start a program in `folder`, confined if `writes` is given; raises OSError.

    End it with `end_guarded`.
    """
    names = None if writes is None else [str(path) for path in writes]
    program = GuardedProgram(list(arguments), environment, str(folder), names)
    command = [*arguments]
    outer = environment
    if sys.platform != "win32":
        command = [sys.executable, "-P", "-X", "utf8", "-m", _GUARD]
        outer = child_environment(os.environ)
        outer[VARIABLE] = msgspec.json.encode(program).decode()
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        cwd=folder,
        env=outer,
        start_new_session=True,  # a terminal's Ctrl-C is for the chat
        limit=limit,
    )


async def end_guarded(process: asyncio.subprocess.Process) -> None:
    """Kill the program with all that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), _GRACE_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
