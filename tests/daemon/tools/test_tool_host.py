"""The tool host as a process: its own tools, consents, undo, cancellation, its end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ingle.backends.base.framing import frame
from ingle.daemon.client.tool_types import CancelCall, DecideCall, HostError

from ...harness.tool_client import tool_client

linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

PYTHON = Path(sys.executable).resolve()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "notes.txt").write_text("".join(f"line {n}\n" for n in range(1, 2001)))
    (made / "sub").mkdir()
    (made / "sub/code.py").write_text("def f():\n    return 1\n")
    return made


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


async def test_files_are_read_listed_and_searched_without_a_question(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("ignored*\n")
    (folder / "ignored.txt").write_text("line 7\n")
    async with tool_client(folder) as client:
        part = await client.call("read_file", path="notes.txt", first_line=7, last_line="9")
        assert part.text == "line 7\nline 8\nline 9\n[lines 7 to 9 of 2000]"
        whole = await client.call("read_file", path=str(folder / "notes.txt"))
        assert whole.text.endswith("line 800\n[lines 1 to 800 of 2000]")
        assert (await client.call("list_files")).text == ".gitignore\nnotes.txt\nsub/code.py"
        assert (await client.call("list_files", pattern="*.py")).text == "sub/code.py"
        assert (await client.call("list_files", pattern="CODE")).text == "sub/code.py"
        found = await client.call("search_files", pattern=r"line 7$|return")
        assert found.text == "notes.txt:7: line 7\nsub/code.py:2: return 1"
        found = await client.call("search_files", pattern="line", files="*.txt")
        assert found.text.count("\n") == 200
        assert (await client.call("search_files", pattern="(")).failed
        (folder / "odd.txt").write_bytes("a\x0cb\u2028c\r\nd".encode())
        odd = await client.call("read_file", path="odd.txt")
        assert (odd.text, odd.summary) == ("abc\nd", "odd.txt (2 lines)")
        assert client.asked == []


async def test_settings_of_a_repository_start_no_program(folder: Path) -> None:
    git(folder, "init", "-q")
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand"):
        git(folder, "config", name, str(program))
    async with tool_client(folder) as client:
        assert "program" in (await client.call("list_files")).text
    assert not (folder / "started").exists()


async def test_edit_shows_a_diff_and_can_be_undone_by_a_later_host(folder: Path) -> None:
    (folder / "notes.txt").chmod(0o640)
    async with tool_client(folder) as client:
        edit = await client.call(
            "edit_file", path="sub/code.py", old_text="return 1", new_text="return 2"
        )
        new = await client.call("edit_file", path="a/b.txt", new_text="new")
        assert (edit.undoable, new.undoable) == (True, True)
        assert edit.summary == "edited sub/code.py (+1 -1 lines)"
        assert new.summary == "created a/b.txt (+1 -0 lines)"
        question = client.asked[0]
        assert (question.effect, question.preview_format) == ("edit", "diff")
        assert "-    return 1\n+    return 2" in question.preview
        assert "+new\n\\ No newline at end of file" in client.asked[1].preview
        assert (folder / "a/b.txt").read_text() == "new"
        crlf = folder / "dos.txt"
        crlf.write_bytes(b"a\r\nb\r\n")
        await client.call("edit_file", path="dos.txt", old_text="a\nb", new_text="c\nd")
        assert crlf.read_bytes() == b"c\r\nd\r\n"
        ambiguous = await client.call("edit_file", path="notes.txt", old_text="line 1", new_text="")
        assert "occurs" in ambiguous.text
    async with tool_client(folder) as client:
        assert not (await client.undo("call-1")).failed
        assert not (await client.undo("call-2")).failed
        assert (await client.undo("call-2")).failed
    assert (folder / "sub/code.py").read_text() == "def f():\n    return 1\n"
    assert not (folder / "a/b.txt").exists()


async def test_edits_of_small_models_are_understood(folder: Path) -> None:
    code = folder / "sub/code.py"
    code.write_text("def f():\n    if x:\n        return 1\n    return 2\n")
    async with tool_client(folder) as client:
        missed = await client.call("edit_file", path="sub/code.py", old_text="return", new_text="")
        assert "2 times" in missed.text
        for wrong in ({"old_text": "if y:"}, {}):
            told = await client.call("edit_file", path="sub/code.py", new_text="if z:", **wrong)
            assert "\nLines 1 to 4 are:\n" + code.read_text().rstrip() in told.text
            assert told.text.endswith("write_file with all lines of the file.]")
            assert "Lines" not in told.summary
        loose = {"old_text": "if x:\n  return 1\n", "new_text": "if z:\n    return 3\n\nx = 1"}
        await client.call("edit_file", path="sub/code.py", **loose)
    assert code.read_text() == "def f():\n    if z:\n        return 3\n\n    x = 1\n    return 2\n"


async def test_file_is_written_whole(folder: Path) -> None:
    dos = folder / "dos.txt"
    dos.write_bytes(b"a\r\nb\r\n")
    async with tool_client(folder) as client:
        written = await client.call("write_file", path="dos.txt", content="a\nc")
        assert written.summary == "edited dos.txt (+1 -1 lines)"
        assert "\n+c" in client.asked[0].preview
        await client.call("write_file", path="a/new.txt", content="new")
        same = await client.call("write_file", path="dos.txt", content="a\nc\n")
        assert (same.failed, "already" in same.text) == (True, True)
        assert dos.read_bytes() == b"a\r\nc\r\n"
        assert (folder / "a/new.txt").read_text() == "new"
        assert not (await client.undo("call-1")).failed
    assert dos.read_bytes() == b"a\r\nb\r\n"


async def test_private_chat_leaves_no_copy_behind(folder: Path) -> None:
    async with tool_client(folder, private=True) as client:
        await client.call("edit_file", path="notes.txt", old_text="line 9\n", new_text="")
        assert not (await client.undo("call-1")).failed
        assert "fetch_page" not in [tool.name for tool in client.tools.tools]
    assert not (folder.parent / "state").exists()


async def test_file_that_changes_while_the_user_decides_is_not_edited(folder: Path) -> None:
    async with tool_client(folder) as client:
        client.choice = None
        call = await client.begin("edit_file", path="new.txt", new_text="x")
        await client.question()
        (folder / "new.txt").write_text("by the user")
        await client.send(DecideCall(call, "once"))
        assert "changed meanwhile" in (await client.result(call)).text
    assert (folder / "new.txt").read_text() == "by the user"


async def test_choices_hold_for_their_scope_and_come_back_with_the_chat(folder: Path) -> None:
    async with tool_client(folder) as client:
        client.choice = "always"
        for name in ("one", "two"):
            assert not (await client.call("edit_file", path=name, new_text="x")).failed
        assert len(client.asked) == 1
        scope = client.asked[0].scope
        client.choice = "never"
        for _ in range(2):
            declined = await client.call("run_command", command="true")
            assert declined.declined
            assert "declined" in declined.text
        assert len(client.asked) == 2
        client.choice = "once"
        assert not (await client.call("run_command", command="true; true")).failed
    async with tool_client(folder, consents={scope: "never"}) as client:
        assert (await client.call("edit_file", path="three", new_text="x")).declined
        assert client.asked == []


async def test_home_folder_is_not_read_without_consent(folder: Path) -> None:
    async with tool_client(folder, environ={"HOME": str(folder)}) as client:
        client.choice = "never"
        for tool in ("read_file", "search_files", "list_files"):
            arguments = {"path": "notes.txt"} if tool == "read_file" else {"pattern": "line"}
            assert (await client.call(tool, **arguments)).declined, tool
        assert [question.effect for question in client.asked] == ["read"]


@linux
async def test_command_streams_its_output_and_is_cancelled_with_its_children(folder: Path) -> None:
    async with tool_client(folder) as client:
        command = "echo $$ $TMPDIR; pwd; (sleep 600 & echo child $!); cat notes.txt | wc -l; exit 3"
        done = await client.call("run_command", command=command)
        assert done.failed
        assert f"{folder}\nchild" in done.text
        assert done.text.endswith("2000\n\n[exit status 3]")
        assert "[exit" not in client.output
        call = await client.begin("run_command", command="echo $$ > pid; setsid sleep 600")
        await client.question()
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            await asyncio.sleep(0.05)
        children = psutil.Process(client.process.pid).children(recursive=True)
        await client.send(CancelCall(call))
        assert "cancelled" in (await client.result(call)).text
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive
        done = await client.call("run_command", command="git init -q x && cd x && git status -s")
        assert not done.failed, done


@linux
async def test_python_of_an_environment_outside_the_folder_runs(folder: Path) -> None:
    programs = folder.parent / "environment/bin"
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to(PYTHON)
    (programs.parent / "pyvenv.cfg").write_text(f"home = {PYTHON.parent}\n")
    async with tool_client(folder, environ={"PATH": f"{programs}:/usr/bin:/bin"}) as client:
        run = await client.call("run_command", command="python3 -c 'import sys; print(sys.prefix)'")
    assert run.text == f"{programs.parent}\n\n[exit status 0]"


@linux
async def test_killed_host_leaves_nothing_running(folder: Path) -> None:
    async with tool_client(folder) as client:
        await client.begin("run_command", command="touch started; setsid sleep 600")
        await client.question()
        while not (folder / "started").exists():
            await asyncio.sleep(0.05)
        children = psutil.Process(client.process.pid).children(recursive=True)
        assert len(children) >= 2
        client.process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive
        await client.process.wait()


@pytest.mark.parametrize("moment", ["write=signal:KILL@1", "rename=signal:KILL@1"])
@pytest.mark.parametrize("file", ["copy", "edited"])
async def test_host_killed_in_an_edit_loses_nothing(folder: Path, moment: str, file: str) -> None:
    if file == "edited":
        moment = moment.replace("@1", "@2")
    before = (folder / "notes.txt").read_bytes()
    fail = {"INGLE_TEST_FAILPOINTS": f"atomic.{moment}"}
    async with tool_client(folder, environ=fail) as client:
        await client.begin("edit_file", path="notes.txt", old_text="line 9\n", new_text="")
        with pytest.raises(asyncio.IncompleteReadError):
            await client.result("call-1")
        assert await client.process.wait() == -signal.SIGKILL
    assert (folder / "notes.txt").read_bytes() == before
    async with tool_client(folder) as client:
        edit = await client.call("edit_file", path="notes.txt", old_text="line 9\n", new_text="")
        assert not edit.failed
        assert not (await client.undo("call-1")).failed
    assert (folder / "notes.txt").read_bytes() == before


async def test_host_ends_with_its_input_and_with_what_is_no_frame(folder: Path) -> None:
    async with tool_client(folder) as client:
        await client.call("list_files")
        assert await client.end() == 0
    for content in (b"\xff" * 64, frame(b"\xc1"), frame(b"\x81\xa4type\xa4none")):
        async with tool_client(folder) as client:
            await client.send_bytes(content)
            assert await client.end() == 0


async def test_host_without_a_folder_or_a_start_says_so(folder: Path) -> None:
    async with tool_client(folder / "absent") as client:
        assert isinstance(await client.read(), HostError)
        assert await client.process.wait() == 1


def test_nothing_is_imported_that_a_host_without_servers_does_not_need() -> None:
    code = (
        "import sys, json, ingle.daemon.tools.host_session;"
        "print(json.dumps([n for n in ('mcp', 'pydantic', 'httpx', 'httpx2', 'httpcore', 'torch')"
        " if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []
