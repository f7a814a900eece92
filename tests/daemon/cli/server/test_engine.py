"""`ingle engine`, and the question of `ingle run` for a machine with a GPU."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ingle.daemon.cli.daemon_launcher import ensure_daemon
from ingle.daemon.cli.engine_installation import offer_engine
from ingle.daemon.main import main
from ingle.daemon.settings.config import load_config

Run = Callable[..., subprocess.CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUESTION = "This machine has an RTX 4090 with 24 GB. Fetch the engine for it (2.7 GB)?"
OFFER = {"name": "cuda", "question": QUESTION, "download_bytes": 2_700_000_000}
CUDA = {
    "name": "cuda", "engine": "cuda", "title": "ingle's own engine", "state": "installed",
    "version": "2.13.0", "bytes": 4_800_000_000,
}  # fmt: skip
PROGRESS = {
    "engine": "cuda", "title": "ingle's own engine", "step": "downloading", "done": 10**9,
    "total": 27 * 10**8, "detail": "torch", "error": "",
}  # fmt: skip


def test_list_fits_80_columns_and_names_the_offer(daemon: Any, capsys: Capture) -> None:
    missing = {"state": "missing", "version": "", "bytes": 0, "download_bytes": 2_700_000_000}
    why = "NVIDIA's driver 560.94 is too old: it needs 580 or newer. `ingle doctor` says how."
    vulkan = CUDA | {"name": "llama.cpp-vulkan", "title": "llama.cpp for GPUs with Vulkan"}
    slow = "Prompts are processed faster with it, but answers are not: the memory is the same."
    other = vulkan | missing | {"name": "llama.cpp-other", "limited": slow}
    daemon.engines = [CUDA | missing, vulkan | missing | {"useless": why}, other]
    daemon.engine_offer = OFFER
    assert main(["engine", "list"]) == 0
    out = capsys.readouterr().out
    assert "2.7 GB to fetch" in out
    assert "`ingle engine install cuda`" in out
    useless, limited = out.partition("Not for this machine:")[2].split("On this machine:")
    assert useless.split() == f"llama.cpp-vulkan: {why}".split()
    assert " ".join(limited.split()).startswith(f"llama.cpp-other: {slow}")
    assert max(map(len, out.splitlines())) <= 80


def test_install_shows_progress_and_the_size(daemon: Any, capsys: Capture) -> None:
    daemon.installation = [("progress", PROGRESS), ("done", CUDA)]
    assert main(["engine", "install", "cuda"]) == 0
    err = capsys.readouterr().err
    assert "ingle's own engine: downloading, 1.0 of 2.7 GB" in err
    assert "ingle's own engine 2.13.0 is installed (4.8 GB)." in err
    body = {"engine": "cuda", "source": None}
    assert daemon.requests_to("POST", "/ingle/v1/engines/install") == [body]


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (
            {"useless": "There is no GPU."},
            "No model runs faster with it on this machine. There is no GPU.",
        ),
        ({"limited": "Answers are not faster."}, "(4.8 GB).\nAnswers are not faster."),
    ],
)
def test_install_says_what_it_does_not_improve(
    daemon: Any, capsys: Capture, note: dict[str, str], said: str
) -> None:
    daemon.installation = [("done", CUDA | note)]
    assert main(["engine", "install", "cuda"]) == 0
    assert said in capsys.readouterr().err


def test_failed_installation_is_an_error_with_a_hint(daemon: Any, capsys: Capture) -> None:
    error = {"code": "install_failed", "message": "The disk is full.", "hint": "Free some space."}
    daemon.installation = [("progress", PROGRESS), ("error", {"error": error})]
    assert main(["engine", "install", "cuda"]) == 1
    assert "The disk is full." in capsys.readouterr().err


def test_folder_of_wheels_is_made_absolute(
    daemon: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    daemon.installation = [("done", CUDA)]
    assert main(["engine", "install", "cuda", "--from", "wheels", "--json"]) == 0
    (body,) = daemon.requests_to("POST", "/ingle/v1/engines/install")
    assert body["source"] == str(tmp_path / "wheels")
    assert json.loads(capsys.readouterr().out)["version"] == "2.13.0"


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 1)])
def test_check_prints_each_step(daemon: Any, capsys: Capture, status: int, *, passed: bool) -> None:
    remedy = "" if passed else "Restart the machine."
    step = {"name": "driver", "passed": passed, "detail": "cuInit answers", "remedy": remedy}
    daemon.engine_check = {"name": "cuda", "steps": [step]}
    assert main(["engine", "check", "cuda"]) == status
    out = capsys.readouterr().out
    assert ("ok" if passed else "FAILED") in out
    assert remedy in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["engine"], 2, "A subcommand is missing"),
        (["engine", "make"], 2, "There is no `ingle engine make`."),
        (["engine", "install"], 2, "missing"),
    ],
)
def test_usage_errors(arguments: list[str], status: int, message: str, capsys: Capture) -> None:
    assert main(arguments) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["\n", "y\n", "Yes\n"])
def test_run_asks_in_a_terminal_and_installs(
    daemon: Any, ask: Callable[[str], str], answer: str
) -> None:
    daemon.engine_offer = OFFER
    daemon.installation = [("done", CUDA)]
    shown = ask(answer)
    assert f"{QUESTION} [Y/n] " in shown
    assert "ingle's own engine is installed (4.8 GB)." in shown
    assert len(daemon.requests_to("POST", "/ingle/v1/engines/install")) == 1


@pytest.mark.parametrize("answer", ["n\n", "what\n", ""])
def test_refusal_is_reported_to_the_daemon(
    daemon: Any, ask: Callable[[str], str], answer: str
) -> None:
    daemon.engine_offer = OFFER
    assert "`ingle engine install cuda` does it later." in ask(answer)
    assert daemon.requests_to("POST", "/ingle/v1/engines/decline") == [{"engine": "cuda"}]
    assert daemon.requests_to("POST", "/ingle/v1/engines/install") == []


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Callable[[str], str]:
    """Calls what asks, as if at a terminal where a line is typed; returns what is shown."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def run(answer: str) -> str:
        client = ensure_daemon(load_config(os.environ))
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        offer_engine(client)
        return shown.getvalue()

    return run


def test_pipe_gets_a_line_when_a_model_loads(daemon: Any, ingle: Run) -> None:
    daemon.engine_offer = OFFER
    daemon.answer = [("loading", {"model": "smollm2:135m", "fraction": 0.0}), *daemon.answer]
    done = ingle("run", "smollm2", "Hi")
    assert done.returncode == 0
    assert done.stdout == "Hello wörld.\n"
    assert done.stderr == (
        "This machine has an RTX 4090 with 24 GB; `ingle engine install cuda` makes use of it.\n"
    )


def test_load_that_waits_for_an_engine_shows_its_progress(daemon: Any, ingle: Run) -> None:
    running = PROGRESS | {"title": "llama.cpp", "engine": "llama.cpp", "step": "building"}
    entry = CUDA | {"name": "llama.cpp", "title": "llama.cpp", "state": "installing"}
    daemon.engines = [entry | {"progress": running}]
    daemon.installation = [("progress", running | {"done": 34, "total": 136}), ("done", entry)]
    daemon.answer = [("loading", {"model": "smollm2:135m", "fraction": 0.0}), *daemon.answer]
    done = ingle("run", "smollm2", "Hi")
    assert done.stderr.splitlines() == [
        "llama.cpp is being installed, once for this machine.",
        "llama.cpp: building, 34 of 136",
    ]
