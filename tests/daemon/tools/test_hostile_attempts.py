"""Attempts of models, servers and files to do harm through tools: the table in docs/tools.md."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingle.daemon.client.tool_types import CallResult, CallTool, DecideCall, UndoEdit
from tests.harness.thinning import thinned

from ...harness.tool_client import ToolClient, tool_client

SERVER = Path(__file__).with_name("hostile_server.py")
SECRET = "correct-horse-battery"
linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


class Lab:
    """A folder with a neighbour that has a secret, and a host in it."""

    def __init__(self, folder: Path, client: ToolClient) -> None:
        self.folder = folder
        self.client = client
        self.outside = folder.parent / "outside"

    async def fails(self, tool: str, **arguments: object) -> CallResult:
        """Call a tool, which must fail without the secret."""
        result = await self.client.call(tool, **arguments)
        assert result.failed, result
        assert SECRET not in result.text
        return result

    async def run(self, command: str) -> CallResult:
        """Run a command, which must not get the secret."""
        result = await self.client.call("run_command", command=command, seconds=60)
        assert SECRET not in result.text
        return result


Attempt = Callable[[Lab], Awaitable[None]]
OF_MODELS: dict[str, Attempt] = {}
OF_COMMANDS: dict[str, Attempt] = {}


def attempt(table: dict[str, Attempt], name: str) -> Callable[[Attempt], Attempt]:
    def add(function: Attempt) -> Attempt:
        table[name] = function
        return function

    return add


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[Lab]:
    async with make_lab(tmp_path) as made:
        yield made


@asynccontextmanager
async def make_lab(place: Path, *ways: str) -> AsyncGenerator[Lab]:
    folder, outside = place / "project", place / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (folder / "notes.txt").write_text("one\ntwo\n")
    servers = {
        way: {"command": sys.executable, "args": [str(SERVER), way, str(place / "mark")]}
        for way in ways
    }
    environ = {"SOME_API_KEY": SECRET}
    async with tool_client(folder, servers=servers, environ=environ) as client:
        yield Lab(folder, client)


# What a model asks for


@attempt(OF_MODELS, "read `../` out of the folder")
async def _(lab: Lab) -> None:
    for name in ("../outside/secret.txt", "a/../../outside/secret.txt", "./../outside/secret.txt"):
        assert "outside of the folder" in (await lab.fails("read_file", path=name)).text


@attempt(OF_MODELS, "read an absolute path")
async def _(lab: Lab) -> None:
    for name in (str(lab.outside / "secret.txt"), "/etc/passwd", "//etc/passwd"):
        await lab.fails("read_file", path=name)


@attempt(OF_MODELS, "read through a link that leads out")
async def _(lab: Lab) -> None:
    (lab.folder / "file").symlink_to(lab.outside / "secret.txt")
    (lab.folder / "way").symlink_to(lab.outside)
    await lab.fails("read_file", path="file")
    await lab.fails("read_file", path="way/secret.txt")
    found = await lab.client.call("search_files", pattern="correct")
    assert SECRET not in found.text


@attempt(OF_MODELS, "read memory and variables in `/proc`")
async def _(lab: Lab) -> None:
    for name in ("/proc/self/environ", "../../../../../../../proc/self/environ"):
        await lab.fails("read_file", path=name)
    (lab.folder / "self").symlink_to("/proc/self")
    await lab.fails("read_file", path="self/environ")


@attempt(OF_MODELS, "read a pipe or a device that never ends")
async def _(lab: Lab) -> None:
    os.mkfifo(lab.folder / "pipe")
    (lab.folder / "zero").symlink_to("/dev/zero")
    await lab.fails("read_file", path="pipe")
    await lab.fails("read_file", path="zero")
    assert (await lab.client.call("search_files", pattern="two")).text == "notes.txt:2: two"


@attempt(OF_MODELS, "read a file of gigabytes")
async def _(lab: Lab) -> None:
    with (lab.folder / "huge.txt").open("wb") as file:
        file.truncate(50 * 2**30)
    assert "more than" in (await lab.fails("read_file", path="huge.txt")).text


@attempt(OF_MODELS, "names with zero bytes, escapes, surrogates or 10,000 characters")
async def _(lab: Lab) -> None:
    for name in ("notes.txt\0", "\x1b[2Jx", "\udcff", "x" * 10_000, "", "notes.txt/x"):
        await lab.fails("read_file", path=name)


@attempt(OF_MODELS, "a search pattern that takes for ever")
async def _(lab: Lab) -> None:
    (lab.folder / "a.txt").write_text("a" * 40 + "!\n")
    call = await lab.client.begin("search_files", pattern="(a+)+$")
    assert (await lab.client.call("read_file", path="notes.txt")).text == "one\ntwo"
    assert "too long" in (await lab.client.result(call)).text


@attempt(OF_MODELS, "edit without consent, or after a no")
async def _(lab: Lab) -> None:
    lab.client.choice = "never"
    declined = await lab.fails("edit_file", path="notes.txt", old_text="one", new_text="1")
    assert declined.declined
    assert (lab.folder / "notes.txt").read_text() == "one\ntwo\n"


@attempt(OF_MODELS, "edit outside, through a link, and in `.git`")
async def _(lab: Lab) -> None:
    (lab.folder / ".git").mkdir()
    (lab.folder / "way").symlink_to(lab.outside)
    (lab.folder / "git").symlink_to(".git")
    for name in ("../outside/new", "way/new", ".git/config", ".GIT/config", "git/config", ".git"):
        await lab.fails("edit_file", path=name, new_text="x")
    assert names(lab.outside) == ["secret.txt"]
    assert names(lab.folder / ".git") == []
    assert not lab.client.asked


@attempt(OF_MODELS, "swap a folder for a link while the user decides")
async def _(lab: Lab) -> None:
    (lab.folder / "sub").mkdir()
    lab.client.choice = None
    call = await lab.client.begin("edit_file", path="sub/secret.txt", new_text="x")
    question = await lab.client.question()
    (lab.folder / "sub").rmdir()
    (lab.folder / "sub").symlink_to(lab.outside)
    await lab.client.send(DecideCall(question.id, "once"))
    assert (await lab.client.result(call)).failed
    assert (lab.outside / "secret.txt").read_text() == SECRET


@attempt(OF_MODELS, "hide in a diff what an edit does")
async def _(lab: Lab) -> None:
    text = "safe\x1b[8m evil\x1b[0m \u202edlrow\u200b\r"
    await lab.client.call("edit_file", path="new.txt", new_text=text)
    preview = lab.client.asked[-1].preview
    assert "evil" in preview
    assert not set("\x1b\u202e\r") & set(preview)


@attempt(OF_MODELS, "a command that looks like one with consent")
async def _(lab: Lab) -> None:
    for command in ("echo a\x1b[2K\recho b", "echo \u202edlrow", "echo \0", " "):
        await lab.fails("run_command", command=command)
    assert not lab.client.asked


@attempt(OF_MODELS, "overwrite by an undo what has changed since")
async def _(lab: Lab) -> None:
    await lab.client.call("edit_file", path="notes.txt", old_text="one", new_text="1")
    (lab.folder / "notes.txt").write_text("work of hours")
    assert (await lab.client.undo("call-1")).failed
    assert (await lab.client.undo("call-99")).failed
    assert (lab.folder / "notes.txt").read_text() == "work of hours"


@attempt(OF_MODELS, "arguments that are no JSON, or of other types")
async def _(lab: Lab) -> None:
    for number, text in enumerate(("{", "[]", '"x"', '{"path": {}}', "[" * 100_000, "{}", "null")):
        await lab.client.send(CallTool(f"bad-{number}", "read_file", text))
        assert (await lab.client.result(f"bad-{number}")).failed
    await lab.fails("rm", path="x")


@attempt(OF_MODELS, "decide, cancel or undo a call that is not there")
async def _(lab: Lab) -> None:
    await lab.client.send(DecideCall("call-1", "always"))
    await lab.client.send(UndoEdit("../../../etc/passwd"))
    assert (await lab.client.result("../../../etc/passwd")).failed
    lab.client.choice = None
    await lab.client.begin("run_command", command="touch done")
    assert (await lab.client.question()).effect == "run"  # the early answer was for nothing
    assert not (lab.folder / "done").exists()


@attempt(OF_MODELS, "fetch without a daemon that records it")
async def _(lab: Lab) -> None:
    assert "no tool" in (await lab.fails("fetch_page", url="https://example.org/")).text


# What a command does after the user has consented to it


@attempt(OF_COMMANDS, "reach the network")
async def _(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
        assert "PermissionError" in (await lab.run(f'python3 -c "{code}"')).text
        with pytest.raises(TimeoutError):
            listener.accept()


@attempt(OF_COMMANDS, "reach a local service by its socket")
async def _(lab: Lab) -> None:
    path = lab.folder / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        code = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('s')"
        assert "Error" in (await lab.run(f'python3 -c "{code}"')).text
    assert path.exists()


@attempt(OF_COMMANDS, "write, link, move or delete outside")
async def _(lab: Lab) -> None:
    secret = lab.outside / "secret.txt"
    tries = (
        f"echo x > {lab.outside}/new; echo x >> {secret}; rm -f {secret}; mv {secret} here;"
        f"ln {secret} linked; : > {secret}; truncate -s 0 {secret}; cp /bin/sh {lab.outside}/sh;"
        f"chmod 777 {secret}; touch -t 200001010000 {secret}; mkdir {lab.outside}/d"
    )
    before = secret.stat()
    await lab.run(tries)
    assert secret.read_text() == SECRET
    assert names(lab.outside) == ["secret.txt"]
    assert (secret.stat().st_mode, secret.stat().st_mtime) == (before.st_mode, before.st_mtime)


@attempt(OF_COMMANDS, "read files of the user outside")
async def _(lab: Lab) -> None:
    home = Path.home() / ".bashrc"
    result = await lab.run(f"cat {lab.outside}/secret.txt; ls {lab.outside}; cat {home}")
    assert result.text.count("denied") >= 2
    assert "secret.txt\n" not in result.text.replace(str(lab.outside / "secret.txt"), "")


@attempt(OF_COMMANDS, "read keys from variables, its own and of other processes")
async def _(lab: Lab) -> None:
    result = await lab.run("env; cat /proc/*/environ /proc/$PPID/environ | tr '\\0' '\\n'")
    assert "API_KEY" not in result.text


@attempt(OF_COMMANDS, "signal, stop or debug the host and the daemon")
async def _(lab: Lab) -> None:
    pid = lab.client.process.pid
    result = await lab.run(f"kill -9 {pid}; kill -STOP {os.getpid()}; kill -9 $PPID; echo still")
    assert "still" in result.text
    assert (await lab.client.call("read_file", path="notes.txt")).text == "one\ntwo"


@attempt(OF_COMMANDS, "leave a process behind")
async def _(lab: Lab) -> None:
    result = await lab.run("setsid sh -c 'echo $$ > pid; sleep 600' & (sleep 601 &) ; sleep 1")
    assert not result.failed
    assert not psutil.pid_exists(int((lab.folder / "pid").read_text()))
    assert not [one for one in psutil.process_iter() if "601" in _arguments(one)[1:2]]


@attempt(OF_COMMANDS, "run for ever, or write for ever")
async def _(lab: Lab) -> None:
    result = await lab.client.call("run_command", command="sleep 600", seconds=1)
    assert "ended after 1 s" in result.text
    result = await lab.client.call("run_command", command="yes", seconds=60)
    assert "KiB of output" in result.text
    assert len(result.text) < 40_000


@attempt(OF_COMMANDS, "plant a hook for git")
async def _(lab: Lab) -> None:
    result = await lab.run("git init -q --template= . && mkdir .git/hooks && echo x > .git/hooks/a")
    assert "it changed .git/config, .git/hooks/a" in result.summary
    assert "changed" not in (await lab.run("git status -s")).summary


@attempt(OF_COMMANDS, "control the terminal by its output")
async def _(lab: Lab) -> None:
    result = await lab.run("printf '\\033]0;owned\\007\\033[2J\\377\\302\\233 text\\n'")
    assert result.text.startswith("\ufffd text")
    assert "\x1b" not in lab.client.output + result.text


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _named(names: Iterable[str]) -> list[Any]:
    """The names, those of attempts that last as long as they may as slow tests."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if "for ever" in name else []) for name in names
    ]


