"""Commands of files: attached to the prompt, pictures described, folders asked, speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from ingle.daemon.client.document_types import CITE

from ..text import number_format
from .chat_session import ChatSession, LineQuestion, refuse_while_answering
from .command_results import CommandRefused, Done

FOLDER_SECONDS = 20.0
"""Time limit for reading new files before a question; the others are read in the background."""
SPOKEN_AT_ONCE = 400
"""Characters of an answer: the first are heard soon, and the others come while they are."""
DESCRIBE = "Describe this picture in detail, with the text in it word for word."


async def attach(session: ChatSession, argument: str) -> Done:
    """Send along with the prompt a file, a folder's listing, or the files of a pattern."""
    from ..composing.file_mentions import mentions_of

    mentions, missing = await asyncio.to_thread(mentions_of, argument, Path.cwd())
    done = Done() if missing and not mentions else await session.front.attach(mentions)
    if missing:
        raise CommandRefused(" ".join(f"There is no file {name}." for name in missing))
    return done


async def ask_files(session: ChatSession, argument: str) -> Done:
    """Send a question with the passages of a folder's files that fit it best."""
    from ..composing.folder_passages import as_attachments, search_folder

    folder, question = await asyncio.to_thread(_folder_and_question, argument)
    refuse_while_answering(session)
    session.front.progress(f"Reading {folder}")
    found = await search_folder(session.client, folder, question, FOLDER_SECONDS)
    if not found.passages:
        files = number_format.counted(found.files, "file")
        raise CommandRefused(
            f"Nothing fits the question in {files} of {folder}.", "Use words that occur in them."
        )
    session.send(f"{question}\n\n{CITE}", tuple(as_attachments(found, folder, Path.cwd())))
    return Done(found.summary)


def _folder_and_question(argument: str) -> tuple[Path, str]:
    """Split at the first word, which may be quoted; raises `CommandRefused`."""
    from ..composing.file_mentions import exists, find_mentions, resolve

    mention = next(iter(find_mentions(f"@{argument.lstrip('@')}")), None)
    question = "" if mention is None else f"@{argument.lstrip('@')}"[mention.end :].strip()
    if mention is None or not question:
        raise CommandRefused("Name a folder, then ask: /ask-files FOLDER QUESTION.")
    folder = resolve(mention.path, Path.cwd()).resolve()
    if not exists(folder) or not folder.is_dir():
        raise CommandRefused(f"There is no folder {mention.path}.")
    return folder, question


async def describe(session: ChatSession, argument: str) -> Done:
    """Have the model describe pictures."""
    from ..composing.attachment_reader import read_mentions
    from ..composing.file_mentions import find_mentions, mentions_of

    refuse_while_answering(session)
    mentions, missing = await asyncio.to_thread(mentions_of, argument.lstrip("@"), Path.cwd())
    text = " ".join(mentions)
    promised = [mention.path for mention in find_mentions(text)]
    reading = await asyncio.to_thread(read_mentions, text, Path.cwd(), promised)
    problems = [*(f"There is no file {name}." for name in missing), *reading.problems]
    if problems:
        raise CommandRefused(" ".join(problems))
    pictures = tuple(each for each in reading.attachments if each.picture)
    if not pictures:
        raise CommandRefused("Name a picture: /describe FILE (PNG, JPEG, WebP or GIF).")
    session.send(DESCRIBE, pictures)
    return Done(is_visible=True)


async def speak(session: ChatSession, argument: str) -> Done:
    """Write what is spoken into the draft."""
    from ..terminal.microphone import MOST_SECONDS, MicrophoneRecording, how_to_get_one, recorder

    front, command = session.front, recorder()
    if not front.is_person:
        raise CommandRefused("In a pipe nothing ends a recording; `ingle transcribe` reads a file.")
    if not command:
        raise CommandRefused("No program here records from the microphone.", how_to_get_one())
    try:
        recording = MicrophoneRecording(command)
    except OSError as error:
        raise CommandRefused(f"{command[0]} cannot start: {error.strerror}.") from error
    note = (
        f"{command[0]} is recording, up to {MOST_SECONDS // 60} minutes. Speak, then press enter."
    )
    try:
        ended = await front.line(
            LineQuestion("Recording", note=note, legend="enter ends it  ·  esc discards it")
        )
    finally:
        audio = await asyncio.to_thread(recording.stop)
    if ended is None:
        return Done("The recording is discarded.")
    if not audio:
        raise CommandRefused(
            f"{command[0]} recorded nothing.", "Check that a microphone is there and allowed."
        )
    front.progress("Recognising speech")
    text = await session.client.transcribe(audio)
    if not text:
        raise CommandRefused("No speech was recognised.", "Speak louder, or for longer.")
    front.insert_spoken(text)
    return Done(is_visible=True)


async def say(session: ChatSession, argument: str) -> Done:
    """Read the last answer aloud; code is left out."""
    from ..terminal.sound_player import how_to_get_one, play_as_it_comes, player
    from ..text.spoken_text import spoken_text

    refuse_while_answering(session)
    answers = (m for m in reversed(session.chat.path) if m.role == "assistant" and m.content)
    answer, command = next(answers, None), player()
    if answer is None:
        raise CommandRefused("There is no answer to read yet.")
    if not command:
        raise CommandRefused("No program here plays sound.", how_to_get_one())
    with session.front.long_task("Reading aloud", "esc stops it") as running:
        sounds = _sounds(session, spoken_text(answer.content))
        playing = asyncio.create_task(play_as_it_comes(command, sounds))
        try:
            while not playing.done() and not running.is_cancelled:
                await asyncio.wait({playing}, timeout=0.1)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
    if playing.cancelled():
        return Done("The reading is stopped.")
    if not playing.result():
        raise CommandRefused(f"{command[0]} did not play the sound.")
    return Done(is_visible=True)


async def _sounds(session: ChatSession, text: str) -> AsyncGenerator[bytes]:
    from ..terminal.sound_player import parts_of

    for part in parts_of(text, SPOKEN_AT_ONCE):
        yield await session.client.speak(part)
