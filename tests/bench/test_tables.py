"""Tables as they are printed."""

import pytest

from pencil.bench import METRICS, compare, tabulate
from pencil.cli import bench as command
from pencil.errors import ConfigError

ACCURACIES = {
    ("cross_entropy", "default", "symmetric_40"): (0.50, 0.52, 0.51),
    ("cross_entropy", "default", "clean"): (0.72, 0.72, 0.72),
    ("pencil", "default", "symmetric_40"): (0.66, 0.67, 0.68),
    ("pencil", "default", "clean"): (0.71, 0.73),
    ("pencil", "slow", "symmetric_40"): (0.60,),
}


@pytest.fixture
def lines():
    return [
        {
            **{"data": "cub", "noise": noise, "method": method, "variant": variant, "seed": seed},
            **{"test_last": value, "test_best": value + 0.01, "f1": None, "forward_passes": 269750},
        }
        for (method, variant, noise), values in ACCURACIES.items()
        for seed, value in enumerate(values)
    ]


def test_best_and_last_in_markdown(lines):
    assert tabulate(lines).splitlines() == [
        "cub: best: test accuracy of the epoch best on noisy validation rows, %; last: test accuracy of the last "
        "epoch, %; mean ± standard deviation over 1 to 3 seeds",
        "",
        "| method |  | symmetric_40 | clean |",
        "| --- | --- | --- | --- |",
        "| cross_entropy | best | 52.0 ± 1.0 | 73.0 ± 0.0 |",
        "| cross_entropy | last | 51.0 ± 1.0 | 72.0 ± 0.0 |",
        "| pencil | best | 68.0 ± 1.0 | 73.0 ± 1.4 |",
        "| pencil | last | 67.0 ± 1.0 | 72.0 ± 1.4 |",
        "| pencil/slow | best | 61.0 | – |",
        "| pencil/slow | last | 60.0 | – |",
    ]


def test_one_metric_in_latex(lines):
    assert tabulate(lines, ["last"], "latex").splitlines() == [
        "% cub: test accuracy of the last epoch, %; mean ± standard deviation over 1 to 3 seeds",
        r"\begin{tabular}{lrr}",
        r"\hline",
        r"method & symmetric\_40 & clean \\",
        r"\hline",
        r"cross\_entropy & 51.0 $\pm$ 1.0 & 72.0 $\pm$ 0.0 \\",
        r"pencil & 67.0 $\pm$ 1.0 & 72.0 $\pm$ 1.4 \\",
        r"pencil/slow & 60.0 & -- \\",
        r"\hline",
        r"\end{tabular}",
    ]


def test_differences_are_paired_by_seed(lines):
    """Symmetric: 16, 15, 17: mean 16, s = 1, t_2 / √3 = 2.4841. Clean: -1, 1: mean 0, s = √2, t_1 = 12.706."""
    assert compare(lines, "cross_entropy").splitlines() == [
        "cub: test accuracy of the last epoch, %, minus that of cross_entropy; paired by seed, 1 to 3 seeds, "
        "with 95 % confidence intervals",
        "",
        "| method | symmetric_40 | clean |",
        "| --- | --- | --- |",
        "| pencil | +16.0 [+13.5, +18.5] | +0.0 [-12.7, +12.7] |",
        "| pencil/slow | +10.0 | – |",
    ]


def test_what_is_nowhere_known_is_a_dash_and_numbers_have_groups(lines):
    assert "| pencil | – | – |" in tabulate(lines, ["f1"]).splitlines()
    assert "| cross_entropy | 269,750 ± 0 | 269,750 ± 0 |" in tabulate(lines, ["forward_passes"]).splitlines()


def test_every_data_set_has_its_table(lines):
    other = [{**line, "data": "other"} for line in lines]
    assert tabulate(lines + other, ["last"]).count("| method | symmetric_40 | clean |") == 2


def test_without_validation_there_is_no_best(lines):
    assert "best" not in tabulate([{**line, "test_best": None} for line in lines])


def test_an_unknown_reference_and_no_results_are_named(lines):
    with pytest.raises(ConfigError, match=r"--against pensil: .* did you mean 'pencil'"):
        compare(lines, "pensil")
    with pytest.raises(ConfigError, match="the results are empty"):
        tabulate([])


def test_the_command_offers_every_metric():
    assert tuple(METRICS) == command.METRICS
