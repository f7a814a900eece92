"""The sandbox of a worker, probed from inside a real one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import psutil
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.events import Delta
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.confinement import confine as confine_module
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import file_rules
from ingle.backends.confinement.gpu_files import gpu_files
from ingle.backends.confinement.landlock_rules import landlock_version
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.backends.worker.worker_access import worker_access

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
needs_landlock = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")

# Runs in the worker's main thread, directly after the sandbox: the first thread starts then.
SPY = """
import threading
report = open({report!r}, "w")
start = threading.Thread.start

def tell_first(thread):
    if thread.name == "reader":
        probe()
    start(thread)

threading.Thread.start = tell_first

def attempt(action):
    try:
        return repr(action())
    except OSError as error:
        return f"{{type(error).__name__}} {{error.errno}}"

def probe():
    import ctypes, json, os, resource, socket, subprocess
    from pathlib import Path
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        return libc.syscall(number, *arguments), ctypes.get_errno()

    def limits(which):
        return resource.getrlimit(which)[0]

    found = {{name: attempt(action) for name, action in {{
        "tcp": lambda: socket.socket(socket.AF_INET),
        "tcp6": lambda: socket.socket(socket.AF_INET6),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "raw": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "vsock": lambda: socket.socket(40),
        "unix": lambda: socket.socket(socket.AF_UNIX).connect({socket!r}),
        "listen": lambda: socket.socket(socket.AF_UNIX).bind({folder!r} + "/mine"),
        "read": lambda: Path({secret!r}).read_text(),
        "list": lambda: os.listdir({folder!r}),
        "write": lambda: Path({folder!r}, "planted").write_text("x"),
        "append": lambda: open({secret!r}, "a"),
        "remove": lambda: os.unlink({secret!r}),
        "rename": lambda: os.rename({secret!r}, {secret!r} + "2"),
        "link": lambda: os.symlink({secret!r}, {kv!r} + "/link"),
        "temporary": lambda: Path("/tmp", "ingle-planted").write_text("x"),
        "shell": lambda: subprocess.run(["/bin/sh", "-c", "true"]),
        "stored": lambda: Path({others!r}).read_text(),
        "seen": lambda: os.listdir({kv!r}),
        "own": lambda: Path({kv!r}, "m", "note").write_text("kept"),
        "daemon's environment": lambda: Path("/proc", str(os.getppid()), "environ").read_bytes(),
        "daemon's memory": lambda: open(f"/proc/{{os.getppid()}}/mem", "rb"),
        "daemon": lambda: os.kill(os.getppid(), 0),
        "largest": lambda: os.truncate(Path({kv!r}, "m", "note"), 2**28),
        "larger": lambda: os.truncate(Path({kv!r}, "m", "note"), 2**28 + 1),
    }}.items()}}
    found["ptrace"] = call(101 if os.uname().machine == "x86_64" else 117, 16, os.getppid(), 0, 0)
    found["io_uring"] = call(425, 1, 0)
    found["namespace"] = call(272 if os.uname().machine == "x86_64" else 97, 0x10000000)
    found["core"] = limits(resource.RLIMIT_CORE)
    found["files"] = limits(resource.RLIMIT_NOFILE)
    found["memory"] = limits(resource.RLIMIT_AS)
    found["undump"] = [libc.prctl(4, wanted, 0, 0, 0) for wanted in (0, 1)]
    found["dumpable"] = libc.prctl(3)
    found["privileges"] = libc.prctl(39, 0, 0, 0, 0)
    found["oom"] = int(Path("/proc/self/oom_score_adj").read_text())
    found["environment"] = dict(os.environ)
    json.dump(found, report)
    report.flush()
