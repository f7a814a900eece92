"""`ingle run`: answers one prompt and streams the answer."""

from __future__ import annotations

import os
import select
import signal
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...client.client_errors import ClientError, ConnectionLost, DaemonError
from ...settings.config import Config, load_config
from ...terminal.terminal_output import (
    confirmed,
    counted,
    format_bytes,
    format_seconds,
    print_json,
    print_status,
)
from ...terminal.unsafe_characters import EscapeFilter
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser, given
from ..daemon_launcher import ensure_daemon
from ..engine_installation import follow_engines, offer_engine
from ..model_reference import find_entry, sendable_reference, wanted_reference
from ..models.load import LOAD_OPTIONS, add_load_options, load_model, print_warnings
from ..models.pull import pull
from ..progress_report import ProgressReport
from .picture_files import read_pictures

if TYPE_CHECKING:
    from ...client.generation_types import FinishedEvent, RouteTaken
    from ...client.model_types import ModelEntry
    from ...client.sync_client import DaemonClient

PURPOSES = {"embed": "embeddings (POST /v1/embeddings)", "rerank": "ranking (POST /v1/rerank)"}
PATIENCE = 2.0
"""Seconds of silence before the wait for standard input is announced."""
EXAMPLES = """\
  ingle run smollm2 "Why is the sky blue?"
  git diff | ingle run smollm2 "Explain these changes"
  ingle run smollm2 --json --temperature 0 "Name three colours" < notes.txt"""


def main(arguments: Sequence[str]) -> int:
    """Answer one prompt; without any, in a terminal, open the chat. Raises `CommandError`."""
    options = _parser().parse_intermixed_args(arguments)
    config = load_config(os.environ)
    model, words = _split_words(options.words)
    prompt = _read_prompt(words)
    if not prompt:
        return _chat_instead(model)
    return _answer(options, config, model, prompt)


def ask(model: str | None, words: str, tools: str | None = None, images: Sequence[str] = ()) -> int:
    """Answer one prompt about pictures or without; asks before a download. Raises `CommandError`.

    `tools` is the level up to which tools need no consent, None for an answer without tools.
    """
    prompt = _read_prompt(words)
    if not prompt:
        raise UsageError("There is no prompt.", 'Write it after -p: `ingle -p "Hi"`.')
    config = load_config(os.environ)
    if tools is not None:
        from .tool_answer import answer_with_tools

        _end_on_signals()
        client = ensure_daemon(config)
        offer_engine(client)
        wanted = wanted_reference(client, model, config.default_model)
        answer_with_tools(client, config, wanted, prompt, tools, approve=_ask_to_pull)
        return 0
    options = _parser().parse_args([f"--image={image}" for image in images])
    return _answer(options, config, model, prompt, approve=_ask_to_pull)


def _answer(
    options: Namespace,
    config: Config,
    model: str | None,
    prompt: str,
    *,
    approve: Callable[[ModelEntry], None] = lambda _: None,
) -> int:
    _end_on_signals()
    client = ensure_daemon(config)
    offer_engine(client)
    request = _request(options, wanted_reference(client, model, config.default_model), prompt)
    load = given(options, *LOAD_OPTIONS)
    writer = OutputWriter(silent=options.json)
    try:
        answer = _generate_with_pull(client, request, load, writer, approve)
    finally:
        writer.close()
    if options.json:
        from msgspec.structs import asdict

        route = {"route": answer.route} if answer.route else {}
        print_json({"model": answer.model, "text": answer.text, **route, **asdict(answer.finished)})
    if options.verbose:
        print_status(_timings(answer.model, answer.finished))
    if answer.finished.reason == "cancelled":
        raise CommandError("The answer was cancelled before its end.", "Ask again.")
    return 0


