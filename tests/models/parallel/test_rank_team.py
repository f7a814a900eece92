from __future__ import annotations

import errno
import os
import subprocess
import sys

import psutil
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.parallel import rank_team

PROGRAM = """
import subprocess, sys
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.parallel import rank_team

SAYS = "import sys, time; sys.stdout.buffer.write(bytes([4, 0, 0, 0]) + b'????' * 3); "

def start(rank, meeting):
    command = [sys.executable, "-c", SAYS + "sys.stdout.flush(); time.sleep(60)"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

rank_team.start_rank = start
rank_team.RankTeam(LoadSpec(engine="cuda", path="/none", context=64, slots=1), 2).receive()
"""


def test_rank_that_says_no_message_ends_this_one() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, timeout=30, check=False
    )
    assert ended.returncode != 0
    assert b"The process of rank 1 ended" in ended.stderr


def test_ranks_end_if_a_later_one_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = rank_team.start_rank

    def fail(rank: int, meeting: rank_team.MeetingFile) -> subprocess.Popen[bytes]:
        if rank == 3:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return start(rank, meeting)

    before = set(psutil.Process().children())
    monkeypatch.setattr(rank_team, "start_rank", fail)
    spec = LoadSpec(engine="cuda", path="/none", context=64, slots=1)
    with pytest.raises(LoadFailed, match=r"on 4 GPUs cannot be started: .*temporarily unavailable"):
        rank_team.RankTeam(spec, 4)
    assert set(psutil.Process().children()) <= before
