"""Management commands: `list`, `show`, `ps`, `load`, `unload`, `rm`, `add`, `pull`, `stop`."""

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

import msgspec
import pytest

from ingle.daemon.cli.models.fit_summary import fit_fields
from ingle.daemon.client.model_types import FitReport, MemoryBytes, MemoryShare
from ingle.daemon.main import main
from ingle.daemon.settings.paths import Paths

Run = Callable[..., subprocess.CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]


def memory(host: int = 300, mapped: int = 120, gpu: int = 0) -> dict[str, Any]:
    """Memory readings in megabytes; `host` and `gpu` are the measured values."""
    mega = 1_000_000
    return {
        "predicted": {"host": 393 * mega, "gpu": gpu * mega, "other_gpus": []},
        "measured": {"host": host * mega, "gpu": gpu * mega, "other_gpus": []},
        "mapped": mapped * mega,
        "reclaimable": mapped * mega // 2,
    }


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
        "memory": memory(),
        "kv_memory_bytes": 0,
        "kv_disk_bytes": 0,
        "prompt_tokens_total": 8120,
        "cached_tokens_total": 5413,
        "completion_tokens_total": 611,
        "drafted_tokens_total": 0,
        "accepted_tokens_total": 0,
        "decode_rate": 96.1,
        "layers": 30,
        "layers_on_gpu": 0,
        "quantize": "none",
        "kv_type": "f16",
        "flash_attention": True,
        "reason": "",
        "warnings": [],
        "pinned": False,
        "loaded_for": 33.1,
        "expires_in": None,
    }
    return fields | changes


