"""The priority of processes that compute."""

import json
import subprocess
import sys

import pytest

from ingle.backends.base.process_priority import STEPS

CODE = """
import json, os
from ingle.backends.base.process_priority import yield_to_interactive
before = os.nice(0)
yield_to_interactive()
print(json.dumps([before, os.nice(0)]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has priority classes instead")
def test_a_process_yields_to_programs_of_normal_priority() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True, text=True)
    before, after = json.loads(done.stdout)
    assert after == min(19, before + STEPS)
