"""Steps of `ingle forget`: list, plan, confirmation, erasure."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from ...client.sync_client import DaemonClient
from ...errors import InvalidBody, RequestError
from ...retention.chat_eraser import COPIES, ChatEraser
from ...retention.data_inventory import DATA_INVENTORY, measure
from ...retention.erasure import CHATS, ErasureResult, ErasureSelection, erase, places_for
from ...retention.forget_request import ForgetRequest, Forgotten, check, selection_of
from ...server.instance_lock import AlreadyRunning, InstanceLock
from ...settings.config import Config
from ...settings.setting_parsers import InvalidSetting, parse_duration
from ...terminal.terminal_output import (
    confirmed,
    counted,
    format_bytes,
    print_json,
    print_status,
    print_table,
    print_text,
)
from ..command_errors import CommandError, UsageError
from ..daemon_launcher import running_daemon

if TYPE_CHECKING:
    from ingle.tui.history.database.row_reads import ChatSummary

_API_IDS = ("resp_", "conv_", "chatcmpl-", "file-", "batch_", "msgbatch_")
_SHOWN_CHATS = 5
_PATIENCE = 120.0
"""Seconds that the daemon may take: models write their caches before they end."""


def list_places(config: Config, *, as_json: bool) -> int:
    """Print the stored data, place by place."""
    places = [measure(place, config) for place in DATA_INVENTORY]
    if as_json:
        print_json({"places": places})
        return 0
    rows = [
        [place.name, str(place.count), format_bytes(place.bytes), place.kept_for]
        for place in places
    ]
    print_table(("PLACE", "FILES", "SIZE", "KEPT"), rows, right="FILES SIZE")
    for place in places:
        print_text(f"\n{place.name}: {place.what}.\n  {place.path}")
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
    try:
        check(request)
        return _Forgetting(config, request).run(options)
    except InvalidBody as error:
        raise UsageError(
            error.message, error.hint or "`ingle forget --help` shows how; `--list` what is stored."
        ) from error


class _Forgetting:
    """One run of the command: plan, confirmation, erasure."""

    def __init__(self, config: Config, request: ForgetRequest) -> None:
        self._config = config
        self._request = request
        self._selection = ErasureSelection(
            ids=frozenset(request.ids), since=request.since, before=request.before
        )

    def run(self, options: Namespace) -> int:
        """Return 0 if something was erased or there was nothing; 1 if no id is known."""
        with ExitStack() as stack:
            client = running_daemon(self._config)
            if client is None:
                stack.enter_context(_lock_home(self._config))
            eraser = self._open_chats(stack)
            chats = self._find_chats(eraser)
            requests = self._requests(chats)
            plan = self._erase(client, requests, dry_run=True)
            planned = self._plan_chats(eraser, chats) + plan.erased
            if self._request.ids and not planned:
                raise CommandError(
                    f"Nothing is stored for {', '.join(self._request.ids)}.",
                    "`ingle chats` lists the chats; ids of the API must be complete.",
                )
            # A daemon may hold data in memory that is not on disk.
            by_memory = client is not None and not self._request.ids
            if options.dry_run or not (planned or by_memory):
                _print(Forgotten(dry_run=True, erased=planned), chats, options)
                return 0
            if not options.yes:
                _print(Forgotten(dry_run=True, erased=planned), chats, options, asking=True)
                if not sys.stdin.isatty():
                    raise CommandError("Nothing was erased.", "`--yes` erases without asking.")
                if not confirmed("Erase this? It cannot be undone."):
                    raise CommandError("Nothing was erased.")
            done = list[ErasureResult]()
            if eraser is not None:
                done += eraser.erase(chats, self._selection)
            answer = self._erase(client, requests, dry_run=False)
            left = answer.left + [
                f"{name}, set aside as damaged, may hold chats: `ingle forget --all` erases it."
                for name in (eraser.damaged() if eraser is not None else [])
            ]
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
        from ingle.tui.plain.passphrase_prompt import unlock

        eraser = ChatEraser(self._config.paths.chats, unlock)
        stack.callback(eraser.close)
        return eraser

    def _find_chats(self, eraser: ChatEraser | None) -> list[ChatSummary]:
        if eraser is None:
            return []
        chats = eraser.find(self._selection)
        for name in self._selection.ids:
            if sum(chat.id.startswith(name) for chat in chats) > 1:
                raise CommandError(
                    f"More than one chat begins with {name}.", "`ingle chats` lists them."
                )
        return chats

    def _requests(self, chats: list[ChatSummary]) -> list[ForgetRequest]:
        """Return the requests for the daemon, or for the files if none runs."""
        if not self._request.ids:
            return [self._request]
        requests: list[ForgetRequest] = []
        names = [name for name in self._request.ids if name.startswith(_API_IDS)]
        if names:
            requests.append(msgspec.structs.replace(self._request, ids=names))
        if chats:
            # KV and copies of edited files do not name their chat, but cannot be older than it.
            since = min(chat.created for chat in chats)
            requests.append(ForgetRequest(since=since, places=["kv", "edits", "memory"]))
        return requests

    def _plan_chats(
        self, eraser: ChatEraser | None, chats: list[ChatSummary]
    ) -> list[ErasureResult]:
        """Return the chats to be erased, and copies of the database, erased even if no chat is."""
        copies = 0
        if eraser is not None and not self._selection.ids:
            copies = len(eraser.copies(self._selection))
        found = [
            ErasureResult(place=CHATS, what="chats", count=len(chats)),
            ErasureResult(place=CHATS, what=COPIES, count=copies),
        ]
        return [each for each in found if each.count]

    def _erase(
        self, client: DaemonClient | None, requests: list[ForgetRequest], *, dry_run: bool
    ) -> Forgotten:
        """Erase everything but chats: by the daemon, or the files directly if none runs."""
        erased, unloaded, left = list[ErasureResult](), list[str](), list[str]()
        for each in requests:
            request = msgspec.structs.replace(each, dry_run=dry_run)
            if client is None:
                erased += self._erase_files(request)
                continue
            answer = client.post("/ingle/v1/forget", request, Forgotten, timeout=_PATIENCE)
            erased += answer.erased
            unloaded += answer.unloaded
            left += answer.left
        return Forgotten(dry_run=dry_run, erased=erased, unloaded=unloaded, left=left)

    def _erase_files(self, request: ForgetRequest) -> list[ErasureResult]:
        selection = selection_of(request, self._config.paths)
        places = places_for(selection, request.places)
        try:
            return erase(self._config, selection, places, dry_run=request.dry_run)
        except (OSError, RequestError) as error:
            raise CommandError(f"Not everything could be erased: {error}.") from error


@contextmanager
def _lock_home(config: Config) -> Generator[None]:
    """Keep a daemon from starting; raises `CommandError` if one has the lock."""
    config.paths.make_private()
    lock = InstanceLock(config.paths.lock)
    try:
        lock.acquire()
    except AlreadyRunning as error:
        raise CommandError(
            "A daemon holds this home, but does not answer.", "Try again in a moment."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _print(
    report: Forgotten, chats: list[ChatSummary], options: Namespace, *, asking: bool = False
) -> None:
    if options.json and not asking:
        print_json(report)
        return
    out = print_status if asking else print_text
    if not report.erased and not report.unloaded:
        where = "on disk; loaded models will be unloaded, to clear their caches" if asking else ""
        out(f"There is nothing to erase {where}".rstrip() + ".")
    verb = "Would erase" if report.dry_run else "Erased"
    for erased in report.erased:
        size = f", {format_bytes(erased.bytes)}" if erased.bytes else ""
        out(f"{verb} {erased.count:6} × {erased.place}: {erased.what}{size}")
    if report.dry_run:
        for chat in chats[:_SHOWN_CHATS]:
            out(f"  {chat.id[:12]}  {chat.title or '(no title)'}")
        if len(chats) > _SHOWN_CHATS:
            out(f"  and {counted(len(chats) - _SHOWN_CHATS, 'more chat')}")
    if report.unloaded:
        out(f"Unloaded {', '.join(report.unloaded)}, which cleared their caches.")
    for sentence in report.left:
        out(sentence)


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
