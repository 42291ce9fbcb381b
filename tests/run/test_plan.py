"""The plan is arithmetic: checked by hand, against real stores, and against the table in the docs."""

import re
from pathlib import Path

import pytest
import torch

from pencil.cli.output import human
from pencil.data import EpochSampler
from pencil.errors import ConfigError
from pencil.run import Plan
from pencil.run.plan import ORDER, Speeds
from pencil.stores import GivenLabels

DOCS = Path(__file__).parents[2] / "docs" / "scale.md"
SIZES = [
    (50_000, 10, 1),
    (1_281_167, 1000, 8),
    (14_197_122, 21_841, 16),
    (300_000_000, 18_291, 1),
    (300_000_000, 18_291, 64),
    (3_000_000_000, 100_000, 512),
]


def docs_line(rows, classes, ranks):
    figures = Plan(rows=rows, classes=classes, ranks=ranks).figures()
    names = (
        *("label_rows_bytes", "memory_bytes", "wire_bytes_per_step_labels", "wire_bytes_per_step_gradients"),
        "checkpoint_bytes_of_all_ranks",
    )
    sizes = [f"{rows:,}", f"{classes:,}", str(ranks), figures["store"]]
    seconds = f"{figures['checkpoint_seconds']} s"
    return f"| {' | '.join([*sizes, *(human(name, figures[name]) for name in names), seconds])} |"


def test_the_table_in_the_docs_is_what_the_plan_says():
    text = DOCS.read_text(encoding="utf-8")
    table = re.search(r"<!-- plan:.*?\|---\|\n(.*?)<!-- end of plan -->", text, re.DOTALL)
    assert table is not None
    assert table[1].splitlines() == [docs_line(*size) for size in SIZES]


def test_figures_by_hand():
    plan = Plan(
        rows=1001, classes=100, ranks=4, k=8, batch_size=10, image_size=None, features=20, parameters=1000
    )
    figures = plan.figures(Speeds(row_updates=100, checkpoint_bytes=1000))
    weights = 1000 + 21 * 100
    assert figures["rows_per_rank"] == 251
    assert figures["label_rows_bytes"] == 251 * 34
    assert figures["network_bytes"] == 12 * weights
    assert figures["batch_bytes"] == 3 * (5 * 20 + 12 * 100)
    assert figures["memory_bytes"] == 251 * (34 + 8 + ORDER) + 12 * weights + 3 * 1300
    assert figures["wire_bytes_per_step_labels"] == 0
    assert figures["wire_bytes_per_step_gradients"] == 2 * 4 * weights * 3 // 4
    assert figures["checkpoint_bytes_of_all_ranks"] == 1001 * 34 + 8 * weights
    assert figures["checkpoint_seconds"] == round((1001 * 34 + 8 * weights) / 4 / 1000, 1)
    assert figures["label_step_seconds_per_epoch"] == 2.5


def test_fsdp_divides_the_network_and_gathers_it():
    whole, divided = (
        Plan(rows=10**6, classes=10, ranks=4, parallel=kind).figures() for kind in ("ddp", "fsdp")
    )
    assert divided["network_bytes"] == -(-whole["network_bytes"] // 4)
    assert divided["wire_bytes_per_step_gradients"] == 3 * whole["wire_bytes_per_step_gradients"] // 2


@pytest.mark.parametrize(("rows", "classes", "k"), [(1000, 50, None), (1000, 50, 8), (500, 70_000, 8)])
def test_rows_take_what_the_plan_says(rows, classes, k):
    plan = Plan(rows=rows, classes=classes, k=k)
    state = plan.store.make(rows, classes).state()
    assert (
        sum(value.numel() * value.itemsize for value in state.values()) == plan.figures()["label_rows_bytes"]
    )


def test_a_label_and_a_place_in_the_order_take_what_the_plan_says():
    labels = GivenLabels.of(torch.arange(1000) % 10, 10).values
    assert labels.numel() * labels.itemsize == 8 * 1000
    order = EpochSampler(1000, 100)._order(0, 0, 1, 0, None)
    assert 3 * order.numel() * order.itemsize == ORDER * 1000  # rows in order, a permutation, rows permuted


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"rows": 5000, "classes": 10}, "one process with the default store is enough"),
        ({"rows": 10**9, "classes": 10**5}, "use more ranks"),
        ({"rows": 10**9, "classes": 10**5, "ranks": 100}, "fits: "),
    ],
)
def test_advice(sizes, words):
    assert words in Plan(**sizes).advice


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"classes": 0}, {"ranks": 0}, {"memory": 0}, {"ranks": 200}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"--{next(iter(wrong))}"):
        Plan(**{"rows": 100, "classes": 10, **wrong})
