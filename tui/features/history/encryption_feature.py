"""`EncryptionFeature`: locks the chats with a passphrase, and opens them at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...history.database.history_errors import HistoryError, WrongPassphrase
from ..feature import Feature, Handler
from .resuming_feature import ResumingFeature

if TYPE_CHECKING:
    from ...history.history_store import HistoryStore

LOCKED = "Until then, what you say is held in memory only."
LATER = "The chats stay locked, and what you say is in memory only; /encrypt asks again."
ASK_AFTER = 0.3
"""Seconds after the start: who types ahead must not type into the passphrase."""


class EncryptionFeature(Feature):
    """Runs `/encrypt`, and asks for the passphrase where there is one."""

    def handlers(self) -> Mapping[str, Handler]:
        return {"encrypt": self.encrypt}

    def on_ready(self) -> None:
        """Ask for the passphrase, unless somebody is typing already."""
        if self.is_locked:
            self.host.run_task(self._open_at_start(), group="unlock")

    @property
    def is_locked(self) -> bool:
        """Whether there are chats that cannot be read yet."""
        return self.host.store is not None and self.host.store.database.is_locked

    async def encrypt(self, argument: str) -> None:
        """Lock the chats with a passphrase, unlock them, or with `off` keep them in the clear."""
        store = self.host.store
        if store is None:
            self.host.tell("Chats are not kept here, so there is nothing to encrypt.", "warning")
        elif store.database.is_locked:
            self.unlock()
        elif not store.database.is_encrypted:
            await self._ask_new(store)
        elif argument == "off":
            self._ask_to_decrypt(store)
        elif argument in ("remember", "forget"):
            await self._remember(store, argument == "remember")
        else:
            self.host.tell(
                "The chats are encrypted. /encrypt off keeps them in the clear from then on; "
                "/encrypt remember puts the passphrase into the system's keyring."
            )

    def unlock(self, then: Callable[[], None] | None = None, complaint: str = "") -> None:
        """Ask for the passphrase until it is right, and go on with `then`."""
        from ...screens.dialogs.line_input_screen import LineInputScreen

        asked = LineInputScreen(
            "Passphrase of your chats",
            note=complaint or LOCKED,
            legend="enter unlocks  ·  esc later",
            secret=True,
        )

        def answered(passphrase: str | None) -> None:
            if passphrase:
                self.host.run_task(self._unlock(passphrase, then), group="unlock")
            else:
                self.host.tell(LATER, "warning")

        self.host.show_screen(asked, answered)

    async def _unlock(self, passphrase: str, then: Callable[[], None] | None) -> None:
        store = self.host.store
        assert store is not None
        try:
            await asyncio.to_thread(store.unlock, passphrase)
        except WrongPassphrase as error:
            self.unlock(then, f"{error.message} {error.hint}")
            return
        except HistoryError as error:
            self._complain(error)
            return
        self._unlocked()
        if then is not None:
            then()

    def _unlocked(self) -> None:
        self.host.feature(ResumingFeature).on_connected()
        self.host.show_state()

    async def _open_at_start(self) -> None:
        store = self.host.store
        assert store is not None
        if await asyncio.to_thread(store.unlock_with_keyring):
            self._unlocked()
            return
        await asyncio.sleep(ASK_AFTER)
        if not self.is_locked:
            return
        if self.host.composer.text or len(self.host.chat_app.screen_stack) > 1:
            self.host.tell("The chats are locked; /encrypt asks for the passphrase.", "warning")
        else:
            self.unlock()

    async def _ask_new(self, store: HistoryStore) -> None:
        from ...history.database.database_encryption import NO_WAY_BACK, load_sqlcipher
        from ...screens.dialogs.line_input_screen import LineInputScreen

        try:
            await asyncio.to_thread(load_sqlcipher)
        except HistoryError as error:
            self._complain(error)
            return
        asked = LineInputScreen(
            "New passphrase", note=NO_WAY_BACK, legend="enter goes on  ·  esc", secret=True
        )
        self.host.show_screen(asked, partial(self._ask_again, store))

    def _ask_again(self, store: HistoryStore, first: str | None) -> None:
        from ...history.database.database_encryption import passphrase_problem
        from ...screens.dialogs.line_input_screen import LineInputScreen

        if first is None:
            return
        problem = passphrase_problem(first)
        if problem is not None:
            self.host.tell(f"{problem} Nothing was changed.", "warning")
            return

        def answered(second: str | None) -> None:
            if second is None:
                return
            if second != first:
                self.host.tell("The two are not the same. Nothing was changed.", "warning")
            else:
                self.host.run_task(self._encrypt(store, first), group="encrypt")

        asked = LineInputScreen("The same once more", legend="enter encrypts  ·  esc", secret=True)
        self.host.show_screen(asked, answered)

    async def _encrypt(self, store: HistoryStore, passphrase: str) -> None:
        self.host.tell("Encrypting the chats…")
        try:
            await asyncio.to_thread(store.encrypt, passphrase)
        except HistoryError as error:
            self._complain(error)
            return
        self.host.show_state()
        self.host.tell("The chats are encrypted. The next start asks for the passphrase.")
        left = await asyncio.to_thread(store.database.left_in_the_clear)
        if left:
            names = ", ".join(left)
            self.host.tell(f"Set aside earlier, and still in the clear: {names}.", "warning")

    def _ask_to_decrypt(self, store: HistoryStore) -> None:
        from ...screens.dialogs.confirm_screen import ConfirmScreen

        asked = ConfirmScreen(
            "Keep the chats in the clear?",
            "Whoever can read your files can read them then.",
            yes="decrypts them",
        )

        def answered(yes: bool | None) -> None:
            if yes:
                self.host.run_task(self._decrypt(store), group="encrypt")

        self.host.show_screen(asked, answered)

    async def _decrypt(self, store: HistoryStore) -> None:
        try:
            await asyncio.to_thread(store.decrypt)
        except HistoryError as error:
            self._complain(error)
            return
        self.host.show_state()
        self.host.tell("The chats are kept in the clear again.")

    async def _remember(self, store: HistoryStore, wanted: bool) -> None:
        try:
            await asyncio.to_thread(store.remember, wanted)
        except HistoryError as error:
            self._complain(error)
            return
        done = "opens the chats from now on" if wanted else "has forgotten the passphrase"
        self.host.tell(f"The system's keyring {done}.")

    def _complain(self, error: HistoryError) -> None:
        self.host.tell(f"{error.message} {error.hint or ''}".strip(), "error")
