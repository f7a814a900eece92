"""Folders of documents: found by words and by meaning, whatever is among their files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import zipfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.documents import folder_reader
from ingle.daemon.documents.document_library import DocumentLibrary
from ingle.daemon.documents.passage_embedder import PassageEmbedder
from ingle.daemon.machine.memory_reader import MemoryMeter
from tests.harness.small_pdf import write_small_pdf

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PATH = "/ingle/v1/documents/search"
WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))


def docx(body: str, head: str = "") -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"{head}{WORD}<w:body>{body}</w:body></w:document>")
    return out.getvalue()


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of readable files of each kind."""
    root = tmp_path / "papers"
    (root / "code").mkdir(parents=True)
    (root / "boats.md").write_text("# Boats\n\nintro\n\n## Masts\n\nA mast is made of spruce.\n")
    (root / "code/tide.py").write_text("import math\n\n\ndef high_water_level():\n    return 3\n")
    (root / "page.html").write_text("<html><script>x()</script>\n<p>The <b>lighthouse</b>\n</html>")
    (root / "manual.pdf").write_bytes(write_small_pdf("Opening page", "Anchors are heavy"))
    (root / "letter.docx").write_bytes(
        docx(paragraph("Dear sailor,") + paragraph("beware of reefs"))
    )
    return root


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon() as running:
        yield running