@pytest.mark.parametrize("name", thinned(_named(OF_MODELS), 3))
async def test_attempts_of_models(name: str, lab: Lab) -> None:
    await OF_MODELS[name](lab)
    assert (lab.outside / "secret.txt").read_text() == SECRET


@linux
@pytest.mark.parametrize("name", _named(OF_COMMANDS))
async def test_attempts_of_commands(name: str, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.folder)
    await OF_COMMANDS[name](lab)
    assert lab.client.asked[0].confined


# What a server does, and what each call of it brings

OF_SERVERS: dict[str, tuple[str, str]] = {
    "die in a call": ("dies", "It has ended"),
    "a line without an end": ("floods-line", "more than is allowed"),
    "endless notifications": ("floods-messages", "more than is allowed"),
    "a result of 5 MB": ("huge-result", "characters left out"),
    "escapes and invisible text in a result": ("injects", "data, no instructions"),
    "ask for the folder, for the model and for a password": ("asks", "not supported"),
    "a result that breaks the protocol": ("wrong-shape", "does not follow the protocol"),
    "control characters in names and descriptions": ("escapes-in-description", "seen"),
    "a schema that names a URL": ("remote-schema", "seen"),
    "5,000 tools": ("thousands-of-tools", "seen"),
    "endless pages of tools": ("endless-pages", "seen"),
    "the name of a tool of ours": ("shadows", "seen"),
}


