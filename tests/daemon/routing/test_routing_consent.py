"""Routing explanations, consent and taint over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink, SinkExits

MAIL = "Is anna@fabrikam.org a valid address?"
CARD = "My card is 4539 5787 6362 1486."
HARMLESS = "Why is the sky blue?"


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, egress: SinkExits) -> AsyncGenerator[RunningDaemon]:
    """A daemon with a local model and a provider."""
    async with run_daemon(egress=egress) as running:
        yield running


def chat(*texts: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


async def explain(daemon: RunningDaemon, **body: Any) -> dict[str, Any]:
    response = await daemon.unix.post("/ingle/v1/routing/explain", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def ask(daemon: RunningDaemon, *texts: str, **ingle: Any) -> str:
    """The route of the response."""
    body = {"model": "auto", "messages": chat(*texts), "ingle": ingle}
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response.headers["ingle-route"]


def policy(daemon: RunningDaemon, text: str) -> None:
    path = daemon.services.router.policy.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_explanation_lists_findings_and_positions(daemon: RunningDaemon, sink: Sink) -> None:
    explanation = await explain(daemon, text=f"{CARD} {MAIL}")
    assert (explanation["verdict"], explanation["rule"], explanation["class"]) == (
        "local",
        "card=never",
        "never",
    )
    assert (explanation["goes_to"], explanation["consents"]) == ("local", {})
    found = {f["kind"]: f for f in explanation["findings"]}
    assert found["email"]["class"] == "redact"
    card = found["card"]
    assert (card["where"], card["class"]) == ("messages[0].content", "never")
    assert CARD[card["start"] : card["end"]] == "4539 5787 6362 1486"
    clean = await explain(daemon, text=HARMLESS)
    assert (clean["verdict"], clean["goes_to"]) == ("cloud", "sink/big")
    private = await explain(daemon, text=HARMLESS, private=True)
    assert (private["verdict"], private["rule"], private["goes_to"]) == (
        "local",
        "private",
        "local",
    )
    assert sink.connections == 0


async def test_explanation_without_a_provider(run_daemon: DaemonFactory) -> None:
    async with run_daemon() as daemon:
        explanation = await explain(daemon, text=HARMLESS)
        assert (explanation["verdict"], explanation["goes_to"]) == ("cloud", "local")
        assert "No provider is set up" in explanation["reason"]
        assert (await explain(daemon, text=MAIL))["verdict"] == "redact"
        assert (await explain(daemon, text=CARD))["verdict"] == "local"


async def test_consent_to_redaction(daemon: RunningDaemon, sink: Sink) -> None:
    assert await ask(daemon, MAIL) == "local; model=echo:1; rule=email=redact"
    explanation = await explain(daemon, messages=chat(MAIL))
    assert explanation["redacted"] == [
        {
            "where": "messages[0].content",
            "text": "Is [EMAIL_1] a valid address?",
            "replaced": [{"start": 3, "end": 20, "name": "EMAIL_1"}],
        }
    ]
    assert list(explanation["consents"]) == ["redact"]
    token = explanation["consents"]["redact"]
    sink.answer = "Yes, [EMAIL_1] is."
    body = {"model": "auto", "messages": chat(MAIL), "ingle": {"consent": token}}
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    # The local answer tainted the conversation, which requires consent: the token provides it.
    assert response.headers["ingle-route"].startswith("redact; model=sink/big")
    assert "Yes, anna@fabrikam.org is." in response.text
    assert b"anna" not in sink.received
    assert b"[EMAIL_1]" in sink.received
    # The token is valid for this text only.
    assert "local" in await ask(daemon, MAIL + " Or tom@fabrikam.org.", consent=token)
    assert sink.connections == 1


async def test_consent_holds_if_the_masked_text_reads_as_another_topic(
    daemon: RunningDaemon, sink: Sink
) -> None:
    account = "FR76 3000 6000 0112 3456 7890 189"
    asked = "Rédige un mail à ma banque : je conteste le débit de 312 € du 4 mai sur le compte "
    explanation = await explain(daemon, text=asked + account + ".")
    token = explanation["consents"]["redact"]
    assert (await ask(daemon, asked + account + ".", consent=token)).startswith("redact; ")
    assert b"7890" not in sink.received


async def test_consent_applies_to_its_conversation(daemon: RunningDaemon, sink: Sink) -> None:
    policy(daemon, '[classes]\nemail = "ask"\n')
    explanation = await explain(daemon, messages=chat(MAIL), conversation="c1")
    assert explanation["verdict"] == "ask"
    assert sorted(explanation["consents"]) == ["cloud", "redact"]
    consent = explanation["consents"]["cloud"]
    assert "cloud" in await ask(daemon, MAIL, conversation="c1", consent=consent)
    assert b"anna@fabrikam.org" in sink.received
    assert "cloud" in await ask(daemon, MAIL, "Done.", "And again?", conversation="c1")
    assert "local" in await ask(daemon, MAIL, "Done.", "And again?", conversation="c2")
    assert "local" in await ask(daemon, MAIL, CARD, "?", conversation="c1")
    assert sink.connections == 2


async def test_override_of_never_applies_to_one_request(daemon: RunningDaemon, sink: Sink) -> None:
    explanation = await explain(daemon, messages=chat(CARD), model="sink/big", override="never")
    token = explanation["consents"]["cloud"]
    body = {"model": "sink/big", "messages": chat(CARD)}
    refused = await daemon.unix.post("/v1/chat/completions", json=body)
    assert refused.status_code == 403
    sent = await daemon.unix.post("/v1/chat/completions", json=body | {"ingle": {"consent": token}})
    assert sent.headers["ingle-route"].startswith("cloud; model=sink/big")
    assert b"4539 5787" in sink.received
    # The next turn needs another consent.
    next_turn = {"model": "sink/big", "messages": chat(CARD, "ok", "hi")}
    again = await daemon.unix.post("/v1/chat/completions", json=next_turn)
    assert again.status_code == 403


async def test_placeholder_of_a_password_is_not_taken_for_one(
    daemon: RunningDaemon, sink: Sink
) -> None:
    allowed = 'password = "redact"\npersonal = "allow"\n'
    policy(daemon, f'[classes]\n{allowed}[routes.auto]\nredact = "always"\n')
    sink.answer = "[PASSWORD_1] is weak."
    body = {"model": "auto", "messages": chat("Is this fine? password: Hund3Katze!x")}
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    assert response.headers["ingle-route"].startswith("redact"), response.headers
    assert b"Hund3Katze" not in sink.received
    assert "Hund3Katze!x is weak." in response.text


async def test_redact_always_needs_no_consent(daemon: RunningDaemon, sink: Sink) -> None:
    policy(daemon, '[routes.work]\nredact = "always"\n')
    body = {"model": "work", "messages": chat(MAIL)}
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    assert response.headers["ingle-route"] == "redact; model=sink/big; rule=email=redact"
    assert b"anna" not in sink.received
    assert "local" in await ask(daemon, MAIL)


async def test_files_below_a_folder_that_is_named_stay_readable(
    daemon: RunningDaemon, sink: Sink
) -> None:
    await ask(daemon, "The folder is /home/ruth/shop, and /home/ruth/shop/src/cart.py fails. Why?")
    assert b"is [FILE_PATH_1], and [FILE_PATH_1]/src/cart.py fails" in sink.received


async def test_conversation_stays_tainted(daemon: RunningDaemon, sink: Sink) -> None:
    await ask(daemon, CARD, conversation="c1")
    # The client dropped its history, and asks for a title.
    assert "rule=taint" in await ask(daemon, "Give this a title.", conversation="c1")
    assert "cloud" in await ask(daemon, "Give this a title.", conversation="c2")
    # Without a conversation id, it is recognised by its history and by quoted answers.
    long_answer = "Hello from the scripted model." + " And so on." * 3
    assert len(long_answer) > 40
    explanation = await explain(daemon, messages=chat("hi"), conversation="c1")
    assert (explanation["verdict"], explanation["tainted"]) == ("local", True)
    assert sink.connections == 1


async def test_same_question_without_the_secret_is_not_tainted(
    daemon: RunningDaemon, sink: Sink
) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": CARD}}
    body = {"model": "auto", "messages": chat("Why is the sky blue?")}
    for tools, rule in (([tool], "card=never"), ([], "nothing_found")):
        answer = await daemon.unix.post("/v1/chat/completions", json={**body, "tools": tools})
        assert answer.headers["ingle-route"].endswith(rule)
    assert sink.connections == 1


async def test_answers_to_sensitive_requests_are_tainted(
    run_daemon: DaemonFactory, egress: SinkExits, sink: Sink
) -> None:
    answer = "The quarterly numbers of Heron are better than anybody thought."
    async with run_daemon(egress=egress, script={"reply": answer}) as daemon:
        body = {"model": "auto", "messages": chat(CARD)}
        texts = await daemon.unix.post("/v1/chat/completions", json=body)
        content = texts.json()["choices"][0]["message"]["content"]
        assert len(content) > 40
        assert "rule=taint" in await ask(daemon, f"Summarise this:\n{content}")
        assert sink.connections == 0


async def test_routing_state_lists_routes_and_providers(
    daemon: RunningDaemon, egress: SinkExits
) -> None:
    policy(daemon, '[routes.work]\ncloud = "sink/small"\nprefer = "local"\ndescription = "x"\n')
    state = (await daemon.unix.get("/ingle/v1/routing")).json()
    assert state["enabled"]
    assert [route["name"] for route in state["routes"]] == ["auto", "work"]
    work = state["routes"][1]
    assert (work["local"], work["remote"], work["prefer"]) == ("echo:1", "sink/small", "local")
    assert state["providers"][0]["name"] == "sink"
    egress.refuses = "It has no key."
    state = (await daemon.unix.get("/ingle/v1/routing")).json()
    assert (state["enabled"], state["providers"][0]["trouble"]) == (False, "It has no key.")


@pytest.mark.parametrize(
    "body", [{}, {"text": "a", "messages": []}, {"text": 3}, {"text": "a", "override": "all"}]
)
async def test_invalid_explain_requests_are_refused(
    daemon: RunningDaemon, body: dict[str, Any]
) -> None:
    response = await daemon.unix.post("/ingle/v1/routing/explain", json=body)
    assert response.status_code in (400, 422)


async def test_masks_by_hand_are_what_is_sent(
    daemon: RunningDaemon, egress: SinkExits, sink: Sink
) -> None:
    text = "Is anna@fabrikam.org or tom@fabrikam.org in the Zephyr team? ZEPHYR!"
    explanation = await explain(
        daemon,
        messages=chat(text),
        conversation="c1",
        hide=["Zephyr"],
        show=["anna@fabrikam.org"],
    )
    expected = "Is anna@fabrikam.org or [EMAIL_1] in the [MASKED_1] team? [MASKED_1B]!"
    (redacted,) = explanation["redacted"]
    assert redacted["text"] == expected
    replaced = [text[span["start"] : span["end"]] for span in redacted["replaced"]]
    assert replaced == ["tom@fabrikam.org", "Zephyr", "ZEPHYR"]
    sink.answer = "Ask [MASKED_1]."
    body = {
        "model": "auto",
        "messages": chat(text),
        "ingle": {"consent": explanation["consents"]["redact"], "conversation": "c1"},
    }
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    assert response.headers["ingle-route"].startswith("redact; model=sink/big")
    assert "Ask Zephyr." in response.text
    assert expected.encode() in sink.received
    assert b"tom@" not in sink.received
    assert sorted(egress.cleared[0].redacted) == ["email", "masked"]  # as in the ledger

    # They hold for the rest of the conversation, and are reported; elsewhere nothing is changed.
    again = await explain(daemon, messages=chat(text, "Ok.", "zephyr?"), conversation="c1")
    assert (again["hide"], again["show"]) == (["Zephyr"], ["anna@fabrikam.org"])
    assert again["goes_to"] == "sink/big"
    assert "redact" in await ask(daemon, "What is Zephyr?", conversation="c1")
    assert b"What is [MASKED_1]?" in sink.received
    other = await explain(daemon, messages=chat("What is Zephyr?"), conversation="c2")
    assert (other["verdict"], other["hide"]) == ("cloud", [])


async def test_shown_value_is_masked_for_another_model(daemon: RunningDaemon, sink: Sink) -> None:
    shown = await explain(
        daemon, messages=chat(MAIL), conversation="c1", show=["anna@fabrikam.org"]
    )
    assert shown["redacted"] == []
    consent = shown["consents"]["redact"]
    assert "redact" in await ask(daemon, MAIL, conversation="c1", consent=consent)
    assert b"anna@fabrikam.org" in sink.received
    other = await explain(daemon, messages=chat(MAIL), model="sink/small", conversation="c1")
    assert other["redacted"][0]["text"] == "Is [EMAIL_1] a valid address?"


async def test_route_ask_offers_consent_for_harmless_text(
    daemon: RunningDaemon, sink: Sink
) -> None:
    assert (await explain(daemon, text=HARMLESS))["consents"] == {}
    asked = await explain(daemon, messages=chat(HARMLESS), route="ask", conversation="c1")
    assert (asked["verdict"], asked["goes_to"]) == ("cloud", "local")
    consent = asked["consents"]["cloud"]
    assert "local" in await ask(daemon, HARMLESS, route="ask", conversation="c1")
    assert "cloud" in await ask(daemon, HARMLESS, route="ask", conversation="c1", consent=consent)
    masked = await explain(
        daemon, messages=chat(HARMLESS), route="ask", conversation="c1", hide=["sky"]
    )
    assert list(masked["consents"]) == ["redact"]
    # The answer is remembered, but not for what it did not cover.
    assert "cloud" in await ask(daemon, "Why is grass green?", route="ask", conversation="c1")
    assert "local" in await ask(daemon, MAIL, route="ask", conversation="c1")


async def test_taught_words_take_effect_at_once(daemon: RunningDaemon, sink: Sink) -> None:
    text = "Does anna@fabrikam.org know of Zephyr? Or tom@fabrikam.org?"

    async def teach(**words: list[str]) -> None:
        response = await daemon.unix.post("/ingle/v1/routing/words", json=words)
        assert response.status_code == 200, response.text

    await teach(public=["anna@fabrikam.org"])
    explanation = await explain(daemon, text=text)
    assert explanation["redacted"][0]["text"] == (
        "Does anna@fabrikam.org know of Zephyr? Or [EMAIL_1]?"
    )
    consent = (await explain(daemon, messages=chat(text)))["consents"]["redact"]
    assert "redact" in await ask(daemon, text, consent=consent)
    assert b"anna@fabrikam.org" in sink.received
    await teach(words=["Zephyr"])
    assert (await explain(daemon, text=text))["rule"] == "own_word=never"
    # A word in both lists is where it was put last, and never both.
    await teach(public=["zephyr"])
    assert (await explain(daemon, text=text))["verdict"] == "redact"
    short = await daemon.unix.post("/ingle/v1/routing/words", json={"words": ["a"]})
    assert short.status_code in (400, 422)


async def test_masks_are_lifted_only_for_the_text_of_the_consent(
    daemon: RunningDaemon, sink: Sink
) -> None:
    policy(daemon, '[routes.auto]\nredact = "always"\n')
    shown = await explain(daemon, messages=chat(MAIL), show=["anna@fabrikam.org"])
    consent = shown["consents"]["redact"]
    assert "redact" in await ask(daemon, f"{MAIL} And now?", consent=consent)
    assert b"[EMAIL_1]" in sink.received
    assert b"anna" not in sink.received
    assert "redact" in await ask(daemon, MAIL, consent=consent)
    assert b"anna@fabrikam.org" in sink.received
