"""Epochs as curves and phases."""

from pencil.report.curves import Span, curve, share_curves, spans, thinned


def test_phases_span_their_epochs(make_lines):
    assert spans(make_lines(3)) == [Span("backbone", 1, 2), Span("correction", 3, 5), Span("finetune", 6, 6)]


def test_curves_are_what_was_measured_and_is_a_number(make_lines):
    lines = make_lines(3)
    lines[2]["test_accuracy"] = float("nan")
    del lines[3]["test_accuracy"]
    assert [epoch for epoch, _ in curve(lines, "test_accuracy", "t").points] == [1, 2, 5, 6]
    assert [each.name for each in share_curves(lines)] == ["Test accuracy", "Training agreement"]


def test_many_epochs_are_thinned_with_both_ends():
    lines = [{"epoch": epoch} for epoch in range(1, 3001)]
    kept = [line["epoch"] for line in thinned(lines, 400)]
    assert (len(kept), kept[0], kept[-1]) == (400, 1, 3000)
    assert kept == sorted(set(kept))
    assert thinned(lines[:400], 400) == lines[:400]
