from __future__ import annotations

import hashlib
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from ingle.models.errors import DiskFull, PullCancelled, SourceUnavailable
from ingle.models.sources.download_source import RemoteFile, Transfer
from ingle.models.sources.package_index_source import PackageIndexSource, find_client
from ingle.models.sources.partial_file import PartialFile

# A small wheel that will not change: its largest file, and a named one.
SIX = "six==1.17.0"
SIX_PY = "c51c91f703d3d4b3696c923cb5fec213e05e75d9215393befac7f2fa6a3904df"
LICENSE_BYTES = 1066


# Stands in for pip where a test checks its calls or needs a client that hangs: it takes
# `download … -d FOLDER NAME==VERSION` and copies NAME.whl from the folder of its own script.
CLIENT = """
import os, pathlib, shutil, sys, time
here = pathlib.Path(__file__).parent
folder, requirement = pathlib.Path(sys.argv[-2]), sys.argv[-1]
name = requirement.partition("==")[0]
with (here / "asked").open("a") as log:
    log.write(requirement + "\\n")
folder.mkdir()
(pathlib.Path(os.environ["TMPDIR"]) / "half").write_bytes(bytes(1000))
while (here / "hang").exists():
    time.sleep(0.02)
if (here / "fail").exists():
    print("WARNING: first", file=sys.stderr)
    sys.exit("ERROR: " + (here / "fail").read_text())
if (here / "unpacked").exists():
    shutil.copytree(here / "unpacked", os.path.join(os.environ["TMPDIR"], "build", "a-1"))
    sys.exit("ERROR: the metadata cannot be built")
shutil.copy(here / (name + ".whl"), os.environ["TMPDIR"])
shutil.copy(here / (name + ".whl"), folder)
while (here / "linger").exists():
    time.sleep(0.02)
"""


# Fetches from that client in a child process.
FETCH = """
import sys
import tarfile
from pathlib import Path
from ingle.models.sources.download_source import RemoteFile, Transfer
from ingle.models.sources.package_index_source import PackageIndexSource
from ingle.models.sources.partial_file import PartialFile
target, *client = sys.argv[1:]
with PartialFile(Path(target)) as partial:
    source = PackageIndexSource(["a==1"], client=client)
    source.fetch(Transfer(RemoteFile("f"), partial, lambda done, total: None, lambda: False))
"""


