"""`ingle run` as a person types it: pipes, Ctrl-C, terminals."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
GENERATIONS = "/ingle/v1/generations"
CANCEL = "/ingle/v1/generations/gen-1/cancel"


def test_only_the_answer_is_on_standard_output(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2", "Say", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello wörld.\n", "")
    assert daemon.asked("POST", GENERATIONS) == [
        {"model": "smollm2", "messages": [{"role": "user", "content": "Say hello"}]}
    ]
    assert daemon.asked("POST", CANCEL) == []


def test_options_reach_the_daemon(daemon: Any, ingle: Run) -> None:
    ingle(
        "run", "--system", "Be brief.", "smollm2", "--temperature", "0.2", "Hi", "--seed", "-7",
        "--max-tokens", "5",
    )  # fmt: skip
    assert daemon.asked("POST", GENERATIONS) == [
        {
            "model": "smollm2",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "sampling": {"temperature": 0.2, "seed": -7},
            "max_tokens": 5,
        }
    ]


LOAD = "/ingle/v1/load"


def test_load_options_load_the_model_first(daemon: Any, ingle: Run) -> None:
    daemon.warnings = ["A context of 20000 tokens was requested, but the model has 8192."]
    done = ingle(
        "run", "smollm2", "--context", "20000", "--kv-type", "q8_0", "--engine", "cuda", "Hi"
    )
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert done.stderr == f"Warning: {daemon.warnings[0]}\n"
    assert daemon.asked("POST", LOAD) == [
        {"model": "smollm2", "context": 20000, "engine": "cuda", "kv_type": "q8_0"}
    ]
    paths = [path for _, path, _ in daemon.requests if path in {LOAD, GENERATIONS}]
    assert paths == [LOAD, GENERATIONS]


def test_load_options_survive_a_pull(daemon: Any, ingle: Run) -> None:
    daemon.models = [{**daemon.models[0], "installed": False, "state": "available"}]
    daemon.missing = {"smollm2"}
    daemon.pull = [("done", daemon.models[0])]
    done = ingle("run", "smollm2", "--context", "512", "Hi")
    assert done.returncode == 0, done.stderr
    assert daemon.asked("POST", LOAD)[-1] == {"model": "smollm2:135m", "context": 512}


@pytest.mark.parametrize("arguments", [("--context", "0"), ("--kv-type", "q2_k")])
def test_load_options_are_checked(daemon: Any, ingle: Run, arguments: tuple[str, str]) -> None:
    assert ingle("run", *arguments, "smollm2", "Hi").returncode == 2
    assert daemon.asked("POST", LOAD) == []


def test_raw_sends_text(daemon: Any, ingle: Run) -> None:
    ingle("run", "smollm2", "--raw", "Once upon")
    assert daemon.asked("POST", GENERATIONS) == [{"model": "smollm2", "prompt": "Once upon"}]


@pytest.mark.parametrize(
    ("arguments", "piped", "model", "prompt"),
    [
        (["smollm2", "Explain"], "a diff\n", "smollm2", "Explain\n\na diff"),
        (["smollm2"], "only this", "smollm2", "only this"),
        ([], "only this", "smollm2", "only this"),
        (["What is this?"], "text", "smollm2", "What is this?\n\ntext"),
        (["other", "--", "-5 + 3?"], "", "other", "-5 + 3?"),
        (["smollm2", "ünï"], b"\xff\xfe", "smollm2", "ünï\n\n��"),
    ],
)
def test_prompt(
    daemon: Any, ingle: Run, arguments: list[str], piped: str | bytes, model: str, prompt: str
) -> None:
    if isinstance(piped, bytes):
        reader, writer = os.pipe()
        os.write(writer, piped)
        os.close(writer)
        done = ingle("run", *arguments, stdin=reader)
        os.close(reader)
    else:
        done = ingle("run", *arguments, input=piped)
    assert done.returncode == 0, done.stderr
    [body] = daemon.asked("POST", GENERATIONS)
    assert body["model"] == model
    assert body["messages"] == [{"role": "user", "content": prompt}]


def test_path_is_made_absolute(daemon: Any, ingle: Run, tmp_path: Any) -> None:
    (tmp_path / "model.gguf").touch()
    for reference in ("model.gguf", "./model.gguf"):
        ingle("run", reference, "Hi")
        assert daemon.asked("POST", GENERATIONS)[-1]["model"] == str(tmp_path / "model.gguf")
    ingle("run", "hf.co/owner/repo:Q4_K_M", "Hi")
    assert daemon.asked("POST", GENERATIONS)[-1]["model"] == "hf.co/owner/repo:Q4_K_M"


def test_no_prompt_at_all(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no prompt.\n")


def test_json(daemon: Any, ingle: Run, end_of_answer: Callable[..., Any]) -> None:
    done = ingle("run", "smollm2", "Hi", "--json")
    assert json.loads(done.stdout) == {
        "model": "smollm2:135m",
        "text": "Hello wörld.",
        **end_of_answer()[1],
    }


def test_verbose_counts_what_was_computed(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2", "Hi", "--verbose")
    assert done.stdout == "Hello wörld.\n"
    assert done.stderr == (
        "smollm2:135m: stop, context 53 of 8192 tokens\n"
        "  waited 0.1 s\n"
        "  prompt 32 tokens, 12 of them cached, 0.5 s, 40.0 tokens/s\n"
        "  answer 21 tokens, 2.0 s, 10.0 tokens/s\n"
    )


def test_answer_streams(daemon: Any, command: list[str], end_of_answer: Callable[..., Any]) -> None:
    gate = threading.Event()
    daemon.answer = [("delta", {"text": "first", "tokens": 1}), gate, end_of_answer()]
    with subprocess.Popen(
        [*command, "run", "m", "x"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"first"
        gate.set()
        assert process.communicate(timeout=10) == (b"\n", b"")
        assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_cancel_the_generation(
    daemon: Any, command: list[str], number: signal.Signals, status: int
) -> None:
    daemon.answer = [("delta", {"text": "first", "tokens": 1}), threading.Event()]
    with subprocess.Popen(
        [*command, "run", "m", "x"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"first"
        process.send_signal(number)
        assert process.communicate(timeout=10) == (b"\n", b"")
        assert process.returncode == status
    assert daemon.asked("POST", CANCEL) == [{}]


def test_reader_that_leaves_cancels_the_generation(daemon: Any, command: list[str]) -> None:
    gate = threading.Event()
    more = ("delta", {"text": "x" * 100_000, "tokens": 1})
    daemon.answer = [("delta", {"text": "first", "tokens": 1}), gate, more, more, threading.Event()]
    with subprocess.Popen(
        [*command, "run", "m", "x"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 100)
        process.stdout.close()
        gate.set()
        assert process.stderr.read() == b""
        assert process.wait(10) == 141
    assert daemon.asked("POST", CANCEL) == [{}]


def test_error_in_the_middle(daemon: Any, ingle: Run) -> None:
    error = {"code": "worker_died", "message": "The model's process died.", "hint": "Try again."}
    daemon.answer = [("delta", {"text": "Half an", "tokens": 2}), ("error", {"error": error})]
    done = ingle("run", "smollm2", "Hi")
    assert done.returncode == 1
    assert done.stdout == "Half an\n"
    assert done.stderr == "Error: The model's process died.\nTry again.\n"
    assert daemon.asked("POST", CANCEL) == []


def test_an_answer_from_elsewhere_says_so(
    daemon: Any, ingle: Run, end_of_answer: Callable[..., Any]
) -> None:
    route: dict[str, Any] = {
        "verdict": "cloud",
        "rule": "nothing_found",
        "reason": "Nothing sensitive was found.",
        "provider": "acme",
        "model": "big",
        "redacted": [],
    }
    daemon.answer = [("route", route), ("delta", {"text": "Hello", "tokens": 0}), end_of_answer()]
    done = ingle("run", "auto", "Hi")
    assert done.stdout == "Hello\n"
    assert done.stderr == (
        "Answered by acme/big, not on this machine. Nothing sensitive was found.\n"
    )
    told = json.loads(ingle("run", "auto", "Hi", "--json").stdout)
    assert (told["model"], told["route"]) == ("acme/big", route)
    daemon.answer = [("route", {**route, "verdict": "local", "provider": ""}), end_of_answer()]
    assert ingle("run", "auto", "Hi").stderr == ""


def test_stream_that_ends_too_early(daemon: Any, ingle: Run) -> None:
    daemon.answer = [("delta", {"text": "Half", "tokens": 1})]
    done = ingle("run", "smollm2", "Hi")
    assert (done.returncode, done.stdout) == (1, "Half\n")
    assert "before the answer was complete" in done.stderr


def test_somebody_else_cancels(daemon: Any, ingle: Run, end_of_answer: Callable[..., Any]) -> None:
    daemon.answer = [("delta", {"text": "Half", "tokens": 1}), end_of_answer("cancelled")]
    done = ingle("run", "smollm2", "Hi")
    assert (done.returncode, done.stdout) == (1, "Half\n")
    assert done.stderr.startswith("Error: The answer was cancelled")


def test_model_of_the_catalog_is_pulled_first(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    entry = model_entry(installed=False, state="available", path=None)
    daemon.models = [entry]
    daemon.missing = {"smollm2"}
    daemon.pull = [("done", model_entry())]
    done = ingle("run", "smollm2", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert done.stderr == (
        "smollm2:135m is not on this machine yet.\nsmollm2:135m is ready (98.4 MB).\n"
    )
    assert [body["model"] for body in daemon.asked("POST", GENERATIONS)] == [
        "smollm2",
        "smollm2:135m",
    ]


def test_the_model_of_a_route_is_pulled_first(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    daemon.models = [model_entry(installed=False, state="available", path=None)]
    daemon.routes = [{"name": "auto", "local": "smollm2", "remote": ""}]
    daemon.missing = {"auto"}
    daemon.pull = [("done", model_entry())]
    done = ingle("run", "auto", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert done.stderr.startswith("smollm2:135m is not on this machine yet.\n")
    assert [body["model"] for body in daemon.asked("POST", GENERATIONS)] == ["auto", "auto"]


def test_a_model_that_makes_no_text_is_not_even_pulled(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    changes = {"installed": False, "state": "available", "path": None, "task": "embed"}
    daemon.models = [model_entry("all-minilm:l6-v2", **changes)]
    daemon.missing = {"all-minilm"}
    done = ingle("run", "all-minilm", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "all-minilm:l6-v2 does not generate text" in done.stderr
    assert "POST /v1/embeddings" in done.stderr
    assert not daemon.asked("POST", "/ingle/v1/pull")


def test_model_that_nobody_knows(daemon: Any, ingle: Run) -> None:
    daemon.missing = {"nothing"}
    done = ingle("run", "nothing", "Hi")
    assert done.returncode == 1
    assert done.stderr == "Error: There is no model 'nothing' here.\n`ingle list` shows all.\n"
    assert daemon.asked("POST", "/ingle/v1/pull") == []


@pytest.mark.slow
def test_silent_pipe_is_explained(daemon: Any, command: list[str]) -> None:
    with subprocess.Popen(
        [*command, "run", "m", "x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert (
            process.stderr.readline() == b"Waiting for the rest of the prompt on standard input.\n"
        )
        output, _ = process.communicate(b"more", timeout=10)
        assert output.decode() == "Hello wörld.\n"


def test_terminal_shows_no_escapes_and_takes_the_loading_line_back(
    daemon: Any, command: list[str], end_of_answer: Callable[..., Any]
) -> None:
    daemon.answer = [
        ("loading", {"model": "m", "fraction": 0.5}),
        ("delta", {"text": "a\x1b]0;ti", "tokens": 1}),
        ("delta", {"text": "tle\x07b\x1b[31m", "tokens": 1}),
        end_of_answer(),
    ]
    shown = in_terminal([*command, "run", "m", "x"])
    assert shown == "\rLoading m 50%\x1b[K\r\x1b[Kab\r\n"


def test_no_prompt_in_a_terminal_opens_the_chat(daemon: Any, command: list[str]) -> None:
    program = """
