"""Whatever settings a method accepts and whatever a network says, labels are distributions and losses finite.

The methods are those of ``BuiltIn`` and their settings those of their dataclasses, so a new one is tried as well.
"""

import dataclasses
import types
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Generate
from hypothesis import strategies as st

from pencil.algorithm import CosineSchedule, LinearSchedule, Pencil, Phase
from pencil.algorithm.checks import LARGEST
from pencil.engine import LabelLearner
from pencil.methods import BuiltIn, Forward
from pencil.methods.forward import Transition

pytestmark = pytest.mark.slow

ROWS = 3
TOLERANCE = 1e-4  # of a row's sum: float32, up to 20,000 entries
METHODS = get_args(BuiltIn)
NUMBERS = (0.0, 1e-6, 1e-3, 0.1, 0.5, 0.999999, 1.0, 10.0, 1e3, LARGEST, -4.0, -80.0)
PHASES = [Phase(name=name, epochs=2, learning_rate=0.1) for name in ("backbone", "correction", "finetune")]


def candidates(hint):
    """Values of a setting's type, accepted or not."""
    if hint is float:
        return st.sampled_from(NUMBERS)
    if hint is int:
        return st.integers(1, 3)
    if hint is bool:
        return st.booleans()
    if hint is type(None):
        return st.none()
    if hint in (LinearSchedule, CosineSchedule):
        return st.builds(hint, st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([strategy for each in get_args(hint) if (strategy := candidates(each)) is not None])
    return None  # schedules by pieces, tuples: given by hand below


def by_hand(kind, name, classes):
    """What the type does not tell."""
    if get_type_hints(kind)[name] == Transition:
        even = tuple((1 / classes,) * classes for _ in range(classes))
        return st.sampled_from(["estimated", even] if classes <= 50 else ["estimated"])
    if name == "prior":
        return st.sampled_from([None, (1.0,) + (0.0,) * (classes - 1)] if classes <= 50 else [None])
    return None


@st.composite
def methods(draw, kind, classes):
    """An accepted one: a setting that is refused stays as it is by default."""
    made = kind()
    for field in dataclasses.fields(kind):
        strategy = by_hand(kind, field.name, classes)
        strategy = candidates(get_type_hints(kind)[field.name]) if strategy is None else strategy
        if strategy is not None and field.name != "name":
            try:
                made = dataclasses.replace(made, **{field.name: draw(strategy)})
            except ValueError:
                continue
    return made


def predicted(draw, shape, dtype):
    """Logits of up to 1e4: noise of any size, and for some rows one class beyond doubt, or all alike."""
    size = draw(st.sampled_from([0.0, 1.0, 100.0, 1e4]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    logits = (2 * torch.rand(shape, generator=generator) - 1) * size
    logits[..., draw(st.integers(0, shape[-1] - 1))] = draw(st.sampled_from([-1e4, 0.0, 1e4]))
    return logits.to(dtype).requires_grad_()


def shapes(method, classes):
    """(B, C), or (B, N, C) of a method of several networks."""
    return (ROWS, classes) if method.networks == 1 else (ROWS, method.networks, classes)


def losses(learner, draw, shape, dtype):
    """Of a step as the loop takes it: mixed where the method mixes."""
    rows = torch.arange(ROWS)
    logits = predicted(draw, shape, dtype)
    if learner.mixing is None:
        return learner.loss(logits, rows, reduction="none", check=False), logits
    views = torch.stack([logits] * learner.mixing.views).detach()
    guess = learner.guess(views, rows)
    return learner.mixing.mixed_loss(logits.float(), guess, learner.moment), logits


def require_distributions(found):
    assert bool(torch.isfinite(found).all())
    assert float(found.min()) >= 0
    assert float((found.double().sum(dim=1) - 1).abs().max()) <= TOLERANCE


@pytest.mark.filterwarnings("ignore::pencil.errors.PlanWarning")
@pytest.mark.parametrize("store", ["dense", "top:1", "top:3"])
@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Generate.generate],
    derandomize=True,
)
@given(data=st.data())
def test_labels_are_distributions_and_losses_finite(kind, store, data):
    draw = data.draw
    if store != "dense" and kind().cut(1) is None:
        return  # LabelLearner refuses it
    choices = [2, 3, 10, 100, 1000, 20_000] if store == "dense" else [4, 1000, 20_000]
    if kind.start_shared is Forward.start_shared:
        choices = [
            each for each in choices if each <= 1000
        ]  # its matrix of 20,000 × 20,000 takes 3 GB and 20 s
    classes = draw(st.sampled_from(choices))
    method = draw(methods(kind, classes))
    given_labels = draw(st.lists(st.integers(0, classes - 1), min_size=ROWS, max_size=ROWS))
    labels = torch.tensor(given_labels)
    if draw(st.booleans()):
        labels = torch.nn.functional.one_hot(labels, classes) * 0.75 + 0.25 / classes
    learner = LabelLearner(method, labels, PHASES, num_classes=classes, store=store)
    shape, dtype = (
        shapes(method, classes),
        draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16])),
    )
    for learner.epoch in (0.0, 2.0, 3.0, 4.0):
        seen = predicted(draw, shape, torch.float32).detach().softmax(dim=-1)
        learner.survey(lambda seen=seen: iter([(torch.arange(ROWS), seen)]))
        found, logits = losses(learner, draw, shape, dtype)
        assert bool(torch.isfinite(found).all())
        if dtype is not torch.float16:  # which cannot hold the gradient of a loss that counts a million times
            found.mean().backward()
            assert bool(torch.isfinite(logits.grad).all())
        learner.step()
        require_distributions(learner.label_distribution(torch.arange(ROWS)))


def test_a_label_rate_at_its_bound_leaves_cut_rows_whole():
    """At 65,504, the most that half precision holds, a sum of exponentials needs digits that float32 has not."""
    labels = torch.arange(50) % 10
    learner = LabelLearner(Pencil(label_rate=LARGEST, pull=LARGEST), labels, PHASES, store="top:3")
    generator = torch.Generator().manual_seed(0)
    for learner.epoch in (2.0, 2.5, 3.0):
        learner.loss(5 * torch.randn(50, 10, generator=generator), torch.arange(50))
        learner.step()
        require_distributions(learner.label_distribution(torch.arange(50)))
        assert float(learner.labels().confidence.max()) > 0.3