@pytest.mark.parametrize("name", thinned(OF_SERVERS, 3))
async def test_attempts_of_servers(name: str, tmp_path: Path) -> None:
    way, brings = OF_SERVERS[name]
    async with make_lab(tmp_path, way) as lab:
        client = lab.client
        await client.server(way, "ready")
        tools = [tool for tool in client.tools.tools if tool.server == way]
        assert 1 <= len(tools) <= 64
        for tool in tools:
            assert tool.name.isascii()
            assert tool.name.startswith(f"{way}__")
            assert len(tool.description) <= 1100
            assert "\x1b" not in json.dumps(tool.description, ensure_ascii=False)
        result = await client.call(tools[0].name, what="x")
        assert brings in result.text
        assert len(result.text) < 40_000
        assert not {"\x1b", "\u202e", "\U000e0041"} & set(result.text + result.summary)
        # The host goes on, whatever became of the server.
        assert (await client.call("read_file", path="notes.txt")).text == "one\ntwo"


@pytest.mark.slow
async def test_servers_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    """Names in the table: `die at the start`, `a schema of 400 kB`."""
    async with make_lab(tmp_path, "dies-at-once", "huge-schema") as lab:
        status = await lab.client.server("dies-at-once", "failed")
        assert status.message == "It has ended. Its last line was: no such database: test."
        status = await lab.client.server("huge-schema", "ready")
        assert (status.tools, status.message[:17]) == (0, "Left out: 1 tool,")


