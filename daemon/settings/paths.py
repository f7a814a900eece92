"""The folders of an installation, and the checks that private ones are private.

Importing this module must stay cheap, since the chat finds its socket before the first frame: no
`dataclasses` (5 ms of the 30 ms budget) and no platformdirs (13 ms).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

LONGEST_SOCKET_PATH = 100
"""Bytes; the kernel takes 107 on Linux and 103 on macOS, the terminating zero not counted."""

LOCK_NAME = "ingle.lock"

TEMPORARY = Path("/tmp")  # noqa: S108 - TMPDIR differs between shells, and all must meet at one socket


class UnsafeFolder(Exception):
    """A folder that must be private belongs to another user, or is a link."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class FolderUnusable(Exception):
    """A folder cannot be created or written: the disk is full, read-only, or access is denied."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.message = f"{path} cannot be written: {error.strerror}."
        self.hint = "Free space there, change the permissions, or set INGLE_HOME to another folder."
        super().__init__(self.message)


class Paths:
    """The files and folders of one installation, which need not exist yet.

    They are below four folders, by which installations are compared.
    """

    def __init__(self, config: Path, models: Path, state: Path, runtime: Path) -> None:
        self.config = config
        self.models = models
        self.state = state
        self.runtime = runtime

        self.config_file = config / "config.toml"
        self.socket = socket_path(runtime)
        """In a short folder of its own if `runtime` is too long for a socket."""
        self.lock = runtime / LOCK_NAME
        """Held by the running daemon."""
        self.compute_lease = runtime / "compute.lock"
        """Held by a model while it computes on the CPU."""
        self.log = state / "ingle.log"
        """The output of a daemon in the background."""
        self.keys = state / "keys.json"
        """The digests of API keys."""
        self.connections = state / "connections.json"
        """Changes made to settings of other programs, with the previous contents."""
        self.kv = state / "kv"
        """Stored KV caches, one folder per model."""
        self.prefixes = self.kv / "prefixes"
        """How agents begin their prompts, one file each."""
        self.responses = state / "responses"
        """Stored responses, one file each."""
        self.files = state / "files"
        """Files uploaded by clients, and output files of batches."""
        self.batches = state / "batches"
        """Batches, and the results of running ones."""
        self.kernels = state / "kernels"
        """Kernels compiled for this machine's GPU."""
        self.machine_facts = state / "machine.json"
        """Cached facts about this machine that are slow to determine."""
        self.engine_failures = state / "engine-failures.json"
        """Which engines failed on which models."""
        self.ledger = state / "ledger"
        """The egress ledger, one file per month."""
        self.documents = state / "documents"
        """Indexes of folders of documents."""
        self.benches = state / "benches"
        """The last `ingle bench` report of each model."""
        self.adapters = models.parent / "adapters"
        """LoRA adapters of models."""
        self.engines = models.parent / "engines"
        """The packages of installed engines."""
        self.chats = models.parent / "chats"
        """The history of the terminal chat."""
        self.ledger_head = models.parent / "ledger-head.json"
        """The head of the ledger's hash chain, stored outside the ledger."""

    def __repr__(self) -> str:
        return f"Paths({', '.join(repr(str(folder)) for folder in self._folders)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and self._folders == other._folders

    def __hash__(self) -> int:
        return hash(self._folders)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return self.config, self.models, self.state, self.runtime

    @property
    def socket_moved(self) -> bool:
        """Whether `runtime` is too long for a socket in it."""
        return self.socket.parent != self.runtime

    def unwritable(self) -> list[Path]:
        """Return those of its folders that cannot be written."""
        return [path for path in (self.models, self.state) if not _is_writable(path)]

    def make_private(self) -> None:
        """Create the folders of the socket and the lock as 0700, and restrict settings and state.

        Raises `UnsafeFolder` and `FolderUnusable`.
        """
        make_private_folder(self.runtime)
        make_private_folder(self.socket.parent)
        for folder in (self.config, self.state):
            _refuse_others(folder)
            _close_to_others(folder)

    def check_private(self) -> None:
        """Check that no other user controls the folders of the socket and the lock; raises
        `UnsafeFolder`.
        """
        check_private_folder(self.runtime)
        check_private_folder(self.socket.parent)
        for folder in (self.config, self.state):
            _refuse_others(folder)


def find_paths(environ: Mapping[str, str]) -> Paths:
    """Return the folders for this user: below `INGLE_HOME` if set, else the system's
    standard ones.
    """
    if home := environ.get("INGLE_HOME"):
        root = Path(home).expanduser().absolute()
        runtime = root / "runtime"
        # What a folder that cannot be written contains can be served all the same. It may have
        # become so while its daemon runs, which stays where it is.
        if not _is_writable(runtime) and not is_locked(runtime / LOCK_NAME):
            runtime = _elsewhere(runtime, TEMPORARY)
        return Paths(root / "config", root / "models", root / "state", runtime)
    if sys.platform == "linux":
        return _xdg_paths(environ)
    import platformdirs

    return Paths(
        config=platformdirs.user_config_path("ingle", appauthor=False),
        models=platformdirs.user_data_path("ingle", appauthor=False) / "models",
        state=platformdirs.user_state_path("ingle", appauthor=False),
        runtime=platformdirs.user_runtime_path("ingle", appauthor=False),
    )


