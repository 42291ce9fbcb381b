"""Lightning's own Trainer comes to the engine's labels and weights, bit for bit, also where it is resumed."""

import pytest
import torch
from torch.optim import SGD

from pencil import LabelLearner, Pencil, three_phases
from pencil.errors import ConfigError, RunError
from pencil.methods import CrossEntropy, DivideMix, Forward

lightning = pytest.importorskip("lightning.pytorch", reason="needs the extra lightning")

from pencil.integrations.lightning import LabelCallback  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning's own use of torch
]
EPOCHS = 5


class Loader:
    """Batches of (inputs, rows) in the engine's order, from wherever a checkpoint says that they stand."""

    def __init__(self, parts, pieces=1):
        self.parts, self.pieces = parts, pieces
        self.epoch = self.done = 0

    def __len__(self):
        return self.parts.training.sampler.steps * self.pieces

    def __iter__(self):
        batches = list(self.parts.training.sampler.batches(self.epoch))
        pieces = [piece for rows in batches for piece in rows.tensor_split(self.pieces)]
        for rows in pieces[self.done :]:
            epochs, self.done = divmod(
                self.done + 1, len(pieces)
            )  # before the last yield: nobody asks for more
            self.epoch += epochs
            yield self.parts.inputs[rows], rows

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


class Net(lightning.LightningModule):
    def __init__(self, network, learner, rate=0.0):
        super().__init__()
        self.network, self.learner, self.rate = network, learner, rate

    def forward(self, inputs):
        return self.network(inputs)

    def training_step(self, batch, index):
        inputs, rows = batch
        return self.learner.loss(self(inputs), rows)

    def configure_optimizers(self):
        return SGD(self.parameters(), lr=self.rate, momentum=0.9, weight_decay=0.005)


def trainer_of(callbacks, folder, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    options = {"max_epochs": EPOCHS, "enable_checkpointing": False, **quiet, **options}
    return lightning.Trainer(accelerator="cpu", callbacks=list(callbacks), default_root_dir=folder, **options)


def labels_of(parts):
    return LabelCallback(parts.learner, survey=[(parts.inputs, torch.arange(len(parts.inputs)))])


@pytest.mark.parametrize("method", ["pencil", "forward"])
def test_the_trainer_learns_what_the_engine_learns(make_parts, tmp_path, method):
    parts = make_parts(method)
    net = Net(parts.network, parts.learner)
    trainer_of([labels_of(parts)], tmp_path).fit(net, Loader(parts))
    parts.check(parts.learner, parts.network)


@pytest.mark.parametrize("method", ["pencil", "forward"])
@pytest.mark.parametrize("step", [8, 11], ids=["between epochs", "in mid-epoch"])
def test_a_resumed_training_ends_alike(make_parts, tmp_path, method, step):
    def fit(folder, **options):
        parts = make_parts(method)
        saver = lightning.callbacks.ModelCheckpoint(
            folder, filename="{step}", every_n_train_steps=step, save_top_k=-1
        )
        trainer = trainer_of([labels_of(parts), saver], folder, enable_checkpointing=True)
        trainer.fit(Net(parts.network, parts.learner), Loader(parts), **options)
        return trainer, parts

    fit(tmp_path / "first")
    trainer, again = fit(
        tmp_path / "again", ckpt_path=tmp_path / "first" / f"step={step}.ckpt", weights_only=True
    )
    assert trainer.global_step == EPOCHS * 8
    again.check(again.learner, again.network)


def test_accumulated_gradients_give_the_same_labels_but_for_rounding(make_parts, tmp_path):
    parts = make_parts()
    net = Net(parts.network, parts.learner)
    trainer_of([labels_of(parts)], tmp_path, accumulate_grad_batches=4).fit(net, Loader(parts, pieces=4))
    values, expected = (
        learner.store.state()["values"] for learner in (parts.learner, parts.expected.training.learner)
    )
    torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-4)  # sums of four parts, in another order


def test_the_module_may_keep_its_own_learning_rate(make_parts, tmp_path):
    parts = make_parts()
    net = Net(parts.network, parts.learner, rate=0.125)
    trainer = trainer_of([LabelCallback(parts.learner, phase_rate=False)], tmp_path)
    trainer.fit(net, Loader(parts))
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.125


def test_a_checkpoint_of_other_labels_is_refused(make_parts):
    parts = make_parts()
    other = LabelLearner(Pencil(label_rate=6.0), torch.arange(10), parts.learner.phases)
    with pytest.raises(RunError, match="resume with the same data and method"):
        LabelCallback(parts.learner).load_state_dict(LabelCallback(other).state_dict())


@pytest.mark.parametrize(
    ("method", "message"),
    [(DivideMix(), "mixes examples"), (Forward(), "give survey=")],
    ids=["mixing", "surveying"],
)
def test_methods_that_need_more_say_so(make_parts, tmp_path, method, message):
    parts = make_parts()
    learner = LabelLearner(method, parts.learner.given, parts.learner.phases)
    with pytest.raises(ConfigError, match=message):
        trainer_of([LabelCallback(learner)], tmp_path).fit(Net(parts.network, learner), Loader(parts))


def test_another_number_of_epochs_is_noticed(make_parts, tmp_path):
    parts = make_parts()
    phases = three_phases(1, 0, 0, learning_rate=0.1, finetune_rate=0.1)
    learner = LabelLearner(CrossEntropy(), parts.learner.given, phases)
    with pytest.warns(UserWarning, match="Trainer runs 2 epochs but the phases add up to 1; make them equal"):
        trainer_of([LabelCallback(learner)], tmp_path, max_epochs=2).fit(
            Net(parts.network, learner), Loader(parts)
        )
