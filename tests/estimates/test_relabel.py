"""Which labels are replaced within an asked share of errors, against loops over sorted rows."""

import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

from pencil.estimates.relabel import NEVER, RelabelCounts


def counted(given, confidence, candidate, classes, parts=1):
    counts = RelabelCounts(classes)
    for part in torch.arange(len(given)).chunk(parts):
        counts.add(given[part], confidence[part], candidate[part])
    return counts


@drawn(st.integers(0, 2**31), st.floats(0.001, 0.5))
def test_the_asked_share_is_kept_and_nearly_used_up(seed, asked):
    generator = torch.Generator().manual_seed(seed)
    confidence = 0.5 + 0.5 * torch.rand(400, generator=generator)
    given, candidate = torch.zeros(400, dtype=torch.long), torch.rand(400, generator=generator) < 0.7
    least = float(counted(given, confidence, candidate, 1).thresholds(asked, 0.0))
    taken = candidate & (confidence >= least)
    if taken.any():
        sure = confidence[taken].double()
        assert float((1 - sure).sum() + (sure * (1 - sure)).sum().sqrt()) <= asked * len(sure)
    ordered = confidence[candidate].sort(descending=True).values.double()
    errors, variance = (1 - ordered).cumsum(0), (ordered * (1 - ordered)).cumsum(0)
    fits = (errors + variance.sqrt() <= asked * torch.arange(1, len(ordered) + 1)).nonzero()
    naive = int(fits[-1]) + 1 if len(fits) else 0
    assert int(taken.sum()) <= naive
    assert naive - int(taken.sum()) <= 0.06 * len(ordered)  # a bin is not divided


def test_a_class_keeps_its_share():
    given = torch.tensor([0] * 8 + [1] * 100)
    confidence = torch.cat([torch.linspace(0.99, 0.999, 8), torch.full((100,), 0.99)])
    candidate = torch.cat([torch.ones(8, dtype=torch.bool), torch.zeros(100, dtype=torch.bool)])
    counts = counted(given, confidence, candidate, 2)
    free, kept = counts.thresholds(0.1, 0.0), counts.thresholds(0.1, 0.25)
    assert int((confidence[:8] >= free[0]).sum()) == 8
    assert 1 <= int((confidence[:8] >= kept[0]).sum()) <= 6
    assert kept[1] == free[1]


def test_nothing_is_replaced_if_no_row_is_sure_enough():
    given, confidence = torch.zeros(3, dtype=torch.long), torch.tensor([0.5, 0.6, 0.7])
    assert (
        counted(given, confidence, torch.ones(3, dtype=torch.bool), 2).thresholds(0.1, 0.0).tolist()
        == [NEVER] * 2
    )


def test_counts_of_parts_add_up_and_certain_rows_are_counted():
    given = torch.arange(50) % 3
    confidence = torch.linspace(0, 1, 50)
    whole, parts = (counted(given, confidence, given != 2, 3, number) for number in (1, 7))
    assert torch.equal(whole.rows, parts.rows)
    assert torch.equal(whole.by_class, parts.by_class)
    assert int(whole.rows[-1]) == 1  # confidence 1
    assert torch.equal(whole.by_class.sum(1), torch.tensor([17, 17, 0]))


def test_few_candidates_must_be_surer_than_many():
    for count, taken in ((3, False), (300, True)):
        given, confidence = torch.zeros(count, dtype=torch.long), torch.full((count,), 0.93)
        counts = counted(given, confidence, torch.ones(count, dtype=torch.bool), 1)
        assert (float(counts.thresholds(0.1, 0.0)) <= 0.93) == taken


def test_nothing_is_replaced_within_a_share_that_the_surest_suggestion_does_not_keep():
    given, sure = torch.zeros(500, dtype=torch.long), torch.full((500,), 0.999)
    counts = RelabelCounts(2, surest=0.85)
    counts.add(given, sure, torch.ones(500, dtype=torch.bool))
    assert counts.thresholds(0.1, 0.0).tolist() == [NEVER, NEVER]
    assert float(counts.thresholds(0.2, 0.0)[0]) <= 0.85
