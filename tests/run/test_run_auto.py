"""A run with plan = "auto": it decides by itself, tells why, and resumes from its settings alone."""

import pytest

from pencil.engine import read_json_lines
from pencil.errors import PlanWarning
from pencil.identity import unsealed
from pencil.methods import CrossEntropy
from pencil.report.contents import choices_of
from pencil.run import resume, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config(make_config):
    noise = {"kind": "symmetric", "rate": 0.3}
    data = {"noise": noise, "validation": 0.3}
    return make_config(epochs=(2, 5, 1), plan="auto", data=data, checkpoint={"steps": 5})


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("runs") / "whole")


class Die:
    """Ends the process's training after some steps, as a kill would."""

    def __init__(self, step):
        self.step = step

    def handle(self, event):
        if event.kind == "step" and event.step == self.step:
            raise KeyboardInterrupt

    def close(self):
        pass


def results(directory):
    files = [directory.path / "model.safetensors", *sorted(directory.labels.iterdir())]
    return [unsealed(file) for file in files]


def test_every_choice_has_its_reason_in_summary_metrics_and_report(undisturbed):
    choices = undisturbed.summary["choices"]
    assert choices
    assert all("held-out agreement" in each["reason"] for each in choices)
    told = {
        line["epoch"]: line["reason"] for line in read_json_lines(undisturbed.metrics) if "reason" in line
    }
    assert told.items() >= {each["epoch"]: each["reason"] for each in choices[-1:]}.items()
    assert choices_of(undisturbed.summary)[0].startswith(f"Epoch {choices[0]['epoch']}: held-out agreement")


def test_without_held_out_rows_a_warning_says_that_the_plan_stays(make_config, tmp_path):
    with pytest.warns(PlanWarning, match=r"plan: 'auto' decides by held-out rows.*data.validation=0.1, or"):
        train(make_config(plan="auto", data={"validation": 0}), tmp_path / "run")
    baseline = make_config(plan="auto", data={"validation": 0}).model_copy(update={"method": CrossEntropy()})
    train(baseline, tmp_path / "baseline")


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_killed_run_resumes_without_being_given_a_policy(config, undisturbed, tmp_path, part):
    steps = read_json_lines(undisturbed.metrics)[-1]["step"]
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", [Die(int(part * steps))])
    resumed = resume(tmp_path / "run")
    assert resumed.summary["choices"] == undisturbed.summary["choices"]
    assert results(resumed) == results(undisturbed)


def test_a_fixed_plan_decides_nothing(config, tmp_path):
    fixed = config.model_copy(update={"plan": "fixed"})
    run = train(fixed, tmp_path / "run")
    assert "choices" not in run.summary
    assert [line["epoch"] for line in read_json_lines(run.metrics)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_method_that_corrects_nothing_follows_its_phases(config, tmp_path):
    table = config.table() | {"method": {"name": "cross_entropy"}}
    run = train(type(config).of(table), tmp_path / "run")
    assert "choices" not in run.summary
