"""Commands of the open chat: branches, system prompt, sampling, files, templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

from ..chats.branch_off import branch_off
from ..chats.chat import Chat, ChatSettings
from ..chats.context_view import request_messages
from ..chats.message import Message
from ..chats.tool_steps import open_calls
from .chat_session import ChatSession, keep_settings, refuse_while_answering
from .command_results import CommandRefused, Done
from .sampling_options import THINKING, changed_sampling, chat_options

if TYPE_CHECKING:
    from ..settings.personas import Persona

TEMPLATES = "prompts"
"""The folder of templates inside the folder of settings."""


def new(session: ChatSession, _argument: str) -> Done:
    """Open an empty chat."""
    session.open_chat(Chat(new_settings(session)))
    return Done("A new chat begins.", is_visible=True)


def new_settings(session: ChatSession) -> ChatSettings:
    """The settings of the persona that new chats begin with; raises `CommandRefused`."""
    name = session.preferences.persona
    if not name or session.folders is None:
        return ChatSettings()
    from ..settings.personas import load_persona

    persona = load_persona(session.folders.config, name)
    return ChatSettings(
        model=persona.model or None,
        system=persona.system,
        sampling=dict(persona.sampling),
        thinking=persona.thinking,
    )


def begin(session: ChatSession) -> None:
    """Give the first chat its settings, and the model of its persona unless another is wanted."""
    settings = new_settings(session)
    session.chat.settings = settings
    if settings.model is not None and session.state.wanted is None:
        session.state.want(settings.model)


def temp(session: ChatSession, _argument: str) -> Done:
    """Open an empty chat that is never written."""
    session.open_chat(Chat(temporary=True))
    return Done("A new chat begins; it is never written to disk.", is_visible=True)


# Branches; the argument is the id of a message, else the last one that fits is meant


def again(session: ChatSession, name: str) -> Done | Awaitable[Done]:
    """Generate another answer beside the ones there are: to the prompt of the message `name`, or
    with the model `name` to the last one.
    """
    refuse_while_answering(session)
    message = session.chat.messages.get(name)
    if name and message is None:
        return _again_with(session, name)
    if message is not None and message.role == "assistant" and message.parent is not None:
        message = session.chat.messages[message.parent]
    if message is None or message.role != "user":
        message = _last(session.chat, "user")
    if message is None:
        raise CommandRefused("There is no prompt to ask again.")
    session.ask_again(message)
    return Done()


async def _again_with(session: ChatSession, model: str) -> Done:
    """Go over to another model, and have it answer the last prompt."""
    from .models_commands import model as choose_model

    prompt = _last(session.chat, "user")
    if prompt is None:
        raise CommandRefused("There is no prompt to ask again.")
    done = await choose_model(session, model)
    known = session.state.model_name or ""
    if model in (known, known.partition(":")[0]):  # else it was declined
        session.ask_again(prompt)
    return done


def continue_(session: ChatSession, name: str) -> Done:
    """Continue an interrupted answer, or the calls after which the chat ended."""
    refuse_while_answering(session)
    leaf = session.chat.leaf
    if not name and leaf is not None and (leaf.role == "tool" or open_calls(session.chat)):
        session.run_tools()
        return Done()
    message = _message(session.chat, name, "assistant")
    if message is None or not message.content:
        raise CommandRefused("There is no answer to continue.")
    session.continue_answer(message)
    return Done()


def edit(session: ChatSession, argument: str) -> Done:
    """Change a prompt, given by its id, or the last prompt to the text that is given."""
    message = _message(session.chat, argument, "user")
    if message is None:
        raise CommandRefused("There is no prompt to edit.")
    session.edit(message, "" if argument in session.chat.messages else argument)
    return Done()


async def rewind(session: ChatSession, _argument: str) -> Done:
    """Choose an earlier prompt and edit it."""
    prompts = [message for message in session.chat.path if message.role == "user"]
    if not prompts:
        raise CommandRefused("There is no prompt to go back to.")
    chosen = await session.front.pick_prompt(prompts)
    if chosen is not None:
        session.edit(chosen)
    return Done()


def branch(session: ChatSession, name: str) -> Done:
    """Open a new chat that begins with the messages up to this one."""
    last = _message(session.chat, name, None)
    if last is None:
        raise CommandRefused("There is nothing to branch from.")
    chat = branch_off(session.chat, last, session.history)
    session.open_chat(chat)
    return Done(f"A new chat continues from here: {chat.title}.", is_visible=True)


def previous(session: ChatSession, name: str) -> Done:
    """Show the branch before."""
    return _switch(session, name, -1)


def next_(session: ChatSession, name: str) -> Done:
    """Show the branch after."""
    return _switch(session, name, 1)


def _switch(session: ChatSession, name: str, step: int) -> Done:
    refuse_while_answering(session)
    chat = session.chat
    forks = (message for message in reversed(chat.path) if len(chat.siblings(message)) > 1)
    message = chat.messages.get(name) or next(forks, None)
    if message is None:
        raise CommandRefused("No message has a second version.", "/again or /edit makes one.")
    other = chat.neighbour(message, step)
    chat.choose(other)
    session.history.choose(chat.id, other.id)
    siblings = chat.siblings(other)
    place = f"Version {siblings.index(other) + 1} of {len(siblings)}."
    return Done(place, "path", at=other.id, is_visible=True)


def _message(chat: Chat, name: str, role: str | None) -> Message | None:
    named = chat.messages.get(name)
    return named if named is not None and role in (None, named.role) else _last(chat, role)


def _last(chat: Chat, role: str | None) -> Message | None:
    return next((m for m in reversed(chat.path) if role in (None, m.role)), None)


# Settings of all following prompts


async def system(session: ChatSession, text: str) -> Done:
    """Set the system prompt; `off` empties it, "" opens it for editing."""
    chat = session.chat
    current = chat.settings.system
    new_text = "" if text == "off" else text
    if not text:
        edited = await session.front.long_text("System prompt of this chat", current)
        new_text = current if edited is None else edited
    cost = None if new_text == current else await _accept_system(session, new_text)
    if cost is None:
        return Done()
    chat.settings.system = new_text
    keep_settings(session)
    done = "The system prompt is set" if new_text else "The system prompt is empty"
    return Done(f"{done}; {cost}." if cost else f"{done}.", "path")


async def _accept_system(session: ChatSession, text: str) -> str | None:
    """The cost of another system prompt in words, None if it was declined."""
    settings = session.chat.settings
    current = settings.system
    if text == current:
        return ""
    settings.system = text
    cost = session.front.prefill_cost(request_messages(session.chat))
    settings.system = current
    if cost.needs_confirmation and not await session.front.accept_cost(
        "Change the system prompt of this chat?",
        f"With the next prompt {cost.sentence}.",
        yes="changes it",
    ):
        return None
    return cost.sentence


async def persona(session: ChatSession, argument: str) -> Done:
    """Take over a persona's settings; `save NAME` keeps those of this chat, `delete NAME` deletes
    them, and without an argument all are listed.
    """
    from ..settings.personas import (
        Persona,
        delete_persona,
        load_persona,
        persona_names,
        save_persona,
    )

    config = None if session.folders is None else session.folders.config
    word, _, name = argument.partition(" ")
    settings = session.chat.settings
    if word == "delete" and name:
        await asyncio.to_thread(delete_persona, config, name)
        return Done(f"The persona {name} is deleted.")
    if word == "save" and name and config is not None:
        kept = Persona(
            system=settings.system,
            model=session.state.model_name or "",
            thinking=settings.thinking,
            sampling=settings.sampling,
        )
        file = await asyncio.to_thread(save_persona, config, name, kept)
        return Done(f"This chat's settings are the persona {name}, kept in {file}.")
    if not argument:
        names = await asyncio.to_thread(persona_names, config)
        known = f"Personas: {', '.join(names)}. /persona NAME uses one. " if names else ""
        return Done(f"{known}/persona save NAME keeps the settings of this chat.")
    chosen = await asyncio.to_thread(load_persona, config, argument)
    cost = await _accept_system(session, chosen.system)
    if cost is None:
        return Done()
    take_over(session, chosen)
    if chosen.model and chosen.model != session.state.model_name:
        from .models_commands import model as choose_model

        session.front.present(await choose_model(session, chosen.model))
    return Done(f"This chat has the persona {argument}.", "path")


def take_over(session: ChatSession, persona: Persona) -> None:
    """Set the chat's system prompt, sampling and thinking to those of a persona."""
    settings = session.chat.settings
    settings.system, settings.thinking = persona.system, persona.thinking
    settings.sampling = dict(persona.sampling)
    keep_settings(session)


