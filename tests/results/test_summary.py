"""The last epoch, the best one by validation, and what looks wrong."""

from pencil.results.summary import alarms, drift, many_changes, summarize


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


def test_drift_is_a_fall_after_a_peak_within_correction():
    scores = [(1, "backbone", 0.95), (2, "correction", 0.70), (3, "correction", 0.66), (4, "finetune", 0.1)]
    metrics = [line(epoch, phase, validation_accuracy=score) for epoch, phase, score in scores]
    sentence = drift(metrics)
    assert "peaked at 70.0%" in sentence
    assert "ended it at 66.0%" in sentence
    assert "fewer correction epochs or a smaller method.label_rate" in sentence
    assert drift(metrics[:2]) is None


def test_a_small_fall_or_no_validation_is_no_drift():
    assert drift([line(1, validation_accuracy=0.70), line(2, validation_accuracy=0.68)]) is None
    assert drift([line(1), line(2)]) is None


def test_more_labels_changed_than_kept_is_an_alarm():
    assert "60% of the labels were changed" in many_changes([line(1, labels_changed=6)], 10)
    assert many_changes([line(1, labels_changed=5)], 10) is None


def test_alarms_are_all_listed():
    metrics = [
        line(1, validation_accuracy=0.9),
        line(2, labels_changed=9, validation_accuracy=0.1),
    ]
    assert [sentence.split()[0] for sentence in alarms(metrics, num_rows=10)] == ["labels", "90%"]
    assert alarms([line(1)], num_rows=10) == []


def test_a_run_whose_metrics_are_lost_has_a_summary_that_says_so():
    summary = summarize([], num_rows=10, labels_changed=4)
    assert (summary["examples"], summary["labels_changed"], summary["last"]) == (10, 4, {})
    assert summary["alarms"][0].startswith("the metrics of all epochs are lost")