class FakeClient:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        script = folder / "client.py"
        script.write_text(CLIENT)
        self.command = (sys.executable, "-P", str(script))

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().split() if path.exists() else []

    def offer(self, name: str, **members: bytes) -> None:
        with zipfile.ZipFile(self.folder / f"{name}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)

    def set(self, flag: str, text: str = "") -> None:
        (self.folder / flag).write_text(text)

    def clear(self, flag: str) -> None:
        (self.folder / flag).unlink()


@pytest.fixture
def client(tmp_path: Path) -> FakeClient:
    return FakeClient(tmp_path / "client")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder / "f.partial"


def fetch(
    source: PackageIndexSource,
    target: Path,
    file: RemoteFile | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[int]:
    reports: list[int] = []
    with PartialFile(target) as partial:
        file = file or RemoteFile("f")
        source.fetch(Transfer(file, partial, lambda done, _: reports.append(done), cancelled))
    return reports


def assert_tidy(target: Path) -> None:
    assert {path.name for path in target.parent.iterdir()} <= {"f.partial", "f.partial.json"}


def real_clients() -> list[tuple[str, ...] | None]:
    uv = os.environ.get("UV") or shutil.which("uv")
    uv_client = (uv, "tool", "run", "--python", sys.executable, "pip") if uv else None
    return [(sys.executable, "-P", "-m", "pip"), uv_client]


@pytest.mark.slow
@pytest.mark.parametrize("command", real_clients(), ids=["pip", "uv"])
@pytest.mark.parametrize("member", [None, "six-1.17.0.dist-info/LICENSE"])
def test_real_wheel(
    target: Path,
    command: tuple[str, ...] | None,
    member: str | None,
    unavailable: Callable[[str], None],
) -> None:
    if command is None:
        pytest.skip("uv is not installed")
    try:
        fetch(PackageIndexSource([SIX], member=member, client=command), target)
    except SourceUnavailable as error:
        unavailable(error.message)
    content = target.read_bytes()
    if member is None:
        assert hashlib.sha256(content).hexdigest() == SIX_PY
    else:
        assert len(content) == LICENSE_BYTES
    assert_tidy(target)


@pytest.mark.slow
def test_missing_requirement_is_an_error(target: Path) -> None:
    source = PackageIndexSource(["six==0.0.0.0.99"])
    with pytest.raises(SourceUnavailable, match=r"gave no six==0.0.0.0.99: No matching"):
        fetch(source, target)
    assert_tidy(target)


def test_parts_are_joined_in_order(client: FakeClient, target: Path) -> None:
    client.offer("a", big=b"1" * 5000, small=b"x")
    client.offer("b", small=b"y", big=b"2" * 3000)
    source = PackageIndexSource(["a==1", "b==1"], client=client.command)
    reports = fetch(source, target, RemoteFile("f", 8000, "0" * 64))
    assert target.read_bytes() == b"1" * 5000 + b"2" * 3000
    assert client.asked == ["a==1", "b==1"]
    assert reports == sorted(reports)
    assert reports[-1] == 8000
    assert_tidy(target)


def test_downloaded_parts_are_not_requested_again(client: FakeClient, target: Path) -> None:
    client.offer("a", big=b"1" * 5000)
    client.offer("c", big=b"3" * 100)
    source = PackageIndexSource(["a==1", "b==1", "c==1"], client=client.command)
    with pytest.raises(SourceUnavailable):
        fetch(source, target)
    target.write_bytes(target.read_bytes() + b"half of b")
    client.offer("b", big=b"2" * 3000)
    fetch(source, target)
    assert target.read_bytes() == b"1" * 5000 + b"2" * 3000 + b"3" * 100
    assert client.asked == ["a==1", "b==1", "b==1", "c==1"]


def test_partial_file_of_another_source_is_not_resumed(client: FakeClient, target: Path) -> None:
    client.offer("a", big=b"1" * 5000)
    target.write_bytes(b"from elsewhere")
    fetch(PackageIndexSource(["a==1"], client=client.command), target)
    assert target.read_bytes() == b"1" * 5000


def test_error_contains_the_clients_last_line(client: FakeClient, target: Path) -> None:
    client.set("fail", "no such version")
    with pytest.raises(SourceUnavailable, match=r"gave no a==1: no such version\.$"):
        fetch(PackageIndexSource(["a==1"], client=client.command), target)
    assert_tidy(target)


def test_full_disk_in_the_client_is_reported(client: FakeClient, target: Path) -> None:
    client.set("fail", "Could not install: [Errno 28] No space left on device")
    with pytest.raises(DiskFull):
        fetch(PackageIndexSource(["a==1"], client=client.command), target)
    assert_tidy(target)


def test_missing_client_is_an_error(target: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="gave no"):
        fetch(PackageIndexSource(["a==1"], client=[str(tmp_path / "none")]), target)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + bytes(100)])
def test_damaged_wheel_is_rejected(client: FakeClient, target: Path, content: bytes) -> None:
    (client.folder / "a.whl").write_bytes(content)
    with pytest.raises(SourceUnavailable, match="damaged"):
        fetch(PackageIndexSource(["a==1"], client=client.command), target)
    assert_tidy(target)


def test_wheel_with_wrong_checksum_is_rejected(client: FakeClient, target: Path) -> None:
    client.offer("a", big=bytes(range(256)) * 100)
    wheel = client.folder / "a.whl"
    content = bytearray(wheel.read_bytes())
    content[60:64] = b"\xff\xff\xff\xff"
    wheel.write_bytes(content)
    with pytest.raises(SourceUnavailable, match="damaged"):
        fetch(PackageIndexSource(["a==1"], client=client.command), target)


def test_zip_bomb_is_rejected(client: FakeClient, target: Path) -> None:
    client.offer("a", big=bytes(50 << 20))
    with pytest.raises(SourceUnavailable, match="more than"):
        fetch(PackageIndexSource(["a==1"], client=client.command), target, RemoteFile("f", 1000))
    assert not target.exists()


def test_missing_member_is_an_error(client: FakeClient, target: Path) -> None:
    client.offer("a", big=b"1")
    with pytest.raises(SourceUnavailable, match="no file other"):
        fetch(PackageIndexSource(["a==1"], member="other", client=client.command), target)


def clients_of(client: FakeClient) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if str(client.folder) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_cancelling_kills_the_client(client: FakeClient, target: Path) -> None:
    client.set("hang")
    asked = threading.Event()

    def cancelled() -> bool:
        if client.asked:
            asked.set()
        return asked.is_set()

    with pytest.raises(PullCancelled):
        fetch(PackageIndexSource(["a==1"], client=client.command), target, None, cancelled)
    wait_until(lambda: not clients_of(client))
    assert_tidy(target)


