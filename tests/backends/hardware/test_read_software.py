"""Detection of PyTorch builds, WSL, containers and distributions from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ingle.backends.hardware.machine import TorchBuild
from ingle.backends.hardware.read_software import (
    container_of,
    is_wsl,
    parse_os_release,
    parse_torch_version,
    read_software,
)

WriteFiles = Callable[[Mapping[str, object]], Path]

TORCH = """\
from typing import Optional
__version__ = '2.13.0+cu130'
cuda: Optional[str] = '13.0'
hip: Optional[str] = None
"""


def test_parse_torch_version() -> None:
    assert parse_torch_version(TORCH) == TorchBuild(version="2.13.0+cu130", cuda="13.0")
    for_cpus = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    assert parse_torch_version(for_cpus) == TorchBuild(version="2.13.0+cpu")
    assert parse_torch_version("cuda = '12.8'").cuda == "12.8"
    assert parse_torch_version("") == TorchBuild(version="")


def test_wsl_is_detected(write_files: WriteFiles) -> None:
    kernel = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2"}
    assert is_wsl(write_files(kernel))
    assert not is_wsl(write_files({"proc/sys/kernel/osrelease": "6.8.0-45-generic"}))


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"container": "lxc"}, "lxc"),
        ({}, {}, ""),
    ],
)
def test_container_kind(
    write_files: WriteFiles, files: dict[str, object], environ: dict[str, str], expected: str
) -> None:
    assert container_of(write_files(files), environ) == expected


def test_parse_os_release() -> None:
    assert parse_os_release('NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n') == (
        "Ubuntu 24.04.3 LTS"
    )
    assert parse_os_release("NAME=Void") == ""


def test_read_software_of_this_machine() -> None:
    software = read_software()
    assert software.system
    assert software.ingle
    assert software.python.count(".") == 2
