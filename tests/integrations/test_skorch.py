"""skorch's own loop comes to the engine's labels and weights, bit for bit, also from a checkpoint."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from pencil import LabelLearner, Pencil, three_phases
from pencil.errors import ConfigError, DataError
from pencil.methods import DivideMix

pytestmark = pytest.mark.slow

skorch = pytest.importorskip("skorch", reason="needs the extra skorch")

from sklearn.base import clone  # noqa: E402
from skorch.callbacks import Checkpoint, LoadInitState  # noqa: E402
from skorch.dataset import ValidSplit  # noqa: E402

from pencil.integrations.skorch import LabelNet  # noqa: E402

EPOCHS = 5


def net_of(parts, start=0, **options):
    """A net with the network and the order of the parts."""
    return LabelNet(
        copy.deepcopy(parts.network),
        parts.learner.method,
        parts.learner.phases,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        optimizer__weight_decay=0.005,
        iterator_train__batch_sampler=parts.order(start),
        iterator_train__batch_size=1,
        iterator_valid__batch_size=512,
        verbose=0,
        **options,
    )


def data_of(parts):
    return parts.inputs, parts.learner.given.hard


@pytest.mark.parametrize("method", ["pencil", "forward"])
def test_the_net_learns_what_the_engine_learns(make_parts, method):
    parts = make_parts(method)
    net = net_of(parts).fit(*data_of(parts))
    assert len(net.history) == EPOCHS
    parts.check(net.learner_, net.module_)


@pytest.mark.parametrize("method", ["pencil", "forward"])
def test_a_checkpoint_goes_on_alike(make_parts, tmp_path, method):
    parts = make_parts(method)
    files = {"dirname": tmp_path, "monitor": None, "f_labels": "labels.pt"}
    net_of(parts, callbacks=[Checkpoint(**files)]).initialize().partial_fit(*data_of(parts), epochs=1)
    again = net_of(parts, start=1, callbacks=[LoadInitState(Checkpoint(**files))])
    again.partial_fit(*data_of(parts))
    assert len(again.history) == EPOCHS
    parts.check(again.learner_, again.module_)


class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 4))


@pytest.fixture
def given(points):
    names, noisy = np.unique(points.noisy, return_inverse=True)
    true = np.searchsorted(names, points.true)
    return points.values.astype(np.float32), noisy, true


PHASES = three_phases(2, 16, 2, learning_rate=0.05, finetune_rate=0.02)


def small_net(**options):
    torch.manual_seed(0)
    return LabelNet(
        Small, Pencil(), PHASES, batch_size=20, verbose=0, iterator_train__shuffle=True, **options
    )


def test_labels_are_mended_and_predictions_are_skorchs_own(given):
    values, noisy, true = given
    net = small_net().fit(values, noisy)
    suggested = net.learner_.labels().suggested.numpy()
    assert (suggested == true).mean() > 0.95 > 0.8 > (noisy == true).mean()
    assert net.score(values, true) > 0.95
    np.testing.assert_allclose(net.predict_proba(values).sum(axis=1), 1, rtol=1e-5)


def test_rows_held_out_keep_their_labels_and_score(given):
    values, noisy, true = given
    net = small_net(train_split=ValidSplit(5, stratified=True)).fit(values, noisy)
    split, _ = net.get_split_datasets(values, noisy)
    held_out = np.setdiff1d(np.arange(len(noisy)), split.indices)
    learned = net.learner_.labels()
    assert len(held_out) == 40
    assert np.array_equal(learned.suggested.numpy()[held_out], noisy[held_out])
    assert (learned.suggested.numpy()[split.indices] == true[split.indices]).mean() > 0.95
    assert {"valid_acc", "valid_loss", "train_loss"} <= set(net.history[-1])


@pytest.mark.parametrize("split", [None, ValidSplit(5, stratified=True)])
def test_rows_of_a_subset_are_numbered_as_its_labels_are(given, split):
    values, noisy, _ = given
    chosen = np.random.default_rng(0).permutation(len(noisy))[:150]
    whole = TensorDataset(torch.from_numpy(values), torch.from_numpy(noisy))
    nets = [small_net(train_split=split) for _ in range(2)]
    for net, inputs in zip(nets, (values[chosen], Subset(whole, chosen.tolist())), strict=True):
        torch.manual_seed(1)
        net.fit(inputs, noisy[chosen])
    assert torch.equal(*(net.learner_.label_distribution(torch.arange(150)) for net in nets))


def test_labels_of_the_whole_data_set_do_not_fit_a_subset(given):
    values, noisy, _ = given
    whole = TensorDataset(torch.from_numpy(values), torch.from_numpy(noisy))
    with pytest.raises(DataError, match="y: has 200 labels, X 50 rows"):
        small_net().fit(Subset(whole, range(100, 150)), noisy)


def test_a_clone_is_alike_and_a_second_fit_begins_anew(given):
    values, noisy, _ = given
    first, second = small_net().fit(values, noisy), clone(small_net())
    for _ in range(2):
        torch.manual_seed(0)
        second.fit(values, noisy)
    rows = torch.arange(len(noisy))
    assert torch.equal(*(net.learner_.label_distribution(rows) for net in (first, second)))


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_net_goes_on_with_its_own_labels_only(given, warm_start):
    values, noisy, _ = given
    net = small_net(warm_start=warm_start).initialize().partial_fit(values, noisy, epochs=1)
    go_on = net.fit if warm_start else net.partial_fit
    other = noisy.copy()
    other[7] = (noisy[7] + 1) % 4
    with pytest.raises(
        DataError, match=rf"y: .*row 7 was {noisy[7]} and is {other[7]}\); .*warm_start=False"
    ):
        go_on(values, other, epochs=1)
    with pytest.raises(DataError, match=r"they had the shape \(200,\) and have \(100,\)"):
        go_on(values[:100], noisy[:100], epochs=1)
    assert len(go_on(values, noisy, epochs=1).history) == 2


def test_the_learning_rate_may_be_skorchs(given):
    values, noisy, _ = given
    net = small_net(phase_rate=False, lr=0.125).fit(values, noisy)
    assert net.optimizer_.param_groups[0]["lr"] == 0.125


def test_what_cannot_be_done_is_said(given):
    values, noisy, _ = given
    with pytest.raises(ConfigError, match="mixes examples"):
        LabelNet(Small, DivideMix(), PHASES, verbose=0).fit(values, noisy)
    with pytest.raises(DataError, match="call fit first"):
        _ = small_net().initialize().learner_
    with pytest.raises(DataError, match="y: is None"):
        small_net().fit(TensorDataset(torch.from_numpy(values), torch.from_numpy(noisy)), None)


def test_the_learner_is_pencils_own(given):
    values, noisy, _ = given
    assert isinstance(small_net().fit(values, noisy).learner_, LabelLearner)
