"""Routes in the plain chat: selection, consent in a terminal, and where answers came from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ..widgets.composer.test_routes import CLOUD, FREE, PRIVATE, last_generation
from .test_plain_session import needs_terminal

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal
    from .conftest import Piped


@pytest.fixture
def cloud(fake_daemon: FakeDaemon) -> FakeDaemon:
    """A daemon with a provider, whose policy asks about names."""
    fake_daemon.routing = CLOUD
    fake_daemon.explanation = PRIVATE
    return fake_daemon


async def test_one_route_without_a_provider(piped: Piped) -> None:
    status, out, errors = await piped("/route auto\n/why\n/sent")
    assert (status, errors) == (0, "")
    assert out.count("no cloud provider is configured") == 2
    assert "Nothing of this chat left this machine" in out


async def test_prompt_needing_consent_stays_local_in_a_pipe(
    piped: Piped, cloud: FakeDaemon
) -> None:
    status, out, errors = await piped("/route auto\nJohn Smith was here\n2")
    assert (status, errors) == (0, "")
    assert "Route: auto." in out
    assert "Answered here: no user can be asked. A name is asked about" in out
    assert [request["content"] for request in cloud.prompts[0]] == ["John Smith was here"]
    assert last_generation(cloud)["route"] == "local"


async def test_answering_provider_is_shown(piped: Piped, cloud: FakeDaemon) -> None:
    cloud.explanation = FREE
    cloud.routed = {"verdict": "cloud", "rule": "default", "provider": "acme", "model": "big"}
    status, out, errors = await piped("/route auto\nWhat is 2 + 2?\n/sent")
    assert (status, errors) == (0, "")
    assert "Answered by acme/big, not on this machine." in out
    assert "Answers in this chat: 1 by acme/big; 0 by this machine." in out


async def test_unknown_route_lists_the_available_ones(piped: Piped, cloud: FakeDaemon) -> None:
    status, out, errors = await piped("/route moon")
    assert status == 1
    assert "There is no route moon." in errors
    assert "acme/big" in errors
    assert "Route:" not in out


@needs_terminal
async def test_consent_is_asked_for_in_a_terminal(
    arguments: list[str], cloud: FakeDaemon, open_terminal: OpenTerminal
) -> None:
    def drive() -> None:
        with open_terminal(arguments) as terminal:
            terminal.until(lambda shown: "You:" in shown)
            terminal.type("/route ask\r")
            terminal.until(lambda shown: "Route: ask." in shown)
            terminal.type("John Smith was here\r")
            terminal.until(lambda shown: "2. Send it as shown, with placeholders." in shown)
            assert "[PERSON_1] was here" in terminal.text
            terminal.type("2\r")
            terminal.until(lambda shown: "Hello there." in shown)
            terminal.type("/quit\r")
            assert terminal.wait() == 0

    await asyncio.to_thread(drive)
    assert last_generation(cloud)["consent"] == "token-r"


@needs_terminal
async def test_words_are_masked_by_hand_in_a_terminal(
    arguments: list[str], cloud: FakeDaemon, open_terminal: OpenTerminal
) -> None:
    cloud.route_for_real("acme")

    def drive() -> None:
        with open_terminal(arguments) as terminal:
            terminal.until(lambda shown: "You:" in shown)
            terminal.type("/route auto\r")
            terminal.until(lambda shown: "Route: auto." in shown)
            terminal.type("Is max@mail.acme.org in the Zephyr team?\r")
            terminal.until(lambda shown: "Message 1: Is [EMAIL_1] in the Zephyr team?" in shown)
            terminal.until(lambda shown: "Mask a word." in shown)
            number = next(line for line in terminal.text.splitlines() if "Mask a word." in line)
            terminal.type(f"{number[0]}\r")
            terminal.until(lambda shown: "Which word or words?" in shown)
            terminal.type("Zephyr\r")
            terminal.until(lambda shown: "Is [EMAIL_1] in the [MASKED_1] team?" in shown)
            terminal.type("2\r")
            terminal.until(lambda shown: "Hello there." in shown)
            terminal.type("/quit\r")
            assert terminal.wait() == 0

    await asyncio.to_thread(drive)
    body = last_generation(cloud)
    assert cloud.real_routing is not None
    edits = cloud.real_routing.router.consents.edits(body["consent"], "", "acme/big")
    assert edits.hide == ("Zephyr",)
