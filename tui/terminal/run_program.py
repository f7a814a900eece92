"""Runs a short program without a terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def run_program(
    command: Sequence[str],
    seconds: float,
    *,
    sent: bytes | None = None,
    **variables: str,
) -> bytes | None:
    """Return its output; None if it fails or takes longer. Environment `variables` are added.

    With `sent` as its input the output is empty, and the program may stay in the background: xclip
    and wl-copy do, to serve the selection. They would hold a pipe open, and
    a signal to this process group would clear the clipboard.
    """
    try:
        done = subprocess.run(
            command,
            input=sent,
            stdin=subprocess.DEVNULL if sent is None else None,
            stdout=subprocess.PIPE if sent is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            start_new_session=sent is not None,
            env=os.environ | variables,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or b"") if done.returncode == 0 else None
