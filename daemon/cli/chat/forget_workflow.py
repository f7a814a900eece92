"""Steps of `ingle forget`: list, plan, confirmation, erasure."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from ...retention.chat_eraser import COPIES, ChatEraser, ForgottenChat
from ...retention.data_inventory import DATA_INVENTORY, measure
from ...retention.erasure import CHATS, ErasureResult, places_for
from ...retention.erasure_selection import ErasureSelection
from ...retention.forget_request import BadSelection, ForgetRequest, Forgotten, check
from ...settings.config import Config
from ...settings.setting_parsers import InvalidSetting, parse_duration
from ...terminal.terminal_output import (
    format_bytes,
    format_table,
    print_json,
    print_status,
    strip_control_characters,
    table_columns,
)
from ..command_errors import CommandError, UsageError
from .erasure_target import ErasureTarget, open_target

if TYPE_CHECKING:
    from ingle.tui.history.history_store import HistoryStore

_API_IDS = ("resp_", "file-", "batch_")
_SHOWN_CHATS = 5


def list_places(config: Config, *, as_json: bool) -> int:
    """Print the stored data, place by place."""
    places = [measure(place, config) for place in DATA_INVENTORY]
    if as_json:
        print_json({"places": [msgspec.to_builtins(place) for place in places]})
        return 0
    rows = [
        [place.name, str(place.count), format_bytes(place.bytes), place.kept_for]
        for place in places
    ]
    headers = ("PLACE", "FILES", "SIZE", "KEPT")
    print(format_table(headers, rows, right="FILES SIZE", columns=table_columns()))
    for place in places:
        print(f"\n{place.name}: {place.what}.\n  {strip_control_characters(place.path)}")
        if place.other:
            print(f"  {place.other}")
    print_status("\nAnswers that a chat can resume stay in the daemon's memory for ten minutes.")
    return 0


def forget(config: Config, options: Namespace) -> int:
    """Confirm, erase, and print what was erased; raises `CommandError`."""
    request = ForgetRequest(
        all=options.all,
        ids=options.ids,
        since=parse_time(options.since),
        before=parse_time(options.before),
        places=options.place,
    )
    from ingle.tui.history.database.history_errors import HistoryError

    try:
        check(request)
        return _Forgetting(config, request).run(options)
    except BadSelection as error:
        raise UsageError(
            error.message, error.hint or "`ingle forget --help` shows how; `--list` what is stored."
        ) from error
    except HistoryError as error:
        raise CommandError(error.message, error.hint) from error


class _Forgetting:
    """One command: what it would erase, the confirmation, and the erasure."""

    def __init__(self, config: Config, request: ForgetRequest) -> None:
        self._config = config
        self._request = request
        self._selection = ErasureSelection(
            ids=frozenset(request.ids), since=request.since, before=request.before
        )

    def run(self, options: Namespace) -> int:
        """Return 0 if something was erased or there was nothing; 1 if no id is known."""
        with ExitStack() as stack:
            target = stack.enter_context(open_target(self._config))
            eraser = self._open_chats(stack)
            chats = self._find_chats(eraser)
            requests = self._requests(chats)
            plan = self._ask(target, requests, dry_run=True)
            planned = _counted(chats) + _copies(eraser, self._selection) + plan.erased
            if self._request.ids and not planned:
                raise CommandError(
                    f"Nothing is stored for {', '.join(self._request.ids)}.",
                    "`ingle chats` lists the chats; ids of the API must be complete.",
                )
            # A daemon may hold data in memory that is not on disk.
            by_memory = target.has_memory and not self._request.ids
            if options.dry_run or not (planned or by_memory):
                _print(Forgotten(dry_run=True, erased=planned), chats, options)
                return 0
            if not options.yes:
                _print(Forgotten(dry_run=True, erased=planned), chats, options, asking=True)
                _confirm()
            done = list[ErasureResult]()
            if eraser is not None:
                done += eraser.erase(chats, self._selection)
            answer = self._ask(target, requests, dry_run=False)
            left = answer.left + self._left(eraser)
            report = msgspec.structs.replace(answer, erased=done + answer.erased, left=left)
            _print(report, chats, options)
        return 0

    def _open_chats(self, stack: ExitStack) -> ChatEraser | None:
        wanted = {place.name for place in places_for(self._selection, self._request.places)}
        names = [name for name in self._request.ids if not name.startswith(_API_IDS)]
        if CHATS not in wanted or (self._request.ids and not names):
            return None
        if not any(self._config.paths.chats.glob("history*")):
            return None
        eraser = ChatEraser(self._config.paths.chats, _unlock)
        stack.callback(eraser.close)
        return eraser

    def _find_chats(self, eraser: ChatEraser | None) -> list[ForgottenChat]:
        if eraser is None:
            return []
        chats = eraser.find(self._selection)
        for name in self._selection.ids:
            if sum(chat.id.startswith(name) for chat in chats) > 1:
                raise CommandError(
                    f"More than one chat begins with {name}.", "`ingle chats` lists them."
                )
        return chats

    def _requests(self, chats: list[ForgottenChat]) -> list[ForgetRequest]:
        """Return the requests for the daemon, or for the files if none runs."""
        if not self._request.ids:
            return [self._request]
        requests: list[ForgetRequest] = []
        names = [name for name in self._request.ids if name.startswith(_API_IDS)]
        if names:
            requests.append(msgspec.structs.replace(self._request, ids=names))
        if chats:
            # Stored KV does not name its chat, but cannot be older than the chat.
            since = min(chat.created for chat in chats)
            requests.append(ForgetRequest(since=since, places=["kv", "memory"]))
        return requests

    def _ask(
        self, target: ErasureTarget, requests: list[ForgetRequest], *, dry_run: bool
    ) -> Forgotten:
        erased, unloaded, left = list[ErasureResult](), list[str](), list[str]()
        for request in requests:
            answer = target.forget(msgspec.structs.replace(request, dry_run=dry_run))
            erased += answer.erased
            unloaded += answer.unloaded
            left += answer.left
        return Forgotten(dry_run=dry_run, erased=erased, unloaded=unloaded, left=left)

    def _left(self, eraser: ChatEraser | None) -> list[str]:
        if eraser is None:
            return []
        return [
            f"{name}, set aside as damaged, may hold chats: `ingle forget --all` erases it."
            for name in eraser.damaged()
        ]


def _counted(chats: list[ForgottenChat]) -> list[ErasureResult]:
    return [ErasureResult(place=CHATS, what="chats", count=len(chats))] if chats else []


def _copies(eraser: ChatEraser | None, selection: ErasureSelection) -> list[ErasureResult]:
    """Return the database copies that would be erased even if no chat is."""
    count = len(eraser.copies(selection)) if eraser is not None and not selection.ids else 0
    return [ErasureResult(place=CHATS, what=COPIES, count=count)] if count else []


def _unlock(store: HistoryStore) -> None:
    from ingle.tui.plain.passphrase_prompt import unlock

    unlock(store)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nothing was erased.", "`--yes` erases without asking.")
    print_status("Erase this? It cannot be undone. [y/N] ")
    if input().strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was erased.")


def _print(
    report: Forgotten, chats: list[ForgottenChat], options: Namespace, *, asking: bool = False
) -> None:
    if options.json and not asking:
        print_json(msgspec.to_builtins(report))
        return
    out = print_status if asking else print
    if not report.erased and not report.unloaded:
        where = "on disk; loaded models will be unloaded, to clear their caches" if asking else ""
        out(f"There is nothing to erase {where}".rstrip() + ".")
    verb = "Would erase" if report.dry_run else "Erased"
    for erased in report.erased:
        size = f", {format_bytes(erased.bytes)}" if erased.bytes else ""
        out(f"{verb} {erased.count:6} × {erased.place}: {erased.what}{size}")
    if report.dry_run:
        for chat in chats[:_SHOWN_CHATS]:
            out(strip_control_characters(f"  {chat.id[:12]}  {chat.title or '(no title)'}"))
        if len(chats) > _SHOWN_CHATS:
            out(f"  and {len(chats) - _SHOWN_CHATS} more chats")
    if report.unloaded:
        out(f"Unloaded {', '.join(report.unloaded)}, which cleared their caches.")
    for sentence in report.left:
        out(strip_control_characters(sentence))


def parse_time(text: str | None) -> float | None:
    """Return the Unix seconds of "2h" (ago), "2026-01-31" or "2026-01-31T18:00", in local time.

    Raises `UsageError`.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return time.time() - _ago(text)


def _ago(text: str) -> float:
    """Return the seconds of "2h"; a bare number is ambiguous and refused."""
    try:
        ago = parse_duration(text)
    except InvalidSetting:
        ago = -1.0
    if ago < 0 or text.strip().replace(".", "").isdigit():
        raise UsageError(
            f"'{text}' is not a time.", 'Write "2h" or "7d" for that long ago, or 2026-01-31T18:00.'
        )
    return ago
