"""A small agent with the instructions and tools of a real one: off, slim and lazy compared.

`bench/agent_diet.py MODEL CAPTURED` has a model do small tasks (`agent_tasks.py`). CAPTURED is the
JSON body of a request of Claude Code or Codex that you recorded: what it says belongs to its
author, so none is kept here. The diets are the daemon's (`agent_diet`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_prefix import AgentServer
from agent_tasks import TASKS, Task
from machine import median, save
from server import Settings

DIETS = ("off", "slim", "lazy")
MOST_TURNS = 6
ANSWER_TOKENS = 400
RESULT_CHARACTERS = 4000
INSTRUCTIONS = (
    "You are a coding agent. Do what is asked with the tools. When it is done, answer briefly."
)

Json = dict[str, Any]


def captured_tools(path: Path) -> list[Json]:
    """Return the tools of a request of Claude Code or Codex, as chat completions have them."""
    return [_function(tool) for tool in _flat(json.loads(path.read_text())["tools"])]


def _flat(tools: list[Json]) -> list[Json]:
    found: list[Json] = []
    for tool in tools:
        found += _flat(tool["tools"]) if tool.get("type") == "namespace" else [tool]
    return [tool for tool in found if tool.get("parameters") or tool.get("input_schema")]


def _function(tool: Json) -> Json:
    parameters = tool.get("parameters") or tool["input_schema"]
    named = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": {**named, "parameters": parameters}}


class Tools:
    """The tools that the tasks need, in a folder; others are said to be unavailable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tools: dict[str, Callable[[Json], str]] = {
            "Bash": lambda given: self._shell(given["command"]),
            "exec_command": lambda given: self._shell(given["cmd"]),
            "Read": lambda given: self._path(given).read_text(errors="replace"),
            "Write": self._write,
            "Edit": self._edit,
        }

    def __call__(self, name: str, arguments: str) -> str:
        """The result of a call, as text."""
        if name not in self._tools:
            return f"The tool {name} is not available here."
        try:
            result = self._tools[name](json.loads(arguments))
        except KeyError as missing:
            return f"The argument {missing} is missing."
        except (OSError, ValueError, TypeError, subprocess.TimeoutExpired) as error:
            return f"Error: {error}"
        return result[:RESULT_CHARACTERS] or "(no output)"

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
        return done.stdout + (f"\nexit status {done.returncode}" if done.returncode else "")

    def _path(self, given: Json) -> Path:
        path = (self._folder / given["file_path"]).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise ValueError(f"{path} is outside the working folder")
        return path

    def _write(self, given: Json) -> str:
        path = self._path(given)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["content"])
        return f"{path} was written."

    def _edit(self, given: Json) -> str:
        path, old = self._path(given), given["old_string"]
        text = path.read_text()
        if text.count(old) != 1 and not given.get("replace_all"):
            raise ValueError(f"old_string is there {text.count(old)} times, not once")
        path.write_text(text.replace(old, given["new_string"]))
        return f"{path} was edited."


@dataclass
class Attempt:
    """One task; tokens and seconds of all its turns."""

    said: str
    done: bool = False
    turns: int = 0
    calls: list[str] = field(default_factory=list[str])
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0
    answer: str = ""


def attempt(server: AgentServer, tools: list[Json], task: Task) -> Attempt:
    """Let the model try once, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="ingle-agent-") as name:
        folder = Path(name).resolve()
        for file, content in task.files.items():
            (folder / file).write_text(content)
        result = Attempt(task.said)
        began = time.perf_counter()
        _converse(server, tools, f"Working directory: {folder}\n\n{task.said}", result, folder)
        result.seconds = round(time.perf_counter() - began, 2)
        result.done = _checked(task, folder, result.answer)
    return result


def _converse(
    server: AgentServer, tools: list[Json], said: str, result: Attempt, folder: Path
) -> None:
    """Let the model call tools until it answers without, for at most `MOST_TURNS` turns."""
    call_tool = Tools(folder)
    messages: list[Json] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": said},
    ]
    while result.turns < MOST_TURNS:
        body: Json = {
            "model": server.model_name(),
            "messages": messages,
            "tools": tools,
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
        }
        answer = server.post("/v1/chat/completions", body)
        usage, message = answer["usage"], answer["choices"][0]["message"]
        result.turns += 1
        result.prompt_tokens = usage["prompt_tokens"]
        result.cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]
        result.answer_tokens += usage["completion_tokens"]
        result.answer = message.get("content") or ""
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            name, given = call["function"]["name"], call["function"]["arguments"]
            result.calls.append(f"{name} {given}"[:200])
            told = call_tool(name, given)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})


def _checked(task: Task, folder: Path, answer: str) -> bool:
    try:
        return task.done(folder, answer)
    except (OSError, subprocess.TimeoutExpired):
        return False


class DietServer(AgentServer):
    """The daemon with a diet."""

    diet = "off"

    def environment(self) -> dict[str, str]:
        """Return the variables of the comparison, and the diet."""
        return super().environment() | {"INGLE_AGENT_DIET": self.diet}


def run(options: argparse.Namespace, diet: str) -> Json:
    """Return what was measured with one diet."""
    tools = captured_tools(options.captured)
    settings = Settings(threads=0, slots=options.together, context=options.context)
    with tempfile.TemporaryDirectory(prefix="ingle-diet-") as folder:
        server = DietServer(settings, Path(folder))
        server.diet = diet

        def do(task: Task) -> Attempt:
            one = attempt(server, tools, task)
            line = (
                f"{diet}: {'done' if one.done else 'not done'} in {one.seconds:.1f} s: {task.said}"
            )
            print(line, one.calls, repr(one.answer[:200]), file=sys.stderr, flush=True)
            return one

        try:
            server.start(options.model.absolute())
            first, *others = TASKS[:: options.every]
            attempts = [do(first)]  # its tools are then known for the others
            with ThreadPoolExecutor(options.together) as pool:
                attempts += pool.map(do, others)
        finally:
            server.stop()
    return {
        "done": sum(one.done for one in attempts),
        "tasks": len(attempts),
        "first_seconds": attempts[0].seconds,
        "median_seconds": median([one.seconds for one in attempts[1:]]),
        "median_last_prompt": median([one.prompt_tokens for one in attempts]),
        "median_turns": median([one.turns for one in attempts]),
        "attempts": [asdict(one) for one in attempts],
    }


def main() -> None:
    """Measure, print a line for each diet, and write bench/results/agent-diet-*.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("captured", type=Path)
    parser.add_argument("--agent", default="agent", help="its name, for the result")
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--every", type=int, default=1, help="try only each N-th task")
    parser.add_argument("--together", type=int, default=4, help="tasks at the same time")
    parser.add_argument("--diets", nargs="+", choices=DIETS, default=list(DIETS))
    options = parser.parse_args()
    results: Json = {}
    for diet in options.diets:
        results[diet] = one = run(options, diet)
        print(diet, {key: value for key, value in one.items() if key != "attempts"}, flush=True)
    facts = {"model": options.model.name, "agent": options.agent, "context": options.context}
    print(save(f"agent-diet-{options.agent}-{options.model.stem}", {**facts, "results": results}))


if __name__ == "__main__":
    main()
