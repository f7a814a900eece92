"""What is asked of Landlock, by the kernel's version: rights and numbers of linux/landlock.h."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

import pytest

from ingle.backends.confinement import landlock_rules
from ingle.backends.confinement.landlock_rules import FileRules, landlock_version, restrict_files

RIGHTS = (
    *("execute", "write file", "read file", "read folder", "remove folder", "remove file"),
    *("make device", "make folder", "make file", "make socket", "make pipe", "make block device"),
    *("make link", "move", "truncate"),
)
WRITES = {"write file", "remove folder", "remove file", "make folder", "make file"}
CREATE, ADD_RULE, RESTRICT, NO_NEW_PRIVILEGES = 444, 445, 446, 38

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an interface of Linux")


class Kernel:
    """Takes the calls as the kernel's library does, of one version; fails the call `failing`."""

    def __init__(self, version: int, failing: int = 0) -> None:
        self.version = version
        self.failing = failing
        self.attributes = b""
        self.allowed: dict[str, set[str]] = {}
        self.done: list[int] = []
        self.open = 0

    def syscall(self, number: int, *arguments: object) -> int:
        if number == self.failing:
            ctypes.set_errno(errno.EPERM)
            return -1
        if number == CREATE:
            if arguments[0] is None:
                assert [number_of(a) for a in arguments[1:]] == [0, 1]
                return self.version
            assert isinstance(arguments[0], bytes)
            assert [number_of(a) for a in arguments[1:]] == [len(arguments[0]), 0]
            self.attributes = arguments[0]
            self.open = os.open(os.devnull, os.O_RDONLY)
            return self.open
        assert number_of(arguments[0]) == self.open
        if number == ADD_RULE:
            assert isinstance(arguments[2], bytes)
            rights, place = struct.unpack("=Qi", arguments[2])
            assert [number_of(arguments[i]) for i in (1, 3)] == [1, 0]
            path = Path(f"/proc/self/fd/{place}").readlink()
            self.allowed.setdefault(path.name, set()).update(names(rights))
        else:
            assert (number, number_of(arguments[1])) == (RESTRICT, 0)
            self.done.append(number)
        return 0

    def prctl(self, *arguments: int) -> int:
        assert arguments == (NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        self.done.append(arguments[0])
        return 0


def number_of(argument: object) -> int:
    value = getattr(argument, "value", argument)
    assert isinstance(value, int)
    return value


def names(rights: int) -> set[str]:
    assert rights < 1 << len(RIGHTS)
    return {name for bit, name in enumerate(RIGHTS) if rights >> bit & 1}


@pytest.fixture
def rules(tmp_path: Path) -> FileRules:
    for name in ("model", "output"):
        (tmp_path / name).mkdir()
    for name in ("file", "program", "log"):
        (tmp_path / name).touch()
    return FileRules(
        reads=(tmp_path / "model", tmp_path / "file", tmp_path / "missing"),
        lists=(tmp_path / "model", tmp_path / "output", tmp_path / "file"),
        writes=(tmp_path / "output", tmp_path / "log"),
        executes=(tmp_path / "program",),
    )


@pytest.mark.parametrize(
    ("version", "late", "size"),
    [
        (1, set[str](), 8),
        (2, {"move"}, 8),
        (3, {"move", "truncate"}, 8),
        (4, {"move", "truncate"}, 16),
        (5, {"move", "truncate"}, 16),
        (6, {"move", "truncate"}, 24),
        (9, {"move", "truncate"}, 24),
    ],
)
def test_every_right_is_denied_but_those_of_the_rules(
    rules: FileRules, monkeypatch: pytest.MonkeyPatch, version: int, late: set[str], size: int
) -> None:
    kernel = Kernel(version)
    monkeypatch.setattr(landlock_rules, "_libc", lambda: kernel)
    assert landlock_version() == version
    assert restrict_files(rules)
    handled, *others = struct.unpack(f"={size // 8}Q", kernel.attributes)
    assert names(handled) == set(RIGHTS[:13]) | late
    assert others == [0b11] * (size // 8 - 1), "TCP, then sockets and signals of others"
    assert kernel.allowed == {
        "model": {"read file", "read folder"},
        "file": {"read file"},
        "output": {"read folder", *WRITES, *late},
        "log": {"write file", *late} - {"move"},
        "program": {"execute"},
    }
    assert kernel.done == [NO_NEW_PRIVILEGES, RESTRICT]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kernel.open)


def test_what_is_left_unrestricted_is_not_handled(
    rules: FileRules, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = Kernel(3)
    monkeypatch.setattr(landlock_rules, "_libc", lambda: kernel)
    assert restrict_files(FileRules(rules.reads, writes=None, executes=None))
    assert names(*struct.unpack("=Q", kernel.attributes)) == {"read file", "read folder"}
    assert set(kernel.allowed) == {"model", "file"}
    assert restrict_files(FileRules((), writes=(tmp_path / "output",), links=True))
    assert kernel.allowed["output"] == {*WRITES, "move", "truncate", "make link"}


@pytest.mark.parametrize("failing", [CREATE, ADD_RULE, RESTRICT])
def test_kernel_without_landlock_and_one_that_fails(
    rules: FileRules, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    kernel = Kernel(2, failing)
    monkeypatch.setattr(landlock_rules, "_libc", lambda: kernel)
    if failing == CREATE:
        assert landlock_version() == 0
        assert not restrict_files(rules)
        return
    with pytest.raises(OSError, match="Landlock: EPERM") as caught:
        restrict_files(rules)
    assert caught.value.errno == errno.EPERM
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kernel.open)