def printed_json(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


def test_list_prints_a_table_of_models(
    daemon: Any, model_entry: Callable[..., Any], capsys: Capture
) -> None:
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
    assert printed_json(capsys) == {
        "models": daemon.models,
        "pulls": [],
        "unfinished": [],
        "providers": [],
    }


def test_list_and_ps_show_running_and_stopped_downloads(
    daemon: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.pulls = [{"model": "qwen3:4b", "status": "downloading", "received": 5, "total": 10}]
    daemon.unfinished = [{"name": "gemma3:270m", "received": 42_100_000}]
    running = "\nBeing downloaded:\n  qwen3:4b: downloading, 50%, 5 B of 10 B\n"
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert running in out
    assert out.endswith("removes it):\n  gemma3:270m, 42.1 MB downloaded\n")
    assert main(["ps"]) == 0
    assert capsys.readouterr().out.endswith(f"No model is loaded.\n{running}")


def test_list_groups_models_of_other_programs(
    daemon: Any, model_entry: Callable[..., Any], capsys: Capture
) -> None:
    other_program = {"default": False, "place": "LM Studio"}
    daemon.models = [
        daemon.models[0],
        model_entry("hf.co/own/repo:Q4_0", **other_program, same_as="smollm2:135m"),
        model_entry("llama3.2:latest", **other_program | {"place": "Ollama"}),
        model_entry("qwen3:4b", installed=False, state="available", default=False),
    ]
    assert main(["list"]) == 0
    names = [line.partition("   ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        "NAME", "smollm2:135m (default)  98.4 MB", "",
        "In LM Studio:", "hf.co/own/repo:Q4_0", "  same file as smollm2:135m", "",
        "In Ollama:", "llama3.2:latest", "",
        "To be pulled:", "qwen3:4b",
    ]  # fmt: skip


def test_list_all_includes_unusable_models(
    daemon: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unusable_entry = {"name": "x:1b", "path": "/x", "place": "Ollama", "reason": "it is gone"}
    daemon.unusable = [unusable_entry]
    assert main(["list"]) == 0
    assert "it is gone" not in capsys.readouterr().out
    assert main(["list", "--all"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\nFound, but not used:\n  x:1b (Ollama): it is gone.\n")
    assert main(["list", "--all", "--json"]) == 0
    assert printed_json(capsys)["unusable"] == [unusable_entry]


def test_show_prints_model_details(daemon: Any, capsys: Capture) -> None:
    daemon.models[0]["description"] = "Small\x1b[2J."
    assert main(["show", "smollm2"]) == 0
    out = capsys.readouterr().out
    assert "name          smollm2:135m\n" in out
    assert "description   Small[2J.\n" in out
    assert "path          /models/SmolLM2-135M-Instruct.Q4_1.gguf\n" in out
    assert main(["show", "SMOLLM2:135m", "--json"]) == 0
    assert printed_json(capsys) == {**daemon.models[0], "loaded": None, "report": None}


def test_show_reports_an_estimated_fit_without_a_header(daemon: Any, capsys: Capture) -> None:
    for state, verdict in [("fits", "probably: it"), ("no", "probably not: it")]:
        fit = {"needs_bytes": 3_900_000_000, "free_bytes": 21_000_000_000}
        daemon.models[0]["fit"] = {"device": "cpu", "state": state, **fit}
        assert main(["show", "smollm2"]) == 0
        line = f"fits          {verdict} needs about 3.9 GB, and 21.0 GB are free\n"
        assert capsys.readouterr().out.endswith(line)


def test_show_names_the_engine_that_would_use_the_gpu(daemon: Any, capsys: Capture) -> None:
    fit = {"needs_bytes": 3_900_000_000, "free_bytes": 21_000_000_000, "needs_engine": "cuda"}
    daemon.models[0]["fit"] = {"device": "cuda", "state": "fits", **fit}
    assert main(["show", "smollm2"]) == 0
    assert "probably with the engine cuda: it needs about 3.9 GB" in capsys.readouterr().out
    sentence = "With ingle's own engine (`ingle engine install cuda`): all 30 layers on the GPU."
    report = FitReport(name="a", installed=True, fits=True, reason="…", with_engine=sentence)
    assert fit_fields(report)[:2] == [("would run", "…"), ("could run", sentence)]
    assert len(fit_fields(msgspec.structs.replace(report, with_engine=""))) == 2


def test_show_names_the_draft_model_and_its_memory() -> None:
    report = FitReport(
        name="a", installed=True, fits=True, draft="b:1", draft_needs=MemoryBytes(1, 600_000_000)
    )
    assert ("draft model", "b:1, with 600 MB more") in fit_fields(report)


def test_show_says_what_a_divided_model_takes_of_each_gpu() -> None:
    first, second = (MemoryShare(weights=size, total=size) for size in (3 * 10**9, 2 * 10**9))
    report = FitReport(
        name="a",
        installed=True,
        gpu=first,
        other_gpus=[second],
        needs=MemoryBytes(0, 3 * 10**9, (2 * 10**9,)),
        available=MemoryBytes(0, 4 * 10**9, (10**9,)),
    )
    facts = dict(fit_fields(report))
    assert facts["memory of GPU 0"] == "3.0 GB: weights 3.0 GB"
    assert facts["memory of GPU 1"] == "2.0 GB: weights 2.0 GB"
    assert facts["fits"] == "no, 1.0 GB are missing"


def test_show_reports_the_error_of_a_failed_model(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [loaded_model(state="failed", engine="", error="It is damaged.")]
    assert main(["show", "smollm2"]) == 0
    assert "error         It is damaged.\n" in capsys.readouterr().out


def test_show_accepts_a_path(daemon: Any, capsys: Capture, tmp_path: Path) -> None:
    assert main(["show", str(tmp_path / "a folder")]) == 0
    assert capsys.readouterr().out.startswith(f"name          {tmp_path}/a folder\n")


def test_show_accepts_an_alias(daemon: Any, capsys: Capture) -> None:
    assert main(["show", "gpt-4o"]) == 0
    assert capsys.readouterr().out.startswith("name          smollm2:135m\n")


def test_show_reports_the_settings_of_a_loaded_model(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(name="b"),
        loaded_model(
            draft="/m/small.gguf",
            kv_type="q8_0",
            warnings=["The weights are not locked in memory."],
        ),
    ]
    assert main(["show", "smollm2"]) == 0
    assert capsys.readouterr().out.endswith(
        "engine        llama.cpp\n"
        "runs on       CPU, 2 threads\n"
        "loaded with   8192 tokens of context for 8 requests\n"
        "KV cache      q8_0, 188 MB\n"
        "attention     with flash attention\n"
        "draft model   small.gguf\n"
        "warning       The weights are not locked in memory.\n"
    )
    assert main(["show", "smollm2", "--json"]) == 0
    assert printed_json(capsys)["loaded"] == daemon.loaded_models()[1]
    daemon.loaded = [loaded_model(state="starting", engine="", device="", kv_type="")]
    assert main(["show", "smollm2"]) == 0
    assert "runs on" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "task_text"), [("embed", "no, embeddings only"), ("rerank", "no, ranking only")]
)
def test_show_reports_embedding_and_ranking_models(
    daemon: Any, capsys: Capture, task: str, task_text: str
) -> None:
    daemon.models[0] |= {"task": task, "chat": False}
    assert main(["show", "smollm2"]) == 0
    assert f"chat          {task_text}\n" in capsys.readouterr().out


def test_show_reports_an_unknown_name(daemon: Any, capsys: Capture) -> None:
    assert main(["show", "smolm2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ("Error: There is no model 'smolm2' here.\n`ingle list` shows all.\n")


def test_ps_prints_a_table_of_loaded_models(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(),
        loaded_model(
            name="b", running=0, waiting=0, expires_in=866.9, memory=memory(0, 0)
        ),
        loaded_model(name="c", running=0, waiting=0),
        loaded_model(name="p", running=0, waiting=0, pinned=True),
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
    lines = out[out.index("NAME") :].split("\n\n")[0].splitlines()
    rows = [line.split("  ") for line in lines]
    table = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert table == [
        ["NAME", "STATE", "DEVICE", "CONTEXT", "KV", "RUNNING", "MEMORY", "EXPIRES"],
        ["smollm2:135m", "ready", "CPU, 2 threads", "8192", "50%", "1+2", "420 MB", "in use"],
        ["b", "ready", "CPU, 2 threads", "8192", "50%", "0", "393 MB", "14 min 27 s"],
        ["c", "ready", "CPU, 2 threads", "8192", "50%", "0", "420 MB", "never"],
        ["p", "ready", "CPU, 2 threads", "8192", "50%", "0", "420 MB", "pinned"],
        ["d", "failed", "-", "-", "-", "1+2", "420 MB", "-"],
        ["e", "starting 41%", "CPU, 2 threads", "8192", "50%", "1+2", "420 MB", "-"],
    ]
    assert "\nd\n  error    It is damaged.\n" in out
    assert main(["ps", "--json"]) == 0
    assert printed_json(capsys) == {"daemon": "running", **daemon.status()}


def test_ps_notes_quantized_kv_and_warnings(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [
        loaded_model(kv_type="q4_0", longest_context=131072, warnings=["There is no GPU."]),
        loaded_model(name="b", state="starting", kv_type="", flash_attention=False),
    ]
    assert main(["ps"]) == 0
    out = capsys.readouterr().out
    assert "\n  KV       q4_0, 188 MB; a longer prompt reloads the model with up to 131,072" in out
    assert out.endswith("\n  note     There is no GPU.\n")


def test_ps_reports_memory_tokens_and_placement_reason(daemon: Any, capsys: Capture) -> None:
    gpu = {"name": "NVIDIA RTX 4090", "kind": "gpu", "memory_total": 24_000_000_000}
    gpu |= {"memory_used": 6_100_000_000, "utilization": 0.12, "watts": 75.4, "joules": None}
    cpu = {**dict.fromkeys(gpu), "name": "CPU", "kind": "cpu", "utilization": 0.5}
    daemon.devices = [gpu, cpu]
    daemon.loaded = [
        loaded_model(
            memory=memory(gpu=5000),
            reason="On ingle's own engine, since the whole model fits into the memory of the GPU.",
            kv_disk_bytes=55_000_000,
            drafted_tokens_total=90,
            prefill_tokens=4000,
            prefilled_tokens=1000,
            accepted_tokens_total=61,
            draft="/models/small.gguf",
        )
    ]
    assert main(["ps"]) == 0
    out = capsys.readouterr().out
    assert "NVIDIA RTX 4090: 6.1 GB of 24.0 GB in use, 12% busy, 75 W\n\n" in out
    assert out.partition("in use\n\n")[2] == (
        "smollm2:135m\n"
        "  why      On ingle's own engine, since the whole model fits into the memory of\n"
        "           the GPU.\n"
        "  memory   393 MB predicted, 300 MB taken, 120 MB of files mapped (60.0 MB\n"
        "           spare), on the GPU 5.0 GB predicted, 5.0 GB taken; conversations hold\n"
        "           55.0 MB on disk\n"
        "  KV       f16, 188 MB\n"
        "  prefill  1,000 of 4,000 tokens computed (25%)\n"
        "  tokens   8,120 prefilled, and 5,413 found in the cache (40%); 611 generated at\n"
        "           96.1/s\n"
        "  drafts   61 of 90 tokens accepted (68%), by small.gguf\n"
    )


def test_load_reports_the_settings_and_keep_alive(daemon: Any, capsys: Capture) -> None:
    daemon.loaded = [loaded_model(expires_in=7200.0, reason="There is no GPU.")]
    daemon.warnings = ["There is no GPU for its layers."]
    assert main(["load", "smollm2", "--keep-alive", "2h", "--context", "8192"]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        "smollm2:135m is ready on CPU, 2 threads, with a context of 8192 tokens (KV\n"
        "cache: f16, 188 MB) and 420 MB of memory, and stays loaded for 2 h without use.\n"
        "There is no GPU.\n"
    )
    assert captured.err == "Warning: There is no GPU for its layers.\n"
    assert daemon.requests_to("POST", "/ingle/v1/load") == [
        {"model": "smollm2", "context": 8192, "keep_alive": 7200.0}
    ]


@pytest.mark.parametrize(
    ("arguments", "changes", "request_body", "shown"),
    [
        (["--pin"], {"pinned": True}, {"pin": True}, "and is pinned."),
        (
            ["--no-pin"],
            {"expires_in": 90.0},
            {"pin": False},
            "stays loaded for 1 min 30 s without use.",
        ),
        (["--no-pin"], {"expires_in": 0.0}, {"pin": False}, "is unloaded as soon as it is idle."),
        (
            ["--keep-alive", "forever"],
            {},
            {"keep_alive": -1.0},
            "stays loaded until it is unloaded.",
        ),
        ([], {"pinned": True}, {}, "and is pinned."),
    ],
)
def test_load_sets_pin_and_keep_alive(
    daemon: Any, capsys: Capture, arguments: list[str], changes: Any, request_body: Any, shown: str
) -> None:
    daemon.loaded = [loaded_model(**changes)]
    assert main(["load", *arguments]) == 0
    assert shown in " ".join(capsys.readouterr().out.split())
    assert daemon.requests_to("POST", "/ingle/v1/load") == [{"model": "smollm2", **request_body}]
    assert main(["load", "--json"]) == 0
    assert printed_json(capsys)["name"] == "smollm2:135m"


def test_load_rejects_invalid_durations_and_numbers(daemon: Any, capsys: Capture) -> None:
    for arguments in (["--keep-alive", "soon"], ["--context", "0"]):
        assert main(["load", "smollm2", *arguments]) == 2
        assert "must be a" in capsys.readouterr().err
    assert daemon.requests_to("POST", "/ingle/v1/load") == []


def test_ps_without_loaded_models(daemon: Any, capsys: Capture) -> None:
    assert main(["ps"]) == 0
    assert capsys.readouterr().out.endswith("\n\nNo model is loaded.\n")


@pytest.mark.parametrize("command", ["ps", "stop", "unload"])
def test_commands_that_do_not_start_the_daemon(paths: Paths, capsys: Capture, command: str) -> None:
    assert main([command]) == 0
    assert capsys.readouterr() == ("The daemon is not running.\n", "")
    assert not paths.runtime.exists()


def test_json_output_without_a_daemon(paths: Paths, capsys: Capture) -> None:
    assert main(["ps", "--json"]) == 0
    assert printed_json(capsys) == {"daemon": "stopped", "models": []}
    assert main(["stop", "--json"]) == 0
    assert printed_json(capsys) == {"stopped": False, "pid": None}
    assert main(["unload", "--json"]) == 0
    assert printed_json(capsys) == {"unloaded": []}


def test_rm_removes_models_and_reports_freed_space(daemon: Any, capsys: Capture) -> None:
    assert main(["rm", "smollm2", "hf.co/o/r:Q4_K_M"]) == 0
    assert capsys.readouterr().out == (
        "Removed smollm2, 98.4 MB freed.\nRemoved hf.co/o/r:Q4_K_M, 98.4 MB freed.\n"
    )
    assert daemon.requests_to("DELETE", "/ingle/v1/models/hf.co%2Fo%2Fr%3AQ4_K_M") == [None]
    assert main(["rm", "smollm2", "--json"]) == 0
    (removed,) = printed_json(capsys)["removed"]
    assert (removed["removed"], removed["freed"]) == ("smollm2", 98362432)


THEIRS = {
    "removed": "tiny:q4_0", "freed": 98362432, "files": ["/lm/t.gguf"], "place": "LM Studio",
}  # fmt: skip


def test_rm_reports_files_that_are_kept(daemon: Any, capsys: Capture) -> None:
    daemon.removal = {"removed": "a:1", "freed": 0, "keeps": ["/lm/t.gguf"], "place": "LM Studio"}
    assert main(["rm", "a"]) == 0
    assert capsys.readouterr().out == (
        "Removed a:1, which frees nothing.\n/lm/t.gguf stays, since LM Studio uses it.\n"
    )
    daemon.removal = {"removed": "a:1", "freed": 0, "shared_with": ["b:1"]}
    assert main(["rm", "a"]) == 0
    assert "Its file stays, since b:1 uses it, too.\n" in capsys.readouterr().out


def test_rm_dry_run_reports_what_would_be_removed(daemon: Any, capsys: Capture) -> None:
    daemon.removal = THEIRS | {"loaded": True, "running": 2}
    assert main(["rm", "-n", "tiny"]) == 0
    assert capsys.readouterr().out == (
        "Would remove tiny:q4_0, 98.4 MB would be freed.\n"
        "It is loaded, and would be unloaded first, after 2 more answers.\n"
        "  /lm/t.gguf\n"
    )
    assert daemon.requests_to("DELETE", "/ingle/v1/models/tiny?dry_run=true") == [None]


def test_rm_asks_before_deleting_files_of_other_programs(
    daemon: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.removal = THEIRS
    endpoint = "/ingle/v1/models/tiny?delete_file=true"
    assert main(["rm", "--delete-file", "tiny"]) == 1
    captured = capsys.readouterr()
    assert "This deletes what LM Studio keeps (98.4 MB):\n  /lm/t.gguf\n" in captured.err
    assert "there is no terminal to ask at" in captured.err
    assert daemon.requests_to("DELETE", endpoint) == []
    assert main(["rm", "--delete-file", "--yes", "tiny"]) == 0
    assert daemon.requests_to("DELETE", endpoint) == [None]


def test_add_registers_a_file_in_place(
    daemon: Any,
    model_entry: Callable[..., Any],
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["add", "m.gguf", "mine"]) == 0
    assert daemon.requests_to("POST", "/ingle/v1/models") == [
        {"path": str(tmp_path / "m.gguf"), "name": "mine"}
    ]
    assert "is used in place: /models/" in capsys.readouterr().out
    assert main(["add", "/m.gguf", "--json"]) == 0
    assert printed_json(capsys) == daemon.models[0]
    assert main(["add", "/bad\udcff.gguf"]) == 1
    assert "is not UTF-8" in capsys.readouterr().err


def test_pull_of_an_already_present_model_downloads_nothing(
    daemon: Any, model_entry: Callable[..., Any], capsys: Capture
) -> None:
    daemon.pull = [("done", model_entry("tiny:1b", place="Ollama", path="/o/blob"))]
    assert main(["pull", "tiny"]) == 0
    assert capsys.readouterr().err == (
        "tiny:1b is already in Ollama (98.4 MB). It is used in place, and nothing was "
        "downloaded: /o/blob\n"
    )


def test_unload_reports_unloaded_models(daemon: Any, capsys: Capture) -> None:
    assert main(["unload"]) == 0
    assert capsys.readouterr().out == "No model was loaded.\n"
    daemon.loaded = [loaded_model(), loaded_model(name="b")]
    assert main(["unload", "smollm2"]) == 0
    assert capsys.readouterr().out == "Unloaded smollm2:135m, b.\n"
    assert daemon.requests_to("POST", "/ingle/v1/unload") == [{}, {"model": "smollm2"}]


def test_relative_paths_are_resolved_against_the_working_directory(
    daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "m.gguf")
    assert main(["unload", "./m.gguf"]) == 0
    assert main(["rm", "./m.gguf"]) == 0
    daemon.pull = [("done", daemon.models[0])]
    assert main(["pull", "./m.gguf"]) == 0
    assert daemon.requests_to("POST", "/ingle/v1/unload") == [{"model": path}]
    assert daemon.requests_to("DELETE", f"/ingle/v1/models/{quote(path, safe='')}") == [None]
    assert daemon.requests_to("POST", "/ingle/v1/pull") == [{"model": path}]


def test_daemon_error_is_printed_with_its_hint(daemon: Any, capsys: Capture) -> None:
    daemon.failure = 409, {"error": {"code": "c", "message": "In use.", "hint": "Wait."}}
    assert main(["rm", "smollm2"]) == 1
    assert capsys.readouterr() == ("", "Error: In use.\nWait.\n")


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_version_mismatch_is_reported(daemon: Any, capsys: Capture, version: str) -> None:
    daemon.version = version
    daemon.loaded = [loaded_model(running=1)]
    assert main(["list", "--json"]) == 0
    captured = capsys.readouterr()
    assert f"The running daemon is ingle {version}, this command is" in captured.err
    assert "`ingle stop`" in captured.err
    json.loads(captured.out)


def test_stop_reports_an_error_of_the_daemon(daemon: Any, capsys: Capture) -> None:
    daemon.failure = 500, {"error": {"code": "c", "message": "No.", "hint": None}}
    assert main(["stop"]) == 1
    assert capsys.readouterr().err == "Error: No.\n"


PROGRESS = {
    "model": "smollm2:135m", "status": "downloading", "source": "hub", "received": 42_100_000,
    "total": 98_362_432, "bytes_per_second": 12_300_000.0, "eta": 4.6,
}  # fmt: skip


def test_pull_reports_progress(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS), ("done", daemon.models[0])]
    assert main(["pull", "smollm2"]) == 0
    assert capsys.readouterr() == (
        "",
        "smollm2:135m: downloading, 43%, 42.1 MB of 98.4 MB, 12.3 MB/s, 4.6 s left\n"
        "smollm2:135m is ready (98.4 MB).\n",
    )
    assert daemon.requests_to("POST", "/ingle/v1/pull") == [{"model": "smollm2"}]


def test_pull_json_output_streams_events(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS), ("done", daemon.models[0])]
    assert main(["pull", "smollm2", "--json"]) == 0
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert lines == [{"event": "progress", **PROGRESS}, {"event": "done", **daemon.models[0]}]
    assert captured.err == ""


def test_failed_pull_reports_the_error(daemon: Any, capsys: Capture) -> None:
    error = {"code": "disk_full", "message": "The disk is full.", "hint": "Make room."}
    daemon.pull = [("progress", PROGRESS), ("error", {"error": error})]
    assert main(["pull", "smollm2"]) == 1
    assert capsys.readouterr().err.endswith("Error: The disk is full.\nMake room.\n")


def test_pull_stream_without_a_result_is_an_error(daemon: Any, capsys: Capture) -> None:
    daemon.pull = [("progress", PROGRESS)]
    assert main(["pull", "smollm2"]) == 1
    assert "without a reason" in capsys.readouterr().err


def test_interrupted_pull_is_cancelled_and_can_be_resumed(daemon: Any, command: list[str]) -> None:
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
    assert daemon.requests_to("POST", "/ingle/v1/pull/cancel") == [{"model": "smollm2"}]


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
        ["load", "m", "--pin", "--no-pin"],
        ["service"],
        ["lst"],
        ["--wrong"],
    ],
)
def test_invalid_arguments_exit_with_2(
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
    assert not daemon.requests_to("POST", "/ingle/v1/generations")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "x"], "--port must be a whole number"),
        (["--port", "70000"], "--port must be a whole number"),
        (["--host", "gpu.lan"], "--host must be an address of this machine"),
        (["--log-level", "loud"], "--log-level must be one of"),
    ],
)
def test_serve_rejects_invalid_settings(
    paths: Paths, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert main(["serve", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_service_without_an_action_names_the_choices(paths: Paths, capsys: Capture) -> None:
    assert main(["service"]) == 2
    assert "install|uninstall|status" in capsys.readouterr().err


def test_invalid_environment_variable_is_reported(
    paths: Paths, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGLE_PORT", "many")
    assert main(["ps"]) == 1
    assert capsys.readouterr().err.startswith("Error: INGLE_PORT must be")


def test_symlinked_runtime_folder_is_refused(paths: Paths, capsys: Capture) -> None:
    paths.runtime.parent.mkdir(parents=True)
    (paths.runtime.parent / "elsewhere").mkdir()
    paths.runtime.symlink_to(paths.runtime.parent / "elsewhere")
    assert main(["list"]) == 1
    assert "but it is a link" in capsys.readouterr().err


def test_closed_stdout_exits_without_an_error_message(daemon: Any, command: list[str]) -> None:
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
