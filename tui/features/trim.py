"""`TrimFeature`: leaves out old attachments and long pasted texts, without a model."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .feature import Feature, Handler


class TrimFeature(Feature):
    """What is trimmed stays in the chat, and undoing sends it again."""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"trim": lambda _: self.trim()}

    async def trim(self) -> None:
        """Leave out old attachments and long texts, without a model."""
        from ..chats.view import view_entries
        from ..compaction.check import Refused
        from ..compaction.sizes import measure
        from ..compaction.trim import trim
        from ..errors import ClientError

        chat, host = self.host.chat, self.host
        try:
            compaction = trim(chat)
            views = [view_entries(chat), view_entries(chat, [*chat.compaction_chain(), compaction])]
            before, after = [
                await measure(host.client, host.state.model_name, view) for view in views
            ]
        except Refused as refused:
            host.tell(str(refused), "warning")
        except ClientError as error:
            host.tell(error.message, "warning")
        else:
            if host.chat is not chat or host.turn is not None:
                return
            compaction = msgspec.structs.replace(
                compaction, tokens_before=before.total, tokens_after=after.total
            )
            chat.add_compaction(compaction)
            host.history.add_compaction(chat.id, compaction)
            host.show_path()
