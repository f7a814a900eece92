"""Routes of a chat: selection, preview of the draft, consent, and the answering provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingle.tui.widgets.composer.composer import Composer

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat

CLOUD = {
    "enabled": True,
    "providers": [{"name": "acme", "models": ["big"]}],
    "routes": [{"name": "auto", "local": "smollm2:135m", "remote": "acme/big"}],
}
PRIVATE = {
    "verdict": "ask",
    "rule": "kinds.person",
    "reason": "A name is asked about before it leaves.",
    "findings": [{"kind": "person", "where": "messages[0].content", "start": 0, "end": 9}],
    "provider": "acme",
    "model": "big",
    "redacted": [
        {
            "where": "messages[0].content",
            "text": "[PERSON_1] was here",
            "replaced": [{"start": 0, "end": 10, "name": "PERSON_1"}],
        }
    ],
    "consents": {"redact": "token-r", "cloud": "token-c"},
}
FREE = {"verdict": "cloud", "goes_to": "acme/big", "provider": "acme", "model": "big"}


@pytest.fixture
def cloud(fake_daemon: FakeDaemon) -> FakeDaemon:
    """A daemon with a provider, whose policy asks about names."""
    fake_daemon.routing = CLOUD
    fake_daemon.explanation = PRIVATE
    return fake_daemon


def last_generation(daemon: FakeDaemon) -> dict[str, Any]:
    """The body of the last generation request."""
    bodies = [r.body for r in daemon.requests if r.target == "/ingle/v1/generations"]
    return bodies[-1]


@pytest.mark.slow
async def test_chat_is_local_until_a_route_is_selected(
    open_chat: OpenChat, cloud: FakeDaemon
) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        assert last_generation(cloud)["model"] == "smollm2:135m"
        assert not any("explain" in request.target for request in cloud.requests)
        await chat.send("/route")
        await chat.until_notified("what it allows may be answered by acme")
        await chat.until_shown("⇄ AUTO")
        await chat.send("/route moon")
        await chat.until_notified("/route takes auto, local, ask, acme/big.")


@pytest.mark.parametrize(
    ("key", "model", "expected"),
    [
        ("r", "auto", {"consent": "token-r"}),
        ("s", "auto", {"consent": "token-c"}),
        ("enter", "smollm2:135m", {"route": "local"}),
        ("escape", "smollm2:135m", {"route": "local"}),
    ],
)
async def test_consent_dialog_shows_what_would_be_sent(
    open_chat: OpenChat, cloud: FakeDaemon, key: str, model: str, expected: dict[str, str]
) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/route ask")
        await chat.until_shown("⇄ ASK")
        await chat.send("John Smith was here")
        await chat.until_shown("May acme/big see this?")
        assert "A name is asked about" in chat.screen_text
        assert "[PERSON_1] was here" in chat.screen_text
        assert cloud.generations == {}
        await chat.pilot.press(key)
        await chat.until_shown("Hello there.")
        body = last_generation(cloud)
        assert body["model"] == model
        assert {name: body.get(name) for name in expected} == expected
        assert ("consent" in body) == ("consent" in expected)


async def test_allowed_prompt_is_sent_without_consent(
    open_chat: OpenChat, cloud: FakeDaemon
) -> None:
    cloud.explanation = FREE
    cloud.routed = {"verdict": "cloud", "rule": "default", "provider": "acme", "model": "big"}
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/route auto")
        await chat.until_shown("⇄ AUTO")
        await chat.send("What is 2 + 2?")
        await chat.until_shown("acme/big  ")
        await chat.until_shown("☁ elsewhere")
        assert last_generation(cloud)["route"] == "auto"
        leaf = chat.screen.chat.leaf
        assert leaf is not None
        await chat.until(lambda: leaf.facts.route == "acme/big")
        cloud.totals = {
            "requests": 1,
            "bytes_out": 2048,
            "providers": [{"name": "acme", "requests": 1, "bytes_out": 2048}],
        }
        await chat.send("/sent")
        await chat.until_notified("this month, once: 2 kB to acme")


async def test_prompt_without_explanation_stays_local(
    open_chat: OpenChat, cloud: FakeDaemon
) -> None:
    cloud.explanation = None
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/route acme/big")
        await chat.until_shown("☁ ACME/BIG")
        await chat.send("hello")
        await chat.until_notified("Answered here")
        await chat.until_shown("Hello there.")
        assert last_generation(cloud)["route"] == "local"
        assert last_generation(cloud)["model"] == "smollm2:135m"


async def test_draft_shows_its_route(open_chat: OpenChat, cloud: FakeDaemon) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/route auto")
        await chat.until_shown("⇄ AUTO")
        chat.app.query_one(Composer).replace_text("John Smith was here")
        await chat.until_shown("⇄ ASKS FIRST · person")
        cloud.explanation = FREE
        chat.app.query_one(Composer).replace_text("What is 2 + 2?")
        await chat.until_shown("☁ GOES OUT · to acme/big")
        chat.app.query_one(Composer).replace_text("")
        await chat.until_shown("⇄ AUTO")


async def test_remote_model_is_a_route(open_chat: OpenChat, cloud: FakeDaemon) -> None:
    cloud.add_model("acme/big")
    async with open_chat(size=(100, 40), model="acme/big") as chat:
        await chat.until_shown("☁ ACME/BIG")
        await chat.send("John Smith was here")
        await chat.until_shown("May acme/big see this?")
        await chat.pilot.press("escape")
        await chat.until_shown("Hello there.")
        assert last_generation(cloud)["route"] == "local"


async def test_answers_are_remembered_in_the_chat(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/route auto")
        await chat.until_shown("⇄ AUTO")
        await chat.send("Is max@mail.acme.org valid?")
        await chat.until_shown("May acme/big see this?")
        assert "Is [EMAIL_1] valid?" in chat.screen_text
        await chat.pilot.press("right", "right", "space")
        await chat.until_shown("Is [EMAIL_1] [MASKED_1]?")
        await chat.pilot.press("enter")
        await chat.until_shown("Hello there.")
        assert last_generation(fake_daemon)["route"] == "local"
        await chat.send("And tom@mail.acme.org?")
        await chat.until_notified("as you chose before in this chat")
        await chat.until(lambda: len(fake_daemon.generations) == 2)
        await chat.send("/route auto")
        await chat.send("And ann@mail.acme.org?")
        await chat.until_shown("May acme/big see this?")
        await chat.pilot.press("r")
        await chat.until(lambda: len(fake_daemon.generations) == 3)
        assert last_generation(fake_daemon)["consent"]
