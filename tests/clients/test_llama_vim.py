"""llama.vim in neovim: infill (FIM) completion through its key mappings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Daemon, Installed, Runner

pytestmark = [pytest.mark.model, pytest.mark.clients]


class Editor:
    """A headless neovim, controlled over its socket."""

    def __init__(self, nvim: Path, run_client: Runner, settings: str, file: str) -> None:
        (run_client.work / "settings.vim").write_text(settings)
        self._nvim, self._run = nvim, run_client
        self._socket = run_client.work / "nvim.sock"
        command = (nvim, "--headless", "--listen", self._socket, "-u", "settings.vim", file)
        self._process = run_client.start(*command)
        self.until(self._socket.exists)

    def press(self, keys: str) -> None:
        """Press keys, in the notation of its mappings."""
        self._run(self._nvim, "--server", self._socket, "--remote-send", keys)

    def evaluate(self, expression: str) -> str:
        """The value of a Vim expression."""
        return self._run(self._nvim, "--server", self._socket, "--remote-expr", expression).strip()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; fails after a minute."""
        deadline = time.monotonic() + 60
        while not condition():
            assert self._process.poll() is None, "the editor ended"
            assert time.monotonic() < deadline, "it does not come"
            time.sleep(0.1)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def editor(
    daemon: Daemon, coder: str, installed: Installed, run_client: Runner
) -> Iterator[Editor]:
    """A neovim with llama.vim, and a file with a missing expression."""
    nvim, plugin = installed.path("neovim", "nvim"), installed.path("neovim", "llama.vim")
    (run_client.work / "sum.py").write_text("def add(a, b):\n    return \n\nprint(add(1, 2))\n")
    config = {
        "endpoint_fim": f"{daemon.url}/infill",
        "model_fim": coder,
        "keymap_fim_trigger": "<C-F>",
        "t_max_predict_ms": 60000,  # the machine may be busy
        "show_info": 2,
    }
    settings = (
        "set nocompatible noswapfile\n"
        f"let g:llama_config = {json.dumps(config)}\n"
        f"set runtimepath+={plugin}\nruntime plugin/llama.vim\n"
    )
    running = Editor(nvim, run_client, settings, "sum.py")
    yield running
    running.close()


def test_llama_vim_fills_in(editor: Editor, run_client: Runner) -> None:
    """A suggestion appears behind the cursor, with its timings, and Tab accepts it."""
    editor.press("2GA")
    editor.press("<C-F>")
    editor.until(lambda: editor.evaluate("llama#is_fim_hint_shown()") in ("1", "v:true", "true"))
    editor.press("<Tab>")
    editor.press("<Esc>:write<CR>")
    file = run_client.work / "sum.py"
    editor.until(lambda: "a + b" in file.read_text().splitlines()[1])