"""

DENIED = "PermissionError 13"


async def answer(worker: WorkerProcess) -> str:
    request = GenerateRequest(id="r", prompt="Hi")
    events = [event async for event in stream_events(worker, request)]
    return "".join(event.text for event in events if isinstance(event, Delta))


@pytest.fixture
def probe_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The report of a probe inside a real worker, which then answers as usual."""
    folder, kv, report = tmp_path / "home", tmp_path / "kv", tmp_path / "report"
    for path in (folder, kv / "m", kv / "other", tmp_path / "site"):
        path.mkdir(parents=True)
    secret, others = folder / "id_ed25519", kv / "other" / "chat.kv"
    secret.write_text("PRIVATE KEY")
    others.write_text("somebody's conversation")
    places = {"report": report, "secret": secret, "folder": folder, "kv": kv, "others": others}
    spy = SPY.format(**{k: str(v) for k, v in places.items()}, socket=str(folder / "s"))
    (tmp_path / "site" / "sitecustomize.py").write_text(spy)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123abc")
    monkeypatch.setenv("INGLE_API_KEY", "sk-0123abc")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    spec = LoadSpec(
        engine="scripted",
        path="scripted",
        context=512,
        script=json.dumps({"reply": "Still here."}),
        kv_store=KVStoreSpec(folder=str(kv), model="m", disk_bytes=2**20, memory_bytes=2**20),
    )

    async def serve() -> tuple[str, ModelInfo]:
        worker = WorkerProcess(spec)
        info = await worker.start()
        try:
            return await answer(worker), info
        finally:
            await worker.stop()

    text, _ = asyncio.run(serve())
    assert text == "Still here."
    assert secret.read_text() == "PRIVATE KEY"
    return msgspec.json.decode(report.read_bytes(), type=dict[str, object])


@needs_landlock
def test_worker_can_only_access_its_model(probe_results: dict[str, object]) -> None:
    denied = {name: probe_results[name] for name in probe_results if probe_results[name] == DENIED}
    network = {"tcp", "tcp6", "udp", "raw", "netlink", "vsock", "unix", "listen"}
    files = {"read", "list", "write", "append", "remove", "rename", "link", "temporary", "stored"}
    assert denied.keys() == network | files | {"shell"} | {
        "daemon's environment",
        "daemon's memory",
    }
    assert probe_results["daemon"] == "PermissionError 1", "it can signal the daemon"
    assert probe_results["own"] == "4"
    assert "other" in str(probe_results["seen"])
    for call in ("ptrace", "io_uring", "namespace"):
        assert probe_results[call] == [-1, 13], call


def test_worker_has_resource_limits_and_a_raised_oom_score(
    probe_results: dict[str, object],
) -> None:
    assert (probe_results["core"], probe_results["dumpable"], probe_results["privileges"]) == (
        0,
        0,
        1,
    )
    assert probe_results["undump"] == [0, -1], "it stays undumpable"
    assert probe_results["oom"] == 500
    assert probe_results["files"] == 4096
    assert (probe_results["largest"], probe_results["larger"]) == ("None", "OSError 27")
    memory = psutil.virtual_memory().total
    assert isinstance(probe_results["memory"], int)
    assert memory < probe_results["memory"] < 4 * memory + 2**36


def test_worker_environment_has_no_secrets(probe_results: dict[str, object]) -> None:
    text = json.dumps(probe_results["environment"])
    assert "sk-0123abc" not in text
    assert "SSH_AUTH_SOCK" not in text


IN_CONFINEMENT = """
import sys
from pathlib import Path
from ingle.backends.confinement.confine import confine
from ingle.backends.confinement.access_policy import AccessPolicy
confine(AccessPolicy(reads=(Path(sys.argv[1]),)))
"""


