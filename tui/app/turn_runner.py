"""`TurnRunner`: sends prompts one after the other, and follows their answers into the chat."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..chats.history_protocol import ChatRecorder, NullRecorder
from ..chats.message import Message, QueuedPrompt
from ..chats.turn_request import TurnRequest
from ..session.answer_takeover import adopt_final_answer, take_over_answer
from ..session.failure_notices import answer_failed
from ..session.path_entries import entry_of, place_of
from ..session.turn import LOCAL, Turn
from ..session.turn_messages import add_answer, add_prompt
from ..transcript.entries.answer_entry import AnswerEntry

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore
    from .chat_screen import ChatScreen

LATER = "It is asked as soon as a model can answer."

Follow = Callable[[Turn], Coroutine[Any, Any, None]]


class TurnRunner:
    """One turn at a time; what is sent meanwhile waits in the screen's queue."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self.current: Turn | None = None
        self._later: Callable[[], None] | None = None

    def send_next(self) -> None:
        """Send the first waiting prompt, or bring about what it waits for."""
        screen, state = self._screen, self._screen.state
        self._mark_waiting()
        if self.current is not None or not screen.is_complete:
            return
        if self._later is not None and state.can_ask:
            later, self._later = self._later, None
            later()
            return
        if not len(screen.queue):
            return
        if not self._can_ask():
            if state.model is not None and state.connected and not state.model.writes:
                screen.return_queue()
        elif self._may_send():
            prompt = screen.queue.next()
            assert prompt is not None
            self._ask(self._add_prompt(prompt))
        self._mark_waiting()
        screen.show_state()

    def _can_ask(self) -> bool:
        """Whether a model can be asked now; what is missing for that is brought about."""
        screen, state = self._screen, self._screen.state
        if not state.connected:
            screen.wake_daemon()
        elif state.model is not None and not state.model.writes:
            screen.run_command("model", state.model.name)  # which says why it does not chat
        elif state.must_pull:
            screen.run_command("pull")
        return state.can_ask

    def _may_send(self) -> bool:
        """Whether no feature holds the first waiting prompt."""
        prompt = self._screen.queue.first
        features = self._screen.features
        return prompt is not None and all(feature.may_send(prompt) for feature in features)

    def _mark_waiting(self) -> None:
        self._screen.composer.queue_waiting = len(self._screen.queue) > 0

    def _add_prompt(self, prompt: QueuedPrompt) -> Message:
        """The prompt as a message behind the last one, or in the place of the one it edits."""
        screen = self._screen
        chat = screen.chat
        message = add_prompt(chat, screen.history, prompt.text, prompt.attachments, prompt.edits)
        if prompt.edits is not None:
            screen.show_path()
        else:
            screen.transcript.add(entry_of(chat, message))
        return message

    def _ask(self, prompt: Message) -> None:
        """Have the model answer the prompt, which is the last message of the path."""
        request = TurnRequest.of(self._screen.chat, self._screen.state.model_name)
        self.begin(self._add_answer(prompt.id), lambda turn: self._run(turn, request))

    async def _run(self, turn: Turn, request: TurnRequest) -> None:
        """Ask, once the features have seen what is asked; it may have been stopped until then."""
        for feature in self._screen.features:
            request = await feature.prepare_request(request)
        if turn.ending is None:
            await turn.run(request)

    def _add_answer(self, parent: str | None, begun: Message | None = None) -> Message:
        screen = self._screen
        model = screen.state.model_name or "model"
        return add_answer(screen.chat, screen.history, model, parent, begun)

    def ask_again(self, prompt: Message) -> None:
        """Have a prompt answered once more; its other answers stay as branches."""

        def ask() -> None:
            self._screen.chat.end_path_at(prompt)
            self._screen.show_path()
            self._ask(prompt)

        self._when_ready(ask)

    def continue_answer(self, message: Message) -> None:
        """Have a broken-off answer gone on with, as another branch that begins alike."""
        screen = self._screen

        def ask() -> None:
            screen.chat.end_path_at(message)
            request = TurnRequest.of(screen.chat, screen.state.model_name, continues=True)
            answer = self._add_answer(message.parent, message)
            screen.show_path()
            self.begin(answer, lambda turn: self._run(turn, request))

        self._when_ready(ask)

    def _when_ready(self, ask: Callable[[], None]) -> None:
        """Ask now, or as soon as a model can be asked; until then the chat is as it was."""
        state = self._screen.state
        if self._can_ask():
            ask()
        elif not state.connected or state.model is None or state.model.writes:
            self._later = ask
            self._screen.tell(LATER)

    def take_up(self, answer: Message) -> None:
        """Follow an answer that another program began, and may still write down."""
        store = self._screen.store
        if store is None or self._screen.chat.temporary:
            self.begin(answer, lambda turn: turn.resume())
            return
        turn = self.begin(answer, lambda turn: self._take_up(turn, store), NullRecorder())
        turn.is_watched = True

    async def _take_up(self, turn: Turn, store: HistoryStore) -> None:
        if not await take_over_answer(turn, store):
            self._screen.run_worker(self._settle(turn, store), group="settle")

    async def _settle(self, turn: Turn, store: HistoryStore) -> None:
        screen, message = self._screen, turn.message
        changed = await adopt_final_answer(message, store)
        if changed and screen.chat.messages.get(message.id) is message:
            screen.show_path()

    def begin(self, answer: Message, follow: Follow, history: ChatRecorder | None = None) -> Turn:
        """Show the answer as it grows, from what it has already, and keep it in `history`."""
        screen = self._screen
        drawn = screen.transcript.find_entry(answer.id)
        if drawn is not None:
            screen.transcript.drop(drawn)  # as it was before it grows again
        place = place_of(screen.chat, answer)
        entry = AnswerEntry(answer.model, LOCAL, id=answer.id, created=answer.created, place=place)
        if answer.reasoning:
            entry.append_reasoning(answer.reasoning)
        if answer.content:
            entry.append(answer.content)
        screen.transcript.add(entry)
        screen.transcript.follow()
        kept_in = history or screen.history
        turn = Turn(screen.client, kept_in, answer, entry, screen.painter.request)
        self.current = turn
        screen.run_worker(self._follow(turn, follow(turn)), group="turn")
        for feature in screen.features:
            feature.on_turn_started(turn)
        screen.show_state()
        return turn

    async def _follow(self, turn: Turn, following: Coroutine[Any, Any, None]) -> None:
        await following
        if self.current is turn:
            self._end(turn)

    def _end(self, turn: Turn) -> None:
        screen = self._screen
        self.current = None
        screen.painter.flush()
        screen.transcript.update_entry(turn.entry)
        if not turn.text:
            screen.transcript.drop(turn.entry)
        if turn.error is not None:
            screen.transcript.add(answer_failed(turn.error))
        if turn.ending in ("stopped", "failed"):
            screen.return_queue()
        for feature in screen.features:
            feature.on_turn_ended(turn)
        screen.show_state(turn)
        self.send_next()

    def stop(self) -> None:
        """Stop the answer that runs, and keep its part."""
        turn = self.current
        if turn is not None:
            turn.stop()
            self._screen.run_worker(self._cancel(turn), group="cancel")
            self._end(turn)

    def leave(self) -> None:
        """Stop the answer that runs, but not one that another program has asked for."""
        turn = self.current
        if turn is not None and turn.is_watched:
            turn.stop()
            self._end(turn)
        else:
            self.stop()

    async def _cancel(self, turn: Turn) -> None:
        error = await turn.cancel()
        if error is not None:
            self._screen.tell(error.message, "warning")

    def return_queue(self) -> None:
        """Put waiting prompts back into the composer: nothing is sent after a stop."""
        self._later = None
        composer = self._screen.composer
        waiting = self._screen.queue.take_all()
        if waiting:
            texts = [*(prompt.text for prompt in waiting), composer.text]
            attachments = [given for prompt in waiting for given in prompt.attachments]
            composer.load("\n\n".join(filter(None, texts)), attachments)
        composer.queue_waiting = False