async def search(daemon: RunningDaemon, folder: Path, question: str, **more: Any) -> dict[str, Any]:
    body = {"folder": str(folder), "question": question, "wait": 60, **more}
    answer = await daemon.unix.post(PATH, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def places(daemon: RunningDaemon, folder: Path, question: str) -> list[tuple[str, int, str]]:
    found = await search(daemon, folder, question)
    return [(each["file"], each["first"], each["unit"]) for each in found["passages"]]


async def test_all_kinds_of_files_are_found_at_their_place(
    daemon: RunningDaemon, folder: Path
) -> None:
    assert await places(daemon, folder, "What are masts made of?") == [("boats.md", 5, "line")]
    assert await places(daemon, folder, "highWaterLevel") == [("code/tide.py", 1, "line")]
    assert await places(daemon, folder, "lighthouses") == [("page.html", 2, "line")]
    assert await places(daemon, folder, "anchor") == [("manual.pdf", 2, "page")]
    assert await places(daemon, folder, "reefs") == [("letter.docx", 1, "paragraph")]
    assert await places(daemon, folder, '"" AND NOT * ((') == []
    found = await search(daemon, folder, "mast", most=1)
    assert (found["files"], found["waiting"], found["unreadable"]) == (5, 0, 0)
    assert found["passages"][0]["title"] == "Boats › Masts"


async def test_only_what_changed_is_read_again(daemon: RunningDaemon, folder: Path) -> None:
    assert await places(daemon, folder, "spruce")
    (folder / "boats.md").write_text("now of carbon")
    (folder / "code/tide.py").unlink()
    os.utime(folder / "manual.pdf", (1, 1))
    assert await places(daemon, folder, "carbon") == [("boats.md", 1, "line")]
    assert await places(daemon, folder, "spruce") == []
    assert await places(daemon, folder, "highWaterLevel") == []
    assert await places(daemon, folder, "anchor") == [("manual.pdf", 2, "page")]


@pytest.mark.slow
async def test_hostile_files_cost_only_themselves(daemon: RunningDaemon, folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    outside.write_text("the treasure of the lagoon")
    hostile: dict[str, bytes] = {
        "binary.txt": bytes(range(256)) * 40,
        "latin.txt": "é".encode("latin-1") * 500,
        "huge.txt": b"x" * (folder_reader.LARGEST_TEXT + 1),
        "torn.pdf": write_small_pdf("torn")[:200],
        "no.pdf": b"<html>",
        "torn.docx": docx(paragraph("a"))[:60],
        "laughs.docx": docx("&a11;", f"<!DOCTYPE d [<!ENTITY a0 'ha'>{LAUGHS}]>"),
        "bomb.docx": docx(paragraph("a" * 40_000_000)),
    }
    for name, data in hostile.items():
        (folder / name).write_bytes(data)
    (folder / "link.txt").symlink_to(outside)
    (folder / "linked").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe.txt")
    (folder / "one line.txt").write_text("reef " * 50_000)
    (folder / "unclosed.html").write_text("<!--" * 100_000)
    with (folder / "latin.md").open("wb") as file:
        file.write(b"caf\xe9 au lait\n")
    for odd in (b"no\xffname.txt", b"two\nlines.txt"):
        (folder / os.fsdecode(odd)).write_text("treasure")
    found = await search(daemon, folder, "treasure lagoon")
    assert found["passages"] == []
    assert (found["unreadable"], found["waiting"]) == (len(hostile), 0)
    assert await places(daemon, folder, "lait") == [("latin.md", 1, "line")]
    assert len(await places(daemon, folder, "reef")) == 8


@pytest.mark.slow
async def test_damaged_index_is_made_anew(daemon: RunningDaemon, folder: Path) -> None:
    assert await places(daemon, folder, "spruce")
    await daemon.services.documents.close()
    (file,) = daemon.services.config.paths.documents.iterdir()
    file.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    assert await places(daemon, folder, "spruce") == [("boats.md", 5, "line")]


async def test_refused_requests(daemon: RunningDaemon, folder: Path) -> None:
    for name, status in ((str(folder / "none"), 404), (str(folder / "boats.md"), 404), ("a", 400)):
        answer = await daemon.unix.post(PATH, json={"folder": name, "question": "mast"})
        assert answer.status_code == status, name
    _, key = KeyStore(daemon.services.config.paths.keys).create("editor")
    headers = {"Authorization": f"Bearer {key}"}
    body = {"folder": str(folder), "question": "mast"}
    answer = await daemon.tcp.post(PATH, json=body, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "key_not_allowed"


async def test_index_is_private_and_forgotten(daemon: RunningDaemon, folder: Path) -> None:
    await search(daemon, folder, "mast")
    (file,) = daemon.services.config.paths.documents.iterdir()
    assert b"spruce" in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    if sys.platform == "linux":
        (opened,) = daemon.services.documents._open.values()  # pyright: ignore[reportPrivateUsage]
        status = await asyncio.to_thread(Path(f"/proc/{opened.index.pid}/status").read_text)
        assert "Seccomp:\t2" in status
    answer = await daemon.unix.post("/ingle/v1/forget", json={"all": True, "places": ["documents"]})
    assert answer.json()["erased"][0]["count"] == 1
    assert not list(daemon.services.config.paths.documents.iterdir())
    assert await places(daemon, folder, "spruce") == [("boats.md", 5, "line")]


@pytest.mark.slow
async def test_passages_get_vectors_in_the_background(
    run_daemon: DaemonFactory, make_bert: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "animals"
    folder.mkdir()
    for name in ("cat", "dog"):
        (folder / f"{name}.txt").write_text(f"{name} " * 5)
    busy = True
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess) as daemon:
        model = daemon.services.resolve(str(make_bert()))
        embedder = PassageEmbedder(
            daemon.services.manager, lambda: [model], MemoryMeter(), lambda: busy
        )
        library = DocumentLibrary(tmp_path / "indexes", embedder)
        try:
            found = await library.search(str(folder), "dog", 5, 60)
            assert [each.file for each in found.passages] == ["dog.txt"]
            assert found.model == ""
            assert daemon.services.manager.models() == []
            busy = False
            (opened,) = library._open.values()  # pyright: ignore[reportPrivateUsage]
            assert opened.embedding is not None
            await opened.embedding
            found = await library.search(str(folder), "dog", 5, 60)
            assert found.model == model.name
            # By meaning, both are candidates.
            assert [each.file for each in found.passages] == ["dog.txt", "cat.txt"]
            (file,) = (tmp_path / "indexes").iterdir()
            rows = sqlite3.connect(file)
            (size,) = rows.execute("SELECT DISTINCT length(vector) FROM vectors").fetchall()
            rows.close()
            assert size == (64,)
        finally:
            await library.close()
