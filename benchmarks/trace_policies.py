"""The policies that ours is compared with. Each takes blocks one by one and says how many were there.

`replay(blocks, capacity)` gives the number of hits; a block is one unit of capacity.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence


def lru(blocks: Sequence[int], capacity: int) -> int:
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for block in blocks:
        if block in held:
            hits += 1
            held.move_to_end(block)
            continue
        held[block] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return hits


def lfu(blocks: Sequence[int], capacity: int) -> int:
    """The least used goes, of several the one whose use lies furthest back; uses are counted for good."""
    uses: Counter[int] = Counter()
    held: dict[int, tuple[int, int]] = {}  # uses, place of the last
    queue: list[tuple[int, int, int]] = []
    hits = 0
    for place, block in enumerate(blocks):
        uses[block] += 1
        hits += block in held
        while block not in held and len(held) == capacity:
            old_uses, at, old = heapq.heappop(queue)
            if held.get(old) == (old_uses, at):
                del held[old]
        held[block] = (uses[block], place)
        heapq.heappush(queue, (uses[block], place, block))
    return hits


class S3Fifo:
    """Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023), algorithm 1, in our own writing.

    New blocks enter a small queue (a tenth); used more than once there they go on to the main queue, otherwise only
    their names are remembered, and a remembered one that comes back enters the main queue at once.
    """

    MAX_USES = 3

    def __init__(self, capacity: int) -> None:
        self._small_size = max(1, capacity // 10)
        self._main_size = capacity - self._small_size
        self._small: deque[int] = deque()
        self._main: deque[int] = deque()
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self._uses: dict[int, int] = {}

    def access(self, block: int) -> bool:
        if block in self._uses:
            self._uses[block] = min(self._uses[block] + 1, self.MAX_USES)
            return True
        while len(self._small) + len(self._main) >= self._small_size + self._main_size:
            if len(self._small) >= self._small_size or not self._main:
                self._evict_small()
            else:
                self._evict_main()
        if block in self._ghosts:
            del self._ghosts[block]
            self._main.append(block)
        else:
            self._small.append(block)
        self._uses[block] = 0
        return False

    def _evict_small(self) -> None:
        while self._small:
            block = self._small.popleft()
            if self._uses[block] > 1:
                self._uses[block] = 0
                self._main.append(block)
                if len(self._main) > self._main_size:
                    self._evict_main()
            else:
                del self._uses[block]
                self._remember(block)
                return

    def _evict_main(self) -> None:
        while self._main:
            block = self._main.popleft()
            if self._uses[block] == 0:
                del self._uses[block]
                return
            self._uses[block] -= 1
            self._main.append(block)

    def _remember(self, block: int) -> None:
        self._ghosts[block] = None
        if len(self._ghosts) > self._main_size:
            self._ghosts.popitem(last=False)


def s3fifo(blocks: Sequence[int], capacity: int) -> int:
    cache = S3Fifo(capacity)
    return sum(cache.access(block) for block in blocks)


def optimal(blocks: Sequence[int], capacity: int) -> int:
    """Belady's: what is needed last goes, and what would be needed last of all does not come in. Knows the future."""
    never = len(blocks)
    following, coming = [never] * len(blocks), dict[int, int]()
    for place in range(len(blocks) - 1, -1, -1):
        following[place] = coming.get(blocks[place], never)
        coming[blocks[place]] = place
    held: dict[int, int] = {}  # block → its next use
    queue: list[tuple[int, int]] = []
    hits = 0
    for place, block in enumerate(blocks):
        hits += held.pop(block, None) is not None
        if following[place] == never:
            continue
        held[block] = following[place]
        heapq.heappush(queue, (-following[place], block))
        while len(held) > capacity:
            at, last = heapq.heappop(queue)
            if held.get(last) == -at:
                del held[last]
    return hits


POLICIES = {"lru": lru, "lfu": lfu, "s3fifo": s3fifo, "optimal": optimal}