@needs_landlock
def test_threads_and_child_processes_are_sandboxed(tmp_path: Path) -> None:
    code = IN_CONFINEMENT + textwrap.dedent("""
        import socket, subprocess, threading
        codes = []
        def connect():
            try:
                socket.socket()
            except PermissionError:
                codes.append("no")
        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        child = subprocess.run([sys.executable, "-c", "import socket; socket.socket()"],
                               capture_output=True)
        print(codes, b"PermissionError" in child.stderr)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "['no'] True\n", done.stderr


CONFINED = """
import sys
sys.path.insert(0, sys.argv[1])
from resource_limits import limit_process
limit_process(address_space=None)
print("ready", flush=True)
sys.stdin.read()
"""
# First what the daemon reads of its workers, then what no process may read.
INSPECT = """
import sys
sys.path.append(sys.argv[1])
import psutil
process = psutil.Process(int(sys.argv[2]))
assert process.memory_info().rss > 2**20 and process.cpu_times().user >= 0
assert process.is_running() and process.ppid() > 0 and process.name()
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{process.pid}/{name}", "rb").read(1)
    except OSError:
        continue
    sys.exit(f"{name} can be read")
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs a second user")
def test_same_user_sees_memory_size_but_cannot_read_memory() -> None:
    packages = str(Path(psutil.__file__).parents[1])
    python = _interpreter_for_nobody(packages)
    if python is None:
        pytest.skip("no interpreter here is open to other users")
    confinement = str(Path(confine_module.__file__ or "").parent)
    with _as_nobody(python, CONFINED, confinement) as confined:
        assert confined.stdout is not None
        assert confined.stdout.readline() == b"ready\n"
        with _as_nobody(python, INSPECT, packages, str(confined.pid)) as looking:
            out, errors = looking.communicate(timeout=120)
        confined.kill()
    assert out == b"well\n", errors.decode()


def _as_nobody(python: str, *arguments: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [python, "-c", *arguments], stdin=pipe, stdout=pipe, stderr=pipe, user=65534, cwd="/"
    )


def _interpreter_for_nobody(packages: str) -> str | None:
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            with _as_nobody(
                python, f"import sys; sys.path.append({packages!r}); import psutil"
            ) as p:
                p.communicate(timeout=120)
        except OSError:
            continue
        if p.returncode == 0:
            return python
    return None


def test_allocation_beyond_physical_memory_is_refused(tmp_path: Path) -> None:
    code = IN_CONFINEMENT + "import mmap\ntry:\n    mmap.mmap(-1, 1 << 44)\n"
    code += "except (OSError, ValueError, MemoryError):\n    print('refused')\n"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr


def test_gpu_worker_may_open_devices_and_its_own_caches(tmp_path: Path) -> None:
    """Not run with a GPU: that its driver works under these rules is not tested."""
    rules = file_rules(AccessPolicy(reads=(tmp_path,), drives_gpu=True))
    assert rules.executes is None, "compilers of kernels are programs"
    assert {Path("/proc"), Path("/sys"), Path("/usr")} <= set(rules.reads)
    home = Path.home()
    for path in (home, Path("/tmp"), Path("/dev"), Path("/run"), Path("/etc")):
        assert not any(path.is_relative_to(each) for each in rules.reads), path
    assert rules.writes is not None
    assert not any(path.is_relative_to(home) for path in rules.writes)
    assert not any(path.is_relative_to("/proc") for path in rules.writes)


def test_programs_are_readable_only_where_a_script_starts_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = file_rules(AccessPolicy(reads=()))
    assert rules.executes is not None
    assert not any(Path("/usr/bin/sh").resolve().is_relative_to(path) for path in rules.reads)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    rules = file_rules(AccessPolicy(reads=()))
    assert rules.executes is None
    assert Path("/usr") in rules.reads


def test_devices_of_gpus_are_found(tmp_path: Path) -> None:
    made = ("nvidiactl", "nvidia0", "nvidia12", "nvidia-uvm", "kfd", "sda", "mem", "dri/renderD128")
    for name in made:
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = {path.name for path in gpu_files(tmp_path).writes}
    assert found == {"nvidiactl", "nvidia0", "nvidia12", "nvidia-uvm", "kfd", "dri"}


AS_LIBCUDA = """
import os, socket, sys
from ingle.backends.confinement.seccomp_filter import filter_calls
assert filter_calls(drives_gpu=sys.argv[1] == "gpu")
namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"
print(attempt(lambda: socket.socket(socket.AF_INET)))
print(attempt(lambda: socket.socket(socket.AF_UNIX)))
if sys.argv[1] == "gpu":
    server = socket.socket(socket.AF_UNIX)
    print(attempt(lambda: server.bind(f"\\0cuda-uvmfd-{namespace}-{os.getpid()}")))
    print(attempt(lambda: server.listen(4)))
    print(attempt(lambda: server.accept()))
    print(attempt(lambda: socket.socket(socket.AF_UNIX).connect("/tmp/nvidia-mps/control")))
"""


@pytest.mark.parametrize(
    ("mode", "outcomes"),
    [
        (
            "gpu",
            [
                *("PermissionError", "done", "done", "done", "PermissionError"),
                "FileNotFoundError",  # as without MPS, which `cuInit` looks for
            ],
        ),
        ("cpu", ["PermissionError"] * 2),
    ],
)
def test_driver_can_bind_its_socket_in_gpu_mode_only(mode: str, outcomes: list[str]) -> None:
    """libcuda binds this abstract socket and listens on it in `cuInit`, which fails without."""
    done = subprocess.run(
        [sys.executable, "-c", AS_LIBCUDA, mode],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == outcomes, done.stderr


def test_read_access_covers_only_the_models_files(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_bytes(b"x" * 100)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(blob)
    spec = LoadSpec(engine="scripted", path=str(folder), context=1)
    assert worker_access(spec).reads == (folder, blob)
    shard = tmp_path / "m-00001-of-00002.gguf"
    spec = msgspec.structs.replace(spec, path=str(shard))
    assert worker_access(spec).reads == (shard, tmp_path / "m-00002-of-00002.gguf")
