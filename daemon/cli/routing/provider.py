"""`ingle provider`: manages remote providers and their keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_json,
    print_status,
    print_table,
    print_text,
)
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser, given, run_subcommand

if TYPE_CHECKING:
    from ingle.backends.remote.providers import Provider
    from ingle.backends.remote.receipt import Receipt
    from ingle.backends.remote.served_models import ServedModel

    from ...routing.egress.provider_egress import ProviderEgress

HELP = """\
usage: ingle provider add NAME [--preset PRESET] [--url URL] [--model MODEL ...]
       ingle provider list [--json]
       ingle provider key NAME [--file] [--remove]
       ingle provider models NAME [--save] [--json]
       ingle provider test NAME [--model MODEL] [--json]
       ingle provider remove NAME

Remote servers that may answer requests: a cloud, or another machine of yours.
Nothing is sent to them unless the policy of `ingle route` allows it, and
everything that is sent is recorded in `ingle ledger`.

Presets: openai, anthropic, openrouter, groq, mistral, and vllm or own for a
server of yours (vLLM, SGLang, Ray Serve, llama.cpp), which is asked for its
models. A provider with the name of a preset uses that preset.

A key is read without echo, or from standard input; it is stored in the
system's keyring, else in a file that only you can read.

examples:
  ingle provider add groq --model llama-3.3-70b-versatile --budget 5
  ingle provider add rack --preset vllm --url http://10.0.0.5:8000/v1
  ingle provider key groq < key.txt
  ingle provider test rack
