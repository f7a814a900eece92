"""The GPU benchmark runner (`run_all`), as far as it works without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu import engine, forward
from gpu.agreeing_draft import AgreeingDraft
from gpu.decode_step import table as step_table
from gpu.part import PARTS, all_parts, run_part
from gpu.random_model import q4_k_m
from gpu.run_all import diagnose, main, parse
from gpu.run_all import run_part as run_in_a_process
from gpu.session import Session, copies_for
from gpu.synthetic import TINIER, source, spec
from gpu.tuning import defines
from gpu.weights import KINDS, random_weight, repacked

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.launch.gpu_library import GPULibrary

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = """#!/bin/sh
echo "given $*"
while [ "$1" != "--tool" ]; do shift; done
shift 2
exec "$@"
"""


def test_parse_arguments() -> None:
    arguments = parse(["conformance", "tuning", "--limit", "30"])
    assert (arguments.parts, arguments.limit) == (["conformance", "tuning"], 30)
    assert parse([]).parts == []
    assert not parse([]).on_cpu


def test_unknown_part_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["bandwith"])
    assert "no part bandwith" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["heads", "experts", "recurrent"])
def test_measurements_are_rehearsed_without_a_gpu(name: str) -> None:
    before = copies_for(1 << 20)
    result = run_part(name, on_cpu=True, seconds=600)
    assert result == {"status": "ok", "lines": ["it runs to its end; figures of a CPU say nothing"]}
    assert copies_for(1 << 20) == before


def test_forward_part_compares_logits_on_the_cpu() -> None:
    errors = {kind: forward.error(torch.device("cpu"), kind) for kind in forward.TOLERANCES}
    assert errors["float32"] == 0
    assert 0 < errors["bfloat16"] < 0.05


@pytest.mark.slow
def test_engine_part_runs_on_the_cpu() -> None:
    found: dict[str, Any] = engine.run(Session(on_cpu=True))
    assert [model["kind"] for model in found["models"]] == ["Q4_K_M", "NF4", "bfloat16"]
    assert [len(model["decode"]) for model in found["models"]] == [2, 2, 2]
    assert [row["agreement"] for row in found["drafts"]] == [0.6, 0.6, 0.8]


def test_agreeing_draft_is_accepted_at_the_configured_rate() -> None:
    session = Session(on_cpu=True)
    text = list(range(100, 160))
    how = spec(session, context=256, slots=1, capacity=0, batch=32)
    model = source(TINIER, session.device, q4_k_m)
    draft = AgreeingDraft(how, TINIER.vocab_size, model, text)
    sequence = Sequence("text", 0, text, SamplingParams(temperature=0.0))
    sequence.slot, sequence.block_table = 0, list(range(4))
    counts: dict[float, int] = {}
    for agreement in (0.0, 0.5, 1.0):
        draft.agreement, right = agreement, 0
        for place in range(59):
            sequence.num_computed = place
            draft.launch(Batch([ScheduledChunk(sequence, 1, True)], 1))
            ((token, chance),) = draft.collect_likeliest()
            right += token == text[place + 1]
            assert chance == 0.9
        counts[agreement] = right
    draft.close()
    assert (counts[0.0], counts[1.0]) == (0, 59)
    assert 15 < counts[0.5] < 45


def test_families_of_a_part_are_parts() -> None:
    parts = all_parts(["conformance", "correctness"])
    assert parts[0] == "conformance"
    assert "correctness.rows" in parts
    assert "correctness" not in parts
    assert parse(["correctness.rows"]).parts == ["correctness.rows"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_family_of_kernels_runs_on_a_fake_driver(tmp_path: Path) -> None:
    session = Session(on_cpu=True, folder=tmp_path)
    assert session.library().architecture == "sm_90"
    assert run_part("correctness.quantization", on_cpu=True, seconds=60)["status"] == "ok"


def test_skipped_part_is_a_failure_unless_allowed(tmp_path: Path) -> None:
    options = ["peers", "--limit", "1", "--output", str(tmp_path), "--name", "x"]
    assert main(options) == 1
    assert main([*options, "--allow-skipped"]) == 0
    assert json.loads((tmp_path / "x.json").read_text())["parts"]["peers"]["status"] == "skipped"


def test_resumed_run_has_only_what_was_not_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document: dict[str, Any] = {
        "machine": {"gpu": {}},
        "parts": {"conformance": {"status": "ok", "lines": []}, "peers": {"status": "broken"}},
    }
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(document))
    options = ["conformance", "peers", "--limit", "1", "--output", str(tmp_path), "--name", "x"]
    assert main([*options, "--resume", str(earlier)]) == 1
    assert "1 parts are ok; peers (skipped)" in capsys.readouterr().out
    parts = json.loads((tmp_path / "x.json").read_text())["parts"]
    assert parts["conformance"] == document["parts"]["conformance"]
    assert parts["peers"]["lines"] == ["no time was left"]
    document["machine"]["gpu"] = {"name": "NVIDIA H200"}
    earlier.write_text(json.dumps(document))
    with pytest.raises(SystemExit, match="measured on NVIDIA H200"):
        main([*options, "--resume", str(earlier)])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for compute-sanitizer")
@pytest.mark.slow
def test_failed_part_is_run_again_under_the_sanitizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU the part itself fails; of NVIDIA's tool there is a stand-in."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(STAND_IN)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "bench"))
    found = diagnose("confined", time.monotonic() + 600, on_cpu=False)
    assert list(found) == ["without overlap", "memcheck", "racecheck"]
    assert {each["status"] for each in found.values()} == {"broken"}
    assert "--tool memcheck" in found["memcheck"]["output"][0]
    monkeypatch.setenv("PATH", "")
    assert list(diagnose("confined", time.monotonic() + 600, on_cpu=False)) == ["without overlap"]


def test_session_without_overlap_holds_for_libraries_that_models_open() -> None:
    Session(on_cpu=True, overlap=False)
    assert not GPULibrary.may_overlap
    Session(on_cpu=True)
    assert GPULibrary.may_overlap


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_part_without_a_gpu_is_broken_with_traceback() -> None:
    result = run_part("conformance", on_cpu=False, seconds=10)
    assert result["status"] == "broken"
    assert result["lines"][0]
    assert "Traceback" in result["traceback"]


def test_crashed_part_still_has_a_result() -> None:
    result = run_in_a_process("no_such_part", 1, on_cpu=True)
    assert result["status"] == "broken"
    assert "ended without a result: 2" in result["lines"][0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.skipif(os.name != "posix", reason="a shell script")
def test_script_writes_json_report(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    script = ROOT / "bench" / "gpu" / "run_all.sh"
    done = subprocess.run(
        [script, "conformance", "heads", "--on-cpu", "--output", tmp_path, "--name", "x"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "agree with their twins" in done.stdout
    written: dict[str, Any] = json.loads((tmp_path / "x.json").read_text())
    assert written["parts"]["conformance"]["status"] == "ok"
    assert written["parts"]["heads"]["status"] == "ok"
    assert set(written["parts"]) < set(PARTS)
    assert {"cpu", "gpu", "torch"} < set(written["machine"])


@pytest.mark.parametrize("kind", KINDS)
def test_random_weights_have_realistic_magnitude(kind: str) -> None:
    weight = random_weight(kind, 64, 1024, torch.device("cpu"))
    values = dequantize(weight)
    assert bool(values.isfinite().all())
    assert 1e-3 < float(values.std()) < 1
    assert repacked(weight).shape == (64, 1024)
    other = random_weight(kind, 64, 1024, torch.device("cpu"), seed=1)
    assert not torch.equal(dequantize(other), values)


def test_copies_exceed_the_cache() -> None:
    assert copies_for(1 << 20) == 256
    assert copies_for(64 << 20) == 8
    assert copies_for(8 << 30) == 2


def test_gemv_variants_fit_into_registers() -> None:
    assert "VARIANT(4, 1, 4)" in defines(1)["GEMV_VARIANTS"]
    assert "VARIANT(2, 8, 1)" in defines(8)["GEMV_VARIANTS"]
    assert "VARIANT(4, 8," not in defines(8)["GEMV_VARIANTS"]


def test_step_table_lines() -> None:
    steps = [
        {"columns": columns, "overlap": overlap, "ms": 2.0 * columns, "steps_a_second": 1}
        | {"percent_of_copy": 50.0, "carveout": True}
        for columns in (1, 8)
        for overlap in (False, True)
    ]
    lines = step_table({"steps": steps})
    assert lines[0].startswith("1 columns: 2.0 ms")
    assert lines[-1].endswith("8.00 of one column's time")


@pytest.mark.slow
def test_cpu_session_runs_the_kernels(tmp_path: Path) -> None:
    session = Session(on_cpu=True, folder=tmp_path)
    tiles = session.gemv().quantize(torch.ones(1, 32))
    assert int(tiles[0, 0, 0]) == 127
    assert session.compile([("quantize_q8.cuh", {})]) < 1
