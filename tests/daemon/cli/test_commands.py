"""The commands that ask the daemon something and print its answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ingle.daemon.main import main
from ingle.daemon.paths import Paths

Run = Callable[..., subprocess.CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]


def loaded_model(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": "smollm2:135m",
        "state": "ready",
        "fraction": 1.0,
        "error": None,
        "pid": 4712,
        "engine": "llama.cpp",
        "device": "CPU, 2 threads",
        "context": 8192,
        "slots": 8,
        "kv_capacity": 8192,
        "kv_used": 4096,
        "running": 1,
        "waiting": 2,
        "weights_bytes": 98_000_000,
        "kv_bytes": 188_000_000,
        "compute_bytes": 107_000_000,
        "rss": 420_000_000,
        "layers": 30,
        "layers_on_gpu": 0,
        "quantize": "none",
        "kv_type": "f16",
        "flash_attention": True,
        "warnings": [],
        "loaded_for": 33.1,
        "expires_in": None,
    }
    return fields | changes


def printed_json(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


def test_list(daemon: Any, model_entry: Callable[..., Any], capsys: Capture) -> None:
    available = model_entry(
        "qwen3:4b", installed=False, state="available", default=False, size=2_500_000_000,
        parameters=4_020_000_000, quantization="Q4_K_M", context=40960, path=None,
    )  # fmt: skip
    daemon.models = [available, daemon.models[0]]
    assert main(["list"]) == 0
    assert capsys.readouterr().out == (
        "NAME                       SIZE  PARAMS  QUANT   CONTEXT  STATE\n"
        "smollm2:135m (default)  98.4 MB    135M  Q4_1       8192  stopped\n"
        "qwen3:4b                 2.5 GB    4.0B  Q4_K_M    40960  available\n"
    )
    assert main(["ls", "--json"]) == 0
    assert printed_json(capsys) == {"models": daemon.models}


def test_show(daemon: Any, capsys: Capture) -> None:
    daemon.models[0]["description"] = "Small\x1b[2J."
    assert main(["show", "smollm2"]) == 0
    out = capsys.readouterr().out
    assert "name          smollm2:135m\n" in out
    assert "description   Small[2J.\n" in out
    assert "path          /models/SmolLM2-135M-Instruct.Q4_1.gguf\n" in out
    assert main(["show", "SMOLLM2:135m", "--json"]) == 0
    assert printed_json(capsys) == {**daemon.models[0], "loaded": None}


def test_show_takes_a_path(daemon: Any, capsys: Capture, tmp_path: Path) -> None:
    assert main(["show", str(tmp_path / "a folder")]) == 0
    assert capsys.readouterr().out.startswith(f"name          {tmp_path}/a folder\n")


def test_show_takes_an_alias(daemon: Any, capsys: Capture) -> None:
    assert main(["show", "gpt-4o"]) == 0
    assert capsys.readouterr().out.startswith("name          smollm2:135m\n")


def test_show_tells_what_a_loaded_model_got(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(name="b"),
        loaded_model(kv_type="q8_0", warnings=["The weights are not locked in memory."]),
    ]
    assert main(["show", "smollm2"]) == 0
    assert capsys.readouterr().out.endswith(
        "engine        llama.cpp\n"
        "runs on       CPU, 2 threads\n"
        "loaded with   8192 tokens of context for 8 requests\n"
        "KV cache      q8_0, 188 MB\n"
        "attention     with flash attention\n"
        "warning       The weights are not locked in memory.\n"
    )
    assert main(["show", "smollm2", "--json"]) == 0
    assert printed_json(capsys)["loaded"] == daemon.loaded[1]
    daemon.loaded = [loaded_model(state="starting", engine="", device="", kv_type="")]
    assert main(["show", "smollm2"]) == 0
    assert "runs on" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "words"), [("embed", "no, embeddings only"), ("rerank", "no, ranking only")]
)
def test_show_says_what_a_model_is_for(daemon: Any, capsys: Capture, task: str, words: str) -> None:
    daemon.models[0] |= {"task": task, "chat": False}
    assert main(["show", "smollm2"]) == 0
    assert f"chat          {words}\n" in capsys.readouterr().out


def test_show_unknown_guesses(daemon: Any, capsys: Capture) -> None:
    assert main(["show", "smolm2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "Error: There is no model 'smolm2' here or in the catalog.\nDid you mean 'smollm2'?\n"
    )


def test_ps(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(),
        loaded_model(name="b", running=0, waiting=0, expires_in=866.9, rss=0),
        loaded_model(name="c", running=0, waiting=0),
        loaded_model(
            name="d", state="failed", device="", kv_capacity=0, context=0,
            error="It is damaged.",
        ),
        loaded_model(name="e", state="starting", fraction=0.41),
    ]  # fmt: skip
    assert main(["ps"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ingle {daemon.version}, pid {os.getpid()}, up 1 min 15 s\n")
    assert f"listens on {daemon.paths.socket}\n       and http://127.0.0.1:4645\n" in out
    rows = [line.split("  ") for line in out.splitlines() if "  " in line and "http" not in line]
    table = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert table == [
        ["NAME", "STATE", "DEVICE", "CONTEXT", "KV", "RUNNING", "MEMORY", "EXPIRES"],
        ["smollm2:135m", "ready", "CPU, 2 threads", "8192", "50%", "1+2", "420 MB", "in use"],
        ["b", "ready", "CPU, 2 threads", "8192", "50%", "0", "393 MB", "14 min 27 s"],
        ["c", "ready", "CPU, 2 threads", "8192", "50%", "0", "420 MB", "never"],
        ["d", "failed", "-", "-", "-", "1+2", "420 MB", "-"],
        ["e", "starting 41%", "CPU, 2 threads", "8192", "50%", "1+2", "420 MB", "-"],
    ]
    assert out.endswith("\nd: It is damaged.\n")
    assert main(["ps", "--json"]) == 0
    assert printed_json(capsys) == {"daemon": "running", **daemon.status()}


def test_ps_tells_what_is_out_of_the_ordinary(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(kv_type="q4_0", warnings=["There is no GPU."]),
        loaded_model(name="b", state="starting", kv_type="", flash_attention=False),
    ]
    assert main(["ps"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(
        "\nsmollm2:135m: The KV cache is quantized to q4_0.\n\nsmollm2:135m: There is no GPU.\n"
    )


def test_ps_with_nothing_loaded(daemon: Any, capsys: Capture) -> None:
    assert main(["ps"]) == 0
    assert capsys.readouterr().out.endswith("\n\nNo model is loaded.\n")


@pytest.mark.parametrize("command", ["ps", "stop", "unload"])
def test_commands_that_start_no_daemon(paths: Paths, capsys: Capture, command: str) -> None:
    assert main([command]) == 0
    assert capsys.readouterr() == ("The daemon is not running.\n", "")
    assert not paths.runtime.exists()


def test_their_json_without_a_daemon(paths: Paths, capsys: Capture) -> None:
    assert main(["ps", "--json"]) == 0
    assert printed_json(capsys) == {"daemon": "stopped", "models": []}
    assert main(["stop", "--json"]) == 0
    assert printed_json(capsys) == {"stopped": False, "pid": None}
    assert main(["unload", "--json"]) == 0
    assert printed_json(capsys) == {"unloaded": []}


def test_rm(daemon: Any, capsys: Capture) -> None:
    assert main(["rm", "smollm2", "hf.co/o/r:Q4_K_M"]) == 0
    assert capsys.readouterr().out == (
        "Removed smollm2, 98.4 MB freed.\nRemoved hf.co/o/r:Q4_K_M, 98.4 MB freed.\n"
    )
    assert daemon.asked("DELETE", "/ingle/v1/models/hf.co%2Fo%2Fr%3AQ4_K_M") == [None]
    assert main(["rm", "smollm2", "--json"]) == 0
    assert printed_json(capsys) == {"removed": [{"removed": "smollm2", "freed": 98362432}]}


def test_unload(daemon: Any, capsys: Capture) -> None:
    assert main(["unload"]) == 0
    assert capsys.readouterr().out == "No model was loaded.\n"
    daemon.loaded = [loaded_model(), loaded_model(name="b")]
    assert main(["unload", "smollm2"]) == 0
    assert capsys.readouterr().out == "Unloaded smollm2:135m, b.\n"
    assert daemon.asked("POST", "/ingle/v1/unload") == [{}, {"model": "smollm2"}]


def test_paths_count_from_the_working_folder(
    daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "m.gguf")
    assert main(["unload", "./m.gguf"]) == 0
    assert main(["rm", "./m.gguf"]) == 0
    daemon.pull = [("done", daemon.models[0])]
    assert main(["pull", "./m.gguf"]) == 0
    assert daemon.asked("POST", "/ingle/v1/unload") == [{"model": path}]
    assert daemon.asked("DELETE", f"/ingle/v1/models/{quote(path, safe='')}") == [None]
    assert daemon.asked("POST", "/ingle/v1/pull") == [{"model": path}]


def test_error_of_the_daemon_is_a_sentence_and_a_hint(daemon: Any, capsys: Capture) -> None:
    daemon.failure = 409, {"error": {"code": "c", "message": "In use.", "hint": "Wait."}}
    assert main(["rm", "smollm2"]) == 1
    assert capsys.readouterr() == ("", "Error: In use.\nWait.\n")


def test_another_version_is_told(daemon: Any, capsys: Capture) -> None:
    daemon.version = "0.0.1"
    assert main(["list", "--json"]) == 0
    captured = capsys.readouterr()
    assert "The running daemon is ingle 0.0.1, this command is" in captured.err
    assert "`ingle stop`" in captured.err
    json.loads(captured.out)


def test_stop_needs_a_daemon_that_answers(daemon: Any, capsys: Capture) -> None:
    daemon.failure = 500, {"error": {"code": "c", "message": "No.", "hint": None}}
    assert main(["stop"]) == 1
    assert capsys.readouterr().err == "Error: No.\n"


PROGRESS = {
    "model": "smollm2:135m", "status": "downloading", "source": "hub", "received": 42_100_000,
    "total": 98_362_432, "bytes_per_second": 12_300_000.0, "eta": 4.6,
}  # fmt: skip


def test_pull(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS), ("done", daemon.models[0])]
    assert main(["pull", "smollm2"]) == 0
    assert capsys.readouterr() == (
        "",
        "smollm2:135m: downloading, 43%, 42.1 MB of 98.4 MB, 12.3 MB/s, 4.6 s left\n"
        "smollm2:135m is ready (98.4 MB).\n",
    )
    assert daemon.asked("POST", "/ingle/v1/pull") == [{"model": "smollm2"}]


def test_pull_for_programs(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS), ("done", daemon.models[0])]
    assert main(["pull", "smollm2", "--json"]) == 0
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert lines == [{"event": "progress", **PROGRESS}, {"event": "done", **daemon.models[0]}]
    assert captured.err == ""


def test_pull_that_fails(daemon: Any, capsys: Capture) -> None:
    error = {"code": "disk_full", "message": "The disk is full.", "hint": "Make room."}
    daemon.pull = [("progress", PROGRESS), ("error", {"error": error})]
    assert main(["pull", "smollm2"]) == 1
    assert capsys.readouterr().err.endswith("Error: The disk is full.\nMake room.\n")


def test_pull_that_ends_without_a_word(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS)]
    assert main(["pull", "smollm2"]) == 1
    assert "without a word" in capsys.readouterr().err


def test_interrupted_pull_is_cancelled_and_can_go_on(daemon: Any, command: list[str]) -> None:
    daemon.pull = [("progress", PROGRESS), threading.Event()]
    with subprocess.Popen(
        [*command, "pull", "smollm2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stderr is not None
        assert b"43%" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=10)
        assert (process.returncode, output) == (130, b"")
        assert errors == b"Stopped. `ingle pull smollm2` continues where it was.\n"
    assert daemon.asked("POST", "/ingle/v1/pull/cancel") == [{"model": "smollm2"}]


@pytest.mark.parametrize(
    "arguments",
    [
        ["pull"],
        ["rm"],
        ["show"],
        ["list", "extra"],
        ["ps", "--wrong"],
        ["serve", "extra"],
        ["run", "m", "x", "--temperature", "hot"],
        ["run", "m", "x", "--temperature", "-1"],
        ["run", "m", "x", "--max-tokens", "0"],
        ["run", "m", "x", "--raw", "--system", "y"],
        ["chat", "m", "x"],
        ["version", "--js"],
        ["lst"],
        ["--wrong"],
    ],
)
def test_wrong_command_line_is_2(
    daemon: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    with open(os.devnull) as nothing:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    sentence, hint = captured.err.splitlines()
    assert sentence.startswith("Error: ")
    assert sentence.endswith(".")
    assert "ingle" in hint or arguments[0] == "run"
    assert not daemon.asked("POST", "/ingle/v1/generations")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "x"], "--port must be a whole number"),
        (["--port", "70000"], "--port must be a whole number"),
        (["--host", "0.0.0.0"], "--host must be 127.0.0.1"),
        (["--log-level", "loud"], "--log-level must be one of"),
    ],
)
def test_serve_refuses_wrong_settings(
    paths: Paths, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert main(["serve", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_wrong_configuration_is_told(
    paths: Paths, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGLE_PORT", "many")
    assert main(["ps"]) == 1
    assert capsys.readouterr().err.startswith("Error: INGLE_PORT must be")


def test_hostile_runtime_folder_is_refused(paths: Paths, capsys: Capture) -> None:
    paths.runtime.parent.mkdir(parents=True)
    (paths.runtime.parent / "elsewhere").mkdir()
    paths.runtime.symlink_to(paths.runtime.parent / "elsewhere")
    assert main(["list"]) == 1
    assert "but it is a link" in capsys.readouterr().err


def test_closed_pipe_is_quiet(daemon: Any, command: list[str]) -> None:
    daemon.models = [{**daemon.models[0], "name": f"model-{i}"} for i in range(5000)]
    with subprocess.Popen(
        [*command, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(10) == 141