"""
_OPTIONS = ("kind", "base_url", "own", "models", "budget_money", "budget_tokens")
"""The options of `add`, as `providers.toml` names them."""


def main(arguments: Sequence[str]) -> int:
    """Run one of the six subcommands; raises `CommandError`."""
    subcommands = {
        "add": _add,
        "list": _list,
        "ls": _list,
        "key": _key,
        "models": _models,
        "test": _test,
        "remove": _remove,
        "rm": _remove,
    }
    return run_subcommand("provider", HELP, subcommands, arguments)


def _add(arguments: Sequence[str]) -> int:
    from ...routing.providers.provider_store import PRESETS, read_provider

    parser = CommandParser("provider add", "Add a server that may answer requests.", json=False)
    parser.add_argument("name", metavar="NAME", help="its name here")
    parser.add_argument("--preset", choices=sorted(PRESETS), help="the kind of service")
    parser.add_argument("--kind", choices=("openai", "responses", "anthropic"), help="its protocol")
    parser.add_argument(
        "--url", dest="base_url", metavar="URL", help='its address, such as "https://host/v1"'
    )
    parser.add_argument("--own", action="store_true", default=None, help="it is your own machine")
    parser.add_argument(
        "--model", dest="models", action="append", metavar="MODEL", help="a model that may be used"
    )
    parser.add_argument(
        "--budget", dest="budget_money", type=float, metavar="MONEY", help="the limit for a month"
    )
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="the same in tokens")
    options = parser.parse_args(arguments)
    preset = PRESETS.get(options.preset or options.name, {"kind": "openai"})
    table = {**preset, **given(options, *_OPTIONS)}
    if "base_url" not in table:
        raise UsageError(f"'{options.name}' needs an address.", "Give its --url, or a --preset.")
    provider = read_provider(options.name, table, "this command")
    egress = _egress()
    egress.store.add(provider)
    print(f"Added {provider.name} ({provider.protocol_name} at {provider.base_url}).")
    if provider.needs_key and sys.stdin is not None and sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # None where it was closed
        _store_key(egress, provider, in_file=False)
        return 0
    if provider.own and not provider.models:
        _find_models(egress, provider)
    if trouble := egress.trouble(provider):
        print_status(f"{trouble} `ingle provider key {provider.name}` asks for a key.")
    return 0


def _list(arguments: Sequence[str]) -> int:
    parser = CommandParser("provider list", "List the providers.")
    options = parser.parse_args(arguments)
    egress = _egress()
    providers = egress.store.providers()
    if options.json:
        print_json({"providers": [_facts(egress, provider) for provider in providers]})
    elif providers:
        rows = [_row(egress, provider) for provider in providers]
        print_table(("NAME", "KIND", "KEY", "BUDGET", "STATE"), rows)
    else:
        print_status("There are no providers: nothing can leave. `ingle provider add` adds one.")
    return 0


def _find_models(egress: ProviderEgress, provider: Provider) -> None:
    """Keep the models that a new server lists; say what to do if it does not answer."""
    from ingle.backends.base.errors import BackendError

    from ...routing.providers.provider_errors import ProviderError

    try:
        _keep_models(egress, provider, _served(egress, provider))
    except (BackendError, ProviderError) as error:
        print_status(error.message)
        print_status(f"`ingle provider models {provider.name} --save` asks it again.")


def _models(arguments: Sequence[str]) -> int:
    parser = CommandParser("provider models", "Ask a provider which models it serves.")
    parser.add_argument("name", metavar="NAME", help="a name of `provider list`")
    parser.add_flag("--save", help="use all of them: write them into providers.toml")
    options = parser.parse_args(arguments)
    egress = _egress()
    provider = egress.store.find(options.name)
    served = _served(egress, provider)
    if options.json:
        print_json({"models": [{"id": m.id, "context": m.max_model_len} for m in served]})
    else:
        contexts = [f"{m.max_model_len:,}" if m.max_model_len else "-" for m in served]
        rows = [[f"{provider.name}/{m.id}", c] for m, c in zip(served, contexts, strict=True)]
        print_table(("MODEL", "CONTEXT"), rows)
    if options.save:
        _keep_models(egress, provider, served)
    return 0


def _served(egress: ProviderEgress, provider: Provider) -> list[ServedModel]:
    import asyncio

    try:
        return asyncio.run(egress.served_models(provider))
    finally:
        egress.flush()


def _keep_models(egress: ProviderEgress, provider: Provider, served: Sequence[ServedModel]) -> None:
    names = [model.id for model in served]
    contexts = [model.max_model_len for model in served if model.max_model_len]
    egress.store.keep_models(provider.name, names, min(contexts, default=None))
    listed = ", ".join(f"{provider.name}/{name}" for name in names)
    print_status(f"Its models: {listed}." if names else "It serves no model yet.")


def _key(arguments: Sequence[str]) -> int:
    parser = CommandParser("provider key", "Set or remove the key of a provider.", json=False)
    parser.add_argument("name", metavar="NAME", help="a name of `provider list`")
    parser.add_flag("--file", help="store it in a file, not in the keyring")
    parser.add_flag("--remove", help="delete the key")
    options = parser.parse_args(arguments)
    egress = _egress()
    provider = egress.store.find(options.name)
    if options.remove:
        gone = egress.keys.remove(provider.name)
        print("The key is deleted." if gone else f"'{provider.name}' had no key.")
        return 0
    _store_key(egress, provider, in_file=options.file)
    if provider.own and not provider.models:
        _find_models(egress, provider)
    return 0


def _store_key(egress: ProviderEgress, provider: Provider, *, in_file: bool) -> None:
    from ...routing.providers.provider_keys import ProviderKeys

    keys = ProviderKeys(egress.keys.path.parent, use_keyring=False) if in_file else egress.keys
    place = keys.set(provider.name, _read_key(provider))
    where = "the system's keyring" if place == "keyring" else f"{keys.path}, for you alone"
    print(f"The key of '{provider.name}' is in {where}.")


def _read_key(provider: Provider) -> str:
    """Return the key typed without echo, or piped in."""
    if sys.stdin is None or sys.stdin.closed:  # pyright: ignore[reportUnnecessaryComparison]  # None where it was closed
        raise CommandError(
            "There is no terminal to ask for the key at.", "Pipe it in: `… < key.txt`."
        )
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass(f"Key of {provider.name} (not shown): ")
    return sys.stdin.readline(2**16)


def _test(arguments: Sequence[str]) -> int:
    parser = CommandParser(
        "provider test", "Ask a provider for one word, and report time and bytes."
    )
    parser.add_argument("name", metavar="NAME", help="a name of `provider list`")
    parser.add_argument("--model", metavar="MODEL", help="which of its models")
    options = parser.parse_args(arguments)
    egress = _egress()
    provider = egress.store.find(options.name)
    model = options.model or next(iter(provider.models), None)
    if model is None:
        raise UsageError(f"'{provider.name}' lists no models.", "Name one: --model MODEL.")
    import asyncio

    answer, receipt = asyncio.run(_ask(egress, provider, model))
    egress.flush()
    if options.json:
        facts = {"bytes_out": receipt.bytes_sent, "bytes_in": receipt.bytes_received}
        print_json({"model": model, "answer": answer, "seconds": receipt.seconds, **facts})
    else:
        sent, received = format_bytes(receipt.bytes_sent), format_bytes(receipt.bytes_received)
        print_text(f"{provider.name}/{model} answered: {answer.strip()[:200]}")
        print(
            f"{sent} sent, {received} received, {receipt.seconds:.1f} s; it is in `ingle ledger`."
        )
    return 0


async def _ask(egress: ProviderEgress, provider: Provider, model: str) -> tuple[str, Receipt]:
    from ingle.backends.base.conversation import ChatMessage
    from ingle.backends.base.events import Delta, Event
    from ingle.backends.base.requests import GenerateRequest
    from ingle.backends.remote.clearance import Clearance, request_digest

    message = ChatMessage("user", "Reply with the word OK.")
    request = GenerateRequest(id="provider-test", messages=[message], max_tokens=256)
    clearance = Clearance(
        digest=request_digest(request),
        provider=provider.name,
        model=model,
        verdict="cloud",
        rule="ingle provider test",
    )
    backend = await egress.backend(clearance, request)
    events: list[Event] = []
    await backend.run(request, events.extend)
    text = "".join(event.text for event in events if isinstance(event, Delta))
    assert backend.receipt is not None, "the test has ended"
    return text, backend.receipt


def _remove(arguments: Sequence[str]) -> int:
    parser = CommandParser("provider remove", "Remove a provider and its key.", json=False)
    parser.add_argument("name", metavar="NAME", help="a name of `provider list`")
    options = parser.parse_args(arguments)
    egress = _egress()
    egress.store.remove(options.name)
    egress.keys.remove(options.name)
    print(f"'{options.name}' and its key are removed.")
    return 0


def _egress() -> ProviderEgress:
    from ...routing.egress.provider_egress import ProviderEgress

    return ProviderEgress(load_config(os.environ))


def _facts(egress: ProviderEgress, provider: Provider) -> dict[str, Any]:
    trouble = egress.trouble(provider)
    return {
        "name": provider.name,
        "kind": str(provider.kind),
        "base_url": provider.base_url,
        "own": provider.own,
        "models": list(provider.models),
        "key": egress.keys.place(provider.name),
        "budget_money": provider.budget_money,
        "budget_tokens": provider.budget_tokens,
        "ready": not trouble,
        "trouble": trouble,
    }


def _row(egress: ProviderEgress, provider: Provider) -> list[str]:
    budgets: list[str] = []
    if provider.budget_money is not None:
        budgets.append(f"{provider.budget_money:g}")
    if provider.budget_tokens is not None:
        budgets.append(f"{provider.budget_tokens:,} tokens")
    return [
        provider.name,
        f"{provider.kind}{' (own)' if provider.own else ''}",
        egress.keys.place(provider.name) or "-",
        ", ".join(budgets) or "-",
        egress.trouble(provider) or "ready",
    ]
