"""Label table, report, review, exports, notebook, estimator and find_errors give every row the same verdict."""

import csv
import json
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from click.testing import CliRunner

from pencil import find_errors, open_run
from pencil.cli.main import cli
from pencil.config import RunConfig
from pencil.export.tools import ExportOptions, export
from pencil.presets import preset
from pencil.report import gather
from pencil.results import VERDICTS
from pencil.review import Review
from pencil.review.history import Who
from pencil.run import LabelTable, RunDirectory, train

pytestmark = pytest.mark.slow

ACTIONS = ("accept", "keep", "choose", "drop")
DECIDED = 4
ANN = Who("Ann", "window")


def make_run(folder, points, rule=None) -> RunDirectory:
    """Some labels verified before training."""
    names, numbers = np.unique(points.noisy, return_inverse=True)
    np.savez(folder / "points.npz", X=points.values, y=numbers, names=names)
    with (folder / "verified.csv").open("w", newline="", encoding="utf-8") as file:
        verified = [(row, points.noisy[row]) for row in range(0, len(numbers), 7)]
        csv.writer(file).writerows([("id", "label"), *verified])
    table = preset("features", str(folder / "points.npz")).table()
    table["data"]["trusted"] = {"path": str(folder / "verified.csv")}
    table |= {} if rule is None else {"verdict": rule}
    with pytest.warns(UserWarning, match="taken for row numbers"):
        return train(RunConfig.of(table), folder / "run")


def review_some(run: RunDirectory, count: int = DECIDED) -> dict[str, str]:
    """Decide about the first items, each action in turn; returns the verdict that the review shows for each id."""
    shown = {}
    with closing(Review(run, with_sure=True)) as review:
        answer = review.take(ANN.client)
        while (item := answer["items"][0]) is not None:
            number, action = len(shown), ACTIONS[len(shown) % len(ACTIONS)]
            if number < count:
                wanted = (item["given"] + 1) % 4 if action == "choose" else None
                answer = review.decide(ANN, f"t{number}", [(item["row"], item["version"])], action, wanted)
                shown[item["id"]] = answer["made"][0]["verdict"]
            else:
                shown[item["id"]] = item["verdict"]
                answer = review.decide(ANN, f"t{number}", [(item["row"], item["version"])], "drop")
                review.undo(ANN, f"u{number}")  # the queue must go on, but the row stays undecided
                answer = review.decide(ANN, f"s{number}", [(item["row"], item["version"] + 2)], "skip")
            if len(shown) == review.progress()["total"]:
                break
    return shown


def table_of(run: RunDirectory, out) -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(cli, ["labels", str(run.path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    with out.open(newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def exported(run: RunDirectory, folder) -> list[dict[str, str]]:
    """The verdict of each id, as each tool that shows verdicts gets it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    for tool, name in (("label-studio", "tasks.json"), ("fiftyone", "fo"), ("datasets", "l.parquet")):
        export(run, tool, folder / name, ExportOptions())
    tasks = json.loads((folder / "tasks.json").read_text())
    samples = json.loads((folder / "fo" / "samples.json").read_text())["samples"]
    rows = parquet.read_table(folder / "l.parquet").to_pylist()
    return [
        {task["data"]["pencil_id"]: task["data"]["verdict"] for task in tasks},
        {sample["pencil_id"]: sample["tags"][0] for sample in samples},
        {row["id"]: VERDICTS[row["verdict"]] for row in rows},
    ]


@pytest.mark.parametrize("rule", [None, {"max_false_relabels": 0.01}], ids=["default", "strict"])
def test_all_agree_on_every_row_of_a_reviewed_run(points, tmp_path, rule):
    run = make_run(tmp_path, points, rule)
    shown = review_some(run)
    table = table_of(run, tmp_path / "labels.csv")
    verdicts = {name: row["verdict"] for name, row in table.items()}
    trusted = {str(row) for row in range(0, len(verdicts), 7)}
    assert {"keep", "relabel", "drop"} <= set(verdicts.values())
    assert {verdicts[name] for name in trusted} == {"keep"}
    assert Counter(row["decision"] for row in table.values() if row["decision"])["dropped"] == 1

    assert set(shown) == set(verdicts) - trusted  # the review asks about all others
    assert shown == {name: verdicts[name] for name in shown}
    assert exported(run, tmp_path) == [verdicts] * 3
    opened = open_run(run.path).labels
    assert dict(zip(opened["id"], opened["verdict"], strict=True)) == verdicts
    errors = open_run(run.path).errors
    assert dict(zip(opened["id"], errors.verdict, strict=True)) == verdicts
    some = opened["verdict"] != "drop"  # whose label is wrong by the answer, whatever the table believed
    np.testing.assert_allclose(errors.p_wrong[some], opened["p_wrong"][some], atol=1e-6)
    least = LabelTable.open(run).estimates.rate.low
    assert errors.noise.at_least == pytest.approx(least, abs=1 / len(opened["id"]))
    sure = np.where(opened["verdict"] == "relabel", opened["suggested"], opened["given"])
    assert errors.labels().tolist() == sure.tolist()
    words = ["labels", str(run.path), "--out", str(tmp_path / "best.csv"), "--take", "best"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    with (tmp_path / "best.csv").open(newline="", encoding="utf-8") as file:
        best = np.array([row["label"] for row in csv.DictReader(file)])
    assert errors.labels("best")[some].tolist() == best[some].tolist()
    assert opened["decision"].tolist() == [row["decision"] for row in table.values()]
    assert set(opened["id"][opened["trusted"]]) == trusted

    report = gather(run, read_data=False)
    by_class = Counter((row["given_label"], row["verdict"]) for row in table.values())
    for label, name in enumerate(report.class_names):
        for number, verdict in enumerate(VERDICTS):
            assert int(report.counts.verdicts[label, number]) == by_class[name, verdict]
    for example in [*report.corrections, *report.reviews]:
        assert example.case.verdict == verdicts[example.case.id]
        assert not table[example.case.id]["decision"]

    if rule is None:
        undecided = {name: row["verdict"] for name, row in table.items() if not row["decision"]}
        assert len(undecided) == len(table) - DECIDED
        for verdict in in_memory(points):
            assert {name: verdict[int(name)] for name in undecided} == undecided


def in_memory(points) -> list[np.ndarray]:
    """The verdict of each row by the estimator and by find_errors, which know trusted rows and no decisions."""
    sklearn = pytest.importorskip("pencil.integrations.sklearn")
    trusted = np.arange(len(points.noisy)) % 7 == 0
    fitted = sklearn.PencilClassifier(random_state=0).fit(points.values, points.noisy, trusted=trusted)
    found = find_errors(points.values, points.noisy, trusted=trusted)
    np.testing.assert_allclose(fitted.p_wrong_, found.p_wrong, atol=1e-6)
    assert fitted.noise_.rate.value == pytest.approx(found.noise.rate, abs=1e-6)
    assert fitted.noise_.rate.low == pytest.approx(found.noise.at_least, abs=1e-6)
    return [fitted.verdicts_, fitted.errors_.verdict, found.verdict]
