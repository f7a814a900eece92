"""Runs every attack that the tests know, and says what became of each: a table, and a JSON file.

`scripts/attack --quick` takes minutes. `--minutes 60` goes on with the longer tests, as many as
fit; without either all are run, which takes hours. A test checks that the daemon answers
afterwards, that nothing acknowledged is lost and that no descriptor is leaked; here processes are
counted that are left over.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
from machine import RESULTS, save

ROOT = Path(__file__).parents[1]
FAULTS = "tests/security/faults"
PROTOCOLS = "tests/daemon/protocols"
ATTACKS: dict[str, tuple[str, ...]] = {
    "malformed HTTP": (
        "tests/daemon/server/test_raw_requests.py",
        "tests/daemon/http/test_request_body.py",
    ),
    "malformed bodies": (
        *(
            f"{PROTOCOLS}/{name}/test_hostile_bodies.py"
            for name in ("openai", "responses", "anthropic", "ollama", "llama_cpp")
        ),
        "tests/test_api_fuzz.py",
    ),
    "batch files": (f"{PROTOCOLS}/openai/test_hostile_batches.py",),
    "WebSocket frames": (f"{PROTOCOLS}/responses/test_hostile_frames.py",),
    "slow and vanishing clients": (
        "tests/daemon/http/test_slow_clients.py",
        "tests/security/test_many_slow_clients.py",
        f"{FAULTS}/test_client_disconnects.py",
    ),
    "web pages and other users": (
        "tests/security/test_browser_attacks.py",
        "tests/security/test_other_users.py",
    ),
    "hostile model files and templates": ("tests/security/hostile",),
    "limits of a confined worker": ("tests/security/test_worker_limits.py",),
    "signals to workers": (
        f"{FAULTS}/test_worker_deaths.py",
        f"{FAULTS}/test_worker_deaths_by_protocol.py",
    ),
    "kill -9 of daemon and stores": (
        f"{FAULTS}/test_daemon_kills.py",
        f"{FAULTS}/test_store_kills.py",
    ),
    "damaged databases": (
        f"{FAULTS}/test_recovery_cuts.py",
        "tests/tui/history/database/test_recovery.py",
        "tests/tui/history/database/test_backup.py",
    ),
    "full disk and other shortages": (f"{FAULTS}/test_system_faults.py",),
    "failing calls of the disk": (
        f"{FAULTS}/test_failing_disk.py",
        f"{FAULTS}/test_store_write_errors.py",
    ),
    "power cuts": (f"{FAULTS}/test_power_cuts.py",),
}
ESCAPES = "escapes of a confined worker"


@dataclass
class Result:
    """What became of one attack; a try is one request, file, kill, call or case of a test."""

    attack: str
    tries: int = 0
    tests: int = 0
    failed: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    not_run: int = 0
    """Tests for which there was no time."""
    processes_left: int = 0
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """In a few words."""
        if self.failed:
            return f"FAILED: {', '.join(self.failed)}"
        if self.processes_left:
            return f"FAILED: {self.processes_left} processes were left"
        parts = ["held" if self.tests else "not tried"]
        parts += [f"{len(self.skipped)} skipped"] * bool(self.skipped)
        parts += [f"{self.not_run} longer ones not run"] * bool(self.not_run)
        return ", ".join(parts)


def run_tests(result: Result, tests: list[str], marks: str, seconds: float | None) -> None:
    """Run tests and add what they report; those that take longer count as not run."""
    began = time.monotonic()
    print(f"{result.attack}: {' '.join(tests)} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="ingle-attack-") as folder:
        report = Path(folder, "report.xml")
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-n0", "-m", marks, *tests),
            *("--junitxml", str(report), "-o", "junit_family=xunit1", "--basetemp", f"{folder}/t"),
        ]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            end(psutil.Process(process.pid))
            result.not_run += len(tests)
        else:
            if report.exists():
                read_report(result, report)
            if process.returncode not in (0, 1, 5) or not report.exists():  # 5: nothing chosen
                result.failed.append(f"pytest ended with {process.returncode}")
        result.processes_left += len(left_over(folder))
    result.seconds = round(result.seconds + time.monotonic() - began, 1)


def end(process: psutil.Process) -> None:
    """End a test run and all its processes."""
    for each in [*process.children(recursive=True), process]:
        if each.is_running():
            each.kill()
    process.wait()


def left_over(folder: str) -> list[psutil.Process]:
    """The processes that still work in the folder of tests, a second after them."""
    deadline = time.monotonic() + 1
    while True:
        found = [
            each
            for each in psutil.process_iter(["environ", "cmdline"])
            if folder in str(each.info["cmdline"]) or folder in str(each.info["environ"])
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def read_report(result: Result, report: Path) -> None:
    """Add the tests of a JUnit report."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        if (skipped := case.find("skipped")) is not None:
            result.skipped.append(f"{name}: {skipped.get('message', '')}")
            continue
        counts = [int(p.get("value", "0")) for p in case.iter("property")]
        result.tests += 1
        result.tries += sum(counts) or 1
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed.append(name)


