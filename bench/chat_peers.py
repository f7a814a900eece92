"""Other chats of the terminal, each in an environment of its own, asking the scripted daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from chat_daemon import MODEL
from chat_program import ChatProgram
from peer_environment import npm_program, python_program
from pseudo_terminal import PseudoTerminal


class Elia(ChatProgram):
    """elia, the first of Textual's chats; ctrl+j sends."""

    name = "elia"
    version: ClassVar[str] = "1.10.0"
    submit = "\n"

    def prepare(self) -> None:
        """Name the scripted daemon as a model of OpenAI's kind."""
        self._bin = python_program("elia-chat", self.version)
        settings = self.folder / ".config" / "elia" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'default_model = "openai/{MODEL}"\n[[models]]\nname = "openai/{MODEL}"\n'
            f'api_base = "http://127.0.0.1:{self.port}/v1"\napi_key = "none"\n'
        )

    @property
    def command(self) -> list[str]:
        return [str(self._bin / "elia")]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "OPENAI_API_KEY": "none"}

    def can_be_typed_in(self, screen: str) -> bool:
        return "Enter your message" in screen or "Search" in screen


class Gptme(ChatProgram):
    """gptme's chat on a screen."""

    name = "gptme-tui"
    version: ClassVar[str] = "0.35.1"

    def prepare(self) -> None:
        """Nothing but the program; the rest is in variables."""
        self._bin = python_program("gptme", self.version, "textual")

    @property
    def command(self) -> list[str]:
        return [str(self._bin / "gptme-tui"), "--model", f"local/{MODEL}"]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.port}/v1",
            "OPENAI_API_KEY": "none",
        }

    def can_be_typed_in(self, screen: str) -> bool:
        return MODEL in screen


class Codex(ChatProgram):
    """Codex, in Rust, with the scripted daemon as its provider."""

    name = "codex"
    whole_screen = False
    version: ClassVar[str] = "0.169.0"

    def prepare(self) -> None:
        """Name the provider, and trust the folder it works in."""
        self._program = npm_program("@openai/codex", self.version, "codex")
        settings = self.folder / ".codex" / "config.toml"
        settings.parent.mkdir()
        settings.write_text(
            f'model = "{MODEL}"\nmodel_provider = "bench"\ncheck_for_update_on_startup = false\n'
            '[model_providers.bench]\nname = "bench"\nwire_api = "responses"\n'
            f'base_url = "http://127.0.0.1:{self.port}/v1"\n'
            f'[projects."{self.folder}"]\ntrust_level = "trusted"\n'
        )

    @property
    def command(self) -> list[str]:
        return [str(self._program)]

    def can_be_typed_in(self, screen: str) -> bool:
        return "›" in screen and MODEL in screen


class Opencode(ChatProgram):
    """opencode, on Bun."""

    name = "opencode"
    version: ClassVar[str] = "1.18.33"

    def prepare(self) -> None:
        """Name the scripted daemon as a provider that is compatible with OpenAI."""
        self._program = npm_program("opencode-ai", self.version, "opencode")
        settings = self.folder / ".config" / "opencode" / "opencode.json"
        settings.parent.mkdir(parents=True)
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"http://127.0.0.1:{self.port}/v1", "apiKey": "none"},
            "models": {MODEL: {"name": MODEL}},
        }
        content = {"model": f"bench/{MODEL}", "provider": {"bench": provider}, "autoupdate": False}
        settings.write_text(json.dumps(content))

    @property
    def command(self) -> list[str]:
        return [str(self._program)]

    def can_be_typed_in(self, screen: str) -> bool:
        return "Ask anything" in screen


class Oterm(ChatProgram):
    """oterm; a chat needs a form of many fields first, so that only its start is measured."""

    name = "oterm"
    version: ClassVar[str] = "0.26.1"

    def prepare(self) -> None:
        """Nothing but the program."""
        self._bin = python_program("oterm", self.version)

    @property
    def command(self) -> list[str]:
        return [str(self._bin / "oterm")]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "OLLAMA_HOST": f"127.0.0.1:{self.port}",
            "OTERM_SPLASH_ENABLED": "0",
        }

    def can_be_typed_in(self, screen: str) -> bool:
        return "New chat" in screen or "Ctrl+N" in screen or "^n" in screen

    def open_chat(self, terminal: PseudoTerminal) -> None:
        """Only its start is measured."""
        raise RuntimeError("a chat needs a form of ten fields first; only its start is measured")


PEERS: tuple[type[ChatProgram], ...] = (Codex, Opencode, Elia, Gptme, Oterm)
NOT_MEASURED = {"toad": "needs Python 3.14, and an agent that speaks ACP"}
"""Chats that are known, and why they are not among the peers."""


def make_peers(folder: Path, port: int) -> list[ChatProgram]:
    """All peers, not prepared yet."""
    return [kind(folder / kind.name, port) for kind in PEERS]
