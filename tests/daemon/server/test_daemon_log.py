"""Daemon log: redaction of exceptions, escaping of control characters, JSON format and rotation."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.daemon.server import daemon_log
from ingle.daemon.server.daemon_log import (
    JSONFormatter,
    TextFormatter,
    printable,
    trace,
    without_quotes,
)
from ingle.daemon.stores.log_files import KEPT, open_log, rotated

CANARY = "xylophone"


def record(message: str, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("ingle.daemon", 30, "f.py", 1, message, values, info)


def failure() -> BaseException:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError:
            raise ValueError(f"{CANARY} cannot be read") from OSError(28, CANARY, CANARY)
    except ValueError as error:
        return error


@pytest.mark.parametrize("formatter", [TextFormatter(), JSONFormatter()])
def test_exceptions_are_logged_without_their_messages(formatter: logging.Formatter) -> None:
    line = formatter.format(record("It failed: %r", ValueError(CANARY), error=failure()))
    assert CANARY not in line
    assert "ValueError" in line
    assert "OSError [errno 28]" in line
    assert "test_daemon_log.py:" in line


def test_cyclic_exception_causes_terminate() -> None:
    first, second = ValueError(CANARY), ValueError(CANARY)
    first.__cause__, second.__cause__ = second, first
    assert CANARY not in trace(first)


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        (f"The model's thread failed: KeyError('{CANARY}')", "KeyError(…)"),
        (f"Traceback:\n  File x\nmsgspec.ValidationError: {CANARY}", "msgspec.ValidationError"),
        (f"UnicodeDecodeError('utf-8', b'{CANARY}', 0, 1, 'bad')", "UnicodeDecodeError(…)"),
        ("GGML_ASSERT(n < max) failed at a.cpp:7", "GGML_ASSERT(n < max) failed at a.cpp:7"),
    ],
)
def test_worker_error_messages_lose_quoted_values(text: str, remaining: str) -> None:
    redacted = without_quotes(text)
    assert CANARY not in redacted
    assert remaining in redacted


@pytest.mark.parametrize("form", [TextFormatter(), JSONFormatter()])
@pytest.mark.parametrize(
    "name",
    [
        "a\n2026-01-01 00:00:00,000 INFO ingle: forged",
        "a\r\x1b]0;title\x07\x1b[2J",
        "a\x9b31m\x85\u2028b",
        "a\ud800",
        "\x00",
    ],
)
def test_control_characters_cannot_forge_a_log_line(form: logging.Formatter, name: str) -> None:
    line = form.format(record("Model %s failed", name))
    assert line.isprintable()
    line.encode()
    assert len(line.splitlines()) == 1


def test_printable_escapes_only_control_characters() -> None:
    assert printable("größe 🙂 \\n") == "größe 🙂 \\n"
    assert printable("a\nb\x1b") == "a\\nb\\x1b"


def test_json_log_contains_request_fields() -> None:
    line = record("GET %s", "/health")
    line.fields = {"status": 200, "ms": 3}
    redacted = json.loads(JSONFormatter().format(line))
    assert (redacted["status"], redacted["ms"], redacted["level"]) == (200, 3, "warning")
    assert redacted["time"].endswith("Z")


def test_long_message_is_truncated() -> None:
    assert len(TextFormatter().format(record("%s", "x" * 10**6))) < 10_000


PROGRAM = """
import logging, os, sys
from pathlib import Path
from ingle.daemon.server import daemon_log as logs
logs.LARGEST = 2000
path = Path(sys.argv[1])
logs.configure_logging("info", "text", path)
log = logging.getLogger("ingle.test")
for number in range(300):
    log.info("line %d", number)
print("a stray print", flush=True)
os.write(2, b"native words\\n")
import threading
thread = threading.Thread(target=lambda: {}["xylophone"])
thread.start()
thread.join()
"""


def test_log_is_rotated_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "state/ingle.log"
    with open_log(path) as file:
        subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, path], stdout=file, stderr=file, check=True
        )
    files = sorted(path.parent.iterdir())
    assert [each.name for each in files] == [
        *(rotated(path, number).name for number in range(1, KEPT + 1)),
        "ingle.log",
    ]
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in files)
    assert max(each.stat().st_size for each in files) < 3000
    last = path.read_text()
    assert "line 299" in last
    assert "a stray print" in last
    assert "native words" in last
    assert "KeyError at" in last
    assert CANARY not in last


def test_log_is_not_rotated_when_stderr_is_redirected(tmp_path: Path) -> None:
    path = tmp_path / "ingle.log"
    path.write_text("another daemon's")
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, path], capture_output=True, check=True, text=True
    )
    assert "line 299" in done.stderr
    assert path.read_text() == "another daemon's"


def test_symlinked_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ingle.log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        open_log(tmp_path / "ingle.log")
    assert not (tmp_path / "other").exists()


def test_failed_rotation_keeps_logging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(daemon_log, "rotate", refuse)
    monkeypatch.setattr(daemon_log, "_is_full", lambda path: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    handler = daemon_log.LogHandler(tmp_path / "ingle.log")
    handler.emit(record("one"))
    handler.emit(record("two"))
