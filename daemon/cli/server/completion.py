"""`ingle completion`: prints what makes a shell complete commands and names of models."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...settings.config import load_config
from ...terminal.terminal_output import print_text
from ..command_parser import CommandParser
from ..daemon_launcher import running_daemon

EXAMPLES = """\
  source <(ingle completion bash)      in ~/.bashrc
  source <(ingle completion zsh)       in ~/.zshrc, after compinit
  ingle completion fish > ~/.config/fish/completions/ingle.fish"""

_TAKE_MODELS = (
    *("chat", "run", "pull", "update", "show", "rm", "cp", "load", "unload"),
    *("bench", "quantize", "eval", "verify", "advise", "acp"),
)
_BASH = """\
_ingle() {
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "COMMANDS" -- "$2"))
    return
  fi
  case ${COMP_WORDS[1]} in
    TAKE_MODELS)
      # Bash takes the colon of a name for the end of a word.
      local typed=${COMP_LINE:0:COMP_POINT}
      typed=${typed##* }
      local before=${typed%"$2"}
      COMPREPLY=($(compgen -W "$(ingle completion models 2> /dev/null)" -- "$typed"))
      COMPREPLY=("${COMPREPLY[@]#"$before"}")
      ;;
  esac
}
complete -o default -F _ingle ingle
"""
_ZSH = """\
#compdef ingle
_ingle() {
  if (( CURRENT == 2 )); then
    compadd -- COMMANDS
    return
  fi
  case $words[2] in
    TAKE_MODELS) compadd -- ${(f)"$(ingle completion models 2> /dev/null)"} ;;
  esac
  _files
}
if [ "$funcstack[1]" = _ingle ]; then _ingle "$@"; else compdef _ingle ingle; fi
"""
_FISH = """\
complete -c ingle -f -n __fish_use_subcommand -a "COMMANDS"
complete -c ingle -n "__fish_seen_subcommand_from TAKE_MODELS" \\
  -a "(ingle completion models 2> /dev/null)"
"""
_SCRIPTS = {"bash": (_BASH, "|"), "zsh": (_ZSH, "|"), "fish": (_FISH, " ")}


def main(arguments: Sequence[str]) -> int:
    """Print the script of a shell, or the names of models; raises `CommandError`."""
    parser = CommandParser(
        "completion",
        "Print a script that completes commands and names of models in a shell.",
        examples=EXAMPLES,
        json=False,
    )
    parser.add_argument(
        "shell",
        choices=[*_SCRIPTS, "models"],
        metavar="bash|zsh|fish|models",
        help="the shell; `models` prints the names, which the scripts ask for",
    )
    shell = parser.parse_args(arguments).shell
    if shell in _SCRIPTS:
        print(completion_script(shell), end="")
        return 0
    # A key that completes must not start anything.
    client = running_daemon(load_config(os.environ))
    for entry in client.models().models if client is not None else []:
        print_text(entry.name)
    return 0


def completion_script(shell: str) -> str:
    """Return the script of a shell."""
    from ...main import COMMANDS

    script, separator = _SCRIPTS[shell]
    script = script.replace("TAKE_MODELS", separator.join(_TAKE_MODELS))
    return script.replace("COMMANDS", " ".join(sorted(COMMANDS)))
