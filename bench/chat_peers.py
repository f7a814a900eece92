"""Other chats of the terminal, each in an environment of its own, asking the scripted daemon."""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from chat_daemon import MODEL
from chat_program import HERE, ChatProgram
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
        return "Enter send" in screen

    def keep_turns(self, turns: Iterable[tuple[str, str]]) -> list[str]:
        """A conversation as it writes one."""
        at = "2026-01-01T00:00:00"
        folder = self.folder / ".local" / "share" / "gptme" / "logs" / "kept"
        folder.mkdir(parents=True, exist_ok=True)
        records = [
            {"role": role, "content": content, "timestamp": at}
            for turn in turns
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]
        _write_lines(folder / "conversation.jsonl", records)
        return [*self.command, "--resume", "kept"]


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

    def keep_turns(self, turns: Iterable[tuple[str, str]]) -> list[str]:
        """Write a rollout in its format: the model's input, and the screen's contents."""
        name, at = str(uuid.uuid4()), "2026-01-01T00:00:00.000Z"
        about = {"session_id": name, "id": name, "timestamp": at, "cwd": str(self.folder)}
        about |= {"originator": "codex-tui", "cli_version": self.version, "source": "cli"}
        lines: list[tuple[str, Mapping[str, object]]] = [
            ("session_meta", {**about, "model_provider": "bench"})
        ]
        for prompt, answer in turns:
            asked = [{"type": "input_text", "text": prompt}]
            said = [{"type": "output_text", "text": answer}]
            lines += [
                ("response_item", {"type": "message", "role": "user", "content": asked}),
                ("event_msg", {"type": "user_message", "message": prompt}),
                ("event_msg", {"type": "agent_message", "message": answer}),
                ("response_item", {"type": "message", "role": "assistant", "content": said}),
            ]
        folder = self.folder / ".codex" / "sessions" / "2026" / "01" / "01"
        folder.mkdir(parents=True, exist_ok=True)
        records = [{"timestamp": at, "type": kind, "payload": what} for kind, what in lines]
        _write_lines(folder / f"rollout-2026-01-01T00-00-00-{name}.jsonl", records)
        return [*self.command, "resume", name]


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


class Vibe(ChatProgram):
    """Mistral Vibe, with a screen in Rust; it needs Python 3.12."""

    name = "vibe"
    version: ClassVar[str] = "3.0.2"

    def prepare(self) -> None:
        """Name the provider and the model."""
        self._bin = python_program("mistral-vibe", self.version, python="3.12")
        settings = self.folder / ".vibe"
        settings.mkdir()
        (settings / "config.toml").write_text(
            'active_model = "bench"\nenable_update_checks = false\nenable_telemetry = false\n'
            f'[[providers]]\nname = "bench"\napi_base = "http://127.0.0.1:{self.port}/v1"\n'
            f'[[models]]\nname = "{MODEL}"\nprovider = "bench"\nalias = "bench"\n'
        )

    @property
    def command(self) -> list[str]:
        return [str(self._bin / "vibe")]

    def can_be_typed_in(self, screen: str) -> bool:
        return "tokens (" in screen


class Oterm(ChatProgram):
    """oterm, which opens a form for a new chat."""

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
        """It can be given commands; there is no chat yet."""
        return "Ctrl+N" in screen or "submit" in screen

    def open_chat(self, terminal: PseudoTerminal) -> None:
        """Fill in the form with the only model there is."""
        if "submit" in terminal.text:
            return  # it opens the chats of the last time
        terminal.type("\x0e")
        if terminal.wait_for_screen(lambda screen: MODEL in screen and "Save" in screen) is None:
            raise RuntimeError(f"its form did not come; the screen:\n{terminal.text}")
        terminal.click(MODEL)
        terminal.rest(0.5)
        terminal.click("Save")
        if terminal.wait_for_screen(lambda screen: "submit" in screen) is None:
            raise RuntimeError(f"its form was not taken; the screen:\n{terminal.text}")


