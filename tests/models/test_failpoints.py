"""Failpoints: places where tests make the product fail or wait."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingle.models.failpoints import POINTS, BadFailpoint, Failpoints

ROOT = Path(__file__).resolve().parents[2]


def test_registered_failpoints_equal_those_in_the_product() -> None:
    used: set[str] = set()
    for folder in ("backends", "daemon", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            used |= set(re.findall(r"failpoint\(\s*\"([\w.]+)\"", text))
            used |= set(re.findall(r"failpoint\(\s*\"[\w.]+\" if .* else \"([\w.]+)\"", text))
    assert used == set(POINTS)


def test_error_is_raised_at_the_given_hit() -> None:
    points = Failpoints.parse("pull.write=error:ENOSPC@2; pull.sync=error:EIO@2+")
    points.hit("pull.write")
    points.hit("pull.rename")
    with pytest.raises(OSError, match="failpoint") as caught:
        points.hit("pull.write")
    assert caught.value.errno == errno.ENOSPC
    points.hit("pull.write")
    points.hit("pull.sync")
    for _ in range(2):
        with pytest.raises(OSError, match="failpoint"):
            points.hit("pull.sync")


def test_once_applies_across_processes(tmp_path: Path) -> None:
    rule = f"pull.write=error:EIO,once:{tmp_path / 'x'}"
    with pytest.raises(OSError, match="failpoint"):
        Failpoints.parse(rule).hit("pull.write")
    Failpoints.parse(rule).hit("pull.write")


def test_delay_waits() -> None:
    began = time.monotonic()
    Failpoints.parse("pull.write=delay:0.05").hit("pull.write")
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(
    "text",
    [
        "nowhere=hang",
        "pull.write",
        "pull.write=",
        "pull.write=error:ENOTHING",
        "pull.write=hang:1",
        "pull.write=signal:NONE",
        "pull.write=delay:x",
        "pull.write=error:EIO@x",
    ],
)
def test_invalid_specifications_are_rejected(text: str) -> None:
    with pytest.raises(BadFailpoint):
        Failpoints.parse(text)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(("action", "status"), [("signal:KILL", -9), ("exit:7", 7), ("", 0)])
def test_environment_variable_is_read_at_start(action: str, status: int) -> None:
    code = "from ingle.models.failpoints import failpoint; failpoint('pull.write')"
    environ = {"INGLE_TEST_FAILPOINTS": f"pull.write={action}"} if action else {}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environ, check=False)
    assert done.returncode == status
