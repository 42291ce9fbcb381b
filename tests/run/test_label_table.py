"""The labels of a run by row: what people decided about some rows, in every figure that follows from it."""

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pencil.belief import NO_CLASS
from pencil.belief.answers import FEWEST
from pencil.errors import RunError
from pencil.estimates import Alarm
from pencil.results import KEEP, RELABEL, read_estimates, write_estimates
from pencil.results.judged import runners_up
from pencil.review.elsewhere import MadeElsewhere, record
from pencil.run import LabelTable, RunDirectory
from support import runs

ROWS, CLASSES = 400, 6


def read(run, **options):
    table = LabelTable.open(RunDirectory.open(run), **options)
    return table, list(table.chunks())


def suspicious_run(folder, *, store="dense", passed=True, seed=0):
    """A run that doubts every other label, more or less."""
    random = torch.Generator().manual_seed(seed)
    given = torch.randint(CLASSES, (ROWS,), generator=random)
    logits = torch.randn(ROWS, CLASSES, generator=random)
    logits[torch.arange(ROWS), torch.where(torch.arange(ROWS) % 2 == 0, (given + 1) % CLASSES, given)] += 5
    run = runs.run_of_logits(folder, logits, given, store=store)
    if not passed:
        alarm = Alarm("unclear", "they may be blurred", "answer some")
        write_estimates(run, replace(read_estimates(run, CLASSES), surest=0.0, alarms=[alarm]))
    return run


def decide(run, rows, choose):
    """Decide each row as the suggested or the given class."""
    table, made = LabelTable.open(RunDirectory.open(run), entry=0), []
    for row in rows:
        judged = table.row(row)
        given, other = int(judged.given), int(runners_up(judged.distribution, judged.given)[1])
        made.append(
            MadeElsewhere(row, judged.ids[0], {"given": given, "other": other}[choose], given, other, "ann")
        )
    record(RunDirectory.open(run), "test", made)


def counts(chunks, decided):
    """The relabelled rows besides the decided ones, and how likely their labels are wrong."""
    (judged,) = chunks
    others = torch.ones(ROWS, dtype=torch.bool)
    others[decided] = False
    return int((judged.verdict[others] == RELABEL).sum()), float(judged.p_wrong[others].mean())


@pytest.mark.parametrize("store", ["dense", "top:3"])
@pytest.mark.parametrize("choose", ["given", "other"])
def test_decisions_release_or_withhold_the_other_rows(tmp_path, store, choose):
    run = suspicious_run(tmp_path / "run", store=store, passed=choose == "given")
    table, before = read(run)
    asked = table.ask(FEWEST)
    assert len(asked) == FEWEST
    decide(run, asked, choose)
    table, after = read(run)
    old, new = counts(before, asked), counts(after, asked)
    if choose == "other":
        assert old[0] == 0 < 50 < new[0]
        assert new[1] > old[1]
        assert table.estimates.alarms == []
    else:
        assert old[0] > 50 > 0 == new[0]
        assert new[1] < old[1]
    assert not set(asked) & set(table.ask(ROWS))
    assert table.estimates.rate.value == pytest.approx(float(after[0].p_wrong.mean()), abs=1e-3)
    assert after[0].verdict[asked].tolist() == [KEEP if choose == "given" else RELABEL] * FEWEST
    torch.testing.assert_close(read(run, entry=0)[1][0].p_wrong, before[0].p_wrong)


def test_few_decisions_say_nothing_about_other_rows(tmp_path):
    run = suspicious_run(tmp_path / "run", passed=False)
    asked = LabelTable.open(RunDirectory.open(run)).ask(FEWEST - 1)
    before = read(run)[1]
    decide(run, asked, "other")
    table, after = read(run)
    assert counts(after, asked) == counts(before, asked)
    assert [alarm.name for alarm in table.estimates.alarms] == ["unclear"]
    assert table.estimates.rate.value == pytest.approx(float(after[0].p_wrong.mean()), abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [FEWEST // 2, 2 * FEWEST])
def test_the_table_says_what_the_belief_says_after_the_same_answers(tmp_path, seed, number):
    run = suspicious_run(tmp_path / "run", seed=seed)
    table = LabelTable.open(RunDirectory.open(run))
    belief, asked = table.belief(), table.ask(number)
    assert belief.ask(number).tolist() == asked
    decide(run, asked[::2], "given")
    decide(run, asked[1::2], "other")
    table, (judged,) = read(run)
    found = belief.answered(table.answers).decided()
    assert torch.equal(table.belief().decided().replaced, found.replaced)
    assert torch.equal(judged.verdict == RELABEL, found.replaced)
    torch.testing.assert_close(judged.p_wrong, found.p_wrong)
    torch.testing.assert_close(judged.confidence, found.confidence)


def test_the_table_is_one_after_so_many_entries(tmp_path):
    run = suspicious_run(tmp_path / "run")
    asked = LabelTable.open(RunDirectory.open(run)).ask(2 * FEWEST)
    for rows in (asked[:FEWEST], asked[FEWEST:]):
        decide(run, rows, "other")
    found = [counts(read(run, entry=entry)[1], asked)[1] for entry in (0, FEWEST, 2 * FEWEST)]
    assert len(set(found)) == 3
    assert max(found[1:]) > found[0]
    assert read(run)[0].entry == 2 * FEWEST
    assert NO_CLASS not in read(run)[0].answers.values()


def test_suggestions_count_as_no_surer_than_the_estimates_allow(tmp_path):
    run = runs.run_of_logits(tmp_path / "run", *runs.random_rows(200, 2, scale=9.0))
    assert (read(run)[0].thresholds < 1).any()
    write_estimates(run, replace(read_estimates(run, 2), surest=0.85))
    assert (read(run)[0].thresholds > 1).all()


@pytest.mark.parametrize("wrong", [float("nan"), -0.1])
def test_rows_that_are_no_probabilities_are_refused(tmp_path, wrong):
    run = runs.run_of_logits(tmp_path / "run", *runs.random_rows(60, 8))
    (part,) = (run / "posterior").glob("*.safetensors")
    with safe_open(part, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(part)
    (name,) = (name for name, value in tensors.items() if value.shape == (60, 8))
    tensors[name][3, 0] = wrong
    save_file(tensors, part, metadata)
    runs.reseal(part)
    with pytest.raises(RunError, match="rows 0 to 59 contain invalid probabilities; do not use these labels"):
        read(run)
