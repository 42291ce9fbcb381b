"""Hugging Face's own Trainer comes to the engine's labels and weights, bit for bit, also from a checkpoint folder."""

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import Dataset

from pencil import LabelLearner
from pencil.errors import ConfigError, DataError
from pencil.methods import DivideMix

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
pytest.importorskip("accelerate", reason="needs the extra transformers")

from pencil.integrations.hugging_face_trainer import LabelMixin, LabelTrainer  # noqa: E402

EPOCHS, STEPS, BATCH = 5, 8, 64


class Wrapped(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, inputs, labels=None):
        logits = self.network(inputs)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"logits": logits} if loss is None else {"loss": loss, "logits": logits}


class Open(Wrapped):
    """Takes anything, like most models of transformers; the Trainer then leaves the scale of the loss to the model."""

    def forward(self, inputs, labels=None, **rest):
        return super().forward(inputs, labels)


class Items(Dataset):
    def __init__(self, parts, with_index=True):
        self.inputs, self.given = parts.inputs, parts.learner.given.hard
        self.with_index = with_index

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        item = {"inputs": self.inputs[index], "labels": int(self.given[index])}
        return {**item, "index": index} if self.with_index else item


class Order(torch.utils.data.Sampler):
    """The engine's rows one by one; accelerate says which epoch it is."""

    def __init__(self, sampler):
        self.sampler, self.epoch = sampler, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.sampler.num_rows

    def __iter__(self):
        return iter(torch.cat(list(self.sampler.batches(self.epoch))).tolist())


class InOrder(LabelMixin, transformers.Trainer):
    parts = None

    def _get_train_sampler(self, *args):
        return Order(self.parts.training.sampler)


class Older(InOrder):
    """As in earlier versions of transformers, which do not know this attribute."""

    loss_is_scaled_for_ga = property(lambda self: None, lambda self, value: None)


def fit(
    parts, folder, cls=InOrder, learner=None, data=None, pieces=1, resume=None, wrapper=Wrapped, **options
):
    model = wrapper(parts.network)
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH // pieces,
        gradient_accumulation_steps=pieces,
        max_grad_norm=0.0,
        save_strategy="steps",
        save_steps=11,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    optimizer = SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=0.005)
    trainer = cls(
        learner=learner or parts.learner,
        survey=[({"inputs": parts.inputs}, torch.arange(len(parts.inputs)))],
        model=model,
        args=args,
        train_dataset=data or Items(parts),
        optimizers=(optimizer, None),
        **options,
    )
    trainer.parts = parts
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.mark.parametrize("method", ["pencil", "forward"])
def test_the_trainer_learns_what_the_engine_learns(make_parts, tmp_path, method):
    parts = make_parts(method)
    trainer = fit(parts, tmp_path)
    assert trainer.state.global_step == EPOCHS * STEPS
    parts.check(parts.learner, parts.network)


@pytest.mark.parametrize("method", ["pencil", "forward"])
def test_a_checkpoint_in_mid_epoch_goes_on_alike(make_parts, tmp_path, method):
    fit(make_parts(method), tmp_path)
    again = make_parts(method)
    fit(again, tmp_path, resume=str(tmp_path / "checkpoint-11"))
    again.check(again.learner, again.network)


@pytest.mark.parametrize("wrapper", [Wrapped, Open])
@pytest.mark.parametrize("cls", [InOrder, Older])
def test_accumulated_gradients_give_the_same_labels_but_for_rounding(make_parts, tmp_path, cls, wrapper):
    parts = make_parts()
    fit(parts, tmp_path, pieces=4, cls=cls, wrapper=wrapper)
    values, expected = (
        learner.store.state()["values"] for learner in (parts.learner, parts.expected.training.learner)
    )
    torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_done_is_said(make_parts, tmp_path):
    parts = make_parts()
    mixing = LabelLearner(DivideMix(), parts.learner.given, parts.learner.phases)
    with pytest.raises(ConfigError, match="mixes examples"):
        fit(parts, tmp_path, learner=mixing)
    with pytest.raises(DataError, match="an item has no 'index'"):
        fit(parts, tmp_path, cls=LabelTrainer, data=Items(parts, with_index=False))


@pytest.mark.parametrize("wrapper", [Wrapped, Open])
def test_evaluation_is_the_models_own(make_parts, tmp_path, wrapper):
    parts = make_parts()
    trainer = fit(parts, tmp_path, wrapper=wrapper)
    measured = trainer.evaluate(Items(parts))
    logits, given = parts.network(parts.inputs).detach(), parts.learner.given.hard
    assert measured["eval_loss"] == pytest.approx(float(nn.functional.cross_entropy(logits, given)), rel=1e-4)
