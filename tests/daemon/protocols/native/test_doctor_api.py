"""`GET /ingle/v1/doctor` on this machine."""

from __future__ import annotations

import os

import msgspec

from ingle.daemon.doctor.system_state import DoctorReport

from ...conftest import RunningDaemon


async def test_doctor_reports_the_running_daemon(daemon: RunningDaemon) -> None:
    answer = await daemon.unix.get("/ingle/v1/doctor")
    report = msgspec.json.decode(answer.content, type=DoctorReport)
    assert report.situation.daemon.pid == os.getpid()
    assert report.situation.daemon.state == "running"
    assert report.situation.daemon.address == f"127.0.0.1:{daemon.port}"
    assert os.getpid() in report.situation.own_pids
    assert "daemon" in report.fine
    assert report.ok == (not any(each.severity == "broken" for each in report.findings))