import sys, types
stand_in = types.ModuleType("ingle.tui.main")
stand_in.run_chat = lambda **options: print("chat with", options["model"]) or 0
sys.modules["ingle.tui.main"] = stand_in
from ingle.daemon.main import main
assert main(["run", "smollm2"]) == 0
"""
    assert in_terminal([*command[:2], "-c", program], stdin=True) == "chat with smollm2\r\n"
    assert daemon.asked("POST", GENERATIONS) == []


def test_pipe_gets_the_answer_as_it_is(
    daemon: Any, ingle: Run, end_of_answer: Callable[..., Any]
) -> None:
    daemon.answer = [("delta", {"text": "\x1b[31mred", "tokens": 1}), end_of_answer()]
    assert ingle("run", "m", "x").stdout == "\x1b[31mred\n"


def test_thoughts_are_counted_in_a_terminal_and_never_printed(
    daemon: Any,
    command: list[str],
    ingle: Callable[..., Any],
    end_of_answer: Callable[..., Any],
) -> None:
    daemon.answer = [
        ("reasoning", {"text": "Hm, ", "tokens": 2}),
        ("reasoning", {"text": "yes.", "tokens": 3}),
        ("delta", {"text": "Yes", "tokens": 1}),
        end_of_answer(),
    ]
    shown = in_terminal([*command, "run", "m", "x"])
    steps = "\rThinking, 2 tokens\x1b[K\rThinking, 5 tokens\x1b[K"
    assert shown == f"{steps}\r\x1b[KYes\r\n"
    assert ingle("run", "m", "x").stdout == "Yes\n"


def in_terminal(arguments: list[str], *, stdin: bool = False) -> str:
    """What a program shows whose output and errors, and input if asked for, are a terminal."""
    master, slave = pty.openpty()
    given = slave if stdin else subprocess.DEVNULL
    process = subprocess.Popen(arguments, stdin=given, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while select.select([master], [], [], 10)[0]:
            shown += os.read(master, 65536)
    except OSError:  # Linux says so when the last writer has closed
        assert process.wait(10) == 0
    finally:
        os.close(master)
        process.kill()
        process.wait(10)
    return shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text there")
def test_bytes_that_are_no_text(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "./\udcff.gguf", "hi")
    assert done.returncode == 1
    assert (
        done.stderr == "Error: The name './�.gguf' is not UTF-8.\nRename the file, or link to it.\n"
    )
    assert ingle("run", "m", "--system", "a\udcff", "b\udcff").returncode == 0
    [body] = daemon.asked("POST", "/ingle/v1/generations")
    assert [message["content"] for message in body["messages"]] == ["a�", "b�"]


SEED = f"it must be a whole number from {-(2**63)} to {2**63 - 1}"


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--temperature", "hot", "it must be a number from 0 to 2, not 'hot'"),
        ("--temperature", "9", "it must be a number from 0 to 2, not '9'"),
        ("--temperature", "nan", "it must be a number from 0 to 2, not 'nan'"),
        ("--max-tokens", "x", "it must be a whole number, 1 or more, not 'x'"),
        ("--max-tokens", "0", "it must be a whole number, 1 or more, not '0'"),
        ("--seed", "1.5", f"it must be a whole number from {-(2**63)} to {2**63 - 1}, not '1.5'"),
        (
            "--seed",
            str(2**63),
            f"it must be a whole number from {-(2**63)} to {2**63 - 1}, not '{2**63}'",
        ),
    ],
)
def test_wrong_options_are_explained(ingle: Run, option: str, value: str, complaint: str) -> None:
    done = ingle("run", "m", "hi", option, value)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"Error: Argument {option}: {complaint}."