def run_escapes() -> Result:
    """Let a real worker try to escape, with `ingle doctor --escape`."""
    result, began = Result(ESCAPES), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ingle-attack-") as folder:
        command = [sys.executable, "-P", "-m", "ingle.daemon.main", "doctor", "--escape", "--json"]
        done = subprocess.run(
            command,
            env={**os.environ, "INGLE_HOME": folder},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout.startswith("{"):
            result.skipped.append(done.stderr.strip())
        else:
            attempts = json.loads(done.stdout)["attempts"]
            result.tests = result.tries = len(attempts)
            result.failed = [a["name"] for a in attempts if not (a["stopped"] or a["known"])]
            result.skipped = [f"{a['name']}: {a['known']}" for a in attempts if a["known"]]
        result.processes_left = len(left_over(folder))
    result.seconds = round(time.monotonic() - began, 1)
    return result


def slow_tests(tests: tuple[str, ...]) -> list[str]:
    """The names of the tests that are marked slow."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", "-m", "slow", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "::" in line]


def attack(options: argparse.Namespace) -> list[Result]:
    """Run the short tests of every attack, then the longer ones of all in turn."""
    deadline = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    chosen = {name: tests for name, tests in ATTACKS.items() if options.only in name}
    results = {name: Result(name) for name in chosen}
    for name, tests in chosen.items():
        run_tests(results[name], list(tests), "not slow", None)
    longer = [
        (place, name, test)
        for name, tests in chosen.items()
        for place, test in enumerate(() if options.quick else slow_tests(tests))
    ]
    for _, name, test in sorted(longer):
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            results[name].not_run += 1
        else:
            run_tests(results[name], [test], "slow", left)
    found = list(results.values())
    return [*found, run_escapes()] if options.only in ESCAPES else found


def merged(results: list[Result]) -> list[dict[str, Any]]:
    """The rows of the file, with those of these attacks replaced."""
    path = RESULTS / "attack.json"
    before: list[dict[str, Any]] = []
    if path.exists():
        before = json.loads(path.read_text())["attacks"]
    rows = {row["attack"]: row for row in before if row["attack"] in {*ATTACKS, ESCAPES}}
    return list((rows | {r.attack: {**asdict(r), "outcome": r.outcome} for r in results}).values())


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = ["| attack | tries | outcome |", "|---|---:|---|"]
    lines += [f"| {one.attack} | {one.tries:,} | {one.outcome} |" for one in results]
    return "\n".join(lines)


def main() -> int:
    """Return 0 if everything held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the short tests only")
    parser.add_argument("--minutes", type=float, help="how long the longer tests may take")
    parser.add_argument("--only", default="", help="attacks whose name contains this")
    options = parser.parse_args()
    results = attack(options)
    print(table(results))
    path = save("attack", {"attacks": merged(results)})
    print(f"Written to {path}", file=sys.stderr)
    return int(any("FAILED" in one.outcome for one in results))


if __name__ == "__main__":
    sys.exit(main())
