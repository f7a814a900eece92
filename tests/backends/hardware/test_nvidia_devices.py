"""The device of nvidia-uvm is created before a worker is confined."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.backends.hardware.nvidia_devices import create_uvm_device


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a GPU, and a `nvidia-modprobe` that creates the device."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    program = tmp_path / "bin/nvidia-modprobe"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$*" = "-u -c 0" ] && touch {tmp_path}/dev/nvidia-uvm\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return tmp_path


def test_missing_device_is_created_once(machine: Path) -> None:
    assert create_uvm_device(machine)
    assert (machine / "dev/nvidia-uvm").exists()
    assert not create_uvm_device(machine)


def test_machine_without_a_gpu_is_left_alone(machine: Path) -> None:
    (machine / "dev/nvidiactl").unlink()
    assert not create_uvm_device(machine)
    assert not (machine / "dev/nvidia-uvm").exists()


def test_failing_program_is_only_logged(machine: Path, caplog: pytest.LogCaptureFixture) -> None:
    (machine / "bin/nvidia-modprobe").write_text("#!/bin/sh\nexit 1\n")
    assert create_uvm_device(machine)
    assert "status 1" in caplog.text
