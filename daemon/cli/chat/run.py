"""`ingle run`: answers one prompt and streams the answer."""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from types import FrameType

from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType

from ...client.api_types import Finished
from ...client.client_errors import DaemonError
from ...client.sync_client import DaemonClient, JsonObject
from ...settings.config import Config, load_config
from ...settings.setting_parsers import QUANTIZE
from ...terminal.terminal_output import format_seconds, print_json, print_status
from ...terminal.unsafe_characters import EscapeFilter
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import matching_entry, sendable_reference
from ..models.pull import pull
from ..progress_report import ProgressReport
from .generation_stream import StreamedAnswer, generate
from .run_prompt import as_text, read_prompt, split_words

PURPOSES = {"embed": "embeddings (POST /v1/embeddings)", "rerank": "ranking (POST /v1/rerank)"}
EXAMPLES = """\
  ingle run smollm2 "Why is the sky blue?"
  git diff | ingle run smollm2 "Explain these changes"
  ingle run smollm2 --json --temperature 0 "Name three colours" < notes.txt"""


def main(arguments: Sequence[str]) -> int:
    """Answer one prompt; without any, in a terminal, open the chat. Raises `CommandError`."""
    options = _parser().parse_intermixed_args(arguments)
    config = load_config(os.environ)
    model, words = split_words(options.words)
    prompt = read_prompt(words)
    if not prompt:
        return _chat_instead(model)
    return _ask(options, config, model, prompt)


def ask(model: str | None, words: str) -> int:
    """Answer one prompt without any options; raises `CommandError`."""
    prompt = read_prompt(words)
    if not prompt:
        raise UsageError("There is no prompt.", 'Write it after -p: `ingle -p "Hi"`.')
    return _ask(_parser().parse_args([]), load_config(os.environ), model, prompt)


def _ask(options: Namespace, config: Config, model: str | None, prompt: str) -> int:
    _end_on_signals()
    client = ensure_daemon(config)
    reference = sendable_reference(model or config.default_model)
    request = _request(options, reference, prompt)
    writer = AnswerWriter(silent=options.json)
    try:
        answer = _generate_with_pull(client, reference, request, _load_options(options), writer)
    finally:
        writer.close()
    if options.json:
        route = {} if answer.route is None else {"route": answer.route}
        print_json({"model": answer.model, "text": answer.text, **route, **answer.finished})
    return _conclude(answer, verbose=options.verbose)


class AnswerWriter:
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
    parser.add_argument(
        "--max-tokens", type=_count, metavar="N", help="the maximum length of the answer"
    )
    parser.add_argument(
        "--context",
        type=_count,
        metavar="N",
        help="load the model with this many tokens of context",
    )
    parser.add_argument(
        "--engine", choices=engine_choices(), help="what computes: ingle's own engine, or llama.cpp"
    )
    parser.add_argument(
        "--quantize", choices=QUANTIZE, help="quantise plain weights to four bits on load"
    )
    parser.add_argument(
        "--kv-type", choices=tuple(KVType), help="how the model's KV cache is stored"
    )
    parser.add_argument("--seed", type=_seed, metavar="N", help="makes the answer repeatable")
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as text, without a chat template"
    )
    parser.add_argument("--verbose", action="store_true", help="print timings at the end")
    parser.add_json()
    return parser


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        raise ArgumentTypeError(f"it must be a number from 0 to 2, not '{text}'")
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value < 2**31:
        raise ArgumentTypeError(f"it must be a whole number, 1 or more, not '{text}'")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 2**63
    if not -(2**63) <= value < 2**63:
        raise ArgumentTypeError(f"it must be a whole number of 64 bits, not '{text}'")
    return value


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


