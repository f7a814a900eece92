"""`ingle eval`: side-by-side comparison of two models, prompt files and stored chats."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from ingle.daemon.cli.evaluation.eval import prompts_of_chats
from ingle.daemon.main import main
from ingle.daemon.settings.paths import find_paths
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, Role
from ingle.tui.history.history_store import open_history

Capture = pytest.CaptureFixture[str]
WriteSmallLlama = Callable[..., Path]


@pytest.fixture
def models(tmp_path: Path, write_small_llama: WriteSmallLlama) -> tuple[str, str]:
    full = write_small_llama(tmp_path / "full.gguf")
    return str(write_small_llama(tmp_path / "small.gguf", kind="Q4_0")), str(full)


@pytest.mark.slow
def test_side_by_side_report_fits_80_columns(models: tuple[str, str], capsys: Capture) -> None:
    small, full = models
    status = main(["eval", small, "--against", full, "--limit", "3", "--tokens", "12"])
    shown = capsys.readouterr().out
    assert status == 0
    assert "Verdict: " in shown
    assert "fuller (" in shown
    assert " │ smaller (" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_json_output_for_a_prompt_file(
    models: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    small, full = models
    prompts = tmp_path / "mine.jsonl"
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the inn"}]
    prompts.write_text(f'{{"prompt": "the hen"}}\n\n{json.dumps({"messages": turns})}\n"thin"\n')
    arguments = ["--prompts", str(prompts), "--tokens", "5", "--json"]
    assert main(["eval", small, "--against", full, *arguments]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [result["prompt"] for result in values["results"]] == ["the hen", "the inn", "thin"]
    assert values["kl"]["low"] <= values["kl"]["mean"] <= values["kl"]["high"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no prompt"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"{}\n", "line 1 has neither"),
        (b'{"prompt": "a"}\n{"prompt": 3}', "line 2 has neither"),
        (b'{"prompt": "a"\n', "line 1 is not JSON"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', "line 1 has neither"),
        (b'{"messages": [{"role": "user", "content": " "}]}', "line 1 has neither"),
        (b"[" * 100_000, "line 1 is not JSON"),
    ],
)
def test_invalid_prompt_files_are_rejected(
    content: bytes, message: str, models: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert main(["eval", models[0], "--against", models[1], "--prompts", str(path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_text_file_is_split_into_prompts_at_blank_lines(
    models: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.txt"
    path.write_text("the hen\nis thin\n\n\n \t\nin the inn\n")
    arguments = ["--prompts", str(path), "--tokens", "2", "--json"]
    assert main(["eval", models[0], "--against", models[1], *arguments]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["prompt"] for result in results] == ["the hen\nis thin", "in the inn"]


def store_chat(*texts: str) -> None:
    store = open_history(find_paths(os.environ).chats, lambda _: None)
    chat = Chat()
    store.add_chat(chat)
    parent: str | None = None
    for text in texts:
        message = chat.add(Message(role="user", content=text, parent=parent))
        store.add_message(chat.id, message)
        parent = message.id
    store.close()


@pytest.mark.slow
def test_chats_are_read_only_after_confirmation(
    models: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_chat("is the hen thin?")
    arguments = ["eval", models[0], "--against", models[1], "--chats", "--tokens", "3", "--json"]
    assert main(arguments) == 1
    assert "only with your consent" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", terminal("n\n"))
    assert main(arguments) == 1
    assert "No chat was read." in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", terminal("y\n"))
    assert main(arguments) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["prompt"] for result in results] == ["is the hen thin?"]
    assert main([*arguments, "--yes"]) == 0


def test_truncated_chat_history_starts_with_a_user_message() -> None:
    store = open_history(find_paths(os.environ).chats, lambda _: None)
    chat, parent = Chat(), None
    store.add_chat(chat)
    pair: list[tuple[Role, str]] = [("user", "u" * 2500), ("assistant", "a" * 500)]
    turns: list[tuple[Role, str]] = [*pair, *pair, *pair, ("user", "q")]
    for role, text in turns:
        message = chat.add(Message(role=role, content=text, parent=parent))
        store.add_message(chat.id, message)
        parent = message.id
    store.close()
    ((*before, last),) = prompts_of_chats(1)
    assert [turn["role"] for turn in before] == ["user", "assistant"]
    assert last == {"role": "user", "content": "q"}


@pytest.mark.skipif(find_spec("sqlcipher3") is None, reason="SQLCipher is not installed")
def test_encrypted_chats_are_reported_as_locked(models: tuple[str, str], capsys: Capture) -> None:
    store_chat("is the hen thin?")
    store = open_history(find_paths(os.environ).chats, lambda _: None)
    store.encrypt("a passphrase")
    store.close()
    assert main(["eval", models[0], "--against", models[1], "--chats", "--yes"]) == 1
    assert "Your chats are locked" in capsys.readouterr().err


def terminal(typed: str) -> io.StringIO:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return Terminal(typed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "--limit must be a whole number"),
        (["--tokens", "99999"], "--tokens must be a whole number"),
        (["--chats", "--prompts", "x"], "Use only one of them."),
        (["--prompts", "nowhere.txt"], "cannot be read"),
    ],
)
def test_invalid_arguments_are_rejected(
    arguments: list[str], message: str, models: tuple[str, str], capsys: Capture
) -> None:
    assert main(["eval", models[0], "--against", models[1], *arguments]) == 2
    assert message in capsys.readouterr().err


def test_comparing_a_model_with_itself_is_rejected(
    models: tuple[str, str], capsys: Capture
) -> None:
    assert main(["eval", models[1], "--against", models[1]]) == 2
    assert "the same model" in capsys.readouterr().err


@pytest.mark.slow
def test_prompts_with_line_separators_and_lone_surrogates(
    models: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"prompt": "the\u2028hen"}\r\n"thin \\ud800"\n')
    arguments = ["--prompts", str(path), "--tokens", "2", "--json"]
    assert main(["eval", models[0], "--against", models[1], *arguments]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [result["prompt"] for result in values["results"]] == ["the\u2028hen", "thin ?"]


def test_symlink_to_the_same_model_is_rejected(
    models: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other.gguf"
    other.symlink_to(models[1])
    assert main(["eval", str(other), "--against", models[1]]) == 2
    assert "Both are the same model" in capsys.readouterr().err


@pytest.mark.slow
def test_single_prompt_gives_no_confidence_interval(
    models: tuple[str, str], capsys: Capture
) -> None:
    assert main(["eval", models[0], "--against", models[1], "--limit", "1", "--tokens", "4"]) == 0
    shown = capsys.readouterr().out
    assert "one prompt is too few to tell" in shown
    assert " to " not in next(line for line in shown.splitlines() if "KL divergence" in line)
