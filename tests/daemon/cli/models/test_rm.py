"""`ingle rm` on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "removed"), [("y", True), ("n", False), ("", False)])
def test_removal_is_confirmed_on_a_terminal(
    daemon: Any, command: list[str], answer: str, *, removed: bool
) -> None:
    daemon.removal = {"removed": "smollm2:135m", "freed": 98362432}
    outer, inner = os.openpty()
    process = subprocess.Popen(
        [*command, "rm", "smollm2"], stdin=inner, stdout=subprocess.PIPE, stderr=inner, text=True
    )
    os.close(inner)
    os.write(outer, f"{answer}\n".encode())
    printed = process.communicate(timeout=30)[0]
    asked = os.read(outer, 65536).decode()
    os.close(outer)
    assert "Remove smollm2:135m (98.4 MB)? [y/N]" in asked
    assert process.returncode == (0 if removed else 1)
    assert printed == ("Removed smollm2:135m, 98.4 MB freed.\n" if removed else "")
    assert len(daemon.requests_to("DELETE", "/ingle/v1/models/smollm2")) == removed
