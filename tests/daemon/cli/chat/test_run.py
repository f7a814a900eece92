"""`ingle run`: options, pipes, signals, streaming and terminal output."""

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
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
GENERATIONS = "/ingle/v1/generations"
CANCEL = "/ingle/v1/generations/gen-1/cancel"


def test_stdout_contains_only_the_answer(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2", "Say", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello wörld.\n", "")
    assert daemon.requests_to("POST", GENERATIONS) == [
        {
            "model": "smollm2",
            "attached": True,
            "messages": [{"role": "user", "content": "Say hello"}],
        }
    ]
    assert daemon.requests_to("POST", CANCEL) == []


def test_options_are_sent_to_the_daemon(daemon: Any, ingle: Run) -> None:
    ingle(
        "run", "--system", "Be brief.", "smollm2", "--temperature", "0.2", "Hi", "--seed", "-7",
        "--max-tokens", "5",
    )  # fmt: skip
    assert daemon.requests_to("POST", GENERATIONS) == [
        {
            "model": "smollm2",
            "attached": True,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "sampling": {"temperature": 0.2, "seed": -7},
            "max_tokens": 5,
        }
    ]


def test_pictures_go_along(daemon: Any, ingle: Run, tmp_path: Path) -> None:
    picture = tmp_path / "cat.jpg"
    picture.write_bytes(b"\xff\xd8\xff")
    said = {"role": "user", "content": "See", "images": ["data:image/jpeg;base64,/9j/"]}
    assert ingle("run", "smollm2", "--image", str(picture), "See").returncode == 0
    assert ingle("-p", "See", "--image", str(picture)).returncode == 0
    assert [sent["messages"] for sent in daemon.requests_to("POST", GENERATIONS)] == [[said]] * 2
    missing = ingle("run", "smollm2", "--image", str(tmp_path / "none.png"), "See")
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)


LOAD = "/ingle/v1/load"


def test_load_options_load_the_model_before_generating(daemon: Any, ingle: Run) -> None:
    daemon.warnings = ["A context of 20000 tokens was requested, but the model has 8192."]
    done = ingle(
        "run", "smollm2", "--context", "20000", "--kv-type", "q8_0", "--engine", "cuda", "Hi"
    )
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert done.stderr == f"Warning: {daemon.warnings[0]}\n"
    assert daemon.requests_to("POST", LOAD) == [
        {"model": "smollm2", "context": 20000, "engine": "cuda", "kv_type": "q8_0"}
    ]
    paths = [path for _, path, _ in daemon.requests if path in {LOAD, GENERATIONS}]
    assert paths == [LOAD, GENERATIONS]


def test_load_options_are_kept_after_a_pull(daemon: Any, ingle: Run) -> None:
    daemon.models = [{**daemon.models[0], "installed": False, "state": "available"}]
    daemon.missing = {"smollm2"}
    daemon.pull = [("done", daemon.models[0])]
    done = ingle("run", "smollm2", "--context", "512", "Hi")
    assert done.returncode == 0, done.stderr
    assert daemon.requests_to("POST", LOAD)[-1] == {"model": "smollm2:135m", "context": 512}


@pytest.mark.parametrize("arguments", [("--context", "0"), ("--kv-type", "q2_k")])
def test_invalid_load_options_are_rejected(
    daemon: Any, ingle: Run, arguments: tuple[str, str]
) -> None:
    assert ingle("run", *arguments, "smollm2", "Hi").returncode == 2
    assert daemon.requests_to("POST", LOAD) == []


