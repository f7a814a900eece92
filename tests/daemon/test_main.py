"""The `ingle` command: help texts, exit statuses and imports."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.daemon.cli.chat.chat import find_socket
from ingle.daemon.main import COMMANDS, main
from ingle.daemon.settings.config import load_config

HEAVY = [
    *("httpx", "starlette", "uvicorn", "msgspec", "textual", "rich", "huggingface_hub", "torch"),
    *("llama_cpp", "numpy", "jinja2", "asyncio", "platformdirs", "psutil"),
]

HELP = """\
ingle runs language models on your own machine: a chat in the terminal, and a
daemon for your editor. Nothing you type leaves the machine unless you allow it.

usage: ingle [COMMAND] [OPTIONS]

examples:
  ingle                                        open the chat
  ingle --plain                                as lines, for screen readers
  ingle run smollm2 "Why is the sky blue?"     send one prompt
  git diff | ingle run smollm2 "Explain"       use piped text

chat:
  chat       open the chat; the same as no command at all
  chats      list, search, export and import stored chats
  run        send one prompt, and stream the answer
  ask-files  ask about the files of a folder, with the passages that answer
  transcribe write down what is spoken in an audio file
  say        speak a text, or write it to an audio file
  forget     list stored data, and erase it: by chat, by time, or all

models:
  pull       download a model
  update     check models for newer files, and download them
  add        give a model file on this machine a name
  cp         give a model a second name
  create     make a model with settings of its own from a Modelfile
  list, ls   models on this machine, and those that can be downloaded
  show       one model in detail
  rm         remove a model from this machine
  adapter    add, list and remove LoRA adapters of models
  bench      measure the speed of a model, and compare with the last run
  quantize   make a smaller GGUF file of a model
  eval       compare a smaller model with a fuller one on your prompts
  verify     compare our own engine with llama.cpp on a model

daemon:
  ps         loaded models, and where the daemon listens
  load       load a model before it is needed, and set how long it stays
  unload     free the memory of a model
  watch      show what clients send, as it is answered
  serve      run the daemon in the foreground; commands start it by themselves
  stop       end the daemon
  service    install the daemon as a service of the system, or remove it

machine:
  engine     install what runs models: for this machine's GPU, or the processor
  doctor     check this machine and the installation, and suggest repairs
  advise     recommend a model and settings for this machine

clients:
  acp        serve the chat as an agent to Zed, JetBrains and others
  connect    set up an editor or an agent, and test the connection
  key        keys for clients that need one

privacy:
  route      show what may leave this machine, and why
  provider   remote servers that may answer, and their keys
  ledger     show what left this machine, and verify the record
  guard      start a cloud agent, and judge and mask what it sends

  version    print the version
  completion SHELL      complete commands and models in bash, zsh or fish

`ingle COMMAND --help` shows details. Settings come from config.toml, INGLE_*
variables and flags; INGLE_HOME moves everything under one folder.
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary home, and a terminal of 80 columns without colors."""
    for name in [name for name in os.environ if name.startswith("INGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INGLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path / "home"


@pytest.fixture
def command() -> list[str]:
    """The command line prefix that runs this `ingle`."""
    return [sys.executable, "-P", "-m", "ingle.daemon.main"]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr() == (HELP, "")
    assert max(map(len, HELP.splitlines())) <= 80


def test_help_names_every_command() -> None:
    for command in COMMANDS:
        assert re.search(rf"^  (\w+, )?{command}\b", HELP, re.MULTILINE)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_each_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    name = COMMANDS[command].rpartition(".")[2].replace("_", "-")
    assert captured.out.startswith(f"usage: ingle {name}")
    assert max(map(len, captured.out.splitlines())) <= 80
    assert main(["help", command]) == 0
    assert capsys.readouterr().out == captured.out


def test_help_creates_nothing(home: Path) -> None:
    main(["--help"])
    main(["run", "--help"])
    assert not home.exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import metadata

    for arguments in (["version"], ["--version"], ["-V"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == f"ingle {metadata.version('ingle')}\n"


def test_unknown_option_is_named_without_the_words_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "smollm2", "--nope", "two words", "-x"]) == 2
    assert "Unknown option: --nope -x.\n" in capsys.readouterr().err


def test_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pul"]) == 2
    assert capsys.readouterr().err == (
        "Error: There is no command 'pul'.\nDid you mean `ingle pull`? `ingle --help` lists all.\n"
    )


def test_unexpected_exception_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("ingle.daemon.cli.server.ps.main", fail)
    with pytest.raises(ZeroDivisionError):
        main(["ps"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_not_an_error(command: list[str], closed: str) -> None:
    shell = f"{shlex.join([*command, 'ps'])} {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["ps"], ["ps", "--json"]])
def test_full_output_device_is_reported(command: list[str], arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30
        )
    assert done.returncode == 1
    assert done.stderr == "Error: The output cannot be written: No space left on device.\n"


def test_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("ingle.daemon.cli.server.ps.main", interrupt)
    assert main(["ps"]) == 130
    assert capsys.readouterr() == ("", "")


def imported(program: str, tmp_path: Path) -> list[str]:
    """The heavy packages loaded in a fresh interpreter after running `program`."""
    report = f"print(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    code = f"{program}\nimport sys\n{report}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stderr.split()


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    program = "from ingle.daemon.main import main\nmain(['--help'])"
    assert imported(program, tmp_path) == []


def test_commands_import_nothing_heavy(tmp_path: Path) -> None:
    modules = sorted(set(COMMANDS.values()) - {"server.serve"})
    program = "from importlib import import_module as load\n" + "\n".join(
        f"load('ingle.daemon.cli.{module}')" for module in modules
    )
    assert imported(program, tmp_path) == []


@pytest.mark.parametrize("arguments", [[], ["chat"]])
def test_chat_starts_without_heavy_imports(tmp_path: Path, arguments: list[str]) -> None:
    """The chat is replaced by a stub that checks which modules are loaded when it starts."""
    program = f"""
import sys, types
stand_in = types.ModuleType("ingle.tui.main")
def run_chat(*, socket_path, folders, model, temporary, start_daemon):
    assert socket_path.endswith("home/runtime/ingle.sock"), socket_path
    assert model is None and callable(start_daemon) and not temporary
    assert str(folders.chats).endswith("chats")
    slow = {{"argparse", "dataclasses", "http.client", "subprocess", "typing"}}
    assert not slow & set(sys.modules) - before
    return 7
stand_in.run_chat = run_chat
sys.modules["ingle.tui.main"] = stand_in
sys.stdin.isatty = sys.stdout.isatty = sys.stderr.isatty = lambda: True
before = set(sys.modules)
from ingle.daemon.main import main
assert main({arguments!r}) == 7
"""
    assert imported(program, tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "environ"), [(["--plain"], {}), ([], {"ACCESSIBLE": "1"}), ([], {"TERM": "dumb"})]
)
def test_plain_chat_is_selected(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], environ: dict[str, str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    chosen: dict[str, object] = {}

    def run_plain(**options: object) -> int:
        chosen.update(options)
        return 0

    monkeypatch.setattr("ingle.tui.plain.plain_main.run_plain", run_plain)
    assert main([*arguments, "--temp", "smollm2"] if arguments else []) == 0
    assert chosen["temporary"] == bool(arguments)
    assert chosen["model"] == ("smollm2" if arguments else None)


def test_chat_with_a_model(tmp_path: Path) -> None:
    program = """
import sys, types
stand_in = types.ModuleType("ingle.tui.main")
stand_in.run_chat = lambda **options: 0 if options["model"] == "smollm2" else 1
sys.modules["ingle.tui.main"] = stand_in
sys.stdin.isatty = sys.stdout.isatty = sys.stderr.isatty = lambda: True
from ingle.daemon.main import main
assert main(["chat", "smollm2"]) == 0
"""
    assert imported(program, tmp_path) == []


@pytest.mark.parametrize("setting", ["", 'socket = "/run/x.sock"', "port = 1"])
@pytest.mark.parametrize("variable", ["", "/run/y.sock"])
def test_chat_uses_the_same_socket_as_other_commands(
    home: Path, monkeypatch: pytest.MonkeyPatch, setting: str, variable: str
) -> None:
    (home / "config").mkdir(parents=True)
    if setting:
        (home / "config/config.toml").write_text(setting)
    if variable:
        monkeypatch.setenv("INGLE_SOCKET", variable)
    assert find_socket(os.environ) == load_config(os.environ).socket


def test_chat_rejects_invalid_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INGLE_PROT", "1")
    assert main([]) == 1
    assert "INGLE_PORT" in capsys.readouterr().err
