"""The learner in somebody's own loop: the labels it learns are those of the formulas, however batches are cut."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.algorithm import Pencil, Phase, start_label_logits, three_phases, updated_label_logits
from pencil.algorithm.losses import classification_loss, cross_entropy, network_loss
from pencil.algorithm.schedule import LinearSchedule
from pencil.engine import LabelLearner, LearnedLabels
from pencil.engine.learned import LabelChanges
from pencil.errors import ConfigError, DataError, NotFiniteError
from pencil.methods import CrossEntropy
from pencil.stores import GivenLabels

CLASSES = 4
LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2])
CORRECTING = (Phase(name="correction", epochs=2, learning_rate=0.1),)
METHOD = Pencil(label_rate=4.0)


class DoubleStore:
    """Rows in float64, where sums in another order must agree to the last digits."""

    def __init__(self, num_rows, row_width):
        self.values = torch.zeros(num_rows, row_width, dtype=torch.float64)
        self.num_rows, self.row_width = num_rows, row_width

    def gather(self, indices):
        return self.values[indices]

    def scatter(self, indices, rows):
        self.values[indices] = rows.double()

    def state(self):
        return {"values": self.values}


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def correcting(labels=LABELS, **options):
    return LabelLearner(METHOD, labels, CORRECTING, **options)


def rows_of(learner):
    return learner.store.state()["values"]


def linear_model(dtype=torch.float32):
    model = torch.nn.Linear(6, CLASSES, dtype=dtype)
    with torch.no_grad():
        model.weight.copy_(random(CLASSES, 6, seed=1, dtype=dtype))
        model.bias.zero_()
    return model


def loss_by_hand(phase, logits, labels, rows, method):
    if phase == "backbone":
        return cross_entropy(logits, LABELS[rows])
    if phase == "finetune":
        return classification_loss(logits, labels[rows], method.direction)
    return network_loss(logits, labels[rows], method.entropy_weight, method.direction)


def by_hand(inputs, batches, method, plan):
    """PENCIL written out: the model and the label logits after training through the phases of the plan."""
    model, labels = linear_model(), start_label_logits(LABELS, CLASSES, method.initial_gap)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for phase in plan:
        for rows in batches:
            logits = model(inputs[rows])
            optimizer.zero_grad()
            loss_by_hand(phase, logits, labels, rows, method).mean().backward()
            optimizer.step()
            if phase == "correction":
                labels[rows] = updated_label_logits(
                    labels[rows],
                    logits.detach().softmax(dim=1),
                    LABELS[rows],
                    label_rate=method.label_rate,
                    pull=method.pull,
                    form=method.form,
                    direction=method.direction,
                )
    return model, labels


@pytest.mark.parametrize("form", ["reference", "printed"])
@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
def test_a_plain_loop_learns_the_labels_of_the_formulas(form, direction):
    method = Pencil(label_rate=4.0, pull=0.3, form=form, direction=direction)
    phases = three_phases(1, 2, 1, learning_rate=0.1, finetune_rate=0.1)
    inputs, batches = random(len(LABELS), 6), torch.arange(len(LABELS)).split(4)
    model = linear_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learner = LabelLearner(method, LABELS, phases)
    for _ in learner.epochs():
        for rows in batches:
            loss = learner.loss(model(inputs[rows]), rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            learner.step()
    reference, labels = by_hand(inputs, batches, method, ["backbone", "correction", "correction", "finetune"])
    assert torch.equal(rows_of(learner), labels)
    assert torch.equal(model.weight, reference.weight)
    assert not torch.equal(labels, start_label_logits(LABELS, CLASSES))


@pytest.mark.parametrize("parts", [2, 3, 11])
def test_accumulated_small_batches_equal_one_big_batch(parts):
    inputs, everything = random(len(LABELS), 6, dtype=torch.float64), torch.arange(len(LABELS))
    results = []
    for pieces in (1, parts):
        model = linear_model(torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        learner = correcting(store=DoubleStore(len(LABELS), CLASSES))
        for _ in learner.epochs():
            optimizer.zero_grad()
            for rows in everything.tensor_split(pieces):
                losses = learner.loss(model(inputs[rows]), rows, reduction="none")
                (losses.sum() / len(LABELS)).backward()
            optimizer.step()
            assert learner.step().moved == len(LABELS)
        results.append((rows_of(learner), model.weight.detach()))
    (rows, weights), (other_rows, other_weights) = results
    torch.testing.assert_close(rows, other_rows, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(weights, other_weights, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    order=st.permutations(range(len(LABELS))),
    cuts=st.sets(st.integers(1, len(LABELS) - 1)),
    steps=st.sets(st.integers(0, len(LABELS))),
)
def test_neither_order_nor_size_of_batches_matters_to_labels(order, cuts, steps):
    logits = random(len(LABELS), CLASSES, seed=2, dtype=torch.float64)
    whole, cut = correcting(), correcting()
    whole.loss(logits, torch.arange(len(LABELS)))
    whole.step()
    for index, rows in enumerate(torch.tensor(order).tensor_split(sorted(cuts))):
        cut.loss(logits[rows], rows)
        if index in steps:
            cut.step()
    cut.step()
    assert torch.equal(rows_of(whole), rows_of(cut))


@settings(max_examples=20, deadline=None)
@given(scale=st.floats(0.001, 1000), visited=st.sets(st.integers(0, len(LABELS) - 1), min_size=1))
def test_scaling_the_loss_leaves_labels_alone_and_rows_not_visited_stay(scale, visited):
    rows, logits = torch.tensor(sorted(visited)), random(len(LABELS), CLASSES, seed=3)
    plain, scaled = correcting(), correcting()
    start = rows_of(plain).clone()
    plain.loss(logits[rows], rows)
    (scale * scaled.loss(logits[rows].clone().requires_grad_(), rows)).backward()
    assert plain.step() == scaled.step()
    assert torch.equal(rows_of(plain), rows_of(scaled))
    rest = [row for row in range(len(LABELS)) if row not in visited]
    assert torch.equal(rows_of(plain)[rest], start[rest])


def test_labels_move_at_the_step_and_not_before():
    learner = correcting()
    start = rows_of(learner).clone()
    learner.loss(random(2, CLASSES), torch.tensor([0, 1]))
    assert torch.equal(rows_of(learner), start)
    assert learner.step().moved == 2
    assert not torch.equal(rows_of(learner), start)
    assert learner.step() == LabelChanges(moved=0, changed=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_a_float32_loss_and_the_labels_of_their_values(dtype):
    logits, rows = random(3, CLASSES).to(dtype), torch.tensor([4, 0, 7])
    half, full = correcting(), correcting()
    loss = half.loss(logits, rows)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, full.loss(logits.float(), rows))
    half.step(), full.step()
    assert torch.equal(rows_of(half), rows_of(full))


def test_a_network_under_bf16_autocast_trains_with_float32_weights_and_gradients():
    model, learner = linear_model(), correcting()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(random(3, 6))
    assert logits.dtype == torch.bfloat16
    learner.loss(logits, torch.tensor([0, 1, 2])).backward()
    assert learner.step().moved == 3
    assert model.weight.grad.dtype == torch.float32
    assert bool(model.weight.grad.abs().sum() > 0)


def test_trusted_rows_never_move_but_others_do():
    trusted = torch.zeros(len(LABELS), dtype=torch.bool)
    trusted[[0, 5, 6]] = True
    learner = correcting(trusted=trusted)
    start = rows_of(learner).clone()
    for _ in learner.epochs():
        losses = learner.loss(
            random(len(LABELS), CLASSES), torch.arange(len(LABELS)).flip(0), reduction="none"
        )
        assert len(losses) == len(LABELS)
        assert learner.step().moved == len(LABELS) - 3
    moved = (rows_of(learner) != start).any(dim=1)
    assert torch.equal(moved, ~trusted)
    assert torch.equal(learner.labels().suggested[trusted], LABELS[trusted])


def test_a_batch_of_trusted_rows_alone_moves_nothing():
    learner = correcting(trusted=torch.ones(len(LABELS), dtype=torch.bool))
    learner.loss(random(2, CLASSES), torch.tensor([0, 1]))
    assert learner.step() == LabelChanges(0, 0)


SOFT = torch.tensor([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize("labels", [SOFT, (10 * SOFT).round().long()], ids=["soft", "votes"])
def test_soft_labels_and_votes_are_where_training_starts(labels):
    learner = LabelLearner(METHOD, labels, CORRECTING)
    torch.testing.assert_close(learner.label_distribution(torch.arange(3)), SOFT, rtol=0, atol=2e-4)
    found = learner.labels()
    assert found.given.tolist() == found.suggested.tolist() == [0, 2, 1]
    learner.loss(10 * torch.eye(3)[[1, 2, 1]], torch.arange(3))
    assert learner.step() == LabelChanges(moved=3, changed=1)
    assert learner.labels().suggested.tolist() == [1, 2, 1]
    assert learner.labels().given.tolist() == [0, 2, 1]


@pytest.mark.parametrize("batches", [[[2, 5, 2]], [[2, 5], [6, 2]]])
def test_a_row_twice_between_two_steps_is_refused_where_labels_move(batches):
    learner = correcting()
    before = learner.labels()
    for rows in batches:
        learner.loss(random(len(rows), CLASSES), torch.tensor(rows))
    with pytest.raises(DataError, match="twice"):
        learner.step()
    assert torch.equal(learner.labels().confidence, before.confidence)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction: 'sum' is unknown"):
        correcting().loss(random(1, CLASSES), torch.tensor([0]), reduction="sum")


def test_row_numbers_that_do_not_exist_are_refused():
    with pytest.raises(IndexError):
        correcting().loss(random(1, CLASSES), torch.tensor([len(LABELS)]))


def test_a_store_of_another_size_is_refused():
    with pytest.raises(DataError, match="3 rows for 11 labels"):
        correcting(store=DoubleStore(3, CLASSES))


def test_labels_tell_given_suggested_and_confidence_for_all_rows_or_some():
    learner = correcting()
    values = random(len(LABELS), CLASSES, seed=4)
    learner.store.scatter(torch.arange(len(LABELS)), values)
    belief = values.softmax(dim=1)
    some = torch.tensor([7, 2, 2])
    for found, rows in ((learner.labels(), torch.arange(len(LABELS))), (learner.labels(some), some)):
        assert torch.equal(learner.label_distribution(rows), belief[rows])
        assert torch.equal(found.given, LABELS[rows])
        assert torch.equal(found.suggested, belief[rows].argmax(dim=1))
        assert torch.equal(found.confidence, belief[rows].max(dim=1).values)
        assert torch.equal(found.p_wrong, 1 - belief[rows].gather(1, LABELS[rows][:, None])[:, 0])


def test_labels_have_verdicts_columns_and_a_table_for_notebooks():
    given, suggested = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 1, 1])
    found = LearnedLabels(
        given, suggested, torch.tensor([0.6, 0.95, 0.5, 0.4]), torch.tensor([0.4, 0.97, 0.9, 0.6])
    )
    assert found.verdicts.tolist() == ["keep", "relabel", "review", "review"]
    assert list(found.table) == ["given", "suggested", "confidence", "p_wrong", "verdict"]
    assert found._repr_html_().startswith("<p>2 of 4 labels changed</p><table>")
    frame = pytest.importorskip("pandas") and found.to_pandas()
    assert frame["verdict"].tolist() == found.verdicts.tolist()
    assert frame["suggested"].tolist() == [0, 1, 1, 1]


def test_cut_rows_have_the_probabilities_of_what_they_represent():
    learner = correcting(store="top:2")
    found, belief = learner.labels(), learner.label_distribution(torch.arange(len(LABELS)))
    assert torch.allclose(found.p_wrong, 1 - belief.gather(1, LABELS[:, None])[:, 0], atol=1e-6)


def test_labels_of_more_rows_than_a_chunk_are_all_there(monkeypatch):
    monkeypatch.setattr("pencil.stores.rows.CHUNK", 4)
    learner = correcting()
    assert torch.equal(learner.labels().suggested, LABELS)
    assert torch.equal(rows_of(learner), start_label_logits(LABELS, CLASSES))


def test_written_counts_the_rows_that_now_suggest_another_class():
    learner = correcting()
    wanted = torch.tensor([0, 2, 2])  # given 0, 1, 2
    for visit in (0, 1):
        learner.loss(50 * torch.eye(CLASSES)[wanted], torch.tensor([0, 1, 2]))
        written = learner.step()
        assert written.moved == 3
        assert written.changed == int((learner.labels().suggested != LABELS).sum()) == visit


def test_loss_is_one_value_or_one_per_example():
    learner = correcting()
    logits, rows = random(5, CLASSES), torch.arange(5)
    losses = learner.loss(logits, rows, reduction="none")
    assert losses.shape == (5,)
    assert torch.equal(learner.loss(logits, rows), losses.mean())


def test_epochs_set_the_clock_and_with_it_phase_and_learning_rate():
    phases = three_phases(1, 2, 2, learning_rate=0.1, finetune_rate=LinearSchedule(0.2, 0.0))
    learner = LabelLearner(METHOD, LABELS, phases)
    seen = [(epoch, learner.moment.phase.name, learner.learning_rate) for epoch in learner.epochs()]
    assert seen == [
        (0, "backbone", 0.1),
        (1, "correction", 0.1),
        (2, "correction", 0.1),
        (3, "finetune", 0.2),
        (4, "finetune", 0.1),
    ]
    assert list(learner.epochs(start=3)) == [3, 4]


def test_a_loop_of_ones_own_refuses_phases_with_recomputed_labels():
    phases = [Phase(name="correction", epochs=2, learning_rate=0.1, labels="calibrated")]
    with pytest.raises(ConfigError, match=r'phases\[0\].labels: "calibrated" requires pencil.s own loop'):
        next(LabelLearner(METHOD, LABELS, phases).epochs())


def test_only_the_correction_phase_moves_labels():
    learner = LabelLearner(METHOD, LABELS, three_phases(1, 2, 1, learning_rate=0.1, finetune_rate=0.1))
    moved = []
    for _ in learner.epochs():
        learner.loss(random(len(LABELS), CLASSES), torch.arange(len(LABELS)))
        moved.append(learner.step().moved)
    assert moved == [0, len(LABELS), len(LABELS), 0]


def test_given_labels_may_come_ready_made():
    given_labels = GivenLabels.of(LABELS, 6)
    learner = LabelLearner(METHOD, given_labels, CORRECTING)
    assert learner.given is given_labels
    assert learner.label_distribution(torch.arange(2)).shape == (2, 6)


def test_a_method_without_rows_learns_beside_no_labels():
    learner = LabelLearner(CrossEntropy(), LABELS, CORRECTING)
    logits, rows = random(3, CLASSES), torch.tensor([1, 1, 2])
    assert torch.equal(learner.loss(logits, rows), cross_entropy(logits, LABELS[rows]).mean())
    assert learner.step() == LabelChanges(0, 0)
    assert torch.equal(learner.labels().suggested, LABELS)
    assert torch.equal(learner.labels().confidence, torch.ones(len(LABELS)))


# stores


def corrected(store, classes=CLASSES, labels=LABELS):
    """A learner after some visits of every row, with logits of noise."""
    learner = LabelLearner(METHOD, labels, CORRECTING, num_classes=classes, store=store)
    learner.epoch = 0.5
    for seed in range(6):
        for indices in torch.arange(len(labels)).split(4):
            learner.loss(2 * random(len(indices), classes, seed=seed), indices)
            learner.step()
    return learner


def test_keeping_every_entry_is_keeping_whole_rows():
    whole, top = corrected("dense"), corrected(f"top:{CLASSES}")
    assert torch.equal(rows_of(top), rows_of(whole))


def test_a_mapped_store_learns_the_same_to_the_last_bit(tmp_path):
    mapped = LabelLearner(METHOD, LABELS, CORRECTING, store="dense:mapped", folder=tmp_path)
    plain = correcting()
    for learner in (mapped, plain):
        learner.loss(random(len(LABELS), CLASSES), torch.arange(len(LABELS)))
        learner.step()
    assert torch.equal(rows_of(mapped), rows_of(plain))


def test_cut_rows_learn_nearly_the_same():
    labels = torch.arange(40) % 20
    whole, top = corrected("dense", 20, labels), corrected("top:6", 20, labels)
    difference = (whole.label_distribution(torch.arange(40)) - top.label_distribution(torch.arange(40))).abs()
    assert float(difference.max()) < 0.06
    assert torch.equal(whole.labels().suggested, top.labels().suggested)
    torch.testing.assert_close(top.labels().confidence, whole.labels().confidence, rtol=0, atol=0.06)


def test_trusted_rows_stay_in_cut_stores_and_changed_labels_are_counted():
    trusted = torch.arange(len(LABELS)) < 5
    learner = LabelLearner(
        Pencil(label_rate=30.0, pull=0.0), LABELS, CORRECTING, trusted=trusted, store="top:2"
    )
    before = learner.label_distribution(torch.arange(5))
    logits = torch.nn.functional.one_hot((LABELS + 1) % CLASSES, CLASSES).float() * 20
    learner.loss(logits, torch.arange(len(LABELS)))
    assert learner.step() == LabelChanges(len(LABELS) - 5, len(LABELS) - 5)
    assert torch.equal(learner.label_distribution(torch.arange(5)), before)
    assert torch.equal(learner.labels().suggested[5:], (LABELS[5:] + 1) % CLASSES)


def test_a_store_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="store: 'sparse' is unknown"):
        correcting(store="sparse")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_refused_and_nothing_is_written(value):
    phases = three_phases(1, 3, 1, learning_rate=0.1, finetune_rate=0.1)
    learner = LabelLearner(Pencil(label_rate=4.0), torch.tensor([0, 1, 2]), phases)
    learner.epoch = 1.0
    before = learner.store.state()["values"].clone()
    logits = torch.zeros(3, 3)
    logits[1, 2] = value
    with pytest.raises(
        NotFiniteError, match=r"the losses of a batch are not finite \(epoch 1\.00, correction phase\)"
    ):
        learner.loss(logits, torch.arange(3))
    assert learner.step().moved == 0
    assert torch.equal(learner.store.state()["values"], before)
    assert torch.isnan(learner.loss(logits, torch.arange(3), check=False))


def passes(learner, count, *, steps):
    """Over all rows, ``count`` times."""
    for _ in range(count):
        for indices in torch.arange(len(LABELS)).split(4):
            learner.loss(random(len(indices), CLASSES), indices)
            if steps:
                learner.step()


def loop_without(**forgotten):
    """A loop over a plan of four epochs, the warnings it causes, and where they point."""
    learner = LabelLearner(METHOD, LABELS, three_phases(1, 2, 1, learning_rate=0.1, finetune_rate=0.1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epochs = range(4) if forgotten.get("epochs") else learner.epochs()
        for _ in epochs:
            passes(learner, 1, steps=not forgotten.get("step"))
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


def test_a_forgotten_step_warns_once_with_the_remedy():
    assert loop_without(step=True) == [
        "learner.step() was not called in epoch 1, so no label changed; call it after optimizer.step()"
    ]


def test_forgotten_epochs_warn_once_with_the_remedy():
    assert loop_without(epochs=True) == [
        "the phase never changes, for learner.epoch was not set; write: for epoch in learner.epochs()"
    ]


def test_a_whole_loop_and_one_that_sets_the_epoch_itself_get_no_warning():
    assert loop_without() == []
    learner = correcting()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for learner.epoch in (0.0, 1.0):
            passes(learner, 1, steps=True)


def test_a_method_whose_labels_never_move_needs_no_step():
    learner = LabelLearner(CrossEntropy(), LABELS, CORRECTING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in learner.epochs():
            passes(learner, 1, steps=False)


def test_a_step_forgotten_without_epochs_is_noticed_when_a_row_must_come_again():
    learner = correcting()
    learner.epoch = 1.0
    with pytest.warns(UserWarning, match=r"learner.step\(\) was not called for \d+ examples"):
        passes(learner, 2, steps=False)


def test_the_method_learns_from_the_start_and_changes_count_from_the_given_labels():
    start = torch.full((len(LABELS), CLASSES), 0.1).scatter(1, ((LABELS + 1) % CLASSES)[:, None], 0.7)
    learner = correcting(start=start)
    torch.testing.assert_close(rows_of(learner), start_label_logits(start, CLASSES))
    labels = learner.labels()
    assert torch.equal(labels.given, LABELS)
    assert torch.equal(labels.suggested, (LABELS + 1) % CLASSES)
    indices, logits = torch.arange(4), random(4, CLASSES)
    before = rows_of(learner)[indices].clone()
    learner.loss(logits, indices)
    changed = learner.step()
    knobs = {"label_rate": 4.0, "pull": METHOD.pull}
    expected = updated_label_logits(before, logits.softmax(1), start[indices], **knobs)
    torch.testing.assert_close(rows_of(learner)[indices], expected)
    assert changed == LabelChanges(4, int((expected.argmax(1) != LABELS[indices]).sum()))


def test_trusted_rows_start_from_their_given_labels():
    trusted = torch.arange(len(LABELS)) < 2
    start = torch.full((len(LABELS), CLASSES), 0.25)
    learner = correcting(GivenLabels.of(LABELS, CLASSES, trusted), start=start)
    expected = torch.nn.functional.one_hot(LABELS[:2], CLASSES).float()
    assert torch.equal(learner.learned_from(torch.arange(3)), torch.cat([expected, start[2:3]]))


def test_a_cut_store_may_hold_the_start():
    classes = torch.arange(40) % 20
    start = torch.full((40, 20), 0.01).scatter(1, classes[:, None], 0.81)
    learner = LabelLearner(
        METHOD, torch.zeros(40, dtype=torch.long), CORRECTING, num_classes=20, store="top:4", start=start
    )
    assert torch.equal(learner.labels().suggested, classes)
    learner.loss(random(8, 20), torch.arange(8))
    assert learner.step().moved == 8


@pytest.mark.parametrize("shape", [(3, CLASSES), (len(LABELS),), (len(LABELS), CLASSES + 1)])
def test_a_start_of_another_shape_is_refused(shape):
    with pytest.raises(DataError, match=r"start: .* must have the shape \(11, 4\), a row for each label"):
        correcting(start=torch.zeros(shape))


def test_rows_that_start_anew_are_announced_before_they_are_written():
    """A checkpoint that is being written keeps them as they were."""
    learner, seen = LabelLearner(METHOD, LABELS, CORRECTING), []
    before = learner.store.gather(torch.arange(len(LABELS))).clone()

    def announced(indices):
        seen.append(indices)
        assert torch.equal(learner.store.gather(indices), before[indices])

    learner.before_write = announced
    start = DoubleStore(len(LABELS), CLASSES)
    start.scatter(torch.arange(len(LABELS)), torch.full((len(LABELS), CLASSES), 0.25))
    learner.start_from(start)
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(len(LABELS)))


def test_a_start_may_be_taken_back():
    learner = LabelLearner(METHOD, LABELS, CORRECTING)
    start = DoubleStore(len(LABELS), CLASSES)
    start.scatter(torch.arange(len(LABELS)), torch.full((len(LABELS), CLASSES), 0.25))
    learner.start_from(start, rows=False)
    assert learner.learned_from(torch.arange(3)).shape == (3, CLASSES)
    learner.start_from(None, rows=False)
    assert torch.equal(learner.learned_from(torch.arange(3)), LABELS[:3])
