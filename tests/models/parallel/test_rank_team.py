from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import subprocess, sys
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.parallel import rank_team

SAYS = "import sys, time; sys.stdout.buffer.write(bytes([4, 0, 0, 0]) + b'????' * 3); "

def start(rank, meeting):
    command = [sys.executable, "-c", SAYS + "sys.stdout.flush(); time.sleep(60)"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

rank_team._start = start
rank_team.RankTeam(LoadSpec(engine="cuda", path="/none", context=64, slots=1), 2).receive()
"""


def test_rank_that_says_no_message_ends_this_one() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, timeout=30, check=False
    )
    assert ended.returncode != 0
    assert b"The process of rank 1 ended" in ended.stderr