async def sampling(session: ChatSession, text: str) -> Done:
    """Set `name=value` pairs; `name=` restores the model's own value, `off` all of them."""
    settings = session.chat.settings
    if text == "off":
        settings.sampling = {}
    elif text:
        options = await chat_options(session.client)
        settings.sampling = changed_sampling(settings.sampling, text, options)
    keep_settings(session)
    pairs = ", ".join(f"{name}={value:g}" for name, value in settings.sampling.items())
    return Done(f"Sampling of this chat: {pairs or 'defaults of the model'}.")


def think(session: ChatSession, effort: str) -> Done:
    """Set how much reasoning precedes an answer; "" leaves that to the model."""
    if effort and effort not in THINKING:
        raise CommandRefused(f"/think takes one of {', '.join(THINKING)}, or nothing.")
    session.chat.settings.thinking = effort
    keep_settings(session)
    return Done(f"Thinking in this chat: {effort or 'default of the model'}.")


# The draft


async def editor(session: ChatSession, _argument: str) -> Done:
    """Write the draft in the user's editor."""
    front = session.front
    if not front.is_person:
        raise CommandRefused("/editor needs a terminal.")
    part = front.draft_part()
    edited = await front.in_editor(part.text)
    if edited != part.text:
        part.replace(edited)
    return Done()


async def template(session: ChatSession, name: str) -> Done:
    """Use a saved prompt; without a name, list all of them."""
    from ..composing.prompt_templates import load_templates

    folder = template_folder(session)
    if folder is None:
        raise CommandRefused("There is no folder for templates here.")
    templates = await asyncio.to_thread(load_templates, folder)
    found = next((template for template in templates if template.name == name), None)
    if found is not None:
        session.front.insert_template(found)
        return Done()
    if not templates:
        return Done(f"Put prompts as .md files into {folder}; {{{{name}}}} is a placeholder.")
    known = f"Templates: {', '.join(template.name for template in templates)}."
    if name:
        raise CommandRefused(f"There is no template {name}.", known)
    return Done(f"{known} /template NAME uses one.")


def template_folder(session: ChatSession) -> Path | None:
    """The folder of templates; None without a folder of settings."""
    return None if session.folders is None else session.folders.config / TEMPLATES
