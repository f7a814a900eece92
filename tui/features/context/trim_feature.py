"""`TrimFeature`: leaves out old attachments and long pasted texts, without a model."""

from __future__ import annotations

from collections.abc import Mapping

from ..feature import Feature, Handler


class TrimFeature(Feature):
    """What is trimmed stays in the chat, and undoing sends it again."""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"trim": lambda _: self.trim()}

    async def trim(self) -> None:
        """Leave out old attachments and long texts, without a model."""
        from ...client.client_errors import ClientError
        from ...compaction.apply_compaction import apply
        from ...compaction.attachment_trim import measured_trim
        from ...compaction.summary_check import CompactionRefused

        chat, host = self.host.chat, self.host
        try:
            compaction = await measured_trim(host.client, chat, host.state.model_name)
        except CompactionRefused as refused:
            host.tell(str(refused), "warning")
        except ClientError as error:
            host.tell(error.message, "warning")
        else:
            if host.chat is not chat or host.turn is not None:
                return
            apply(chat, host.history, compaction)
            host.show_path()
