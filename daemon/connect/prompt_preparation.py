"""Has the daemon compute the known prompts of a program before it starts."""

from __future__ import annotations

from ..client.client_errors import DaemonError
from ..client.model_types import PromptsAhead
from ..client.sync_client import DaemonClient
from ..terminal.terminal_output import print_status
from .client_program import ClientProgram


def prepare_prompts(
    daemon: DaemonClient, client: ClientProgram, model: str, *, stable: bool
) -> None:
    """Have a program's known prompts computed by the model, after this returns.

    `stable` is whether they begin the same in each folder by the configuration.
    """
    if client.names_folder and not stable:
        print_status(
            f"The instructions of {client.title} name the folder it works in. Many models read its "
            "tools behind them, and so again in each folder; `stable_prompts = true` in the "
            "configuration has them read once."
        )
    asked = {"model": model, "agent": client.agent or client.name}
    try:
        ahead = daemon.post("/ingle/v1/prepare", asked, PromptsAhead)
    except DaemonError:
        return  # the model is not installed yet
    if ahead.known:
        print_status(f"{client.title}'s prompt is being computed ahead; `ingle ps` shows it.")
