"""`ResponseStore` against a model: what is in memory, what is on disk, and what goes first."""

from __future__ import annotations

import errno
import random
from collections import OrderedDict
from pathlib import Path

import msgspec
import pytest

from ingle.daemon.errors import StorageFull
from ingle.daemon.stores.response_store import MAX_FAILURES, ResponseStore, StoredResponse

MOST, BYTES, MEMORY = 5, 900, 400
IDS = [
    *(f"resp_{number:048x}" for number in range(5)),
    *(f"conv_{number:048x}" for number in range(2)),
    f"chatcmpl-{7:024x}",
]


class Thing(msgspec.Struct):
    """An object, or what is compared of a response."""

    text: str = ""
    response: str = ""


class Model:
    """What the store holds: the bytes in memory and on disk, the least recently used first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory: OrderedDict[str, bytes] = OrderedDict()
        self.disk: OrderedDict[str, bytes] = OrderedDict()

    def put(self, name: str, content: bytes) -> None:
        self.remember(name, content)
        self.disk[name] = content
        self.disk.move_to_end(name)
        while len(self.disk) > MOST or (sum(map(len, self.disk.values())) > BYTES and self.disk):
            if len(self.disk) == 1:
                break
            self.disk.popitem(last=False)

    def get(self, name: str) -> bytes | None:
        if name in self.memory:
            self.memory.move_to_end(name)
        elif name in self.disk:
            self.remember(name, self.disk[name])
        else:
            return None
        if name in self.disk:
            self.disk.move_to_end(name)
        return self.memory[name]

    def delete(self, name: str) -> None:
        self.memory.pop(name, None)
        self.disk.pop(name, None)

    def remember(self, name: str, content: bytes) -> None:
        self.memory.pop(name, None)
        self.memory[name] = content
        while sum(map(len, self.memory.values())) > MEMORY and len(self.memory) > 1:
            self.memory.popitem(last=False)

    def load(self) -> None:
        """Begin anew: files of one time are in the order of their names."""
        self.memory.clear()
        times = {name: self.path(name).stat().st_mtime for name in self.disk}
        self.disk = OrderedDict(
            sorted(self.disk.items(), key=lambda item: (times[item[0]], item[0]))
        )

    def assert_on_disk(self) -> None:
        assert {path.stem: path.read_bytes() for path in self.folder.iterdir()} == self.disk

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


@pytest.mark.parametrize("seed", range(3))
async def test_store_holds_what_the_model_holds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    limits = {"max_count": MOST, "max_bytes": BYTES, "memory_bytes": MEMORY}
    store, model = ResponseStore(tmp_path, **limits), Model(tmp_path)
    for _ in range(50):
        name = chance.choice(IDS)
        match chance.choice(
            ["put", "put", "save", "get", "get", "get", "delete", "reset", "restart"]
        ):
            case "put":
                item = msgspec.Raw(b'"%s"' % (b"x" * chance.choice([1, 90, 300, 1000])))
                stored = StoredResponse(response=item, input=[])
                store.put(name, stored)
                model.put(name, msgspec.json.encode(stored))
            case "save":
                thing = Thing("y" * chance.choice([1, 90, 300, 1000]))
                await store.save(name, thing)
                model.put(name, msgspec.json.encode(thing))
            case "get":
                content = model.get(name)
                expected = msgspec.json.decode(content, type=Thing) if content else None
                assert await store.get_as(name, Thing) == expected
            case "delete":
                store.delete(name)
                model.delete(name)
            case "reset":
                await store.reset()
                model.load()
            case _:
                await store.flush()
                store = ResponseStore(tmp_path, **limits)
                model.load()
        await store.flush()
        model.assert_on_disk()


async def test_names_that_are_none_reach_no_file(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "store")
    await store.save(IDS[0], Thing())
    for name in (f"../{IDS[1]}", f"{IDS[1]}0", IDS[1][:-1], IDS[1].replace("0", "g"), "x" + IDS[1]):
        (tmp_path / "store" / f"{name}.json").write_text("{}")
        assert await store.get_as(name, Thing) is None
        store.delete(name)
    await store.flush()
    assert len(list((tmp_path / "store").iterdir())) == 5
    assert (tmp_path / f"{IDS[1]}.json").exists()
    again = ResponseStore(tmp_path / "store")
    await again.save(IDS[2], Thing())
    assert {path.stem for path in (tmp_path / "store").iterdir()} == {IDS[0], IDS[2]}


async def test_failures_that_nothing_waits_for_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("ingle.daemon.stores.response_store.failpoint", fail)
    store = ResponseStore(tmp_path)
    stored = StoredResponse(response=msgspec.Raw(b"1"), input=[])
    names = [f"resp_{number:048x}" for number in range(MAX_FAILURES + 2)]
    for name in names:
        store.put(name, stored)
    await store.flush(names[0])
    await store.flush(names[1])
    for name in (names[2], names[-1]):
        with pytest.raises(StorageFull):
            await store.flush(name)
        await store.flush(name)
        assert await store.get(name) is None