def test_raw_sends_the_prompt_without_a_chat(daemon: Any, ingle: Run) -> None:
    ingle("run", "smollm2", "--raw", "Once upon")
    assert daemon.requests_to("POST", GENERATIONS) == [
        {"model": "smollm2", "attached": True, "prompt": "Once upon"}
    ]


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
def test_prompt_combines_arguments_and_stdin(
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
    [body] = daemon.requests_to("POST", GENERATIONS)
    assert body["model"] == model
    assert body["messages"] == [{"role": "user", "content": prompt}]


def test_model_paths_are_made_absolute(daemon: Any, ingle: Run, tmp_path: Any) -> None:
    (tmp_path / "model.gguf").touch()
    for reference in ("model.gguf", "./model.gguf"):
        ingle("run", reference, "Hi")
        assert daemon.requests_to("POST", GENERATIONS)[-1]["model"] == str(tmp_path / "model.gguf")
    ingle("run", "hf.co/owner/repo:Q4_K_M", "Hi")
    assert daemon.requests_to("POST", GENERATIONS)[-1]["model"] == "hf.co/owner/repo:Q4_K_M"


def test_missing_prompt_is_an_error(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no prompt.\n")


def test_an_agent_without_an_editor_is_an_error(ingle: Run) -> None:
    done = ingle("acp", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is for editors" in done.stderr


def test_json_output_contains_answer_and_usage(
    daemon: Any, ingle: Run, finished_event: Callable[..., Any]
) -> None:
    done = ingle("run", "smollm2", "Hi", "--json")
    assert json.loads(done.stdout) == {
        "model": "smollm2:135m",
        "text": "Hello wörld.",
        **finished_event()[1],
    }


def test_verbose_prints_token_counts_and_timings(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "smollm2", "Hi", "--verbose")
    assert done.stdout == "Hello wörld.\n"
    assert done.stderr == (
        "smollm2:135m: stop, context 53 of 8192 tokens\n"
        "  waited 0.1 s\n"
        "  prompt 32 tokens, 12 of them cached, 0.5 s, 40.0 tokens/s\n"
        "  answer 21 tokens, 2.0 s, 10.0 tokens/s\n"
    )


def test_answer_is_streamed_to_stdout(
    daemon: Any, command: list[str], finished_event: Callable[..., Any]
) -> None:
    gate = threading.Event()
    daemon.answer = [("delta", {"text": "first", "tokens": 1}), gate, finished_event()]
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
    assert daemon.requests_to("POST", CANCEL) == [{}]


def test_closed_stdout_cancels_the_generation(daemon: Any, command: list[str]) -> None:
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
    assert daemon.requests_to("POST", CANCEL) == [{}]


def test_error_event_after_partial_output_is_reported(daemon: Any, ingle: Run) -> None:
    error = {"code": "worker_died", "message": "The model's process died.", "hint": "Try again."}
    daemon.answer = [("delta", {"text": "Half an", "tokens": 2}), ("error", {"error": error})]
    done = ingle("run", "smollm2", "Hi")
    assert done.returncode == 1
    assert done.stdout == "Half an\n"
    assert done.stderr == "Error: The model's process died.\nTry again.\n"
    assert daemon.requests_to("POST", CANCEL) == []


def test_remote_answer_is_announced_on_stderr(
    daemon: Any, ingle: Run, finished_event: Callable[..., Any]
) -> None:
    route: dict[str, Any] = {
        "verdict": "cloud",
        "rule": "nothing_found",
        "reason": "Nothing sensitive was found.",
        "provider": "acme",
        "model": "big",
        "redacted": [],
    }
    daemon.answer = [("route", route), ("delta", {"text": "Hello", "tokens": 0}), finished_event()]
    done = ingle("run", "auto", "Hi")
    assert done.stdout == "Hello\n"
    assert done.stderr == (
        "Answered by acme/big, not on this machine. Nothing sensitive was found.\n"
    )
    output = json.loads(ingle("run", "auto", "Hi", "--json").stdout)
    assert (output["model"], output["route"]) == ("acme/big", route)
    daemon.answer = [("route", {**route, "verdict": "local", "provider": ""}), finished_event()]
    assert ingle("run", "auto", "Hi").stderr == ""


def test_truncated_stream_is_an_error(daemon: Any, ingle: Run) -> None:
    daemon.answer = [("delta", {"text": "Half", "tokens": 1})]
    done = ingle("run", "smollm2", "Hi")
    assert (done.returncode, done.stdout) == (1, "Half\n")
    assert "before the answer was complete" in done.stderr


def test_answer_cancelled_by_another_client_is_an_error(
    daemon: Any, ingle: Run, finished_event: Callable[..., Any]
) -> None:
    daemon.answer = [("delta", {"text": "Half", "tokens": 1}), finished_event("cancelled")]
    done = ingle("run", "smollm2", "Hi")
    assert (done.returncode, done.stdout) == (1, "Half\n")
    assert done.stderr.startswith("Error: The answer was cancelled")


def test_catalog_model_is_pulled_before_generating(
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
    assert [body["model"] for body in daemon.requests_to("POST", GENERATIONS)] == [
        "smollm2",
        "smollm2:135m",
    ]


def test_prompt_option_takes_a_model_that_is_here(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    default = model_entry(installed=False, state="available", path=None, default=True)
    others = [
        model_entry(name=f"own:{n}", default=False, state=s)
        for n, s in ((1, "stopped"), (2, "ready"))
    ]
    daemon.models = [*others, default]
    assert ingle("-p", "Hi").returncode == 0
    daemon.models = [others[0], model_entry(default=True)]
    assert ingle("-p", "Hi").returncode == 0
    assert ingle("run", "own:1", "Hi").returncode == 0
    names = [body["model"] for body in daemon.requests_to("POST", GENERATIONS)]
    assert names == ["own:2", "smollm2", "own:1"]


def test_prompt_option_downloads_nothing_without_a_question(
    daemon: Any, ingle: Run, command: list[str], model_entry: Callable[..., Any]
) -> None:
    daemon.models = [model_entry(installed=False, state="available", path=None)]
    daemon.missing = {"smollm2"}
    daemon.pull = [("done", model_entry())]
    done = ingle("-p", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "`ingle pull smollm2:135m` downloads it (98.4 MB)." in done.stderr
    assert daemon.requests_to("POST", "/ingle/v1/pull") == []
    asked = in_terminal([*command, "-p", "Hi"], stdin=True, typed=b"n\n", status=1)
    assert "Download it (98.4 MB)? [y/N]" in asked
    assert daemon.requests_to("POST", "/ingle/v1/pull") == []
    asked = in_terminal([*command, "-p", "Hi"], stdin=True, typed=b"y\n")
    assert "smollm2:135m is ready" in asked


def test_local_model_of_a_route_is_pulled_before_generating(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    daemon.models = [model_entry(installed=False, state="available", path=None)]
    daemon.routes = [{"name": "auto", "local": "smollm2", "remote": ""}]
    daemon.missing = {"auto"}
    daemon.pull = [("done", model_entry())]
    done = ingle("run", "auto", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert done.stderr.startswith("smollm2:135m is not on this machine yet.\n")
    assert [body["model"] for body in daemon.requests_to("POST", GENERATIONS)] == ["auto", "auto"]


def test_embedding_model_is_rejected_without_a_pull(
    daemon: Any, ingle: Run, model_entry: Callable[..., Any]
) -> None:
    changes = {"installed": False, "state": "available", "path": None, "task": "embed"}
    daemon.models = [model_entry("all-minilm:l6-v2", **changes)]
    daemon.missing = {"all-minilm"}
    done = ingle("run", "all-minilm", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "all-minilm:l6-v2 does not generate text" in done.stderr
    assert "POST /v1/embeddings" in done.stderr
    assert not daemon.requests_to("POST", "/ingle/v1/pull")


def test_unknown_model_is_an_error(daemon: Any, ingle: Run) -> None:
    daemon.missing = {"nothing"}
    done = ingle("run", "nothing", "Hi")
    assert done.returncode == 1
    assert done.stderr == "Error: There is no model 'nothing' here.\n`ingle list` shows all.\n"
    assert daemon.requests_to("POST", "/ingle/v1/pull") == []


@pytest.mark.slow
def test_waiting_for_stdin_prints_a_notice(daemon: Any, command: list[str]) -> None:
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


def test_terminal_output_strips_escapes_and_clears_the_loading_line(
    daemon: Any, command: list[str], finished_event: Callable[..., Any]
) -> None:
    daemon.answer = [
        ("loading", {"model": "m", "fraction": 0.5}),
        ("delta", {"text": "a\x1b]0;ti", "tokens": 1}),
        ("delta", {"text": "tle\x07b\x1b[31m", "tokens": 1}),
        finished_event(),
    ]
    shown = in_terminal([*command, "run", "m", "x"])
    assert shown == "\rLoading m 50%\x1b[K\r\x1b[Kab\r\n"


def test_run_without_prompt_in_a_terminal_opens_the_chat(daemon: Any, command: list[str]) -> None:
    program = """
import sys, types
stand_in = types.ModuleType("ingle.tui.main")
stand_in.run_chat = lambda **options: print("chat with", options["model"]) or 0
sys.modules["ingle.tui.main"] = stand_in
from ingle.daemon.main import main
assert main(["run", "smollm2"]) == 0
"""
    assert in_terminal([*command[:2], "-c", program], stdin=True) == "chat with smollm2\r\n"
    assert daemon.requests_to("POST", GENERATIONS) == []


@pytest.mark.parametrize("piped", [b"GGUF\0\0\1", bytes(range(128, 256)) * 9])
def test_piped_bytes_that_are_no_text_are_refused(
    daemon: Any, command: list[str], piped: bytes
) -> None:
    done = subprocess.run(
        [*command, "run", "m", "Explain"], input=piped, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == b"Error: Standard input is not text.\nPipe in text, in UTF-8.\n"
    assert not daemon.requests_to("POST", "/ingle/v1/generations")


def test_piped_output_keeps_escape_sequences(
    daemon: Any, ingle: Run, finished_event: Callable[..., Any]
) -> None:
    daemon.answer = [("delta", {"text": "\x1b[31mred", "tokens": 1}), finished_event()]
    assert ingle("run", "m", "x").stdout == "\x1b[31mred\n"


def test_reasoning_tokens_are_counted_in_a_terminal_but_not_printed(
    daemon: Any,
    command: list[str],
    ingle: Callable[..., Any],
    finished_event: Callable[..., Any],
) -> None:
    daemon.answer = [
        ("reasoning", {"text": "Hm, ", "tokens": 2}),
        ("reasoning", {"text": "yes.", "tokens": 3}),
        ("delta", {"text": "Yes", "tokens": 1}),
        finished_event(),
    ]
    shown = in_terminal([*command, "run", "m", "x"])
    steps = "\rThinking, 2 tokens\x1b[K\rThinking, 5 tokens\x1b[K"
    assert shown == f"{steps}\r\x1b[KYes\r\n"
    assert ingle("run", "m", "x").stdout == "Yes\n"


def in_terminal(
    arguments: list[str], *, stdin: bool = False, typed: bytes = b"", status: int = 0
) -> str:
    """Run a program with stdout and stderr (optionally stdin) on a pty; returns its output."""
    master, slave = pty.openpty()
    given = slave if stdin else subprocess.DEVNULL
    process = subprocess.Popen(arguments, stdin=given, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, typed)
    shown = b""
    try:
        while select.select([master], [], [], 10)[0]:
            shown += os.read(master, 65536)
    except OSError:  # Linux raises EIO once the last writer has closed
        assert process.wait(10) == status
    finally:
        os.close(master)
        process.kill()
        process.wait(10)
    return shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text there")
def test_arguments_with_invalid_utf8(daemon: Any, ingle: Run) -> None:
    done = ingle("run", "./\udcff.gguf", "hi")
    assert done.returncode == 1
    assert (
        done.stderr == "Error: The name './�.gguf' is not UTF-8.\nRename the file, or link to it.\n"
    )
    assert ingle("run", "m", "--system", "a\udcff", "b\udcff").returncode == 0
    [body] = daemon.requests_to("POST", "/ingle/v1/generations")
    assert [message["content"] for message in body["messages"]] == ["a�", "b�"]


SEED = f"must be a whole number from {-(2**63)} to {2**63 - 1}"


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--temperature", "hot", "must be a number from 0 to 2, not 'hot'"),
        ("--temperature", "9", "must be a number from 0 to 2, not '9'"),
        ("--temperature", "nan", "must be a number from 0 to 2, not 'nan'"),
        ("--max-tokens", "x", "must be a whole number, 1 or more, not 'x'"),
        ("--max-tokens", "0", "must be a whole number, 1 or more, not '0'"),
        ("--seed", "1.5", f"must be a whole number from {-(2**63)} to {2**63 - 1}, not '1.5'"),
        (
            "--seed",
            str(2**63),
            f"must be a whole number from {-(2**63)} to {2**63 - 1}, not '{2**63}'",
        ),
    ],
)
def test_invalid_sampling_options_are_rejected(
    ingle: Run, option: str, value: str, complaint: str
) -> None:
    done = ingle("run", "m", "hi", option, value)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"Error: {option} {complaint}."
