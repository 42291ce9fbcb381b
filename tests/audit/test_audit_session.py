"""Audits of a real run: drawn, resumed, killed, extended, and about labels that must not change."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from pencil.audit import FrozenLabels, Wanted, answer, begin, current_audit, findings, resumed, sentences
from pencil.audit.bounds import live_bound, most_errors
from pencil.audit.log import LOG, read_audits
from pencil.errors import ConfigError, RunError
from pencil.identity import write_identity
from pencil.run import LabelTable
from support.audits import NAMES, true_label


def all_answers(audit, truth):
    return [(item.number, true_label(truth, item)) for item in audit.items]


def test_the_sample_is_of_changed_labels_and_hides_which_is_which(run, labels):
    audit = begin(run, labels, Wanted(looks=30, seed=5))
    changed = set(labels.rows_of("relabel").tolist())
    assert audit.plan.sizes == {"relabel": len(changed)}
    assert len(audit.items) == 33
    assert {item.row for item in audit.items} <= changed
    for item in audit.items:
        assert item.suggested != item.given
        assert {item.suggested, item.given} <= set(item.choices)
    places = {item.choices.index(item.suggested) for item in audit.items}
    assert places == {0, 1, 2}


def test_a_resumed_audit_continues_with_the_same_draw(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=20, seed=5))
    some = all_answers(audit, truth)[:7]
    answer(run, audit, labels, some, "ann")
    again = resumed(run, current_audit(run), labels, Wanted())
    assert again.items == audit.items
    assert again.labels == dict(some)
    assert again.next_item.number == 8
    answer(run, again, labels, some, "ann")  # answers that are known are not repeated
    assert len(current_audit(run).answers) == 7


def test_exact_statements_follow_the_last_answer(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=20, seed=5))
    size = audit.plan.sizes["relabel"]
    for left, told in (
        (5, "the bound is stated after 4 more"),
        (1, "the bound is stated after the last repeat"),
    ):
        partly = answer(run, audit, labels, all_answers(audit, truth)[:-left], "ann")
        assert findings(partly)["relabels"]["at_most"] is None
        assert told in sentences(partly, findings(partly))[0]
    whole = answer(run, audit, labels, all_answers(audit, truth), "ann")
    found = findings(whole)
    wrong = sum(item.suggested != true_label(truth, item) for item in audit.items if item.again is None)
    assert found["relabels"]["wrong"] == wrong
    assert found["relabels"]["at_most"] == most_errors(size, 20, wrong, 0.05)
    assert found["agreement"] == {"repeated": 2, "agreed": 2}
    assert sentences(whole, found)[0].startswith(f"of {size:,} changed labels at most ")


def test_live_statements_follow_every_answer(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=20, seed=5, bound="live"))
    for count in (0, 5, 12):
        now = answer(run, audit, labels, all_answers(audit, truth)[:count], "ann")
        new = [pair for pair in now.answered if pair[0].again is None]
        wrong = [label != item.suggested for item, label in new]
        found = findings(now)["relabels"]
        assert found["at_most"] == live_bound(found["size"], wrong, 0.05)
        assert found["thresholds"] is None


def test_labels_that_cannot_be_judged_count_as_wrong_and_disagreement_shows(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=20, seed=5))
    answers = dict(all_answers(audit, truth))
    repeated = next(item for item in audit.items if item.again is not None)
    answers[1] = None
    answers[repeated.number] = next(name for name in NAMES if name != answers[repeated.again])
    found = findings(answer(run, audit, labels, answers.items(), "ann"))
    first = audit.items[0]
    assert found["cannot_tell"] == 1
    assert found["agreement"]["agreed"] == 1
    right = [item.suggested == answers[item.number] for item in audit.items if item.again is None]
    assert found["relabels"]["wrong"] == right.count(False) >= 1
    assert answers[first.number] is None


def test_answers_after_a_gap_do_not_count(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=20, seed=5, bound="live"))
    answers = all_answers(audit, truth)
    now = answer(run, audit, labels, [*answers[:3], *answers[5:9]], "ann")
    assert findings(now)["checked"] == 3


def test_an_extended_sample_has_no_exact_bound_once_answers_were_given(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=10, seed=5))
    unseen = resumed(run, audit, labels, Wanted(looks=15))
    assert answer(run, unseen, labels, all_answers(unseen, truth), "ann").is_complete
    seen = answer(run, unseen, labels, all_answers(unseen, truth), "ann")
    more = resumed(run, seen, labels, Wanted(looks=25))
    assert more.items[: len(seen.items)] == seen.items
    done = answer(run, more, labels, all_answers(more, truth), "ann")
    assert done.next_item is None
    assert not done.is_complete
    assert "--bound live" in sentences(done, findings(done))[0]
    assert resumed(run, done, labels, Wanted(looks=5)) is done


def test_an_audit_of_all_labels_covers_the_true_rates(run, labels, truth):
    audit = begin(run, labels, Wanted(what="all", looks=150, seed=5))
    done = answer(run, audit, labels, all_answers(audit, truth), "ann")
    found = findings(done)["all"]
    given, final = [], []
    for judged in labels.table.chunks():
        true = truth[[int(name) for name in judged.ids]]
        relabel = judged.verdict.numpy() == 1
        given += (judged.given.numpy() != true).tolist()
        final += (judged.suggested.where(judged.verdict == 1, judged.given).numpy() != true).tolist()
        assert relabel.any()
    noise, left = sum(given) / len(given), sum(final) / len(final)
    assert found["noise_rate"]["low"] <= noise <= found["noise_rate"]["high"]
    assert found["remaining_error"]["low"] <= left <= found["remaining_error"]["high"]
    assert found["noise_rate_approximate"]["value"] == pytest.approx(noise, abs=0.05)
    assert len(sentences(done, findings(done))) >= 3


def test_changed_labels_and_other_options_are_rejected(run, labels):
    begin(run, labels, Wanted(looks=10, seed=5))
    known = current_audit(run)
    other = FrozenLabels.of(LabelTable.open(run, 0.0))
    with pytest.raises(RunError, match="the verdict rule of the run is"):
        resumed(run, known, other, Wanted())
    plan = known.plan.model_copy(update={"labels": "0" * 64})
    with pytest.raises(RunError, match="the labels of the run are not those of the audit"):
        resumed(run, type(known)(plan, known.draws, known.answers), labels, Wanted())
    for wanted, option in ((Wanted(seed=6), "--seed"), (Wanted(alpha=0.1), "--confidence")):
        with pytest.raises(ConfigError, match=f"{option}: the audit was begun with"):
            resumed(run, known, labels, wanted)
    with pytest.raises(RunError, match="no label was changed; audit all labels with --what all"):
        begin(run, replace(labels, verdict=0 * labels.verdict), Wanted())


ANSWERING = """
import sys
from pathlib import Path
from pencil.audit import FrozenLabels, answer, current_audit
from pencil.run import LabelTable, RunDirectory
directory = RunDirectory.open(Path(sys.argv[1]))
audit, labels = current_audit(directory), FrozenLabels.of(LabelTable.open(directory, entry=0))
for item in audit.items:
    audit = answer(directory, audit, labels, [(item.number, item.choices[0])], "ann")
    print(item.number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seen", [1, 7])
def test_no_answer_is_lost_when_the_process_is_killed(run, labels, seen):
    audit = begin(run, labels, Wanted(looks=60, seed=5))
    process = subprocess.Popen(
        [sys.executable, "-c", ANSWERING, str(run.path)], stdout=subprocess.PIPE, text=True
    )
    lines = [process.stdout.readline() for _ in range(seen)]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert lines[-1] == f"{seen}\n"
    kept = current_audit(run)
    assert len(kept.answers) >= seen
    assert kept.labels == {item.number: item.choices[0] for item in audit.items[: len(kept.answers)]}


def test_an_incomplete_line_is_dropped_and_overwritten(run, labels, truth):
    audit = begin(run, labels, Wanted(looks=10, seed=5))
    answer(run, audit, labels, all_answers(audit, truth)[:2], "ann")
    with (run.path / LOG).open("ab") as file:
        file.write(b'{"answer": {"look": 3, "la')
    kept = current_audit(run)
    assert len(kept.answers) == 2
    answer(run, kept, labels, all_answers(audit, truth)[:4], "ann")
    assert len(current_audit(run).answers) == 4
    for line in (run.path / LOG).read_text().splitlines():
        json.loads(line)


def test_answers_and_draws_of_an_audit_are_refused_after_another_was_begun(run, labels, truth):
    old = begin(run, labels, Wanted(looks=10, seed=5, bound="live"))
    begin(run, labels, Wanted(looks=10, seed=5, bound="live"))  # the same labels
    before = (run.path / LOG).read_bytes()
    with pytest.raises(RunError, match="another one"):
        answer(run, old, labels, all_answers(old, truth), "ann")
    with pytest.raises(RunError, match="another one"):
        resumed(run, old, labels, Wanted(looks=20))
    assert (run.path / LOG).read_bytes() == before


def test_an_answer_goes_to_the_audit_that_it_names(run, labels, truth):
    old = begin(run, labels, Wanted(looks=10, seed=5))
    answer(run, old, labels, all_answers(old, truth)[:2], "ann")
    lines = (run.path / LOG).read_bytes().splitlines(keepends=True)
    new = begin(run, labels, Wanted(looks=10, seed=6))
    with (run.path / LOG).open("ab") as file:
        file.writelines(lines[2:])  # as if the answers came late
    first, second = read_audits(run.path)
    assert (first.plan, len(first.answers)) == (old.plan, 4)
    assert (second.plan, len(second.answers)) == (new.plan, 0)
    with (run.path / LOG).open("ab") as file:
        file.write(lines[2].replace(old.plan.id.encode(), b"unknown"))
    with pytest.raises(RunError, match="plan"):
        read_audits(run.path)


def test_a_log_from_before_there_were_ids_is_read_and_continued(run, labels, truth):
    """Its plans name no run, so only a run without an id has one."""
    labels = replace(labels, run="")
    (run.path / "run.json").unlink(missing_ok=True)
    for seed in (5, 6):
        audit = begin(run, labels, Wanted(looks=10, seed=seed))
        answer(run, audit, labels, all_answers(audit, truth)[:seed], "ann")
    lines = [json.loads(line) for line in (run.path / LOG).read_text().splitlines()]
    for line in lines:
        for part in line.values():
            for name in ("id", "run", "audit"):
                part.pop(name, None)
    (run.path / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [len(audit.answers) for audit in read_audits(run.path)] == [5, 6]
    known = current_audit(run)
    assert (known.plan.seed, known.plan.id) == (6, "")
    answer(run, known, labels, all_answers(known, truth), "ann")
    begin(run, labels, Wanted(looks=10, seed=7))
    assert [len(audit.labels) for audit in read_audits(run.path)] == [5, 11, 0]
    with pytest.raises(RunError, match="another one"):
        answer(run, known, labels, [(1, None)], "ann")


def test_a_log_of_another_run_is_refused(run, labels, truth, tmp_path):
    audit = begin(run, labels, Wanted(looks=10, seed=5))
    (tmp_path / "other").mkdir()
    write_identity(tmp_path / "other")
    (tmp_path / "other" / LOG).write_bytes((run.path / LOG).read_bytes())
    with pytest.raises(RunError, match="another run"):
        read_audits(tmp_path / "other")
    write_identity(run.path)  # as if the folder held another run now
    with pytest.raises(RunError, match="another run"):
        answer(run, audit, labels, all_answers(audit, truth), "ann")


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"answer": {"look": 1}}', "[]", '{"draw": null, "more": 1}', "\udc80"]
)
def test_a_damaged_log_is_one_message(run, labels, line):
    begin(run, labels, Wanted(looks=10, seed=5))
    with (run.path / LOG).open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(RunError, match=r"audit\.jsonl, line 3: .*restore the file"):
        read_audits(run.path)
