"""One answer, streamed from the daemon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from ...client.api_types import AnswerRoute, Finished
from ...client.client_errors import ClientError, ConnectionLost
from ...client.sync_client import DaemonClient, JsonObject
from ...terminal.terminal_output import print_status
from ..progress_report import ProgressReport


@dataclass(frozen=True)
class StreamedAnswer:
    """A complete answer with the model that gave it; `route` says where a policy sent the
    request.
    """

    model: str
    text: str
    finished: Finished
    route: AnswerRoute | None = None


def generate(
    client: DaemonClient, request: JsonObject, write: Callable[[str], None]
) -> StreamedAnswer:
    """Run `request` and pass each new piece of text to `write`; raises `ClientError`.

    Any other end (Ctrl-C, a closed pipe) cancels the generation, which would otherwise go on.
    """
    created = client.post("/ingle/v1/generations", request)
    path = f"/ingle/v1/generations/{created['id']}"
    try:
        return _follow(client, path, created["model"], write)
    except ClientError:
        raise
    except BaseException:
        # If the daemon is gone, there is nothing left to cancel.
        with suppress(ClientError):
            client.post(f"{path}/cancel", {}, timeout=5.0)
        raise


def _follow(
    client: DaemonClient, path: str, model: str, write: Callable[[str], None]
) -> StreamedAnswer:
    report = ProgressReport()
    pieces: list[str] = []
    thought = 0
    route: AnswerRoute | None = None
    try:
        for name, data in client.events("GET", f"{path}/events"):
            match name:
                case "loading":
                    report.show_loading(data["model"], data["fraction"])
                case "route":
                    report.erase()
                    route = cast("AnswerRoute", data)
                    if route["provider"]:
                        model = f"{route['provider']}/{route['model']}"
                        print_status(f"Answered by {model}, not on this machine. {route['reason']}")
                case "reasoning":
                    thought += data["tokens"]
                    report.show_step(f"Thinking, {thought} tokens")
                case "delta":
                    report.erase()
                    pieces.append(data["text"])
                    write(data["text"])
                case "finished":
                    return StreamedAnswer(model, "".join(pieces), cast("Finished", data), route)
                case _:  # `started`, and events of later versions
                    report.erase()
    finally:
        report.erase()
    raise ConnectionLost(
        "The daemon ended the stream before the answer was complete.", "Try again."
    )
