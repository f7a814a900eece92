"""Commands of the model that answers: choose, download, unload, load with another context."""

from __future__ import annotations

from urllib.parse import quote

from ingle.daemon.client.model_types import ModelEntry, Removed

from ..gauges.model_switch_cost import (
    ModelSwitchCost,
    estimate_switch_cost,
    prefill_rate,
    view_tokens,
)
from ..session.model_choice import custom_model, find_model
from ..session.model_descriptions import ASK_FROM, download_sentence, fit_sentence, lacks_room
from ..text import number_format
from .chat_session import ChatSession, keep_settings, refuse_while_answering
from .command_results import CommandRefused, Done

LEAST_CONTEXT, MOST_CONTEXT = 256, 2**24


async def model(session: ChatSession, reference: str) -> Done:
    """Answer with another model; without a name, choose from a list."""
    if reference:
        found = find_model(session.state.models, reference) or custom_model(reference)
        # Downloading a model that the daemon does not list reports whether it exists.
        unlisted = ModelEntry(name=reference, installed=False, state="available")
        return await use_model(session, found or unlisted)
    listing = await session.client.models()
    session.state.models = listing.models
    picked = await session.front.pick_model(listing)
    if picked is None:
        return Done()
    match picked.action:
        case "use":
            return await use_model(session, picked.model, listing.disk_free)
        case "unload":
            return await unload(session, picked.model.name)
        case "delete":
            return await delete(session, picked.model)
        case "pull":
            session.front.fetch(picked.model.name)
        case _:  # the front end has done it
            pass
    return Done()


async def pull(session: ChatSession, reference: str) -> Done:
    """Download a model; without a name the chat's own, or offer to stop the running download."""
    front, state = session.front, session.state
    if reference:
        front.fetch(reference)
    elif state.must_pull and state.model_name is not None:
        front.fetch(state.model_name, use=True)
    elif not await front.offer_stop():
        raise CommandRefused("/pull NAME downloads a model.", "/model lists all.")
    return Done()


async def use_model(session: ChatSession, model: ModelEntry, disk_free: int | None = None) -> Done:
    """Answer with this model; download it first if it is missing, and ask if that costs much."""
    front = session.front
    if not model.writes:
        raise CommandRefused(
            f"{model.name} is for {model.purpose} and cannot chat.", "/model lists the others."
        )
    done = f"Now using {model.name}."
    if model.installed:
        if model.name == session.state.model_name and session.state.model is not None:
            talk_to(session, model)
            return Done(done, is_visible=True)
        cost = switch_cost(session, model)
        if cost.needs_confirmation and not await front.accept_cost(
            f"Switch to {model.name}?", cost.sentence(), yes="switches", no="cancels"
        ):
            return Done()
        talk_to(session, model)
        front.model_chosen(model.name)
        is_told = cost.needs_confirmation or not cost.tokens
        return Done(done if is_told else cost.sentence(), "state", is_visible=is_told)
    doubts: list[str] = []
    if model.fit is not None and model.fit.state == "no":
        doubts.append(f"It {fit_sentence(model.fit)}.")
    if disk_free is not None and lacks_room(model.size, disk_free):
        size, free = number_format.size(model.size or 0), number_format.size(disk_free)
        doubts.append(f"It needs {size}, and the disk has {free} free.")
    anyway = " anyway" if doubts else ""
    if not doubts and model.size >= ASK_FROM:
        doubts.append(download_sentence(model.size, disk_free or 0))
    if doubts and not await front.confirm(
        f"Download {model.name}{anyway}?", "\n".join(doubts), yes="downloads it"
    ):
        return Done()
    talk_to(session, model)
    front.model_chosen(model.name, is_missing=True)
    return Done(done, "state", is_visible=True)


def switch_cost(session: ChatSession, model: ModelEntry) -> ModelSwitchCost:
    """The cost of continuing the chat with `model`."""
    state, path = session.state, session.chat.path
    sizes = {entry.name: entry.parameters or 0 for entry in state.models}
    return estimate_switch_cost(
        model,
        current=state.model_name,
        loaded=state.loaded_models,
        tokens=view_tokens(path),
        rate=prefill_rate(model, path, sizes, state.loaded_models),
        free_bytes=state.free_bytes,
    )


