"""Commands that tools run: what `confine_command` takes from a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.backends.confinement.command_sandbox import can_confine_commands

PROBE = """
import ctypes, json, os, resource, sys
from pathlib import Path
from ingle.backends.confinement.command_sandbox import confine_command

folder = Path(sys.argv[1])
confine_command([folder], os.environ["PATH"])
libc = ctypes.CDLL(None)
found = {
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "privileges": libc.prctl(39, 0, 0, 0, 0),
    "inherited": next(
        int(line.split()[1], 16)
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("CapInh:")
    ),
}
(folder / "found.json").write_text(json.dumps(found))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not can_confine_commands(), reason="needs Landlock 3"
)
def test_command_has_the_limits_of_a_worker(tmp_path: Path) -> None:
    """No core dump of what it read, no privileges by set-uid programs, nothing to inherit."""
    subprocess.run([sys.executable, "-P", "-c", PROBE, str(tmp_path)], check=True, env=os.environ)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {"core": [0, 0], "privileges": 1, "inherited": 0}
