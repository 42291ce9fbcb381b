"""The last epoch, the best one by validation, and what looks wrong."""

from pencil.estimates import Alarm
from pencil.results import alarm_record, alarm_sentence, summarize
from pencil.results.summary import too_many_changes


def line(epoch, phase="correction", **values):
    return {"epoch": epoch, "phase": phase, "loss": 0.5, "labels_changed": 3, "seconds": 0.5, **values}


def test_the_last_epoch_is_told_with_changes_and_seconds():
    metrics = [line(1, loss=1.0), line(2, labels_changed=4, test_accuracy=0.9, train_agreement=0.7)]
    assert summarize(metrics, num_rows=10) == {
        "examples": 10,
        "labels_changed": 4,
        "last": {"epoch": 2, "loss": 0.5, "train_agreement": 0.7, "test_accuracy": 0.9},
        "seconds": 1.0,
        "alarms": [],
    }


def test_the_best_epoch_is_chosen_on_validation_never_on_test():
    metrics = [
        line(1, validation_accuracy=0.60, test_accuracy=0.99),
        line(2, validation_accuracy=0.62, test_accuracy=0.50),
        line(3, validation_accuracy=0.61, test_accuracy=0.98),
    ]
    best = summarize(metrics, num_rows=10)["best"]
    assert (best["epoch"], best["validation_accuracy"], best["test_accuracy"]) == (2, 0.62, 0.50)


def test_without_validation_there_is_no_best_epoch():
    metrics = [line(1, test_accuracy=0.99), line(2, test_accuracy=0.5)]
    assert "best" not in summarize(metrics, num_rows=10)


def test_epochs_that_were_not_evaluated_are_no_candidates():
    metrics = [line(1), line(2, validation_accuracy=0.1), line(3)]
    assert summarize(metrics, num_rows=10)["best"]["epoch"] == 2


def test_more_changes_than_the_estimate_allows_are_an_alarm():
    alarm = too_many_changes(30, 100, 0.25)
    assert alarm.words.startswith("30.0 % of the labels were changed, but at most 25.0 %")
    assert "at least 5.0 % of all labels were right" in alarm.words
    assert "pencil audit" in alarm.remedy
    assert too_many_changes(25, 100, 0.25) is None
    assert too_many_changes(3, 10, 0.25) is None  # 2.5 rows are rounded up


def test_without_an_estimate_more_than_half_is_too_much():
    assert too_many_changes(6, 10, None).words == "60.0 % of the labels were changed"
    assert too_many_changes(5, 10, None) is None


def test_alarms_of_training_and_of_the_end_are_all_listed():
    drift = alarm_record(Alarm("drift", "labels drift", "better features"), "correction was ended", 7)
    found = summarize([line(9, labels_changed=9)], num_rows=10, alarms=[drift])["alarms"]
    assert [(record["name"], record["epoch"]) for record in found] == [("drift", 7), ("changes", None)]
    assert found[1]["action"] == "reported only"
    early = alarm_record(Alarm("changes", "too many", "audit"), "correction was ended", 3)
    assert summarize([line(9, labels_changed=9)], num_rows=10, alarms=[early])["alarms"] == [early]
    assert summarize([line(9)], num_rows=10, noise_rate_high=0.2)["alarms"][0]["name"] == "changes"
    assert summarize([line(9)], num_rows=10, noise_rate_high=0.3)["alarms"] == []


def test_changes_that_were_only_reported_are_judged_by_the_last_estimate():
    early = alarm_record(Alarm("changes", "too many", "audit"), epoch=3)
    drift = alarm_record(Alarm("drift", "labels drift", "better features"), epoch=4)
    for high, expected in ((0.3, [drift]), (0.2, [drift, alarm_record(too_many_changes(3, 10, 0.2))])):
        assert (
            summarize([line(9)], num_rows=10, alarms=[early, drift], noise_rate_high=high)["alarms"]
            == expected
        )


def test_an_alarm_for_people_has_epoch_action_and_remedy():
    record = alarm_record(Alarm("drift", "labels drift", "better features"), "correction was ended", 7)
    assert alarm_sentence(record) == "epoch 7: labels drift; correction was ended. Remedy: better features"
    late = alarm_record(Alarm("changes", "too many", "audit"))
    assert alarm_sentence(late) == "too many. Remedy: audit"


def test_a_run_whose_metrics_are_lost_has_a_summary_that_says_so():
    summary = summarize([], num_rows=10, labels_changed=4)
    assert (summary["examples"], summary["labels_changed"], summary["last"]) == (10, 4, {})
    assert summary["alarms"][0]["words"].startswith("the metrics of all epochs are lost")