class OutputWriter:
    """Streams an answer to standard output, without control characters if that is a terminal."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._filter = EscapeFilter() if sys.stdout.isatty() else None
        self._last = "\n"

    def write(self, text: str) -> None:
        """Write `text` at once."""
        shown = self._filter.feed(text) if self._filter else text
        if self._silent or not shown:
            return
        self._last = shown[-1]
        sys.stdout.write(shown)
        sys.stdout.flush()

    def close(self) -> None:
        """End the last line, whether or not the answer is complete."""
        if self._last != "\n":
            self._last = "\n"
            sys.stdout.write("\n")
            sys.stdout.flush()


def _parser() -> CommandParser:
    parser = CommandParser(
        "run",
        "Send one prompt to a model, and stream its answer. Text that is piped in\n"
        "follows the prompt. A catalog model that is not installed yet is downloaded\n"
        "first. Without a prompt, the chat opens.",
        examples=EXAMPLES,
    )
    parser.usage = "ingle run [OPTIONS] [MODEL] [PROMPT ...]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="MODEL PROMPT",
        help="the model (the default one if the first word has spaces), then the prompt",
    )
    parser.add_argument("--system", metavar="TEXT", help="instructions that precede the prompt")
    parser.add_argument(
        "--temperature", type=_temperature, metavar="X", help="0 always takes the most likely token"
    )
    parser.add_number("--max-tokens", 1, help="the maximum length of the answer")
    parser.add_argument(
        "--image", metavar="FILE", action="append", help="a picture to ask about; may be repeated"
    )
    add_load_options(parser)
    parser.add_number("--seed", -(2**63), 2**63 - 1, help="makes the answer repeatable")
    parser.add_flag("--raw", help="continue the prompt as text, without a chat template")
    parser.add_flag("--verbose", help="print timings at the end")
    return parser


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        raise ArgumentTypeError(f"it must be a number from 0 to 2, not '{text}'")
    return value


def _split_words(words: Sequence[str]) -> tuple[str | None, str]:
    """Return (model, prompt); the first word is the model unless it is clearly a sentence."""
    if not words:
        return None, ""
    first, *rest = words
    if any(c.isspace() for c in first) and not Path(first).exists():
        return None, " ".join(words)
    return first, " ".join(rest)


def _read_prompt(words: str) -> str:
    """Return the words, an empty line, and all of standard input unless that is a terminal."""
    parts = [_as_text(words), _read_piped()]
    return "\n\n".join(part for part in parts if part.strip())


def _as_text(argument: str) -> str:
    """Return the argument with replacement characters for invalid bytes, which JSON cannot
    represent.
    """
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_piped() -> str:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # None where it was closed
        return ""
    if sys.platform != "win32" and not select.select([stdin], [], [], PATIENCE)[0]:
        # A pipe that is never closed would otherwise look like a command that hangs.
        print_status("Waiting for the rest of the prompt on standard input.")
    text = stdin.buffer.read().decode("utf-8", "replace")
    # A text in another encoding has some invalid characters, other data many.
    if "\0" in text or text.count("\ufffd") > max(16, len(text) // 10):
        raise UsageError("Standard input is not text.", "Pipe in text, in UTF-8.")
    return text.strip("\n")


def _chat_instead(model: str | None) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "There is no prompt.", 'Write it after the model: `ingle run smollm2 "Hi"`.'
        )
    from .chat import open_chat

    return open_chat(sendable_reference(model) if model else None)


def _end_on_signals() -> None:
    """Handle a closed terminal or a `kill` like Ctrl-C, so that the answer is cancelled."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Under nohup the hang-up signal is ignored, and stays so.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def _request(options: Namespace, model: str, prompt: str) -> dict[str, Any]:
    request: dict[str, Any] = {"model": model, "attached": True}
    if options.raw:
        if options.system is not None or options.image:
            raise UsageError(
                "--raw goes together with neither --system nor --image.",
                "Put everything into the prompt.",
            )
        request["prompt"] = prompt
    else:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        if options.image:
            messages[0]["images"] = read_pictures(options.image)
        if options.system is not None:
            messages.insert(0, {"role": "system", "content": _as_text(options.system)})
        request["messages"] = messages
    if sampling := given(options, "temperature", "seed"):
        request["sampling"] = sampling
    return request | given(options, "max_tokens")


@dataclass(frozen=True)
class StreamedAnswer:
    """A complete answer with the model that gave it; `route` says where a policy sent the
    request.
    """

    model: str
    text: str
    finished: FinishedEvent
    route: RouteTaken | None = None


def _ask_to_pull(entry: ModelEntry) -> None:
    """Raise `CommandError` unless the user agrees to download a model."""
    size = f" ({format_bytes(entry.size)})" if entry.size else ""
    by_hand = f"`ingle pull {entry.name}` downloads it{size}."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(f"{entry.name} is not on this machine.", by_hand)
    if not confirmed(f"{entry.name} is not on this machine. Download it{size}?"):
        raise CommandError("Nothing is downloaded.", by_hand)


