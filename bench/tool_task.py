"""Has a local model do a task with tools: read two files, mend one, run the tests.

`bench/tool_task.py MODEL [--task NAME] [--attempts 20] [--save]` uses the daemon of `INGLE_HOME`,
with a model that it has. Each attempt is one `ingle -p --tools run` in a fresh folder.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import save
from startup import INGLE


@dataclass(frozen=True)
class Task:
    """Files of a folder, what is asked for, and the file among them whose run proves it."""

    files: dict[str, str]
    prompt: str
    test: str


TASKS = {
    "prices": Task(
        {
            "prices.py": 'RATE = 0.19\n\n\ndef gross(net):\n    """Return the price with tax."""\n'
            "    return net * RATE\n",
            "test_prices.py": "from prices import gross\n\nassert gross(100) == 119, gross(100)\n"
            'print("all tests passed")\n',
        },
        "The test in test_prices.py fails. Read prices.py and test_prices.py with read_file, mend "
        "prices.py with edit_file, then run `python3 test_prices.py` with run_command, and say "
        "whether it passes.",
        "test_prices.py",
    ),
    "words": Task(
        {
            "words.py": 'def longest(words):\n    """Return the longest of the words."""\n'
            '    best = ""\n    for word in words:\n        if len(word) < len(best):\n'
            "            best = word\n    return best\n",
            "test_words.py": 'from words import longest\n\nassert longest(["a", "sea"]) == "sea"\n'
            'assert longest([]) == ""\nprint("ok")\n',
        },
        "`python3 test_words.py` fails. Find the bug in words.py, fix it, and run the test to "
        "check.",
        "test_words.py",
    ),
    "stack": Task(
        {
            "stack.py": "class Stack:\n    def __init__(self):\n        self.items = []\n\n"
            "    def push(self, item):\n        self.items.append(item)\n\n"
            "    def pop(self):\n        return self.items.pop(0)\n",
            "test_stack.py": "from stack import Stack\n\ns = Stack()\ns.push(1)\ns.push(2)\n"
            'assert s.pop() == 2\nassert s.pop() == 1\nprint("all good")\n',
        },
        "The tests in test_stack.py do not pass. Please read stack.py, correct the mistake, and "
        "make sure that `python3 test_stack.py` succeeds.",
        "test_stack.py",
    ),
}
"""Failures of all three have shaped the tools: a figure to report needs a task of its own."""
STEP = re.compile(r"^Tool (\w+)( failed| declined)?: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Attempt:
    """What one attempt did; the task is done if the test, which is unchanged, passes now."""

    done: bool
    reads: int
    edits: int
    runs: int
    failed_calls: int
    status: int
    seconds: float
    steps: list[str]
    answer: str


def attempt(model: str, task: Task, limit: float) -> Attempt:
    """Let the model try once, for at most `limit` seconds."""
    with tempfile.TemporaryDirectory(prefix="ingle-task-") as name:
        folder = Path(name)
        for file, content in task.files.items():
            (folder / file).write_text(content)
        start = time.monotonic()
        command = ["timeout", str(limit), INGLE, "chat", model, "-p", task.prompt, "--tools", "run"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        seconds = round(time.monotonic() - start, 1)
        calls = STEP.findall(done.stderr)
        worked = [tool for tool, how, _ in calls if not how]
        return Attempt(
            done=_passes(folder, task),
            reads=worked.count("read_file"),
            edits=worked.count("edit_file") + worked.count("write_file"),
            runs=worked.count("run_command"),
            failed_calls=len(calls) - len(worked),
            status=done.returncode,
            seconds=seconds,
            steps=[f"{tool}{how}: {summary}" for tool, how, summary in calls],
            answer=done.stdout.strip(),
        )


def _passes(folder: Path, task: Task) -> bool:
    if (folder / task.test).read_text() != task.files[task.test]:
        return False
    return (
        subprocess.run([sys.executable, task.test], cwd=folder, capture_output=True).returncode == 0
    )


def main() -> int:
    """Print a line for each attempt, and the number of successes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("--task", choices=TASKS, default="stack")
    parser.add_argument("--attempts", type=int, default=20)
    parser.add_argument("--limit", type=float, default=600, help="seconds of one attempt")
    parser.add_argument("--save", action="store_true", help="write results/tool_task.json")
    options = parser.parse_args()
    attempts: list[Attempt] = []
    for _ in range(options.attempts):
        attempts.append(attempt(options.model, TASKS[options.task], options.limit))
        print(json.dumps(asdict(attempts[-1])), flush=True)
    successes = sum(each.done for each in attempts)
    print(f"{successes} of {len(attempts)} did the task")
    if options.save:
        facts = {"model": options.model, "task": options.task, "successes": successes}
        print(save("tool_task", {**facts, "attempts": [asdict(each) for each in attempts]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
