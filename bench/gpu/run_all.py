"""All that needs a GPU in one run: see run_all.sh."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu.part import PARTS, all_parts
from gpu.plot import svg
from machine import RESULTS, describe

from ingle.daemon.settings.paths import find_paths
from ingle.kernels.matmul.matmul_tuning import MatmulTuning

# The most time that a part takes of what is left.
SHARES = {
    "against_llama_cpp": 0.2,
    "confined": 0.2,
    "conformance": 0.2,
    "correctness": 0.15,
    "engine": 0.5,
    "bandwidth": 0.35,
    "attention": 0.25,
    "many_columns": 0.25,
    "fp8": 0.2,
    "experts": 0.15,
    "recurrent": 0.1,
    "heads": 0.2,
    "sampling": 0.2,
    "launch_cost": 0.1,
    "decode_step": 0.3,
    "crossover": 0.5,
    "peers": 0.6,
    "forward": 0.5,
}
_TIME_TO_STOP = 10
BAD = {"failed", "broken"}
# What a failed part is run again with; the share of the limit that all such runs may take together,
# and one of what is left of that: measurements are tried even where every part fails.
SANITIZER = ("compute-sanitizer", "--target-processes", "all", "--print-limit", "5", "--tool")
DIAGNOSES = ("without overlap", "memcheck", "racecheck")
_DIAGNOSES_SHARE, _DIAGNOSIS_SHARE = 0.3, 0.3
_SHORTEST_DIAGNOSIS = 30


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument(
        "--limit", type=float, help="seconds for all of them; 570, and an hour on a CPU"
    )
    parser.add_argument("--output", type=Path, help="folder for the JSON file")
    parser.add_argument("--name", help="of the JSON file; else gpu and the GPU's name")
    parser.add_argument(
        "--table", action="store_true", help="keep what `crossover` finds for ingle on this machine"
    )
    parser.add_argument(
        "--allow-skipped", action="store_true", help="a part that cannot run is no failure"
    )
    parser.add_argument(
        "--on-cpu", action="store_true", help="rehearse it without a GPU, on a fake driver"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="JSON",
        help="of an earlier run on the same GPU: keep what is ok there, and run the rest",
    )
    arguments = parser.parse_args(argv)
    unknown = set(arguments.parts) - {*PARTS, *all_parts(PARTS)}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    on_cpu = arguments.on_cpu
    arguments.limit = arguments.limit or (3600 if on_cpu else 570)
    arguments.output = arguments.output or (Path(tempfile.gettempdir()) if on_cpu else RESULTS)
    return arguments


def run_part(
    name: str,
    seconds: float,
    *,
    on_cpu: bool,
    options: Sequence[str] = (),
    tool: Sequence[str] = (),
) -> dict[str, Any]:
    """One part in a process of its own, which is ended when its time is up.

    With `tool` the process runs under that command, whose last lines of output are kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        part = [sys.executable, "-P", str(Path(__file__).with_name("part.py")), name, str(output)]
        command = [*tool, *part, "--seconds", str(seconds), *options]
        command += ["--on-cpu"] if on_cpu else []
        began = time.monotonic()
        code, said = _run(command, seconds + _TIME_TO_STOP, keep_output=bool(tool))
        took = round(time.monotonic() - began, 1)
        try:
            result: dict[str, Any] = json.loads(output.read_text())
        except (OSError, ValueError):
            result = {"status": "broken", "lines": [f"it ended without a result: {code}"]}
    return {"seconds": took, **result, **({"output": said[-40:]} if tool else {})}


def _run(
    command: Sequence[str], seconds: float, *, keep_output: bool
) -> tuple[int | str, list[str]]:
    """Return the exit status and lines of output; processes that it started end with it."""
    where = subprocess.PIPE if keep_output else None
    process = subprocess.Popen(
        command, stdout=where, stderr=where and subprocess.STDOUT, start_new_session=True
    )
    code: int | str = "time is up"
    said = None
    try:
        said, _ = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired as ended:
        said = ended.output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, (said or b"").decode(errors="replace").splitlines()


