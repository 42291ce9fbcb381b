"""What a type checker sees behind ``import pencil``: mypy checks this file, nothing runs it.

A name that is imported lazily and not declared for type checkers is ``Any`` to them, and fails here.
"""

from pathlib import Path
from typing import assert_type

from torch import Tensor

import pencil
from pencil.algorithm import CosineSchedule, LinearSchedule, Pencil, Phase, PiecewiseSchedule
from pencil.config import RunConfig
from pencil.data.example import Example
from pencil.engine import LabelLearner, LearnedLabels
from pencil.errors import PencilError
from pencil.integrations.sklearn import PencilClassifier
from pencil.methods import CrossEntropy, DivideMix
from pencil.notebook import Run
from pencil.results import VerdictRule
from pencil.results.label_errors import LabelErrors
from pencil.results.table import Table
from pencil.stores import GivenLabels


def classes(labels: Tensor, errors: pencil.LabelErrors) -> None:
    assert_type(errors, LabelErrors)
    assert_type(pencil.CosineSchedule(1.0), CosineSchedule)
    assert_type(pencil.CrossEntropy(), CrossEntropy)
    assert_type(pencil.GivenLabels.of(labels), GivenLabels)
    assert_type(pencil.LabelLearner(Pencil(), labels, []), LabelLearner)
    assert_type(pencil.LearnedLabels(labels, labels, labels, labels), LearnedLabels)
    assert_type(pencil.LabelLearner(Pencil(), labels, []).labels().table, Table)
    assert_type(pencil.LabelLearner(Pencil(), [0, 1, 1], [], trusted=[True, False, False]), LabelLearner)
    assert_type(pencil.LabelLearner(Pencil(), [[0.5, 0.5], [1.0, 0.0]], []), LabelLearner)
    assert_type(pencil.GivenLabels.of([0, 1, 1]), GivenLabels)
    assert_type(pencil.LinearSchedule(1.0), LinearSchedule)
    assert_type(pencil.Pencil(), Pencil)
    assert_type(pencil.PencilClassifier(), PencilClassifier)
    assert_type(pencil.PencilError("wrong").with_traceback(None), PencilError)
    assert_type(pencil.Phase(name="backbone", epochs=1, learning_rate=0.1), Phase)
    assert_type(pencil.PiecewiseSchedule((1.0,), ()), PiecewiseSchedule)
    assert_type(pencil.VerdictRule(), VerdictRule)
    assert_type(pencil.methods.DivideMix(), DivideMix)


def functions(path: Path) -> None:
    phases = pencil.three_phases(1, 2, 3, learning_rate=0.1, finetune_rate=0.1)
    assert_type(phases, tuple[Phase, ...])
    assert_type(pencil.flip_certificates(Pencil(), phases), list[str])
    assert_type(pencil.train(pencil.RunConfig.read(path), path), pencil.Run)
    assert_type(pencil.RunConfig.read(path), RunConfig)
    assert_type(pencil.find_errors([[0.0]], [0]), LabelErrors)
    assert_type(pencil.example(), Example)
    assert_type(pencil.open_run(path), Run)
    assert_type(pencil.prototype_start(Tensor(), Tensor()), Tensor)
    assert_type(pencil.Run(path).labels, Table)
    assert_type(pencil.__version__, str)