def talk_to(session: ChatSession, model: ModelEntry) -> None:
    """Set the model of the chat."""
    state = session.state
    state.wanted = model.name
    if state.model is None or state.model.name != model.name:
        state.choose(model)
        state.loaded = state.loaded_named(model.name)
    session.chat.settings.model = model.name
    keep_settings(session)


async def unload(session: ChatSession, reference: str) -> Done:
    """Unload a model."""
    name = reference or session.state.model_name
    if not name:
        raise CommandRefused("Name the model: /unload NAME.")
    if not reference:
        refuse_while_answering(session)
    held = session.state.loaded_named(name)
    if held is None and session.state.model_name == name:
        held = session.state.loaded  # loaded since the daemon reported its figures
    if not await session.client.unload(name):
        return Done(f"{name} is not loaded.")
    size = held.weights_bytes + held.kv_bytes + held.compute_bytes if held else 0
    freed = f"; about {number_format.size(size)} of memory are free" if size else ""
    return Done(f"{name} is unloaded{freed}. The next prompt loads it.")


async def ctx(session: ChatSession, argument: str) -> Done:
    """Load the model again with another context, after stating the cost."""
    state = session.state
    digits = argument.replace(" ", "").replace(",", "").replace("_", "")
    context = int(digits) if digits.isdecimal() else 0
    if not LEAST_CONTEXT <= context <= MOST_CONTEXT:
        now = ""
        if state.loaded is not None and state.loaded.context:
            now = f"The current context is {number_format.tokens(state.loaded.context)} tokens."
        raise CommandRefused("/ctx takes a number of tokens, as in /ctx 16384.", now)
    name = state.model_name
    if name is None or not state.can_ask:
        raise CommandRefused("There is no model to load.", "/model lists the models.")
    refuse_while_answering(session)
    wanted = number_format.tokens(context)
    if not await session.front.accept_cost(
        f"Reload {name} with {wanted} tokens of context?",
        _context_cost(session, name, context),
        yes="reloads it",
    ):
        return Done()
    session.front.progress(f"Loading {name} with {wanted} tokens of context.")
    loaded = await session.client.load(name, context)
    if state.model_name == name:
        state.loaded = loaded
    session.front.model_chosen(name)
    asked = "" if loaded.context == context else f", not the {wanted} asked for"
    got = number_format.tokens(loaded.context)
    return Done(f"{name} has {got} tokens of context{asked}.", "state")


def _context_cost(session: ChatSession, name: str, context: int) -> str:
    """The cost of the lost cache and the memory of the new context, a line each."""
    lines: list[str] = []
    model = find_model(session.state.models, name)
    cost = switch_cost(session, model) if model is not None else None
    if cost is not None and cost.tokens:
        time = f", about {number_format.duration(cost.seconds)}" if cost.seconds else ""
        tokens = number_format.counted(cost.tokens, "token")
        lines.append(f"Its cache is lost: {tokens} must be prefilled again{time}.")
    held = session.state.loaded_named(name)
    if held is not None and held.kv_capacity and held.kv_bytes:
        takes = held.kv_bytes * context // held.kv_capacity
        now = number_format.size(held.kv_bytes)
        lines.append(f"The KV cache will take about {number_format.size(takes)}, now {now}.")
    if model is not None and model.context and context > model.context:
        trained = number_format.tokens(model.context)
        lines.append(f"It was trained for {trained} tokens; beyond them, answers get worse.")
    if session.state.free_bytes:
        lines.append(f"{number_format.size(session.state.free_bytes)} of RAM are available.")
    return "\n".join(lines) or "It takes as long as loading the model."


async def delete(session: ChatSession, model: ModelEntry) -> Done:
    """Delete a model's files, after asking."""
    freed = f"{number_format.size(model.size)} of disk space is freed. " if model.size else ""
    again = "It can be downloaded again."
    if model.place:
        freed, again = "", f"Its file stays: it belongs to {model.place}."
    if not await session.front.confirm(
        f"Delete {model.name}?",
        f"{freed}Your chats stay; their stored cache is deleted. {again}",
        yes="deletes it",
        no="keeps it",
    ):
        return Done()
    path = f"/ingle/v1/models/{quote(model.name, safe='')}"
    done = await session.client.request(Removed, "DELETE", path)
    listing = await session.client.models()
    state = session.state
    state.models = listing.models
    if state.model_name == model.name:
        state.choose(find_model(listing.models, model.name))
    freed = number_format.size(done.freed)
    return Done(f"{model.name} is deleted; {freed} of disk space are free.", "state")
