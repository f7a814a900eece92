"""The comparison with other chat programs: keys typed ahead, ratios, and the ACP agent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chat_comparison import keys_kept, ratios
from chat_measures import Figures
from chat_program import HERE, ChatProgram, ScriptedDaemon
from server import free_port

ECHO_SOURCE = """
import sys, termios, time, tty
tty.setcbreak(0, termios.TCSANOW)
time.sleep(0.3)
{before}
print("\\x1b[2J\\x1b[H> ", end="", flush=True)
while True:
    print(sys.stdin.read(1), end="", flush=True)
"""


class EchoProgram(ChatProgram):
    """Echoes typed keys once it is ready."""

    name = "line"
    whole_screen = False
    before = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", ECHO_SOURCE.format(before=self.before)]

    def can_be_typed_in(self, screen: str) -> bool:
        return screen.startswith(">")


class FlushingEchoProgram(EchoProgram):
    """Discards keys that were typed before it was ready."""

    before = "termios.tcflush(0, termios.TCIFLUSH)"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("kind", "kept"), [(EchoProgram, 5), (FlushingEchoProgram, 0)])
def test_keys_typed_ahead_are_counted(tmp_path: Path, kind: type[ChatProgram], kept: int) -> None:
    assert keys_kept(kind(tmp_path, 0)) == kept


def test_ratios_pair_results_of_the_same_round() -> None:
    ours: list[Figures] = [{"keys": {"median_ms": ms, "count": 9}} for ms in (2.0, 4.0)]
    theirs: list[Figures] = [{"keys": {"median_ms": ms, "count": 9}} for ms in (6.0, 4.0)]
    assert ratios(ours, theirs) == {"keys.median_ms": 2.0}


@pytest.mark.skipif(sys.platform == "win32", reason="the daemon listens on a unix socket as well")
def test_acp_agent_streams_the_answer(tmp_path: Path) -> None:
    daemon = ScriptedDaemon(tmp_path / "socket", port := free_port())
    prompt = {"prompt": [{"type": "text", "text": "Go: 20 tokens at 0/s"}]}
    requests: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {}},
        {"id": 2, "method": "session/new", "params": {}},
        {"method": "session/cancel", "params": {}},
        {"id": 3, "method": "session/prompt", "params": prompt},
    ]
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "acp_agent.py"), str(port)],
            input="".join(json.dumps(request) + "\n" for request in requests),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert len(daemon.sent("last")) == 1
    finally:
        daemon.close()
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["id"] for message in messages if "id" in message] == [1, 2, 3]
    assert messages[-1]["result"] == {"stopReason": "end_turn"}
    pieces = [message["params"]["update"]["content"]["text"] for message in messages[2:-1]]
    assert len(pieces) == 22  # including the final message and an empty one
    assert "".join(pieces).startswith("## The first part")
