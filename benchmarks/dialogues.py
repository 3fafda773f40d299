"""Recorded conversations, made up: three topics, 200 users who return as Zipf says, always the same for one seed.

python benchmarks/dialogues.py [--seed 1] [--out LOG.jsonl]

Each topic has 60 ways to begin (ten things, six forms), of which some are far more frequent than others; what follows
are a few questions on the same topic. A few users have most of the conversations. Without `--out` to standard output.
Users ask in the same words here; in how far yours do decides how much of this carries over.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NUM_USERS = 200
NUM_SESSIONS = 1_200
QUESTION_EXPONENT = 0.7
RETURN_EXPONENT = 0.8
FAVOURITE_SHARE = 0.7
"""Of a user's conversations that are on the topic that user has most to do with."""
GOES_ON = 0.375
"""Chance of another turn: 1.6 turns in the mean."""
MAX_TURNS = 6


@dataclass(frozen=True)
class Turn:
    q: str
    a: str


@dataclass(frozen=True)
class Dialogue:
    session_id: str
    user_id: str
    turns: Sequence[Turn]


@dataclass(frozen=True)
class Subject:
    """A topic: things, forms in which one begins to ask about them, and what is asked later."""

    things: Sequence[str]
    forms: Sequence[str]
    later: Sequence[str]
    answer: str

    def beginnings(self) -> list[str]:
        """Most frequent first."""
        return [form.format(thing) for thing in self.things for form in self.forms]


SUBJECTS = (
    Subject(
        things=(
            "an electronic invoice",
            "a corrected invoice",
            "the invoice of last month",
            "a credit note",
            "a receipt for a payment by card",
            "an invoice in another currency",
            "a yearly summary of all invoices",
            "the tax number on an invoice",
            "a reminder of an unpaid invoice",
            "a payment plan for a large invoice",
        ),
        forms=(
            "Our accounting needs {} before the books are closed. Where in the customer portal can I get it?",
            "I was told that {} can be sent by mail to our accounting. Whom do I write to, and what must I say?",
            "There is a mistake in {} that I got from you yesterday. What do I do so that the payment is not late?",
            "For an audit we have to show {} to the tax office. How far back are these documents kept by you?",
            "How long does it usually take until {} is in our portal after the payment has reached your account?",
            "Can a colleague of mine, who has a login of her own, also see {} and download it as a file?",
        ),
        later=(
            "And who is allowed to change the address on the invoice?",
            "Is the payment refunded if the invoice was wrong?",
            "In which format is the invoice, and can our accounting read it?",
            "Does the tax office accept that receipt?",
            "What happens if the payment comes after the date on the invoice?",
        ),
        answer="You find it in the portal under Documents; accounting sends it again if it is missing.",
    ),
    Subject(
        things=(
            "the router in the hall",
            "the wireless network of the office",
            "the cable between router and wall",
            "the guest network",
            "the telephone at the router",
            "the repeater on the second floor",
            "the new modem",
            "the password of the wireless network",
            "the firmware of the router",
            "the television behind the router",
        ),
        forms=(
            "Since this morning {} does not work any more and a red light blinks. What should I try first of all?",
            "Every evening {} becomes so slow that no film can be watched. How do I find out what the reason is?",
            "We have moved to another flat and {} has to be set up again. In which order do I connect everything?",
            "A technician was here and changed {}; since then the signal is weak in the kitchen. Can that be undone?",
            "I would like to replace {} by one of my own. Which settings of the connection do I need for that?",
            "Is there a disturbance in our street, or is it {} alone that is broken? The neighbours have a connection.",
        ),
        later=(
            "How do I restart the router without losing its settings?",
            "Which channel should the wireless network use?",
            "Could the cable be broken, and how would I see that?",
            "Where do I find the password of the network?",
            "What does the red light on the router mean?",
        ),
        answer="Restart the router, wait two minutes, and look at its lights; a red one means no signal on the line.",
    ),
    Subject(
        things=(
            "a jacket in the wrong size",
            "a pair of shoes that I have worn once",
            "a gift without a receipt",
            "a lamp that arrived broken",
            "two of five books of one order",
            "a bicycle that was delivered to my neighbour",
            "a carpet that is too large for a parcel",
            "a phone whose box I have opened",
            "an order that has not arrived yet",
            "a bed that I bought in your shop",
        ),
        forms=(
            "I would like to send back {} and get my money returned. How long do I have, and who pays the parcel?",
            "The courier has lost {} on the way back to your warehouse. Which proof of sending do you want from me?",
            "May I exchange {} for something else, or do I have to order the other thing separately and wait?",
            "Your shop refused to take back {}, although the website says otherwise. Who decides about that?",
            "Where do I print the label for {}, and to which counter do I bring the parcel when I have packed it?",
            "It is two weeks since I returned {}, and no refund has come. When will the money be on my account?",
        ),
        later=(
            "Do I need the original box for the parcel?",
            "Can the courier collect the parcel at home?",
            "Is the delivery fee refunded as well?",
            "What if the label of the parcel is lost?",
            "How do I see whether the parcel has arrived at the warehouse?",
        ),
        answer="Print the label in your account, bring the parcel to a counter; the refund follows in ten days.",
    ),
)


def make_dialogues(seed: int) -> list[Dialogue]:
    """In order of time."""
    draw = random.Random(seed)
    beginnings = [_shuffled(draw, subject.beginnings()) for subject in SUBJECTS]
    weights = _zipf(len(beginnings[0]), QUESTION_EXPONENT)
    favourites = [draw.randrange(len(SUBJECTS)) for _ in range(NUM_USERS)]
    found = []
    for number, user in enumerate(_visits(draw)):
        topic = favourites[user] if draw.random() < FAVOURITE_SHARE else draw.randrange(len(SUBJECTS))
        questions = draw.choices(beginnings[topic], weights)
        while draw.random() < GOES_ON and len(questions) < MAX_TURNS:
            questions.append(draw.choice(SUBJECTS[topic].later))
        turns = [Turn(question, SUBJECTS[topic].answer) for question in questions]
        found.append(Dialogue(f"session-{number:04}", f"user-{user:03}", turns))
    return found


def split(dialogues: Sequence[Dialogue], seed: int, unseen_share: float) -> tuple[list[Dialogue], list[Dialogue]]:
    """Conversations of users for a log, and of the others, whom the log does not know."""
    users = sorted({dialogue.user_id for dialogue in dialogues})
    unseen = set(random.Random(seed).sample(users, round(len(users) * unseen_share)))
    return (
        [dialogue for dialogue in dialogues if dialogue.user_id not in unseen],
        [dialogue for dialogue in dialogues if dialogue.user_id in unseen],
    )


def log_text(dialogues: Sequence[Dialogue]) -> str:
    """As `stagemesh cache warm` reads it."""
    return "".join(json.dumps(asdict(dialogue)) + "\n" for dialogue in dialogues)


def _visits(draw: random.Random) -> list[int]:
    """The user of each conversation: each comes once, a few come very often."""
    weights = _shuffled(draw, _zipf(NUM_USERS, RETURN_EXPONENT))
    visits = [*range(NUM_USERS), *draw.choices(range(NUM_USERS), weights, k=NUM_SESSIONS - NUM_USERS)]
    return _shuffled(draw, visits)


def _zipf(count: int, exponent: float) -> list[float]:
    return [1.0 / rank**exponent for rank in range(1, count + 1)]


def _shuffled(draw: random.Random, values: list[T]) -> list[T]:
    draw.shuffle(values)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    text = log_text(make_dialogues(options.seed))
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
