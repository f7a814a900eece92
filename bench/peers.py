"""The servers that ingle is measured beside, each set up as well as it can be."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ingle_server import IngleServer
from peer_environment import XLLAMACPP, llama_cpp_python_server, xllamacpp_python
from server import Server, Settings


class XllamacppServer(Server):
    """llama.cpp's own C++ server inside the prebuilt wheel of xllamacpp."""

    name = "xllamacpp"

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._python = xllamacpp_python()

    def command(self, model: Path) -> list[str]:
        """A child that makes the server and waits."""
        wanted = {"model": str(model), "port": self.port} | self.common()
        script = Path(__file__).with_name("xllamacpp_child.py")
        return [str(self._python), str(script), json.dumps(wanted)]

    def describe(self) -> dict[str, object]:
        """Version, settings, and the instruction sets the wheel was built for."""
        code = "import xllamacpp; print(xllamacpp.get_system_info())"
        built = subprocess.run(
            [str(self._python), "-c", code], capture_output=True, text=True, check=True
        )
        return {
            "version": XLLAMACPP,
            "build": built.stdout.strip(),
            "settings": self.common() | {"kv_unified": True, "verbosity": 1},
            "defaults_kept": "continuous batching, flash attention auto, n_batch 2048, "
            "n_ubatch 512, HTTP threads slots + 4, prompt cache in RAM",
        }


class LlamaServer(Server):
    """The `llama-server` on PATH."""

    name = "llama-server"

    def command(self, model: Path) -> list[str]:
        """llama-server with one KV cache for all slots."""
        return [
            *(str(_llama_server()), "--model", str(model)),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--ctx-size", str(self.settings.context), "--parallel", str(self.settings.slots)),
            *("--threads", str(self.settings.threads), "--kv-unified", "--no-webui"),
            *("--threads-batch", str(self.settings.threads), "--log-disable"),
        ]

    def describe(self) -> dict[str, object]:
        """Return version and settings."""
        shown = subprocess.run(
            [str(_llama_server()), "--version"], capture_output=True, text=True, check=False
        )
        return {
            "version": (shown.stdout + shown.stderr).strip().splitlines()[:2],
            "settings": self.common() | {"kv_unified": True},
        }


class LlamaCppPythonServer(Server):
    """llama-cpp-python's own server, over the same build of the library that ingle uses.

    It answers one request at a time, counts no tokens while it streams, and cannot ignore an end
    of sequence: a bias would send every token through Python and slow it down.
    """

    name = "llama-cpp-python"
    can_ignore_eos = False

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._python, self._library = llama_cpp_python_server()

    def command(self, model: Path) -> list[str]:
        """Its server module; by default it would keep all logits and cut streams short."""
        return [
            *(str(self._python), "-m", "llama_cpp.server", "--model", str(model)),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--n_ctx", str(self.settings.context)),
            *("--n_threads", str(self.settings.threads)),
            *("--n_threads_batch", str(self.settings.threads)),
            *("--logits_all", "false", "--flash_attn", "true", "--verbose", "false"),
            *("--interrupt_requests", "false"),
        ]

    def environment(self) -> dict[str, str]:
        """Where the library lies."""
        return {"PYTHONPATH": str(self._library)}

    def ready(self) -> bool:
        """It has no /health; it listens once the model is loaded."""
        return self.get("/v1/models")

    def response_format(self, schema: dict[str, Any]) -> dict[str, object]:
        """Its own form of a schema."""
        return {"type": "json_object", "schema": schema}

    def describe(self) -> dict[str, object]:
        """Return version and settings."""
        return {
            "version": version("llama-cpp-python"),
            "settings": self.common()
            | {
                "slots": 1,
                "logits_all": False,
                "flash_attn": True,
                "interrupt_requests": False,
            },
        }


SERVERS: dict[str, Callable[[Settings, Path], Server]] = {
    kind.name: kind for kind in (IngleServer, XllamacppServer, LlamaServer, LlamaCppPythonServer)
}


def available() -> list[str]:
    """The peers that can run here."""
    return [name for name in SERVERS if name != "ingle" and (name != "llama-server" or _found())]


def _found() -> bool:
    return shutil.which("llama-server") is not None


def _llama_server() -> str:
    path = shutil.which("llama-server")
    if path is None:
        raise FileNotFoundError("There is no llama-server on PATH.")
    return path
