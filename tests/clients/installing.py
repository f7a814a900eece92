"""Installs the clients under test, each into its own folder, in versions known to work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from debian import DebianArchive, InstallFailed

NODE = ("node", "22.23.3")
NPM = {
    "npm-openai": ("openai", "7.55.0"),
    "npm-anthropic": ("@anthropic-ai/sdk", "1.11.0"),
    "npm-ollama": ("ollama", "0.6.4"),
    "codex": ("@openai/codex", "0.169.0"),
    "claude-code": ("@anthropic-ai/claude-code", "2.1.329"),
    "opencode": ("opencode-ai", "1.18.33"),
    "continue": ("@continuedev/cli", "1.5.47"),
    "qwen-code": ("@qwen-code/qwen-code", "0.24.4"),
    "copilot-cli": ("@github/copilot", "1.0.102"),
    "cline": ("cline", "3.0.65"),
    "pi": ("@earendil-works/pi-coding-agent", "1.6.0"),
}
AFTER = {
    "claude-code": "install.cjs",
    "opencode": "postinstall.mjs",
    "node": "installArchSpecificPackage.js",
}
"""Postinstall programs that select the right binary; npm may not run them by itself."""
PYTHON = {
    "litellm": ("litellm", "1.106.2", "mcp"),
    "instructor": ("instructor", "1.17.0"),
    "aider": ("aider-chat", "0.86.2"),
    "vibe": ("mistral-vibe", "3.0.2"),
}
"""Their dependencies conflict with ours or with one another. litellm needs `mcp` to pass on tools,
but does not declare it."""
WITH_THE_TESTS = {
    "openai": "openai",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "langchain": "langchain-openai",
    "pydantic_ai": "pydantic-ai-slim",
}
TEST_NAMES = {
    "npm_openai_responses": "npm-openai",
    "codex_oss": "codex",
    "claude_code": "claude-code",
    "llama_vim": "neovim",
}
REASON = "not-installed.txt"
VERSION = "version.txt"


class Installer:
    """Installs missing clients into a folder; a failure is recorded there with its reason."""

    def __init__(self, cache: Path, *, latest: bool = False) -> None:
        self._cache = cache
        self._latest = latest
        self.failures: dict[str, str] = {}

    def install_all(self) -> None:
        """Install all clients one after another; a failure does not stop the others."""
        self._try("node", lambda folder: self._npm(folder, *NODE))
        for name, (package, version) in NPM.items():
            self._try(name, lambda folder, p=package, v=version: self._npm(folder, p, v))
        for name, package in PYTHON.items():
            self._try(name, lambda folder, p=package: self._venv(folder, *p))
        self._try("neovim", self._neovim)

    def versions(self, project: Path) -> dict[str, str]:
        """Versions by the client names that the tests use."""
        uv = tomllib.loads(project.read_text())["tool"]["uv"]
        pins = dict(re.findall(r"^([\w-]+)==(\S+)", "\n".join(uv["constraint-dependencies"]), re.M))
        found = {test: pins[package] for test, package in WITH_THE_TESTS.items()}
        for file in self._cache.glob(f"*/{VERSION}"):
            found[file.parent.name.replace("-", "_")] = file.read_text().strip()
        for test, folder in TEST_NAMES.items():
            found[test] = found.get(folder.replace("-", "_"), "?")
        return found

    def _try(self, name: str, install: Callable[[Path], str]) -> None:
        folder = self._cache / name
        if (folder / VERSION).exists() and not self._latest:
            return
        print(f"Installing {name}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            (folder / VERSION).write_text(install(folder))
        except (InstallFailed, OSError, subprocess.SubprocessError) as error:
            self.failures[name] = reason = _reason(error)
            (folder / REASON).write_text(reason)

    def _npm(self, folder: Path, package: str, version: str) -> str:
        wanted = package if self._latest and package != NODE[0] else f"{package}@{version}"
        path = f"{self._cache / 'node' / 'node_modules' / '.bin'}:/usr/local/bin:/usr/bin:/bin"
        command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), wanted]
        _run(command, folder)
        home = folder / "node_modules" / package
        if (after := AFTER.get(folder.name)) and (home / after).exists():
            _run(["env", f"PATH={path}", "node", after], home)
        listed = _run(["npm", "list", "--prefix", str(folder), "--depth", "0", package], folder)
        return listed.rpartition("@")[2].split()[0]

    def _venv(self, folder: Path, package: str, version: str, *more: str) -> str:
        wanted = package if self._latest else f"{package}=={version}"
        _run(["uv", "venv", "--no-config", "--python", ">=3.12,<3.13", str(folder)], folder)
        python = str(folder / "bin" / "python")
        _run(["uv", "pip", "install", "--no-config", "--python", python, wanted, *more], folder)
        listed = _run(["uv", "pip", "show", "--python", python, package], folder)
        return re.search(r"^Version: (\S+)", listed, re.M)[1]  # type: ignore[index]

    def _neovim(self, folder: Path) -> str:
        archive = DebianArchive.from_configured_mirror("sid")
        archive.unpack(
            ["neovim", "vim-llama.cpp"],
            folder,
            without={"vim", "llama.cpp-tools", "libc-gconv-modules-extra"},
        )
        usr = folder / "usr"
        (folder / "llama.vim").symlink_to(usr / "share" / "vim-llama.cpp")
        libraries = next((usr / "lib").glob("*-linux-gnu"))
        loader = next(libraries.glob("ld-linux-*"))
        start = folder / "nvim"
        start.write_text(
            f"#!/bin/sh\nexport VIM={usr}/share/nvim VIMRUNTIME={usr}/share/nvim/runtime\n"
            f'exec {loader} --library-path {libraries} {usr}/bin/nvim "$@"\n'
        )
        start.chmod(0o755)
        return archive.version("vim-llama.cpp")


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode:
        raise InstallFailed(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
