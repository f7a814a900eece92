"""`ingle doctor --escape`: what a compromised model could do on this machine."""

from __future__ import annotations

import json
import sys

import pytest

from ingle.backends.confinement.landlock_rules import landlock_version
from ingle.backends.jobs.escape_check.messages import EscapeAttempt
from ingle.daemon.doctor.escape_report import EscapeReport, escape_text
from ingle.daemon.main import main

READ = EscapeAttempt(name="read a file", kind="files", stopped=True, error="PermissionError")
SIGNAL = EscapeAttempt(name="signal the parent", kind="processes", stopped=False)
SHELL = EscapeAttempt(name="start a shell", kind="programs", stopped=False, known="it compiles")


def report(*attempts: EscapeAttempt, landlock: int = 6, confine: bool = True) -> EscapeReport:
    return EscapeReport(
        ok=True,
        confine=confine,
        gpu=True,
        landlock=landlock,
        stopped=sum(each.stopped for each in attempts),
        attempts=list(attempts),
    )


def test_text_names_what_was_not_stopped() -> None:
    assert escape_text(report(READ), columns=100).splitlines() == [
        "1 of 1 attempts to escape from the process of a model were stopped (with a GPU)."
    ]
    text = escape_text(report(READ, SIGNAL, SHELL, landlock=4, confine=False), columns=100)
    assert text.splitlines()[1:6] == [
        "Not stopped:",
        "  processes: signal the parent",
        "Possible by design: it compiles:",
        "  programs: start a shell",
        "This kernel has version 4 of Landlock. Linux 6.12 and later stop all of them.",
    ]
    assert "the setting `confine` is false" in text
    narrow = escape_text(report(READ, SIGNAL, SHELL, landlock=0, confine=False), columns=40)
    assert max(map(len, narrow.splitlines())) <= 40


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
@pytest.mark.skipif(landlock_version() < 6, reason="this kernel has no Landlock, or an old one")
def test_command_prints_each_attempt_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--escape", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert found["stopped"] == sum(each["stopped"] for each in found["attempts"]) >= 50
    assert main(["doctor", "--escape"]) == 0
    assert f"{found['stopped']} of {len(found['attempts'])} attempts" in capsys.readouterr().out