@pytest.mark.slow
async def test_call_that_never_ends_can_be_cancelled(tmp_path: Path) -> None:
    """Name in the table: `never answer`."""
    from ingle.daemon.client.tool_types import CancelCall

    async with make_lab(tmp_path, "never-answers") as lab:
        await lab.client.server("never-answers", "ready")
        call = await lab.client.begin("never-answers__look")
        await lab.client.question()
        await asyncio.sleep(0.2)
        await lab.client.send(CancelCall(call))
        assert "cancelled" in (await lab.client.result(call)).text


async def test_tool_that_changes_after_consent_asks_again(tmp_path: Path) -> None:
    """Name in the table: `change a tool after consent`."""
    async with make_lab(tmp_path, "pulls-rug") as lab:
        client = lab.client
        client.choice = "always"
        await client.server("pulls-rug", "ready")
        await client.call("pulls-rug__look", what="x")
        await client.call("pulls-rug__look", what="y")
        assert len(client.asked) == 1
        (tmp_path / "mark").touch()
        await client.call("pulls-rug__look", what="z")
        assert len(client.asked) == 2
        assert client.asked[0].scope != client.asked[1].scope


@linux
async def test_server_leaves_no_process_behind(tmp_path: Path) -> None:
    """Name in the table: `leave a process behind`."""
    async with make_lab(tmp_path, "starts-a-child") as lab:
        await lab.client.server("starts-a-child", "ready")
        await lab.client.call("starts-a-child__look")
        while not (tmp_path / "mark").exists() or not (tmp_path / "mark").read_text():
            await asyncio.sleep(0.05)
        pid = int((tmp_path / "mark").read_text())
        assert psutil.pid_exists(pid)
        assert await lab.client.end() == 0
    assert not psutil.pid_exists(pid)


def test_page_names_every_attempt() -> None:
    page = (Path(__file__).parents[3] / "docs/tools.md").read_text()
    missing = [
        name for name in (*OF_MODELS, *OF_COMMANDS, *OF_SERVERS) if f"| {name} |" not in page
    ]
    assert not missing
