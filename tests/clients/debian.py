"""Unpacking Debian packages into a folder, without root and without installing them."""

from __future__ import annotations

import hashlib
import lzma
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path("/etc/apt")
_TIMEOUT = 600


class InstallFailed(Exception):
    """A client cannot be installed on this machine."""


@dataclass(frozen=True)
class Package:
    """The archive's entry of a package; `depends` has the first of each set of alternatives."""

    name: str
    version: str
    file: str
    sha256: str
    depends: list[str]


class DebianArchive:
    """The packages of one suite, as a mirror lists them."""

    def __init__(self, mirror: str, suite: str) -> None:
        """Fetches the package list; raises `InstallFailed` if that fails."""
        self._mirror = mirror.rstrip("/")
        machine = _run(["dpkg", "--print-architecture"]).strip()
        self._packages: dict[str, Package] = {}
        self._provided: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            listing = Path(folder) / "Packages.xz"
            self._fetch(f"dists/{suite}/main/binary-{machine}/Packages.xz", listing)
            with lzma.open(listing, "rt", encoding="utf-8") as text:
                for paragraph in text.read().split("\n\n"):
                    self._add(paragraph)

    @classmethod
    def from_configured_mirror(cls, suite: str) -> DebianArchive:
        """The archive of the mirror that this machine is configured to use."""
        files = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))]
        text = "\n".join(file.read_text() for file in files if file.is_file())
        found = re.search(
            r"^(?:URIs:|deb(?: \[.*\])?)\s+(https?://\S+/debian)/?(?:\s|$)", text, re.M
        )
        if found is None:
            raise InstallFailed("this machine has no mirror of Debian in its sources of packages")
        return cls(found[1], suite)

    def version(self, name: str) -> str:
        """The version of a package; raises `InstallFailed` if it is unknown."""
        if name not in self._packages:
            raise InstallFailed(f"the mirror has no package {name}")
        return self._packages[name].version

    def unpack(self, names: list[str], folder: Path, *, without: set[str]) -> None:
        """Unpack packages and their dependencies into `folder`, except those in `without`."""
        for package in self._needed(names, without):
            with tempfile.TemporaryDirectory() as scratch:
                file = Path(scratch) / "package.deb"
                self._fetch(package.file, file)
                if hashlib.sha256(file.read_bytes()).hexdigest() != package.sha256:
                    raise InstallFailed(f"{package.name} arrived damaged")
                _run(["dpkg-deb", "-x", str(file), str(folder)])

    def _needed(self, names: list[str], without: set[str]) -> list[Package]:
        found: dict[str, Package] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            name = name if name in self._packages else self._provided.get(name, name)
            if name in found or name in without:
                continue
            self.version(name)
            found[name] = self._packages[name]
            waiting += found[name].depends
        return list(found.values())

    def _add(self, paragraph: str) -> None:
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.M))
        if "Filename" not in fields:
            return
        depends = [*_names(fields.get("Pre-Depends", "")), *_names(fields.get("Depends", ""))]
        package = Package(
            fields["Package"], fields["Version"], fields["Filename"], fields["SHA256"], depends
        )
        self._packages[package.name] = package
        for name in _names(fields.get("Provides", "")):
            self._provided.setdefault(name, package.name)

    def _fetch(self, path: str, target: Path) -> None:
        _run(["curl", "-fsSL", "--retry", "2", "-o", str(target), f"{self._mirror}/{path}"])


def _names(relation: str) -> list[str]:
    """The first alternative of each dependency, without versions and architectures."""
    return [
        name for part in relation.split(",") if (name := re.split(r"[ (\[:|]", part.strip())[0])
    ]


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except OSError as error:
        raise InstallFailed(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise InstallFailed(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout
