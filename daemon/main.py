"""The `ingle` command.

Imports nothing that a command may not need: the chat has 30 ms until its first frame.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

_FOLDERS = {
    "chat": ("chat", "chats", "run", "forget", "acp"),
    "models": (
        *("pull", "update", "add", "cp", "create", "list", "show", "rm"),
        *("load", "unload", "quantize", "adapter"),
    ),
    "server": (
        *("ps", "serve", "service", "stop", "connect", "key", "doctor", "engine", "version"),
        *("completion", "watch"),
    ),
    "routing": ("route", "provider", "ledger", "guard"),
    "evaluation": ("bench", "eval", "advise", "verify"),
}
COMMANDS = {name: f"{folder}.{name}" for folder, names in _FOLDERS.items() for name in names}
"""Command to module below `ingle.daemon.cli`; each has a `main(arguments) -> int`."""
COMMANDS["ls"] = COMMANDS["list"]
COMMANDS["ask-files"] = "chat.ask_files"
COMMANDS["transcribe"] = "chat.transcribe"
COMMANDS["say"] = "chat.say"
CHAT_OPTIONS = ("--plain", "--temp", "--prompt", "-p")
"""Options that are accepted without a command; they are those of `ingle chat`."""

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

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 plus the number of the signal, as in shells."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers: the disk is full, or a quota or a file size limit is reached."""


def main(argv: list[str] | None = None) -> int:
    """Run one command: 0 when it worked, 1 when it failed, 2 when the command line is wrong.

    3: another daemon uses the home, or another program the port.
    """
    arguments = sys.argv[1:] if argv is None else argv
    _replace_closed_streams()
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # the reader closed the pipe
        return BROKEN_PIPE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:
        return _report(error)
    return status


def _replace_closed_streams() -> None:
    """Open the null device in the place of each stream that our caller closed (`>&-`).

    Python has None there, and the next file or socket would get the number of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - it stays open


def _discard_output() -> None:
    """Discard output that was not written; Python would try again at exit and report an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: Sequence[str]) -> int:
    command, *rest = arguments or ["chat"]
    if command in {"-h", "--help", "help"}:
        if command == "help" and rest:
            return _dispatch([rest[0], "--help"])
        print(HELP, end="")
        return 0
    if command in {"-v", "-V", "--version"}:
        command = "version"
    if command.partition("=")[0] in CHAT_OPTIONS:
        command, rest = "chat", list(arguments)
    if command not in COMMANDS:
        return _unknown_command(command)
    from importlib import import_module

    return import_module(f"ingle.daemon.cli.{COMMANDS[command]}").main(rest)


def _unknown_command(command: str) -> int:
    from difflib import get_close_matches

    from .terminal.terminal_output import print_error

    kind = "option" if command.startswith("-") else "command"
    nearest = get_close_matches(command, COMMANDS, n=1)
    suggestion = f"Did you mean `ingle {nearest[0]}`? " if nearest else ""
    print_error(f"There is no {kind} '{command}'.", f"{suggestion}`ingle --help` lists all.")
    return 2


def _report(error: Exception) -> int:
    """Print an error that has a message for users; raise any other, which is a bug."""
    from .cli.command_errors import UsageError
    from .terminal.terminal_output import print_error

    if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
        # Commands write to no file but standard output.
        _discard_output()
        print_error(f"The output cannot be written: {error.strerror}.", None)
        return 1
    message = getattr(error, "message", None)
    if not isinstance(message, str):
        raise error
    hint = getattr(error, "hint", None)
    print_error(message, hint if isinstance(hint, str) else None)
    if isinstance(error, UsageError):
        return 2
    status = getattr(error, "exit_status", 1)
    return status if isinstance(status, int) else 1


if __name__ == "__main__":
    sys.exit(main())
