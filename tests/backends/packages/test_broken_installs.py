"""Installations that are killed, that race, and that fill the disk, each in real processes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ingle.backends.base.child_process import child_environment
from ingle.backends.packages.engine_packages import EnginePackages
from ingle.backends.packages.engine_store import EngineStore

MakeWheel = Callable[..., Path]
MakePackages = Callable[..., EnginePackages]
TOY_INSTALL = Path(__file__).with_name("toy_install.py")
IN_NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
FULL_DISK = """\
mkdir "$1" && mount -t tmpfs -o size=1m,nr_inodes=100 tmpfs "$1" || exit 77
eval "$3" || exit
(cd "$1"; eval "$2") 2> /dev/null
eval "$4" && exit 1
rm -r "$1"/ballast*
eval "$4"
"""
"""Installs a version, fills the disk, fails to install another one, and repeats that with room."""
BYTES = "cat /dev/zero > ballast"
FILES = "i=0; while mkdir ballast$i; do i=$((i + 1)); done"
FULL = """\
resolving
checking
usable: 1.0
{step}The disk is full. Free some space, then try again.
usable: 1.0
resolving
checking
usable: 2.0
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and mounts of Unix")


def command(packages: EnginePackages, store: EngineStore, wheels: Path, *fatal: str) -> list[str]:
    """The command that installs the packages in another process."""
    engine = msgspec.json.encode(packages).decode()
    return [sys.executable, str(TOY_INSTALL), engine, str(store.folder.parent), str(wheels), *fatal]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def version_of(store: EngineStore) -> str:
    """The version that a process imports from the installation."""
    environment = child_environment(os.environ, store.import_path(["toy"]))
    code = "import toylib; print(toylib.VERSION)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def make_toy(make_packages: MakePackages, make_wheel: MakeWheel) -> MakePackages:
    """Makes a version of the toy engine, and its wheel."""

    def make(version: str) -> EnginePackages:
        make_wheel("toylib", version, code=f"VERSION = '{version}'\n")
        return make_packages(f"toylib=={version}")

    return make


@pytest.mark.parametrize(
    "fatal",
    [
        pytest.param("resolving", marks=pytest.mark.slow),
        "toy/.new-*/toylib/__init__.py",
        pytest.param("checking", marks=pytest.mark.slow),
    ],
    ids=["as the client starts", "as it has written the packages", "as they are checked"],
)
def test_killed_installation_is_repeated(
    fatal: str, make_toy: MakePackages, store: EngineStore, wheels: Path
) -> None:
    assert run(*command(make_toy("1.0"), store, wheels)).returncode == 0
    newer = make_toy("2.0")
    killed = run(*command(newer, store, wheels, fatal))
    assert killed.returncode == -signal.SIGKILL
    assert not store.is_current("toy")
    assert version_of(store) == "1.0"
    assert run(*command(newer, store, wheels)).returncode == 0
    assert store.is_current("toy")
    assert version_of(store) == "2.0"
    assert list(store.folder.glob("toy/.new*")) == []


def test_two_processes_install_once(
    make_toy: MakePackages, store: EngineStore, wheels: Path
) -> None:
    arguments = command(make_toy("1.0"), store, wheels)
    both = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate()[0] for process in both]
    assert sorted(said) == ["resolving\nchecking\nusable: 1.0\n", "usable: 1.0\n"]
    assert len(list(store.folder.glob("toy/*"))) == 1


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a small disk needs a namespace")
@pytest.mark.parametrize(
    ("fill", "step"), [(BYTES, "resolving\n"), (FILES, "")], ids=["bytes", "files"]
)
@pytest.mark.slow
def test_full_disk_is_named_and_leaves_what_worked(
    fill: str, step: str, make_toy: MakePackages, store: EngineStore, wheels: Path
) -> None:
    """Both the client's and the installer's own files find no room."""
    old, new = (shlex.join(command(make_toy(each), store, wheels)) for each in ("1.0", "2.0"))
    done = run(*IN_NAMESPACE, "sh", "-c", FULL_DISK, "sh", str(store.folder), fill, old, new)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("this machine allows no mounts")
    assert done.stdout == FULL.format(step=step), done.stderr
