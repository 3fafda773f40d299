"""From the scheduler's work items to the tensors of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from services.engine.block_manager import PADDING_PAGE, PAGE_SIZE, num_pages_for
from services.engine.kernels.batch import DecodeGroup, Span, StepBatch
from services.engine.scheduler import WorkItem


def build_batch(items: Sequence[WorkItem]) -> StepBatch:
    """Rows in the order of `items`; the wanted logits likewise."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    sample_rows: list[int] = []
    spans: list[Span] = []
    for item in items:
        row_start = len(token_ids)
        table = item.sequence.table.pages
        token_ids += item.token_ids
        positions += range(item.start, item.row_end)
        slots += [table[at // PAGE_SIZE] * PAGE_SIZE + at % PAGE_SIZE for at in range(item.start, item.row_end)]
        pages = torch.tensor(table[: num_pages_for(item.row_end)].tolist())
        spans.append(Span(row_start=row_start, row_end=len(token_ids), start=item.start, pages=pages))
        sample_rows += range(len(token_ids) - item.num_sampled, len(token_ids))
    return StepBatch(
        token_ids=torch.tensor(token_ids),
        positions=torch.tensor(positions),
        slots=torch.tensor(slots),
        spans=tuple(spans),
        groups=_group([span for span in spans if span.num_rows == 1]),
        sample_rows=torch.tensor(sample_rows, dtype=torch.int64),
    )


def _group(spans: Sequence[Span]) -> tuple[DecodeGroup, ...]:
    """Sequences whose page counts have the same number of bits attend together, so padding at most doubles the work."""
    by_size: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_size[len(span.pages).bit_length()].append(span)
    return tuple(_decode_group(members) for _, members in sorted(by_size.items()))


def _decode_group(spans: Sequence[Span]) -> DecodeGroup:
    rows = torch.tensor([span.row_start for span in spans])
    if len(spans) == 1:
        return DecodeGroup(rows=rows, pages=spans[0].pages.unsqueeze(0), mask=None, num_tokens=spans[0].end)
    pages = torch.nn.utils.rnn.pad_sequence(
        [span.pages for span in spans], batch_first=True, padding_value=PADDING_PAGE
    )  # [B, P]
    num_tokens = pages.shape[1] * PAGE_SIZE
    lengths = torch.tensor([span.end for span in spans]).view(-1, 1, 1, 1)
    mask = torch.arange(num_tokens).view(1, 1, 1, -1) < lengths
    return DecodeGroup(rows=rows, pages=pages, mask=mask, num_tokens=num_tokens)
