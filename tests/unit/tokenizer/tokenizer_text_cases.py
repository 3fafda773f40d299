"""Texts on which tokenizers break, generated from a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

SCRIPTS: dict[str, str] = {
    "latin": "abcdefghijklmnopqrstuvwxyz ABCXYZ '",
    "digits": "0123456789.,%-+",
    "cjk": "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年",
    "kana": "あいうえおかきくけこアイウエオー",
    "hangul": "가나다라마바사아자차카타파하",
    "full_width": "（）！？，。；：“”‘’【】《》、～￥％ＡＢＣ１２３　",
    "emoji": "👍🏽👨‍👩‍👧‍👦🏳️‍🌈🇨🇳❤️🫠🧑🏿‍🚀",
    "control": "\x00\x01\x02\x04\x06\x07\x08\t\n\x0b\x0c\r\x13\x1b\x1d\x7f\x85\u200b\u200d\u202e\ufeff",
    "combining": "e\u0301n\u0303a\u0300\u0323o\u0308",
    "spaces": "  \t\n\r\u00a0\u2009\u3000",
    "symbols": '!"#$%&()*+/:;<=>?@[]\\^_`{|}~§©®±µ¶·×÷€',
    "rtl": "العربية עברית",
    "rare": "𐍈𝔘𠀀𠜎\ue000\U0010fffd\ufdd0\uffff",
    "special": "<|im_end|><|im_start|><|endoftext|>",
}


def cases(number: int, seed: int = 20) -> Iterator[str]:
    """`number` texts: one script, two mixed, all mixed, or a long run of one character."""
    random_ = random.Random(seed)
    names = sorted(SCRIPTS)
    for index in range(number):
        if index % 4 == 0:
            pools = [SCRIPTS[names[index // 4 % len(names)]]]
        elif index % 4 == 1:
            pools = [SCRIPTS[name] for name in random_.sample(names, 2)]
        elif index % 4 == 2:
            pools = list(SCRIPTS.values())
        else:
            yield random_.choice(random_.choice(list(SCRIPTS.values()))) * random_.choice((1, 2, 3, 17, 128, 3000))
            continue
        words = ("".join(random_.choices(random_.choice(pools), k=random_.randint(1, 12))) for _ in range(30))
        yield random_.choice(("", " ", "\n")).join(words)[: random_.randint(1, 400)]
