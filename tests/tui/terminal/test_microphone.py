"""Recordings of programs that do not end when they should."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ingle.tui.terminal import microphone

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; printf abcd; touch \"$0\"; while :; do sleep 0.05; done",
        'sleep 5 & printf abcd; touch "$0"; wait',
    ],
)
def test_program_that_does_not_end_is_ended(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microphone, "PATIENCE", 0.5)
    ready = tmp_path / "ready"
    recording = microphone.MicrophoneRecording(("sh", "-c", script, str(ready)))
    while not ready.exists():
        time.sleep(0.01)
    assert recording.stop().endswith(b"abcd")
