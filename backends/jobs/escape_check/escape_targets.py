"""Makes what the attempts to escape are aimed at, and runs them."""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

from ...confinement.access_policy import has_gpu_device
from .escape_check import run_escapes
from .messages import EscapeAttempt, EscapeSpec


def attempt_escapes(
    *, drives_gpu: bool | None = None, confined: bool = True
) -> list[EscapeAttempt]:
    """Attempt to escape from the confinement of a worker, with a GPU by default if there is one.

    Raises `BackendError` if the process cannot be run, and OSError without places for the targets.
    """
    gpu = has_gpu_device() if drives_gpu is None else drives_gpu
    attempts: list[EscapeAttempt] = []
    with _targets(drives_gpu=gpu, confined=confined) as spec:
        run_escapes(spec, attempts.append)
    return attempts


@contextlib.contextmanager
def _targets(*, drives_gpu: bool, confined: bool) -> Generator[EscapeSpec]:
    """Make files, sockets, and a byte of memory that a worker must not reach."""
    content = ctypes.create_string_buffer(b"SECRET")
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ingle-escape-")))
        outside, kv = root / "outside", root / "kv"
        for folder in (outside, kv / "own", kv / "other"):
            folder.mkdir(parents=True)
        secret = outside / "id_ed25519"
        for file in (secret, outside / "old", kv / "other" / "chat.kv"):
            file.write_text("SECRET")
        abstract = f"ingle-escape-{secrets.token_hex(8)}"
        stream, datagrams = root / "stream", root / "datagrams"

        def listen(family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
            made = stack.enter_context(socket.socket(family, kind))
            made.bind(address)
            if kind == socket.SOCK_STREAM:
                made.listen()
            return made

        tcp = listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        listen(socket.AF_UNIX, socket.SOCK_STREAM, str(stream))
        listen(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract)
        listen(socket.AF_UNIX, socket.SOCK_DGRAM, str(datagrams))
        yield EscapeSpec(
            outside=str(outside),
            secret=str(secret),
            kv=str(kv),
            address=ctypes.addressof(content),
            tcp=tcp.getsockname()[1],
            udp=udp.getsockname()[1],
            stream=str(stream),
            abstract=abstract,
            datagrams=str(datagrams),
            drives_gpu=drives_gpu,
            confined=confined,
        )
