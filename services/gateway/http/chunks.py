"""The objects of a streamed reply, from the events of its requests."""

from __future__ import annotations

from collections import defaultdict

from services.gateway.http.envelope import Envelope
from services.gateway.http.extras import extras, usage
from services.gateway.http.order import Order
from services.gateway.http.shape import JsonObject, finish_reason
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Internal


class Chunks:
    """Remembers what was sent of each choice, so that the final text can be held against it."""

    def __init__(self, order: Order, envelope: Envelope) -> None:
        self._order = order
        self._envelope = envelope
        self._sent: defaultdict[int, str] = defaultdict(str)
        self._opened: set[int] = set()
        self._finals: list[gateway_pb2.Final] = []

    def delta(self, part: int, delta: gateway_pb2.Delta) -> list[JsonObject]:
        """For new text of request `part`; nothing where the text may still be corrected."""
        if self._order.may_be_corrected:
            return []
        index = self._index(part, delta.index)
        objects = self._opening(index)
        if delta.text or delta.logprobs:
            objects.append(self._text(index, delta.text, list(delta.logprobs)))
        return objects

    def final(self, part: int, final: gateway_pb2.Final) -> list[JsonObject]:
        """For the end of request `part`: what was not sent yet, and the finish chunks.

        Raises Internal when the final text is not what was streamed.
        """
        self._finals.append(final)
        objects: list[JsonObject] = []
        for choice in final.choices:
            index = self._index(part, choice.index)
            objects += self._opening(index)
            objects += self._rest(index, choice)
        finishes = [
            self._order.shape.finish(self._index(part, choice.index), finish_reason(choice)) for choice in final.choices
        ]
        objects += [self._chunk([finish]) for finish in finishes[:-1]]
        objects.append(self._chunk(finishes[-1:], stagemesh=extras([final])))
        return objects

    def usage(self) -> list[JsonObject]:
        """The chunk after the last one, if it was asked for."""
        return [self._envelope.chunk([], usage=usage(self._finals))] if self._order.include_usage else []

    def _rest(self, index: int, choice: gateway_pb2.Choice) -> list[JsonObject]:
        sent = self._sent[index]
        if not choice.text.startswith(sent):
            raise Internal(
                "STREAM_DIVERGED", "the answer was changed after parts of it had been sent; what was sent is not it"
            )
        rest = choice.text[len(sent) :]
        logprobs = list(choice.logprobs) if self._order.may_be_corrected else []
        return [self._text(index, rest, logprobs)] if rest or logprobs else []

    def _opening(self, index: int) -> list[JsonObject]:
        if index in self._opened:
            return []
        self._opened.add(index)
        opening = self._order.shape.opening(index)
        return [] if opening is None else [self._chunk([opening])]

    def _text(self, index: int, text: str, logprobs: list[gateway_pb2.Logprob]) -> JsonObject:
        choice = self._order.shape.delta(index, text, logprobs, len(self._sent[index]))
        self._sent[index] += text
        return self._chunk([choice])

    def _chunk(self, choices: list[JsonObject], **more: object) -> JsonObject:
        # With a usage chunk to come, the others say that theirs is null.
        return self._envelope.chunk(choices, **({"usage": None} if self._order.include_usage else {}), **more)

    def _index(self, part: int, index: int) -> int:
        return part * self._order.num_choices + index