def _request(options: Namespace, model: str, prompt: str) -> JsonObject:
    request: JsonObject = {"model": model}
    if options.raw:
        if options.system is not None:
            raise UsageError(
                "--raw cannot be combined with --system.", "Put the instructions in the prompt."
            )
        request["prompt"] = prompt
    else:
        messages = [{"role": "user", "content": prompt}]
        if options.system is not None:
            messages.insert(0, {"role": "system", "content": as_text(options.system)})
        request["messages"] = messages
    sampling = {"temperature": options.temperature, "seed": options.seed}
    if given := {name: value for name, value in sampling.items() if value is not None}:
        request["sampling"] = given
    if options.max_tokens is not None:
        request["max_tokens"] = options.max_tokens
    return request


def _load_options(options: Namespace) -> JsonObject:
    names = ("context", "engine", "quantize", "kv_type")
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _load_and_generate(
    client: DaemonClient, request: JsonObject, load: JsonObject, writer: AnswerWriter
) -> StreamedAnswer:
    """Load with the requested options first, and print warnings about those that could not
    be met.
    """
    if load:
        report = ProgressReport()
        report.show_loading(request["model"])
        try:
            body = {"model": request["model"], **load}
            loaded = client.post("/ingle/v1/load", body, timeout=None)
        finally:
            report.erase()
        for warning in loaded["warnings"]:
            print_status(f"Warning: {warning}")
    return generate(client, request, writer.write)


def _generate_with_pull(
    client: DaemonClient, model: str, request: JsonObject, load: JsonObject, writer: AnswerWriter
) -> StreamedAnswer:
    """Generate; a model that is only in the catalog is pulled first."""
    try:
        return _load_and_generate(client, request, load, writer)
    except DaemonError as error:
        if error.code != "model_not_found":
            raise
        route, wanted = _route_and_model(client, model)
        entry = matching_entry(client.models(), wanted)
        if entry is None or entry["installed"]:
            raise
        if entry["task"] != "generate":
            raise CommandError(
                f"{entry['name']} does not generate text: it is for {PURPOSES[entry['task']]}.",
                "Choose a model that chats; `ingle list` shows them.",
            ) from error
    print_status(f"{entry['name']} is not on this machine yet.")
    pulled = pull(client, entry["name"])
    again = {**request, "model": route or pulled["name"]}
    return _load_and_generate(client, again, load, writer)


def _route_and_model(client: DaemonClient, name: str) -> tuple[str | None, str]:
    """Return the route of that name, if it is one, and the local model behind it."""
    routes: dict[str, str] = {
        route["name"]: route["local"] for route in client.get("/ingle/v1/routing")["routes"]
    }
    return (name, routes[name]) if name in routes else (None, name)


def _conclude(answer: StreamedAnswer, *, verbose: bool) -> int:
    finished = answer.finished
    if verbose:
        print_status(_timings(answer.model, finished))
    if finished["reason"] == "cancelled":
        raise CommandError("The answer was cancelled before its end.", "Ask again.")
    return 0


def _timings(model: str, finished: Finished) -> str:
    """Return the timings of an answer, without cached tokens."""
    read = finished["prompt_tokens"] - finished["cached_tokens"]
    used = finished["prompt_tokens"] + finished["completion_tokens"]
    lines = [
        f"{model}: {finished['reason']}, context {used} of {finished['context']} tokens",
        f"  waited {format_seconds(finished['queue_seconds'])}",
        f"  prompt {finished['prompt_tokens']} tokens, {finished['cached_tokens']} of them cached, "
        f"{format_seconds(finished['prompt_seconds'])}{_speed(read, finished['prompt_seconds'])}",
        f"  answer {finished['completion_tokens']} tokens, "
        f"{format_seconds(finished['decode_seconds'])}"
        # Decoding is timed from the first token, which therefore does not count.
        f"{_speed(finished['completion_tokens'] - 1, finished['decode_seconds'])}",
    ]
    return "\n".join(lines)


def _speed(tokens: int, seconds: float) -> str:
    return f", {tokens / seconds:.1f} tokens/s" if tokens > 0 and seconds > 0 else ""