class ClaudeCode(ChatProgram):
    """Claude Code, with the scripted daemon in the place of its service."""

    name = "claude-code"
    whole_screen = False
    version: ClassVar[str] = "2.1.197"
    """The newest one that runs on Node 20."""

    def prepare(self) -> None:
        """Answer the questions of the first start, and trust the working folder."""
        self._program = npm_program("@anthropic-ai/claude-code", self.version, "claude")
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "autoUpdates": False,
            "projects": {str(self.folder): trusted},
        }
        (self.folder / ".claude.json").write_text(json.dumps(settings))

    @property
    def command(self) -> list[str]:
        return [str(self._program)]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}",
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ANTHROPIC_MODEL": MODEL,
            "ANTHROPIC_SMALL_FAST_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def can_be_typed_in(self, screen: str) -> bool:
        return "❯" in screen or "> " in screen

    def keep_turns(self, turns: Iterable[tuple[str, str]]) -> list[str]:
        """A transcript as it writes one."""
        session, at = str(uuid.uuid4()), "2026-01-01T00:00:00.000Z"
        about = {"isSidechain": False, "userType": "external", "cwd": str(self.folder)}
        about |= {"sessionId": session, "version": self.version, "timestamp": at}
        records: list[dict[str, object]] = []
        parent: str | None = None
        for prompt, answer in turns:
            usage = {"input_tokens": 9, "output_tokens": 9}
            said = [{"type": "text", "text": answer}]
            head = {"id": "m", "type": "message", "model": MODEL, "usage": usage}
            messages = (
                {"role": "user", "content": prompt},
                {**head, "role": "assistant", "content": said, "stop_reason": "end_turn"},
            )
            for message in messages:
                own = str(uuid.uuid4())
                links = {"type": message["role"], "uuid": own, "parentUuid": parent}
                records.append({**about, **links, "message": message})
                parent = own
        folder = self.folder / ".claude" / "projects" / re.sub(r"[^\w]|_", "-", str(self.folder))
        folder.mkdir(parents=True, exist_ok=True)
        _write_lines(folder / f"{session}.jsonl", records)
        return [*self.command, "--resume", session]


class Aider(ChatProgram):
    """aider: a prompt of prompt_toolkit's, which is away while it answers."""

    name = "aider"
    whole_screen = False
    takes_keys_while_answering = False
    version: ClassVar[str] = "0.86.2"

    def prepare(self) -> None:
        """Nothing but the program."""
        self._bin = python_program("aider-chat", self.version)

    @property
    def command(self) -> list[str]:
        quiet = ["--no-git", "--no-check-update", "--no-show-model-warnings", "--yes-always"]
        model = ["--model", f"openai/{MODEL}", "--edit-format", "ask"]
        return [str(self._bin / "aider"), *model, *quiet, "--analytics-disable", "--no-gitignore"]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "OPENAI_API_BASE": f"http://127.0.0.1:{self.port}/v1",
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def can_be_typed_in(self, screen: str) -> bool:
        return any(line.startswith(("> ", "ask> ", "ask>")) for line in screen.splitlines())


class Llm(ChatProgram):
    """`llm chat`: a line that is read, an answer that is printed."""

    name = "llm-chat"
    whole_screen = False
    takes_keys_while_answering = False
    version: ClassVar[str] = "0.36"

    def prepare(self) -> None:
        """Name the scripted daemon as a model of OpenAI's kind."""
        self._bin = python_program("llm", self.version)
        (self.folder / "extra-openai-models.yaml").write_text(
            f"- model_id: bench\n  model_name: {MODEL}\n"
            f"  api_base: http://127.0.0.1:{self.port}/v1\n"
        )

    @property
    def command(self) -> list[str]:
        return [str(self._bin / "llm"), "chat", "-m", "bench"]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "LLM_USER_PATH": str(self.folder), "OPENAI_API_KEY": "none"}

    def can_be_typed_in(self, screen: str) -> bool:
        return any(line.startswith(">") for line in screen.splitlines())


class Toad(ChatProgram):
    """toad, with an agent that passes prompts to the scripted daemon; it needs Python 3.14."""

    name = "toad"
    version: ClassVar[str] = "0.6.20"

    def prepare(self) -> None:
        """Nothing but the program."""
        self._bin = python_program("batrachian-toad", self.version, python="3.14")

    @property
    def command(self) -> list[str]:
        agent = f"{sys.executable} {HERE / 'acp_agent.py'} {self.port}"
        return [str(self._bin / "toad"), "acp", agent, str(self.folder)]

    def can_be_typed_in(self, screen: str) -> bool:
        return "⏎ Send" in screen


PEERS: tuple[type[ChatProgram], ...] = (
    Codex,
    ClaudeCode,
    Opencode,
    Vibe,
    Elia,
    Gptme,
    Oterm,
    Aider,
    Llm,
    Toad,
)
NOT_MEASURED = {"crush": "its package downloads the program from a place of its own"}
"""Chats that are known, and why they are not among the peers."""


def make_peers(folder: Path, port: int) -> list[ChatProgram]:
    """All peers, not prepared yet."""
    return [kind(folder / kind.name, port) for kind in PEERS]


def _write_lines(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