def is_locked(path: Path) -> bool:
    """Whether a daemon holds its lock file, even if it does not listen yet.

    False for a file that is missing or cannot be read.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def socket_path(runtime: Path, temporary: Path = TEMPORARY) -> Path:
    """Return the socket in `runtime`, or below `temporary` in a folder named by the hash of
    `runtime` if that is too long.
    """
    path = runtime / "ingle.sock"
    if sys.platform == "win32" or len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    return _elsewhere(runtime, temporary) / "ingle.sock"


def _elsewhere(runtime: Path, temporary: Path) -> Path:
    """Return a folder of this user that stands in for `runtime`, the same for daemon and
    clients.
    """
    import hashlib

    digest = hashlib.sha256(os.fsencode(runtime)).hexdigest()[:16]
    return private_temporary_folder(temporary) / digest


def _is_writable(folder: Path) -> bool:
    """Whether it can be written, or created if it does not exist."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return os.access(existing, os.W_OK)


def private_temporary_folder(temporary: Path = TEMPORARY) -> Path:
    """Return this user's own folder below `temporary`."""
    user = "user" if sys.platform == "win32" else str(os.getuid())
    return temporary / f"ingle-{user}"


def make_private_folder(folder: Path) -> None:
    """Create `folder` as 0700, or restrict an existing one to it.

    Raises `UnsafeFolder` and `FolderUnusable`.
    """
    if folder.parent == private_temporary_folder():
        # The owner of the outer folder can replace the inner one.
        make_private_folder(folder.parent)
    from ingle.models.durable_folder import make_durable_folder

    try:
        make_durable_folder(folder.parent)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            check_private_folder(folder)
            if sys.platform != "win32" and stat.S_IMODE(folder.lstat().st_mode) != 0o700:
                # `check_private_folder` found a real folder of ours, so this follows no link.
                folder.chmod(0o700)
        make_durable_folder(folder)
    except OSError as error:
        raise FolderUnusable(folder, error) from error


def check_private_folder(folder: Path) -> None:
    """Raise `UnsafeFolder` if `folder` exists and is not a real folder of this user.

    Raises `FolderUnusable` if that cannot be determined.
    """
    if folder.parent == private_temporary_folder():
        check_private_folder(folder.parent)
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FolderUnusable(folder, error) from error
    if not stat.S_ISDIR(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a folder"
        raise UnsafeFolder(
            f"{folder} must be a private folder, but it is {kind}.",
            "Find out what put it there and remove it, or set INGLE_HOME to another folder.",
        )
    if sys.platform != "win32" and found.st_uid != os.getuid():
        raise UnsafeFolder(
            f"{folder} belongs to another user (uid {found.st_uid}).",
            "Have it removed, or set INGLE_HOME to a folder of your own.",
        )


def _refuse_others(folder: Path) -> None:
    """Raise `UnsafeFolder` for a folder of another user, whose settings would decide here.

    Root's is accepted: a system may provide settings.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):  # a missing one is created, an unreadable one is reported later
        owner = folder.lstat().st_uid
        if owner not in (0, os.getuid()):
            raise UnsafeFolder(
                f"{folder} belongs to another user (uid {owner}).",
                "Set INGLE_HOME to a folder of your own, or have it given to you (chown -R).",
            )


def _close_to_others(folder: Path) -> None:
    """Remove the rights of other users to a folder of ours; a link's target is left unchanged.

    Editors create files that all users may read, and the settings contain private words.
    """
    if sys.platform == "win32":
        return
    try:
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077:
            folder.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.EROFS:  # no user can write there, not even this one
            return
        raise FolderUnusable(folder, error) from error


def _xdg_paths(environ: Mapping[str, str]) -> Paths:
    """Return what platformdirs returns on Linux, without importing it; a test compares the two."""
    home = Path(environ.get("HOME") or "~").expanduser()
    config = _absolute(environ.get("XDG_CONFIG_HOME")) or home / ".config"
    data = _absolute(environ.get("XDG_DATA_HOME")) or home / ".local/share"
    state = _absolute(environ.get("XDG_STATE_HOME")) or home / ".local/state"
    return Paths(
        config=config / "ingle",
        models=data / "ingle/models",
        state=state / "ingle",
        runtime=_xdg_runtime(environ),
    )


def _xdg_runtime(environ: Mapping[str, str]) -> Path:
    """Return the user's runtime folder if the user owns it, which is not the case after `su`."""
    for base in (_absolute(environ.get("XDG_RUNTIME_DIR")), Path(f"/run/user/{os.getuid()}")):
        if base is not None and _is_ours(base):
            return base / "ingle"
    return private_temporary_folder()


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and os.access(folder, os.W_OK)
    )


def _absolute(value: str | None) -> Path | None:
    """Return a path from an XDG variable; relative ones are ignored, as the specification
    demands.
    """
    return Path(value) if value and value.startswith("/") else None