def test_progress_counts_bytes_of_the_client(client: FakeClient, target: Path) -> None:
    client.set("hang")
    client.offer("a", big=b"1" * 5000)
    reports: list[int] = []

    def report(done: int, total: int | None) -> None:
        reports.append(done)
        if done == 1000 and (client.folder / "hang").exists():
            client.clear("hang")

    source = PackageIndexSource(["a==1"], client=client.command)
    with PartialFile(target) as partial:
        source.fetch(Transfer(RemoteFile("f", 5000), partial, report, lambda: False))
    assert 1000 in reports
    assert reports[-1] == 5000


def test_progress_does_not_count_a_wheel_twice(client: FakeClient, target: Path) -> None:
    client.set("linger")
    for name in ("a", "b"):
        client.offer(name, big=random.Random(name).randbytes(50_000))
    reports: list[int] = []

    def report(done: int, total: int | None) -> None:
        reports.append(done)
        if done >= 50_000 and (client.folder / "linger").exists():
            client.clear("linger")

    source = PackageIndexSource(["a==1", "b==1"], client=client.command)
    with PartialFile(target) as partial:
        source.fetch(Transfer(RemoteFile("f", 100_000), partial, report, lambda: False))
    assert reports[-1] == 100_000
    overhead = 2000  # a wheel's own directory, and the client's other file
    assert all(after > before - overhead for before, after in pairwise(reports))


def test_client_ends_with_a_killed_download(
    client: FakeClient, target: Path, tmp_path: Path
) -> None:
    client.set("hang")
    script = tmp_path / "fetch.py"
    script.write_text(FETCH)
    with subprocess.Popen(
        [sys.executable, "-P", str(script), str(target), *client.command]
    ) as process:
        wait_until(lambda: client.asked)
        process.kill()
    wait_until(lambda: not clients_of(client))


def find_nothing(name: str) -> None:
    return


def test_pip_or_uv_is_found() -> None:
    assert find_client() == (sys.executable, "-P", "-m", "pip")


def test_uv_is_the_second_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    monkeypatch.setenv("UV", "/opt/uv")
    assert find_client()[:3] == ("/opt/uv", "tool", "run")


def test_neither_pip_nor_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceUnavailable, match="pip or uv"):
        find_client()


def volumes(content: bytes, *, method: int = zipfile.ZIP_DEFLATED) -> list[bytes]:
    """Return a zip archive with `in/f` between two other files, in volumes of 4,000 bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("before", os.urandom(9000))
        archive.writestr("in/f", content)
        archive.writestr("behind", os.urandom(300))
    whole = buffer.getvalue()
    return [whole[start : start + 4000] for start in range(0, len(whole), 4000)]


def test_file_in_the_last_volumes_of_an_archive(client: FakeClient, target: Path) -> None:
    content = os.urandom(12_000)
    pieces = volumes(content)
    for number, piece in enumerate(pieces):
        client.offer(f"v{number}", volume=piece)
    needed = [f"v{number}==1" for number in range(2, len(pieces))]  # "before" fills two of them
    source = PackageIndexSource(needed, archived="in/f", client=client.command)
    reports = fetch(source, target, RemoteFile("f", len(content)))
    assert target.read_bytes() == content
    assert client.asked == needed
    assert max(reports) <= len(content)
    assert_tidy(target)


def test_downloaded_volumes_are_not_requested_again(client: FakeClient, target: Path) -> None:
    content = os.urandom(12_000)
    pieces = volumes(content)
    needed = [f"v{number}==1" for number in range(len(pieces))]
    for number, piece in enumerate(pieces[:-1]):
        client.offer(f"v{number}", volume=piece)
    source = PackageIndexSource(needed, archived="in/f", client=client.command)
    with pytest.raises(SourceUnavailable):
        fetch(source, target, RemoteFile("f", len(content)))
    client.offer(f"v{len(pieces) - 1}", volume=pieces[-1])
    fetch(source, target, RemoteFile("f", len(content)))
    assert target.read_bytes() == content
    assert client.asked == [*needed, needed[-1]]
    assert_tidy(target)


@pytest.mark.parametrize(
    ("size", "first", "archived", "words"),
    [
        (5_000, 0, "in/f", "holds 12000 bytes, and the file has 5000"),
        (12_000, 0, "in/g", "has no file in/g"),
        (12_000, 3, "in/f", "begins in a part that is not listed"),
    ],
)
def test_archive_without_the_file_is_an_error(
    client: FakeClient, target: Path, size: int, first: int, archived: str, words: str
) -> None:
    pieces = volumes(os.urandom(12_000))
    for number, piece in enumerate(pieces):
        client.offer(f"v{number}", volume=piece)
    needed = [f"v{number}==1" for number in range(first, len(pieces))]
    source = PackageIndexSource(needed, archived=archived, client=client.command)
    with pytest.raises(SourceUnavailable, match=words):
        fetch(source, target, RemoteFile("f", size))
    assert not target.exists()


def test_archive_with_a_wrong_size_is_rejected(client: FakeClient, target: Path) -> None:
    """The directory claims 5,000 bytes, but the packed data would expand to 50 million."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/f", bytes(50_000_000))
    size = struct.pack("<I", 50_000_000)
    client.offer("a", volume=buffer.getvalue().replace(size, struct.pack("<I", 5000)))
    source = PackageIndexSource(["a==1"], archived="in/f", client=client.command)
    with pytest.raises(SourceUnavailable, match="damaged"):
        fetch(source, target, RemoteFile("f", 5000))
    assert not target.exists()


def test_joined_archive_size_is_bounded(client: FakeClient, target: Path) -> None:
    client.offer("a", volume=bytes(80 << 20))
    source = PackageIndexSource(["a==1"], archived="in/f", client=client.command)
    with pytest.raises(SourceUnavailable, match="more than the expected file"):
        fetch(source, target, RemoteFile("f", 1000))


BACKEND = """
from pathlib import Path
Path({trace!r}).write_text("the package's code ran")
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    raise SystemExit(1)
build_wheel = None
"""


@pytest.fixture
def offered_sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Return the digest of a source archive that pip finds, and the trace of running its code."""
    trace, offers = tmp_path / "trace", tmp_path / "offers"
    offers.mkdir()
    path = offers / "carrier-1.0.tar.gz"
    members = {
        "PKG-INFO": b"Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n",
        "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "own"\n'
        b'backend-path = ["."]\n',
        "own.py": BACKEND.format(trace=str(trace)).encode(),
        "data/f": b"f" * 5000,
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"carrier-1.0/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offers))
    return hashlib.sha256(path.read_bytes()).hexdigest(), trace


def sdist_source(sha256: str, member: str = "data/f") -> PackageIndexSource:
    client = (sys.executable, "-P", "-m", "pip")
    return PackageIndexSource(["carrier==1.0"], member=member, sdist_sha256=sha256, client=client)


@pytest.mark.parametrize("member", ["data/f", "data/g", "data"])
def test_file_of_an_unpacked_source_archive(client: FakeClient, target: Path, member: str) -> None:
    (client.folder / "unpacked" / "data").mkdir(parents=True)
    (client.folder / "unpacked" / "data" / "f").write_bytes(b"f" * 5000)
    source = PackageIndexSource(
        ["a==1"], member=member, sdist_sha256="0" * 64, client=client.command
    )
    if member == "data/f":
        fetch(source, target)
        assert target.read_bytes() == b"f" * 5000
    else:
        with pytest.raises(SourceUnavailable, match="the metadata cannot be built"):
            fetch(source, target)
    assert_tidy(target)


@pytest.mark.slow
def test_file_is_extracted_from_a_source_archive_without_running_it(
    target: Path, offered_sdist: tuple[str, Path]
) -> None:
    sha256, trace = offered_sdist
    fetch(sdist_source(sha256), target, RemoteFile("f", 5000))
    assert target.read_bytes() == b"f" * 5000
    assert not trace.exists()
    assert_tidy(target)


@pytest.mark.slow
def test_source_archive_with_another_digest_is_rejected(
    target: Path, offered_sdist: tuple[str, Path]
) -> None:
    with pytest.raises(SourceUnavailable, match=r"gave no carrier==1\.0"):
        fetch(sdist_source("0" * 64), target, RemoteFile("f", 5000))
    assert not offered_sdist[1].exists()
    assert_tidy(target)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("member", "size", "words"),
    [("data/g", 5000, "gave no carrier"), ("data/f", 4000, "holds 5000 bytes")],
)
def test_source_archive_without_the_file_is_an_error(
    target: Path, offered_sdist: tuple[str, Path], member: str, size: int, words: str
) -> None:
    with pytest.raises(SourceUnavailable, match=words):
        fetch(sdist_source(offered_sdist[0], member), target, RemoteFile("f", size))
    assert not offered_sdist[1].exists()
