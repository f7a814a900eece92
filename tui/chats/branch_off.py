"""Copies a branch into a new chat."""

from __future__ import annotations

import msgspec

from .chat import Chat
from .history_protocol import ChatRecorder
from .message import CompactionRecord, Message, new_id


def branch_off(source: Chat, last: Message, history: ChatRecorder) -> Chat:
    """Return a new chat with the path of `source` up to and including `last`, saved in `history`.

    Compactions on the path are copied.
    """
    settings = msgspec.structs.replace(
        source.settings,
        title=f"{source.title} (branch)",
        sampling=dict(source.settings.sampling),
        consents={},
    )
    chat = Chat(settings, temporary=source.temporary)
    history.add_chat(chat)
    names: dict[str, str] = {}
    for message in source.path:
        parent = names[message.parent] if message.parent is not None else None
        copy = msgspec.structs.replace(message, id=new_id(), parent=parent, generation=None)
        if copy.is_open:
            copy.ending = "stopped"
        names[message.id] = copy.id
        chat.add(copy)
        history.add_message(chat.id, copy)
        if message is last:
            break
    _copy_compactions(source, chat, names, history)
    return chat


def _copy_compactions(
    source: Chat, chat: Chat, names: dict[str, str], history: ChatRecorder
) -> None:
    """Copy the compactions on the branch, with the ids that messages have in the new chat."""
    made: dict[str, str] = {}
    for step in sorted(source.compactions.values(), key=lambda step: step.created):
        before = _summary_before(source, step, made)
        if step.at not in names or (before is not None and before not in made):
            continue  # incomplete without its predecessor
        copy: CompactionRecord = msgspec.structs.replace(
            step,
            id=new_id(),
            at=names[step.at],
            kept=tuple(names[name] for name in step.kept if name in names),
            after=made[before] if before is not None else None,
        )
        made[step.id] = copy.id
        chat.add_compaction(copy)
        history.add_compaction(chat.id, copy)
        if step.id in source.undone:
            chat.undo_compaction(copy.id)
            history.undo_compaction(chat.id, copy.id)


def _summary_before(source: Chat, step: CompactionRecord, made: dict[str, str]) -> str | None:
    """Return the id of the step's predecessor in the new chat; a trim beyond the branch is
    skipped.
    """
    name = step.after
    while name is not None and name not in made and name in source.compactions:
        before = source.compactions[name]
        if not before.trims:
            break
        name = before.after
    return name
