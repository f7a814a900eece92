"""Entry of a small process that runs a command and ends it when its own standard input closes.

A download client must not outlive the daemon, even one that was killed outright: the pipe closes
then, whatever the system. `python -P -m ingle.models.sources.process_supervisor COMMAND…`
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the command of the argument list and return its exit status."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_parent, args=(child,), daemon=True).start()
    return child.wait()


def _end_with_parent(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        continue
    if sys.platform == "win32":
        # The client may have children of its own; nothing else there ends a whole tree.
        subprocess.run(
            ["taskkill", "/T", "/F", "/PID", str(child.pid)],  # noqa: S607
            check=False,
            capture_output=True,
        )
        os._exit(1)
    os.killpg(0, signal.SIGKILL)  # the parent made this process the leader of a group of its own


if __name__ == "__main__":
    sys.exit(main())
