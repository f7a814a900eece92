"""Opens encrypted chats when the program starts: with the keyring, else with the passphrase."""

from __future__ import annotations

import asyncio

from ...commands.command_results import Done
from ...commands.history_commands import unlock
from ..feature import Feature

ASK_AFTER = 0.3
"""Seconds after the start, so that keys that are typed early do not end in the passphrase."""


class EncryptionFeature(Feature):
    """Asks for the passphrase of chats that are locked at the start."""

    def on_ready(self) -> None:
        """See `Feature`."""
        if self.is_locked:
            self.host.run_task(self.host.present(self._open_at_start()), group="unlock")

    @property
    def is_locked(self) -> bool:
        """Whether there are chats that cannot be read yet."""
        return self.host.store is not None and self.host.store.database.is_locked

    async def _open_at_start(self) -> Done:
        store = self.host.store
        assert store is not None
        if await asyncio.to_thread(store.unlock_with_keyring):
            self.host.front.history_unlocked()
            return Done()
        await asyncio.sleep(ASK_AFTER)
        if not self.is_locked:
            return Done()
        if self.host.composer.text or len(self.host.chat_app.screen_stack) > 1:
            asks = "The chats are locked; /encrypt asks for the passphrase."
            return Done(asks, is_warning=True)
        await unlock(self.host)
        return Done()
