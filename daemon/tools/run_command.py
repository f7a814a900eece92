"""The tool that runs a command, confined where the system can do that."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ingle.backends.confinement.command_sandbox import can_confine_commands

from ..client.tool_types import ToolInfo
from ..terminal.unsafe_characters import UNSAFE, EscapeFilter
from .guarded_process import end_guarded, plain_environment, start_guarded
from .project_folder import ProjectFolder
from .tool import (
    ConsentTerms,
    PlannedCall,
    ToolFailed,
    ToolOutcome,
    bounded,
    one_line,
    parameters_of,
    read_arguments,
)

_MOST_OUTPUT = 256 * 1024
"""Bytes; a command that writes more is ended."""
_SECONDS, _MOST_SECONDS = 120, 900
_MOST_OF_COMMAND = 20_000
_TOOLCHAINS = {"PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}


class RunArguments(msgspec.Struct, frozen=True):
    """Arguments of `run_command`."""

    command: Annotated[str, Meta(description="For the shell.")]
    seconds: Annotated[int, Meta(description="Time limit.", ge=1, le=_MOST_SECONDS)] = _SECONDS


class RunCommand:
    """Runs a command of the shell in the folder."""

    def __init__(self, folder: ProjectFolder, temporary: Path) -> None:
        """`temporary` is an existing folder for what commands write elsewhere."""
        self._folder = folder
        self._temporary = temporary
        self._confined = can_confine_commands()

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        limits = (
            " There is no network, and only the folder can be written." if self._confined else ""
        )
        return ToolInfo(
            "run_command",
            f"Run a shell command in the folder, such as its tests.{limits}",
            parameters_of(RunArguments),
            "run",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the command."""
        asked = read_arguments(arguments, RunArguments)
        command = asked.command.strip()
        if not command or len(command) > _MOST_OF_COMMAND:
            raise ToolFailed("This is no command for a shell.")
        if UNSAFE.search(command):  # two commands that look alike would have one scope
            raise ToolFailed("The command has control characters. Write them as escapes.")
        confined = self._confined and not self._folder.holds_home
        return PlannedCall(
            lambda: self._run(command, asked.seconds, output),
            ConsentTerms(
                effect="run",
                title=f"Run {one_line(command)}",
                scope=f"run {command} in {self._folder.root}",
                preview=command,
                preview_format="command",
                leaves="" if self._confined else "The command can use the network.",
                confined=confined,
            ),
        )

    async def _run(self, command: str, seconds: int, output: Callable[[str], None]) -> ToolOutcome:
        shell = ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
        writes = [self._folder.root, self._temporary] if self._confined else None
        git = self._folder.root / ".git"
        before = await asyncio.to_thread(_run_by_git, git)
        try:
            process = await start_guarded(
                [*shell, command],
                self._environment(),
                self._folder.root,
                writes=writes,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror}.") from error
        reading = _OutputReader(output)
        try:
            end = await reading.read(process, seconds)
        finally:
            await end_guarded(process)
        end = end or f"exit status {process.returncode}"
        after = await asyncio.to_thread(_run_by_git, git)
        if changed := sorted(name for name, _ in before ^ after):
            end += f", it changed {one_line(', '.join(dict.fromkeys(changed)), 80)}"
        text = f"{bounded(reading.text) or '[no output]'}\n[{end}]"
        failed = end != "exit status 0"
        return ToolOutcome(text, f"{end}: {one_line(command, 60)}", failed=failed)

    def _environment(self) -> dict[str, str]:
        """Return the variables of a command; its home folder is the temporary one."""
        folders = {name: Path.home() / part for name, part in _TOOLCHAINS.items()}
        tools = {name: str(folder) for name, folder in folders.items() if folder.is_dir()}
        temporary = str(self._temporary)
        own = {"HOME": temporary, "TMPDIR": temporary, "TERM": "dumb", "NO_COLOR": "1"}
        return plain_environment(os.environ) | tools | own


def _run_by_git(folder: Path) -> set[tuple[str, int]]:
    """Return the files of a repository that name or are programs, with their times of change."""
    found = [folder / "config", *folder.glob("hooks/*")]
    return {
        (f".git/{path.relative_to(folder)}", path.stat().st_ctime_ns)
        for path in found
        if path.is_file()
    }


class _OutputReader:
    """Reads a command's output: without escape sequences, and no more than is allowed."""

    def __init__(self, output: Callable[[str], None]) -> None:
        self._output = output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._filter = EscapeFilter()
        self.text = ""

    async def read(self, process: asyncio.subprocess.Process, seconds: float) -> str:
        """Read until the output ends; returns why it was ended earlier, or ""."""
        assert process.stdout is not None
        size = 0
        try:
            async with asyncio.timeout(seconds):
                while chunk := await process.stdout.read(1 << 14):
                    size += len(chunk)
                    self._add(chunk)
                    if size > _MOST_OUTPUT:
                        return f"ended after {_MOST_OUTPUT // 1024} KiB of output"
                await process.wait()
        except TimeoutError:
            return f"ended after {seconds} s"
        return ""

    def _add(self, chunk: bytes) -> None:
        text = self._filter.feed(self._decoder.decode(chunk))
        self.text += text
        if text:
            self._output(text)