def _generate_with_pull(
    client: DaemonClient,
    request: dict[str, Any],
    load: dict[str, Any],
    writer: OutputWriter,
    approve: Callable[[ModelEntry], None],
) -> StreamedAnswer:
    """Generate; a model that is only in the catalog is pulled first, unless `approve` raises."""
    try:
        return _load_and_generate(client, request, load, writer)
    except DaemonError as error:
        if error.code != "model_not_found":
            raise
        from ...client.routing_types import RoutingState

        name = request["model"]
        routes = client.get("/ingle/v1/routing", RoutingState).routes
        local = next((route.local for route in routes if route.name == name), None)
        entry = find_entry(client, local or name)
        if entry.installed:
            raise
        if entry.task != "generate":
            purpose = PURPOSES.get(entry.task, "speech (`ingle transcribe`)")
            raise CommandError(
                f"{entry.name} does not generate text: it is for {purpose}.",
                "Choose a model that chats; `ingle list` shows them.",
            ) from error
    approve(entry)
    print_status(f"{entry.name} is not on this machine yet.")
    pulled = pull(client, entry.name)
    # A route stays the model of the request.
    again = request if local else {**request, "model": pulled.name}
    return _load_and_generate(client, again, load, writer)


def _load_and_generate(
    client: DaemonClient, request: dict[str, Any], load: dict[str, Any], writer: OutputWriter
) -> StreamedAnswer:
    """Load with the requested options first, and generate.

    Any end but an error of the daemon (Ctrl-C, a closed pipe) cancels the generation, which would
    otherwise go on.
    """
    if load:
        print_warnings(load_model(client, request["model"], load))
    from ...client.generation_types import GenerationStarted

    started = client.post("/ingle/v1/generations", request, GenerationStarted)
    path = f"/ingle/v1/generations/{started.id}"
    try:
        return _follow(client, path, started.model, writer.write)
    except ClientError:
        raise
    except BaseException:
        # If the daemon is gone, there is nothing left to cancel.
        with suppress(ClientError):
            client.post(f"{path}/cancel", {}, dict, timeout=5.0)
        raise


def _follow(
    client: DaemonClient, path: str, model: str, write: Callable[[str], None]
) -> StreamedAnswer:
    """Pass each new piece of text to `write`; raises `ClientError`."""
    from ...client.generation_types import DeltaEvent, FinishedEvent, LoadingEvent, RouteTaken
    from ...client.sync_client import read_event

    pieces: list[str] = []
    reasoning, loads = 0, False
    route: RouteTaken | None = None
    with ProgressReport() as report:
        for event in client.events("GET", f"{path}/events"):
            if event.event == "loading":
                loading = read_event(event, LoadingEvent)
                if not loads:
                    loads = True
                    follow_engines(client)
                report.show_loading(loading.model, loading.fraction)
            elif event.event == "reasoning":
                reasoning += read_event(event, DeltaEvent).tokens
                report.show_step(f"Thinking, {counted(reasoning, 'token')}")
            else:
                report.erase()
            if event.event == "route":
                route = read_event(event, RouteTaken)
                if route.provider:
                    model = route.target
                    print_status(f"Answered by {model}, not on this machine. {route.reason}")
            elif event.event == "delta":
                text = read_event(event, DeltaEvent).text
                pieces.append(text)
                write(text)
            elif event.event == "finished":
                finished = read_event(event, FinishedEvent)
                return StreamedAnswer(model, "".join(pieces), finished, route)
    raise ConnectionLost(
        "The daemon ended the stream before the answer was complete.", "Try again."
    )


def _timings(model: str, finished: FinishedEvent) -> str:
    """Return the timings of an answer, without cached tokens."""
    prompt, cached = finished.prompt_tokens, finished.cached_tokens
    answer = finished.completion_tokens
    prefill, decode = finished.prompt_seconds, finished.decode_seconds
    # Decoding is timed from the first token, which therefore does not count.
    return (
        f"{model}: {finished.reason}, context {prompt + answer} of {finished.context} tokens\n"
        f"  waited {format_seconds(finished.queue_seconds)}\n"
        f"  prompt {counted(prompt, 'token')}, {cached} of them cached, "
        f"{format_seconds(prefill)}{_speed(prompt - cached, prefill)}\n"
        f"  answer {counted(answer, 'token')}, {format_seconds(decode)}{_speed(answer - 1, decode)}"
    )


def _speed(tokens: int, seconds: float) -> str:
    return f", {tokens / seconds:.1f} tokens/s" if tokens > 0 and seconds > 0 else ""
