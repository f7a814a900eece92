"""ingle itself, as its users run it."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
from importlib.metadata import version
from pathlib import Path

from server import Server

_INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")


class IngleServer(Server):
    """The daemon with a home of its own; restart and swap go through its own commands."""

    name = "ingle"

    def command(self, model: Path) -> list[str]:
        """The daemon; `start` loads the model."""
        return [_INGLE, "serve", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """A home of its own, and the settings of the comparison."""
        return {
            "INGLE_HOME": str(self.folder),
            "INGLE_CONTEXT": str(self.settings.context),
            "INGLE_SLOTS": str(self.settings.slots),
            "INGLE_THREADS": str(self.settings.threads),
            "INGLE_SPECULATION": self.settings.speculation,
        }

    def describe(self) -> dict[str, object]:
        """Return version and settings."""
        return {
            "version": version("ingle"),
            "llama_cpp_python": version("llama-cpp-python"),
            "settings": self.common(),
        }

    def start(self, model: Path) -> float:
        """Seconds until the daemon is up and the model is loaded."""
        begin = time.perf_counter()
        super().start(model)
        self._load(model)
        return time.perf_counter() - begin

    def stop(self) -> None:
        """`ingle stop`, as a user would."""
        if self.process is not None and self.process.poll() is None:
            subprocess.run(
                [_INGLE, "stop"],
                env=os.environ | self.environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=60,
            )
        super().stop()

    def swap(self, other: Path) -> float:
        """Unload the model, then load the other; the daemon stays."""
        begin = time.perf_counter()
        self.post("/ingle/v1/unload", {"model": self.model_name()})
        self._load(other)
        return time.perf_counter() - begin

    def model_name(self) -> str:
        """A model given by its path has that path as its name."""
        return str(self.model)

    def _load(self, model: Path) -> None:
        self.model = model
        self.post("/ingle/v1/load", {"model": str(model), "keep_alive": -1})
