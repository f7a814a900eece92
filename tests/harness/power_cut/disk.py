"""What a power cut leaves of a folder: replays the record of `disk_recorder.c` as a disk would."""

from __future__ import annotations

import mmap
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
_HEAD = struct.Struct("<IIIIQq")
_CONTROL = struct.Struct("<Iiqqq")
_PASSING = (".lock", ".sock", "-shm")
"""Ends of names of files without a content that counts: SQLite maps its shared memory."""
KILL = -1
"""Instead of an error number: the program is killed before the call."""
CALLS = ("write", "fsync", "rename", "ftruncate", "create", "mkdir", "unlink", "short")
"""The calls that can be let fail, by the bits of the recorder; link counts as rename."""


def compile_recorder(folder: Path) -> Path:
    """Return the compiled library; raises `OSError` or `CalledProcessError`."""
    target = folder / "disk_recorder.so"
    source = Path(__file__).with_name("disk_recorder.c")
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", target, source, "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return target


class Faults:
    """Lets calls of the programs fail that were started with it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_CONTROL.size))
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _CONTROL.size)

    def fail(self, calls: str, error: int, *, after: int = 0, times: int = -1) -> None:
        """Let calls fail with this error number, `after` some that succeed; -1 is always.

        With `short` the first write that fails stores its first half, as a full disk does.
        """
        mask = sum(1 << CALLS.index(name) for name in calls.split())
        self._map[4 : _CONTROL.size] = _CONTROL.pack(0, error, after, times, 0)[4:]
        self._map[:4] = mask.to_bytes(4, "little")  # last, since the program reads it first

    @property
    def hits(self) -> int:
        """How many calls have failed since `fail`."""
        return _CONTROL.unpack(self._map[: _CONTROL.size])[4]

    def stop(self) -> None:
        """Let everything succeed from now on."""
        self._map[:4] = bytes(4)


class _Write(NamedTuple):
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if self.offset > len(content):
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> Iterator[_Write]:
        start = 0
        while start < len(self.data):
            end = start + SECTOR - (self.offset + start) % SECTOR
            yield _Write(self.offset + start, self.data[start:end])
            start = end


class _Truncation(NamedTuple):
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))

    def sectors(self) -> Iterator[_Truncation]:
        yield self


class _File:
    """A file: what programs read, what is on the disk, and what is on its way there."""

    def __init__(self, content: bytes = b"") -> None:
        self.content, self.durable = bytearray(content), bytearray(content)
        self.pending: list[_Write | _Truncation] = []

    def add(self, operation: _Write | _Truncation) -> None:
        operation.apply(self.content)
        self.pending.append(operation)

    def sync(self) -> None:
        for operation in self.pending:
            operation.apply(self.durable)
        self.pending = []

    def lose(self) -> None:
        """After a failed fsync the pages count as clean: a later one does not write them."""
        self.pending = []

    def cut_power(self, chance: random.Random) -> None:
        """Of what was not synced, any sectors reach the disk."""
        share = chance.choice((0.0, 0.3, 0.7, 1.0))
        size = max([0, *(w.offset + len(w.data) for w in self.pending if isinstance(w, _Write))])
        for operation in self.pending:
            for sector in operation.sectors():
                if chance.random() < share:
                    sector.apply(self.durable)
        if len(self.durable) < size and chance.random() < 0.5:
            _Truncation(size).apply(self.durable)  # its length is there, its last blocks are not
        self.pending, self.content = [], bytearray(self.durable)


class _Folder:
    """A folder: its entries by name, and the changes that are not on the disk, in order."""

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.pending: list[_Change] = []


_Node = _File | _Folder


class _Change:
    """What one call changes in one folder, or a rename in two."""

    def __init__(self, *entries: tuple[_Folder, str, _Node | None]) -> None:
        self.entries = entries

    @staticmethod
    def enter(entries: dict[str, _Node], name: str, node: _Node | None) -> None:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node

    def make(self) -> None:
        for folder, name, node in self.entries:
            self.enter(folder.entries, name, node)
            if self not in folder.pending:
                folder.pending.append(self)

    def settle(self) -> None:
        """Put it on the disk, after all earlier changes of its folders."""
        for folder in {id(folder): folder for folder, _, _ in self.entries}.values():
            while self in folder.pending and folder.pending[0] is not self:
                folder.pending[0].settle()
        for folder, name, node in self.entries:
            self.enter(folder.durable, name, node)
            if self in folder.pending:
                folder.pending.remove(self)


class Disk:
    """A folder as it is on the disk, and what of its present state is only in memory.

    A name is on the disk once its folder was synced, content once its file was: what POSIX
    promises, which is less than most file systems keep.
    """

    def __init__(self, home: Path, record: Path) -> None:
        """Everything that is there now counts as durable; begins a new record."""
        self.home, self._record = home.resolve(), record
        record.write_bytes(b"")
        self._inodes: dict[int, _File] = {}
        self._known: set[Path] = set()
        self._at_byte = 0
        self._root = self._read(self.home)

    def environ(self, library: Path, faults: Faults | None = None) -> dict[str, str]:
        """Return the environment of a program whose writes are recorded."""
        found = {"LD_PRELOAD": library, "DISK_HOME": self.home, "DISK_RECORD": self._record}
        more = {} if faults is None else {"DISK_FAULTS": faults.path}
        return {name: str(path) for name, path in (found | more).items()}

    def replay(self, killed: int = 1) -> None:
        """Read the record of programs that have ended, of which some were killed.

        Raises `AssertionError` if it is not what the files say, but for one call of each.
        """
        self._read_record()
        unseen = [
            path
            for path, node in _walk(self._root, self.home)
            if isinstance(node, _File)
            and not path.name.endswith(_PASSING)
            and path.exists()
            and path.read_bytes() != bytes(node.content)
        ]
        assert len(unseen) <= killed, f"{unseen} were written unseen"

    def survivors(self) -> dict[Path, bytes]:
        """Return the files that a power cut would leave now, at least; programs may be running."""
        self._read_record()
        return {
            path: bytes(node.durable)
            for path, node in _walk(self._root, self.home, durable=True)
            if isinstance(node, _File)
        }

    def cut_power(self, chance: random.Random, kind: str | None = None) -> str:
        """Give the folder a state that a power cut may have left; returns which kind of one.

        Of what was not synced all is on the disk ("killed"), "nothing more" or "any part".
        """
        kinds = ("killed", "nothing more", "any part")
        kind = kind or chance.choices(kinds, (0.2, 0.2, 0.6))[0]
        if kind == "killed":
            return kind
        for folder in _folders(self._root):
            if folder.pending and kind == "any part":
                keep = chance.randint(0, len(folder.pending))
                for change in folder.pending[:keep]:
                    change.settle()
        nodes = dict(_walk(self._root, self.home, durable=True))
        for file in {id(node): node for node in nodes.values() if isinstance(node, _File)}.values():
            if kind == "any part":
                file.cut_power(chance)
        for path in sorted(self._known - nodes.keys(), reverse=True):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for path, node in nodes.items():
            _put(path, node)
        return kind

    def _read(self, folder: Path) -> _Folder:
        read = _Folder()
        for path in folder.iterdir():
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                continue
            self._known.add(path)
            if path.is_dir():
                node: _Node = self._read(path)
            else:
                node = self._inodes.setdefault(path.stat().st_ino, _File(path.read_bytes()))
            read.entries[path.name] = read.durable[path.name] = node
        return read

    def _read_record(self) -> None:
        """Replay what was added to the record; a call of which only a part is there is left."""
        with self._record.open("rb") as file:
            file.seek(self._at_byte)
            content, at = file.read(), 0
        while at + _HEAD.size <= len(content):
            kind, first, second, _, inode, number = _HEAD.unpack_from(content, at)
            paths, end = at + _HEAD.size, at + _HEAD.size + first + second
            if end > len(content):
                break
            path = content[paths : paths + first].decode()
            self._call(chr(kind), inode, number, path, content[paths + first : end])
            at = end
        self._at_byte += at

    def _call(self, kind: str, inode: int, number: int, first: str, second: bytes) -> None:
        file = self._inodes.get(inode)
        match kind:
            case "C" | "O" if kind == "C" or file is None:
                self._inodes[inode] = _File()
                self._change((first, self._inodes[inode]))
            case "W" if file is not None:
                file.add(_Write(number, second))
            case "T" if file is not None:
                file.add(_Truncation(number))
            case "S" if file is not None and not number:
                file.sync()
            case "Y":
                for each in self._inodes.values():
                    each.sync()
                for folder in _folders(self._root):
                    self._sync_names(folder)
            case "F" if file is not None and not number:
                file.lose()
            case "S" if number and isinstance(folder := self._at(first), _Folder):
                self._sync_names(folder)
            case "R" | "L" if (node := self._at(first)) is not None:
                gone: tuple[tuple[str, None], ...] = ((first, None),) if kind == "R" else ()
                self._change((second.decode(), node), *gone)
            case "U":
                self._change((first, None))
            case "D":
                self._change((first, _Folder()))
            case _:
                return

    @staticmethod
    def _sync_names(folder: _Folder) -> None:
        while folder.pending:
            folder.pending[-1].settle()

    def _change(self, *entries: tuple[str, _Node | None]) -> None:
        found: list[tuple[_Folder, str, _Node | None]] = []
        for name, node in entries:
            path = Path(name)
            self._known.add(path)
            if isinstance(parent := self._at(str(path.parent)), _Folder):
                found.append((parent, path.name, node))
        _Change(*found).make()

    def _at(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for part in Path(path).relative_to(self.home).parts:
            node = node.entries.get(part) if isinstance(node, _Folder) else None
        return node


def _walk(folder: _Folder, path: Path, *, durable: bool = False) -> Iterator[tuple[Path, _Node]]:
    """Yield all that is below the folder, each folder before its content."""
    for name, node in (folder.durable if durable else folder.entries).items():
        yield path / name, node
        if isinstance(node, _Folder):
            yield from _walk(node, path / name, durable=durable)


def _folders(folder: _Folder) -> list[_Folder]:
    """Return the folder and all below it, those included that exist only in memory or on disk."""
    below = {id(n): n for n in (*folder.entries.values(), *folder.durable.values())}.values()
    return [folder, *(f for node in below if isinstance(node, _Folder) for f in _folders(node))]


def _put(path: Path, node: _Node) -> None:
    """Make it so on the real disk; what is right already keeps its mode and time."""
    if isinstance(node, _Folder):
        path.mkdir(0o700, exist_ok=True)
    elif path.name.endswith("-shm"):
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_bytes() != bytes(node.durable):
        if not path.exists():
            path.touch(0o600)
        path.write_bytes(node.durable)
