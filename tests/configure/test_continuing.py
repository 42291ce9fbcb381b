"""``pencil train --from RUN``: the settings of the new run."""

import numpy as np
import pytest
from click.testing import CliRunner

from pencil.cli.main import cli
from pencil.configure import continued
from pencil.errors import ConfigError
from pencil.run import RunDirectory


def call(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.exception or result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Features in a file of their own, their labels in another, and a run that learned from other labels yet."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    np.save(folder / "x.npy", (3 * np.eye(5)[labels] + rng.normal(size=(90, 5))).astype(np.float32))
    np.save(folder / "y.npy", labels)
    np.save(folder / "noisy.npy", (labels + (np.arange(90) % 4 == 0)) % 3)
    words = (
        "--set",
        f"data.labels={folder / 'y.npy'}",
        "--noise",
        folder / "noisy.npy",
        "--set",
        "data.limit=80",
    )
    call("train", folder / "x.npy", *words, "--epochs", "1,4,1", "--out", folder / "run", "--quiet")
    return folder


@pytest.mark.parametrize("named", [True, False])
def test_what_belongs_to_the_rows_stays_with_the_same_data(folder, tmp_path, named):
    call(
        "train",
        *([folder / "x.npy"] if named else []),
        "--from",
        folder / "run",
        "--out",
        tmp_path / "run",
        "--quiet",
    )
    before, after = (RunDirectory.open(run).config.data for run in (folder / "run", tmp_path / "run"))
    assert (after.labels, after.noise, after.limit) == (before.labels, before.noise, 80)


def test_other_data_has_labels_of_its_own(folder, tmp_path):
    np.savez(tmp_path / "more.npz", X=np.load(folder / "x.npy"), y=np.load(folder / "y.npy"))
    with pytest.warns(
        UserWarning, match=r"more\.npz is not the data of the earlier run, so .*: noise, limit, labels"
    ):
        table = continued(str(tmp_path / "more.npz"), folder / "run", None)
    assert not {"labels", "noise", "limit"} & table["data"].keys()


@pytest.mark.filterwarnings("ignore:.*is not the data of the earlier run")
def test_rows_that_cannot_be_read_are_left_out_if_asked(folder, tmp_path):
    values = np.load(folder / "x.npy")
    values[3] = np.nan
    np.savez(tmp_path / "more.npz", X=values, y=np.load(folder / "y.npy"))
    words = ("--from", folder / "run", "--on-error", "skip", "--out", tmp_path / "run", "--quiet")
    with pytest.warns(UserWarning, match="1 rows cannot be read"):
        call("train", tmp_path / "more.npz", *words)
    run = RunDirectory.open(tmp_path / "run")
    assert (run.config.data.on_error, run.summary["examples"]) == ("skip", 89)


@pytest.mark.filterwarnings("ignore:.*is not the data of the earlier run")
def test_settings_say_how_the_data_is_read(folder, tmp_path):
    np.save(tmp_path / "x.npy", np.load(folder / "x.npy"))
    settings = (f"data.labels={folder / 'y.npy'}", "train.batch_size=64")
    table = continued(str(tmp_path / "x.npy"), folder / "run", None, settings)
    assert table["data"]["labels"] == str(folder / "y.npy")


def test_verified_labels_of_the_earlier_run_are_not_replaced(folder, tmp_path):
    (tmp_path / "extra.csv").write_text("id,label\n3,1\n")
    words = ("--trusted", tmp_path / "extra.csv", "--out", tmp_path / "checked", "--quiet")
    with pytest.warns(UserWarning, match="taken for row numbers"):
        call("train", "--from", folder / "run", *words)
    with pytest.raises(
        ConfigError, match=r"--from and --trusted other\.csv cannot be combined: .*checked has verified"
    ):
        continued(None, tmp_path / "checked", None, trusted="other.csv")