def diagnose(name: str, ends: float, *, on_cpu: bool) -> dict[str, dict[str, Any]]:
    """Run a failed part again in the ways of `DIAGNOSES`, as far as there are tools and time."""
    found: dict[str, dict[str, Any]] = {}
    for how in DIAGNOSES:
        seconds = max(_SHORTEST_DIAGNOSIS, (ends - time.monotonic()) * _DIAGNOSIS_SHARE)
        if how == "without overlap":
            again = {"options": ["--without-overlap"], "tool": []}
        elif shutil.which(SANITIZER[0]) is None:
            continue
        else:
            again = {"options": [], "tool": [*SANITIZER, how]}
        if ends - time.monotonic() > seconds + _TIME_TO_STOP:
            found[how] = run_part(name, seconds, on_cpu=on_cpu, **again)
    return found


def gpu_facts() -> dict[str, str]:
    """Return facts about the first GPU from its driver."""
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "-i", "0"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields.split(","), told.stdout.strip().split(", "), strict=False))


def save(folder: Path, name: str, facts: dict[str, str], results: dict[str, Any]) -> None:
    """Save after each part, so that an aborted run keeps its measurements."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"machine": describe() | {"gpu": facts}, "parts": results}
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    drawing = svg(results)
    if drawing is not None:
        (folder / f"{name}.svg").write_text(drawing)


def kept(earlier: Path, facts: dict[str, str]) -> dict[str, Any]:
    """Return the results of an earlier run that are ok; exits if they are another GPU's."""
    document = json.loads(earlier.read_text())
    gpu, other = (each.get("name", "no GPU") for each in (facts, document["machine"]["gpu"]))
    if gpu != other:
        raise SystemExit(f"{earlier} was measured on {other}, and this is {gpu}.")
    return {name: each for name, each in document["parts"].items() if each["status"] == "ok"}


def keep_table(facts: dict[str, str], results: dict[str, Any]) -> None:
    """For models that are loaded on this machine from now on."""
    found = results.get("crossover", {}).get("result")
    if found is None or "name" not in facts:
        print("there is no table to keep: the part crossover has no result")
        return
    path = MatmulTuning.path_for(find_paths(os.environ).kernels, facts["name"])
    MatmulTuning(found["table"]["gemm"], found["table"]["gemv"]).write(path)
    print(f"table kept in {path}")


def show(title: str, result: dict[str, Any]) -> None:
    """Print what is for people."""
    print(f"\n== {title}: {result['status']} ({result.get('seconds', 0)} s)")
    for line in [*result["lines"], *result.get("output", ())]:
        print(f"   {line}")
    if "traceback" in result:
        print(result["traceback"], file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts and print their tables; the status is 1 if one is wrong, or cannot run."""
    arguments = parse(argv)
    parts = all_parts(arguments.parts or PARTS)
    ends = time.monotonic() + arguments.limit
    facts = gpu_facts()
    gpu = "rehearsal" if arguments.on_cpu else facts.get("name", "none").lower()
    name = arguments.name or "-".join(["gpu", *gpu.split()])
    results = {} if arguments.resume is None else kept(arguments.resume, facts)
    to_diagnose = arguments.limit * _DIAGNOSES_SHARE
    for part in [part for part in parts if part not in results]:
        left = ends - time.monotonic() - _TIME_TO_STOP
        if left < 20:
            results[part] = {"status": "skipped", "lines": ["no time was left"]}
        else:
            share = left if len(parts) == 1 else left * SHARES.get(part.partition(".")[0], 1)
            results[part] = run_part(part, share, on_cpu=arguments.on_cpu)
        show(part, results[part])
        save(arguments.output, name, facts, results)
        if results[part]["status"] in BAD:
            began = time.monotonic()
            diagnosis = diagnose(part, min(ends, began + to_diagnose), on_cpu=arguments.on_cpu)
            to_diagnose -= time.monotonic() - began
            results[part]["diagnosis"] = diagnosis
            for how, again in diagnosis.items():
                show(f"{part}, {how}", again)
            save(arguments.output, name, facts, results)
    if arguments.table:
        keep_table(facts, results)
    # A green run that measured nothing would prove nothing.
    bad = BAD if arguments.allow_skipped else BAD | {"skipped"}
    missed = [
        f"{part} ({each['status']})" for part, each in results.items() if each["status"] != "ok"
    ]
    print(f"\n{len(results) - len(missed)} parts are ok{'; ' * bool(missed)}{', '.join(missed)}")
    print(f"written to {arguments.output / name}.json")
    return int(any(each["status"] in bad for each in results.values()))


if __name__ == "__main__":
    sys.exit(main())
