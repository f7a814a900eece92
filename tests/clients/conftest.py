"""A daemon for third-party clients, with SmolLM2, Qwen2.5-Coder and scripted models."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import httpx
import numpy as np
import platformdirs
import pytest

from ingle.models.metadata.manifest import Manifest, write_manifest

_HERE = Path(__file__).parent
_MIB = 2**20
_SCRIPT_CONTEXT = 131072
_PROMPT_TOKENS = re.compile(r"^ingle_prompt_tokens_total\{.*\} (.*)$", re.MULTILINE)
# Read before a fixture clears the environment.
_INSTALLED = Path(
    os.environ.get("INGLE_TEST_CLIENTS") or platformdirs.user_cache_path("ingle") / "test-clients"
)

# The tool format of Hermes and Qwen: JSON in `<tool_call>`, results in `<tool_response>`.
_TEMPLATE = """\
{%- macro say(role, text) -%}<|im_start|>{{ role }}
{{ text }}<|im_end|>
{% endmacro -%}
{%- if tools %}{% set listed %}Call a tool with <tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call>. The tools:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>{% endset %}{{ say("system", listed) }}{% endif -%}
{%- for message in messages -%}
{%- if message.role == "tool" -%}
{{ say("user", "<tool_response>\\n" ~ message.content ~ "\\n</tool_response>") }}
{%- elif message.tool_calls -%}
{%- set calls -%}
{{ message.content or "" }}
{%- for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
{%- endset -%}
{{ say("assistant", calls) }}
{%- else -%}
{{ say(message.role, message.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


class Daemon:
    """`ingle serve` in its own process and home, on a free port and a unix socket."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = home / "ingle.sock"
        self.log = home / "serve.log"
        environ = {n: v for n, v in os.environ.items() if not n.startswith("INGLE_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", str(_HERE / "serve_scripts.py")),
                    *("--port", "0", "--socket", str(self.socket)),
                ],
                env={**environ, "INGLE_HOME": str(home), "INGLE_CONTEXT": "0"},
                stderr=log,
            )
        deadline = time.monotonic() + 120
        while not self.socket.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.01)
        self.http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)),
            base_url="http://localhost",
            timeout=600,
        )
        self.url = f"http://{self.http.get('/ingle/v1/status').json()['address']}"
        """Where the daemon listens, without a path."""

    def install(self, model: Path) -> None:
        """Hard-link a cached model into this daemon's store unless it is there already."""
        folder = self.home / "models" / model.parent.parent.name / model.parent.name
        if not folder.exists():
            shutil.copytree(model.parent, folder, copy_function=os.link)

    def install_scripted(self, name: str, *, first: str, after: dict[str, str]) -> str:
        """Install a model that replies `first`, or the `after` value whose key the prompt has.

        Returns its name.
        """
        folder = self.home / "models" / name / "scripted"
        folder.mkdir(parents=True, exist_ok=True)
        script = {"reply": first, "replies": after}
        (folder / "script.json").write_text(json.dumps(script))
        model = folder / "model.gguf"
        _write_model(model)
        facts = Manifest(
            name=f"{name}:scripted",
            file=model.name,
            size=model.stat().st_size,
            sha256="0" * 64,
            licence="Apache-2.0",
            description="Follows a script.",
            parameters=1,
            quantization="F32",
            architecture="llama",
            context=_SCRIPT_CONTEXT,
            chat=True,
            source="test",
        )
        write_manifest(folder, facts)
        return facts.name

    def prompt_tokens(self) -> int:
        """The number of prompt tokens that loaded models computed, without cached ones."""
        text = self.http.get("/metrics").text
        return sum(int(float(count)) for count in _PROMPT_TOKENS.findall(text))

    def stop(self) -> None:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def _write_model(path: Path) -> None:
    """The smallest file that names a context and a template."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(_SCRIPT_CONTEXT)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b"])
    writer.add_chat_template(_TEMPLATE)
    writer.add_tensor("token_embd.weight", np.zeros((2, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def daemon(smollm2_path: Path) -> Iterator[Daemon]:
    """One daemon for all clients, with SmolLM2."""
    home = smollm2_path.parents[3] / f"clients-{os.getpid()}"  # hard links need one disk
    home.mkdir()
    try:
        running = Daemon(home)
        running.install(smollm2_path)
        yield running
        running.stop()
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def coder(daemon: Daemon, fetch_model: Callable[[str], Path]) -> str:
    """The name of a model for the long prompts of agents."""
    daemon.install(fetch_model("qwen2.5-coder:0.5b"))
    return "qwen2.5-coder:0.5b"


@pytest.fixture
def record_prompt_tokens(
    daemon: Daemon, record_property: Callable[[str, object], None]
) -> Iterator[None]:
    """Record in the report how many prompt tokens the test computed."""
    before = daemon.prompt_tokens()
    yield
    record_property("prompt_tokens", daemon.prompt_tokens() - before)


@pytest.fixture
def make_tool_call() -> Callable[..., str]:
    """Formats a tool call as the scripted models write it."""

    def write(tool: str, **arguments: object) -> str:
        return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"

    return write


class Installed:
    """Programs that scripts/test-clients installed."""

    def path(self, *names: str) -> Path:
        """The path of a program; skips the test with the reason if it is not installed."""
        found = _INSTALLED.joinpath(*names)
        if not found.exists():
            reason = _INSTALLED / names[0] / "not-installed.txt"
            why = reason.read_text() if reason.exists() else "scripts/test-clients installs it"
            pytest.skip(f"{'/'.join(names)} is not here: {why.strip()}")
        return found

    def python(self, name: str, program: str, *packages: str) -> Path:
        """A program of Python packages, which uv installs if it is missing; else skips the test."""
        folder = _INSTALLED / name
        if not (found := folder / "bin" / program).exists():
            for arguments in (
                ("venv", "--clear", "--python", sys.executable, folder),
                ("pip", "install", "--python", folder, *packages),
            ):
                done = subprocess.run(
                    ["uv", *map(str, arguments)], capture_output=True, text=True, check=False
                )
                if done.returncode:
                    shutil.rmtree(folder, ignore_errors=True)
                    pytest.skip(f"{name} cannot be installed: {done.stderr.strip()[-300:]}")
        return found

    def node(self) -> Path:
        """The folder of a Node.js that is new enough for all clients."""
        return self.path("node", "node_modules", ".bin")


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Programs that scripts/test-clients installed."""
    return Installed()


class Runner:
    """Runs programs in an empty folder, with their own home and a minimal environment."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()

    def __call__(
        self,
        *command: str | Path,
        path: list[Path] | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 900,
    ) -> str:
        """The output of the program; fails with stdout and stderr on a non-zero exit status."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.work,
            env=self._environment(path or []) | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        output = f"{done.stdout}\n--- stderr:\n{done.stderr}"
        assert done.returncode == 0, f"ended with {done.returncode}:\n{output}"
        print(output)  # pytest shows it if the test fails
        return done.stdout

    def start(self, *command: str | Path) -> subprocess.Popen[bytes]:
        """Start a program in the background; the caller stops it."""
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=self.work,
            env=self._environment([]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _environment(self, path: list[Path]) -> dict[str, str]:
        folders = [*map(str, path), "/usr/local/bin", "/usr/bin", "/bin"]
        return {"HOME": str(self.home), "PATH": ":".join(folders), "TERM": "dumb"}


@pytest.fixture
def run_client(tmp_path: Path) -> Runner:
    """Runs programs in an empty folder, with their own home and a minimal environment."""
    return Runner(tmp_path)
