"""The command as people and programs meet it: stdout, stderr, exit codes."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pencil.run
from pencil.notebook import open_run
from pencil.presets import PRESETS
from support.ranks import torchrun

pytestmark = pytest.mark.slow

QUICK = ("--epochs", "1,6,1", "--quiet")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
OWN = """
import torch
from pencil.data import Examples, Splits, TensorInputs
from pencil.stores import GivenLabels

def data(rows):
    labels = torch.arange(rows) % 2
    inputs = TensorInputs(torch.randn(rows, 4) + 4 * labels[:, None])
    return Splits(Examples(inputs, GivenLabels.of(labels), ("a", "b"), [str(row) for row in range(rows)]))

def network(num_classes, input_shape):
    return torch.nn.Linear(*input_shape, num_classes)
"""


def process(*words, cwd=None, program=("-m", "pencil"), path=None):
    command = [sys.executable, *program, *map(str, words)]
    paths = [str(place) for place in (path, ENVIRONMENT.get("PYTHONPATH")) if place]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False
    )


# results


def test_training_tells_the_result_on_stdout_and_what_is_next_on_stderr(pencil, points, tmp_path):
    result = pencil(
        "train", points, "--out", tmp_path / "a run", "--epochs", "1,6,1", "--noise", "symmetric:0.2"
    )
    assert result.exit_code == 0
    found, *lines = result.stdout.splitlines()
    assert re.fullmatch(
        r"about \d+ of 90 labels seem wrong( \(at least \d+\))?; (no label|\d+ labels?) can be replaced with at most "
        "10\u00a0% errors",
        found,
    )
    pairs = dict(line.split("  ", 1) for line in lines)
    assert list(pairs) == ["run", "test accuracy", "labels correct", "seconds"]
    noise, start, progress, *_, following = result.stderr.splitlines()
    assert noise.startswith("symmetric noise of 20 % over 3 classes changes about 13.3 % of the labels")
    assert re.fullmatch(
        r"labels start from class prototypes, \d rounds?: \d+ of 90 differ from the given ones", start
    )
    assert progress.startswith("backbone    epoch 1  test ")
    assert progress.endswith(" left")
    place = f"'{tmp_path / 'a run'}'"
    assert following == f"next: pencil review {place}, or pencil report {place}"


def test_alarms_are_told(pencil, points, tmp_path):
    noise = ("--noise", "circular:1.0", "--set", "method.pull=0.0", "--set", "method.label_rate=50.0")
    result = pencil(
        "train", points, "--out", tmp_path / "run", "--epochs", "0,6,1", "--quiet", *noise, "--json"
    )
    summary = json.loads(result.stdout, parse_constant=pytest.fail)
    said = pencil("resume", tmp_path / "run").stderr
    assert summary["alarms"]
    for alarm in summary["alarms"]:
        assert alarm["words"][1:] in said
        assert f"Remedy: {alarm['remedy']}" in said


def test_without_out_the_run_is_named_after_the_data(pencil, points, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pencil("train", points, *QUICK).exit_code == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("points-2")


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "RUN"),
        ("evaluate", "RUN"),
        ("evaluate", "RUN", "--split", "train"),
        ("predict", "RUN", "DATA", "--out", "OUT.csv", "--split", "test"),
        ("labels", "RUN", "--out", "OUT.csv"),
        ("noise", "DATA", "--noise", "symmetric:0.4", "--out", "OUT.npy"),
        ("presets",),
        ("presets", "show", "features"),
    ],
)
def test_json_is_one_line_on_stdout_and_all_there_is(pencil, finished, points, tmp_path, words):
    places = {"RUN": finished, "DATA": points}
    out = {f"OUT{ending}": tmp_path / f"new folder/out{ending}" for ending in (".csv", ".npy")}
    given = [str({**places, **out}.get(word, word)) for word in words]
    result = pencil(*given, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    assert isinstance(json.loads(result.stdout), dict)
    plain = pencil(*given)
    assert plain.exit_code == 0
    assert (plain.stdout or plain.stderr).strip()
    with pytest.raises(json.JSONDecodeError):
        json.loads(plain.stdout)


def test_json_says_what_people_read(pencil, finished, points, tmp_path):
    def told(*words):
        return json.loads(pencil(*words, "--json").stdout)

    summary = told("resume", finished)
    assert (summary["run"], summary["finished"], summary["examples"]) == (str(finished), True, 90)
    measured = told("evaluate", finished)
    assert measured == {"split": "test", "examples": 20, "accuracy": summary["last"]["test_accuracy"]}
    out = tmp_path / "labels.csv"
    written = told("labels", finished, "--out", out)
    assert (written["out"], written["rows"], written["differing_groups"]) == (str(out), 90, 0)
    told("labels", finished, "--out", out, "--max-false-relabels", "0%")
    with out.open(newline="", encoding="utf-8") as file:
        assert "relabel" not in {row["verdict"] for row in csv.DictReader(file)}
    taken = {}
    for take in ("sure", "best"):
        told("labels", finished, "--out", out, "--take", take)
        with out.open(newline="", encoding="utf-8") as file:
            taken[take] = list(csv.DictReader(file))
    for row in taken["sure"]:
        assert row["label"] == row["suggested_label" if row["verdict"] == "relabel" else "given_label"]
    best = open_run(finished).errors.labels("best")
    assert [row["label"] for row in taken["best"]] == best.tolist()
    noise = told("noise", points, "--noise", "circular:1.0", "--out", tmp_path / "n.csv")
    assert noise == {"out": str(tmp_path / "n.csv"), "rows": 90, "changed": 1.0}
    assert list(told("presets")) == list(PRESETS)
    assert told("presets", "show", "features")["model"]["name"] == "linear"
    assert json.loads(pencil("presets", "--json", "show", "features").stdout)["seed"] == 0


def test_a_preset_is_shown_as_toml_that_trains(pencil, points, tmp_path):
    (tmp_path / "my.toml").write_text(pencil("presets", "show", "features").stdout)
    result = pencil(
        "train", points, "--config", tmp_path / "my.toml", "--out", tmp_path / "run", *QUICK, "--json"
    )
    assert json.loads(result.stdout)["finished"]


def test_the_papers_presets_come_in_groups_and_say_where_they_had_to_choose(pencil):
    listing = pencil("presets").stdout.splitlines()
    heads = [line for line in listing if line and not line.startswith(" ")]
    assert heads[0] == "defaults, by kind of data"
    assert [head.split("(")[0] for head in heads[1:]] == [
        f"the paper's {data} " for data in ("CIFAR-10", "CIFAR-100", "CUB-200", "Clothing1M")
    ]
    assert sum(line.startswith("  ") for line in listing) == len(PRESETS)
    shown = pencil("presets", "show", "paper:clothing1m").stdout
    assert shown.startswith("# Table 6, PENCIL: Clothing1M")
    assert "# Subset: 18,571 images of each noisy label" in shown
    assert tomllib.loads(shown)["data"]["per_class"] == 18_571


def test_help_cuts_no_sentence(pencil):
    text = pencil("--help").stdout
    assert "..." not in text.partition("Commands:")[2]


def test_labels_and_predictions_are_tables_by_id(pencil, finished, points, tmp_path):
    pencil("labels", finished, "--out", tmp_path / "labels.csv", "--distribution")
    pencil("predict", finished, points, "--out", tmp_path / "predictions.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        labels = list(csv.DictReader(file))
    assert [row["id"] for row in labels] == [f"row\n{number}" for number in range(90)]
    assert list(labels[0])[6:] == ["duplicates", "outlier", "p_cat, big", "p_żółć", "p_cow"]
    with (tmp_path / "predictions.csv").open(newline="", encoding="utf-8") as file:
        predictions = list(csv.DictReader(file))
    assert [row["id"] for row in predictions] == [row["id"] for row in labels]
    assert {row["suggested_label"] for row in predictions} == {"cat, big", "żółć", "cow"}


def test_the_users_own_label_file_is_not_written_over(pencil, points, tmp_path):
    with np.load(points) as arrays:
        np.save(tmp_path / "x.npy", arrays["X"])
        lines = ["label", *map(str, arrays["y"])]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    before = (tmp_path / "labels.csv").read_bytes()
    set_labels = ("--set", f"data.labels={tmp_path / 'labels.csv'}")
    trained = pencil("train", tmp_path / "x.npy", "--out", tmp_path / "run", *set_labels, *QUICK)
    assert trained.exit_code == 0, trained.output
    for words in (("labels", tmp_path / "run"), ("predict", tmp_path / "run", points)):
        result = pencil(*words, "--out", tmp_path / "labels.csv")
        assert "that is the data itself (data.labels)" in str(result.exception)
    assert (tmp_path / "labels.csv").read_bytes() == before


def test_predictions_of_rows_without_labels_have_no_column_for_them(pencil, finished, points, tmp_path):
    np.save(tmp_path / "new.npy", np.load(points)["X"][:4])
    pencil("predict", finished, tmp_path / "new.npy", "--out", tmp_path / "new.csv")
    lines = (tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,suggested_label,confidence"
    assert [line.partition(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]


def test_noise_written_to_a_file_trains_like_noise_made_on_the_way(pencil, points, tmp_path):
    before = points.read_bytes()
    result = pencil("noise", points, "--noise", "symmetric:0.4", "--seed", 5, "--out", tmp_path / "noisy.csv")
    assert "90 labels" in result.stderr
    rows = {}
    for name, noise in (("file", tmp_path / "noisy.csv"), ("made", "symmetric:0.4")):
        words = ("--out", tmp_path / name, "--noise", noise, "--seed", 5, *QUICK)
        assert pencil("train", points, *words).exit_code == 0
        pencil("labels", tmp_path / name, "--out", tmp_path / f"{name}.csv")
        rows[name] = (tmp_path / f"{name}.csv").read_bytes()
    assert rows["file"] == rows["made"]
    assert points.read_bytes() == before


# stopping


def test_a_signal_stops_with_a_checkpoint_and_resume_finishes(pencil, points, tmp_path, monkeypatch):
    def interrupt(event):
        if event.kind == "step" and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    listener = SimpleNamespace(handle=interrupt, close=lambda: None)
    monkeypatch.setattr("pencil.cli.progress.progress", lambda: listener)
    out = tmp_path / "a run"
    stopped = pencil("train", points, "--out", out, "--epochs", "1,6,1", "--json")
    assert stopped.exit_code == 3
    assert json.loads(stopped.stdout) == {"run": str(out), "finished": False}
    assert stopped.stderr == f"stopped after saving a checkpoint; continue with: pencil resume '{out}'\n"
    resumed = pencil("resume", out, "--json", "--quiet")
    assert resumed.exit_code == 0
    assert json.loads(resumed.stdout)["finished"]
    assert pencil("resume", out).stderr.startswith(f"{out} is already finished\n")


def test_interrupted_before_training_there_is_no_traceback(main_program, points, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pencil.run, "train", interrupted)
    code, out, err = main_program("train", points, "--out", tmp_path / "run")
    assert (code, out) == (130, "")
    assert err.strip().startswith("interrupted; to go on, run the same command again")
    assert "pencil resume" in err


@pytest.mark.parametrize(
    "words",
    [
        ("labels", "RUN", "--out", "OUT.csv"),
        ("predict", "RUN", "DATA", "--out", "OUT.csv"),
        ("export", "RUN", "--to", "label-studio", "--out", "OUT.json"),
        ("report", "RUN", "--out", "OUT.html"),
        ("noise", "DATA", "--noise", "symmetric:0.4", "--out", "OUT.npy"),
        ("embed", "TEXTS", "--model", "ngrams", "--out", "OUT.npz"),
    ],
)
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_a_file_is_written_leaves_no_part_of_it(
    main_program, points, finished, tmp_path, monkeypatch, words, number, expected
):
    (tmp_path / "texts.csv").write_text("text,label\n" + "yes,a\nno,b\n" * 5)
    places = {"RUN": finished, "DATA": points, "TEXTS": tmp_path / "texts.csv"}
    (tmp_path / "out").mkdir()
    given = [str(places.get(word, word)).replace("OUT", str(tmp_path / "out" / "x")) for word in words]
    monkeypatch.setattr("pencil.durable.publish", lambda *_: os.kill(os.getpid(), number))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        code, out, err = main_program(*given)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, out) == (expected, "")
    assert "interrupted; to go on" in err
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_second_run_in_a_begun_folder_is_told_to_resume(main_program, points, finished):
    assert "pencil resume" in main_program("train", points, "--out", finished)[2]


# mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train",), "no data; give DATA"),
        (("train", "nowhere"), "data 'nowhere' does not exist"),
        (("train", "nowhere.npz"), "data.path: 'nowhere.npz' does not exist in"),
        (("train", "DATA", "--preset", "feature"), "did you mean 'features'?"),
        (("train", "DATA", "--set", "train.bach_size=3"), "did you mean 'batch_size'?"),
        (("train", "DATA", "--set", "nonsense"), "--set 'nonsense': write it as path=value"),
        (("train", "DATA", "--seed", "x"), "Invalid value for '--seed'"),
        (("train", "DATA", "--method", "pensil"), "did you mean 'pencil'?"),
        (("train", "DATA", "--out", "DATA/run"), "cannot be written"),
        (("train", "DATA", "--out", "RUN"), "already contains a run"),
        (("trian",), "No such command 'trian'"),
        (("resume", "nowhere"), "nowhere is not a run"),
        (("evaluate", "RUN", "--split", "validation"), "; use train or test"),
        (("evaluate", "RUN", "--split", "tset"), "is not one of"),
        (("labels", "RUN", "--out", "labels.txt"), "the ending must be .csv or .parquet"),
        (("labels", "RUN", "--out", "DATA/labels.csv"), "cannot be written"),
        (("labels", "RUN"), "Missing option '--out'"),
        (
            ("labels", "RUN", "--out", "labels.csv", "--max-false-relabels", "120%"),
            "'120%' is not a share; use a number such as 5% or 0.05",
        ),
        (("predict", "RUN", "DATA", "--out", "DATA"), "that is the data itself"),
        (("predict", "RUN", "wide.npz", "--out", "p.csv"), "the model takes inputs (5,)"),
        (("noise", "DATA", "--noise", "symmetric:2", "--out", "n.csv"), "data.noise.rate: 2.0"),
        (("noise", "DATA", "--noise", "symmetric:0.1", "--out", "DATA"), "that is the data itself"),
        (
            ("predict", "RUN", "DATA", "--out", "p.csv", "--set", "data.limit=10"),
            "--set data.limit=10: only pencil train uses it; pencil predict takes all rows",
        ),
        (
            ("embed", "DATA", "--out", "e.npz", "--model", "ngrams", "--set", "per_class=10"),
            "--set per_class=10: only pencil train uses it; pencil embed takes all rows",
        ),
        (
            (
                "noise",
                "DATA",
                "--noise",
                "symmetric:0.1",
                "--out",
                "n.csv",
                "--set",
                "data.trusted.path=t.csv",
            ),
            "--set data.trusted.path=t.csv: only pencil train uses it; pencil noise takes all rows",
        ),
        (("presets", "show", "feature"), "did you mean 'features'?"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    main_program, points, finished, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    np.savez("wide.npz", X=np.ones((4, 9), "f4"), y=np.arange(4) % 2)
    given = [word.replace("DATA", str(points)).replace("RUN", str(finished)) for word in words]
    code, out, err = main_program(*given)
    assert (code, out) == (2, "")
    assert message in err
    assert err.splitlines()[-1].lower().startswith(("error: ", "  "))
    code, out, _ = main_program(*given, "--json")
    assert code == 2
    assert out.count("\n") == 1
    assert list(json.loads(out)) == ["error"]
    assert message in json.loads(out)["error"]
    assert [path.name for path in tmp_path.iterdir()] == ["wide.npz"]


def test_trouble_with_files_is_no_traceback(main_program, points, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "labels.safetensors")

    monkeypatch.setattr(pencil.run, "train", full)
    code, _, err = main_program("train", points, "--out", tmp_path / "run")
    assert (code, err) == (2, "error: labels.safetensors: no space left on the disk: free some space\n")


def test_no_words_show_the_help(main_program):
    _, out, err = main_program()
    assert "Usage: pencil [OPTIONS] COMMAND" in out + err


# real processes


def test_a_process_ends_a_mistake_without_a_traceback(tmp_path):
    result = process("train", "nowhere", "--json", cwd=tmp_path)
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"].startswith("data 'nowhere' does not exist")
    assert result.stderr == f"error: {json.loads(result.stdout)['error']}\n"


def test_your_own_data_and_network_are_found_in_the_working_directory(tmp_path):
    """With -P python leaves the working directory off its path, as it does for the console script."""
    (tmp_path / "own.py").write_text(OWN)
    words = ("train", "own:data", "--preset", "features", "--set", "data.args.rows=30", "--out", "run")
    words = (*words, "--epochs", "1,2,1", "--set", "model.name=own:network", "--json", "--quiet")
    result = process(*words, cwd=tmp_path, program=("-P", "-m", "pencil"))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["examples"] == 30
    assert result.stderr.startswith("warning: no label can flip: 2 epochs of correction")
    assert result.stderr.count("\n") == 1


TRAP = "from pathlib import Path\nPath(__file__).with_name('sprung').touch()\n"


def test_the_current_folder_is_imported_from_only_for_names_on_the_command_line(tmp_path, finished):
    """A file named like a package that a command imports when it needs it, beside where the command is run."""
    (tmp_path / "jinja2.py").write_text(TRAP)
    (tmp_path / "safetensors.py").write_text(TRAP)
    result = process("report", finished, "--out", "report.html", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "sprung").exists()


def test_code_that_a_config_names_must_be_trusted(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    words = ("train", "own:data", "--preset", "features", "--set", "model.name=own:network", "--out", "first")
    words = (*words, "--set", "data.args.rows=30")
    assert process(*words, "--epochs", "1,6,1", "--quiet", cwd=tmp_path).returncode == 0
    again = ("train", "--config", "first/config.toml", "--out", "second", "--quiet")
    refused = process(*again, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "error: first/config.toml names code to run: data.path = 'own:data', model.name = 'own:network'; "
    )
    assert not (tmp_path / "second").exists()
    trusted = process(*again, "--trust-code", cwd=tmp_path, path=tmp_path)
    assert trusted.returncode == 0, trusted.stderr
    assert trusted.stderr.splitlines()[:2] == [
        "importing own:data, which first/config.toml names as data.path",
        "importing own:network, which first/config.toml names as model.name",
    ]


def test_a_reader_that_leaves_early_is_no_error():
    command = [sys.executable, "-m", "pencil", "presets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


def test_a_plan_is_told_to_people_and_to_programs(pencil):
    sizes = ("plan", "--rows", 300_000_000, "--classes", 18_291, "--ranks", 64)
    told = pencil(*sizes)
    assert told.exit_code == 0
    assert "label rows bytes               159.4 MB\n" in told.stdout
    assert "wire bytes per step labels     0 B\n" in told.stdout
    assert told.stderr == "fits: 1.0 of 24 GiB on each rank\n"
    figures = json.loads(pencil(*sizes, "--json").stdout)
    assert figures["label_rows_bytes"] == 4_687_500 * 34
    assert figures["advice"].startswith("fits")


def test_a_plan_that_cannot_be_names_what_is_wrong(main_program):
    code, _, err = main_program("plan", "--rows", 5, "--classes", 10, "--ranks", 9)
    assert (code, err) == (2, "error: --ranks 9: more than the 5 rows; use fewer\n")


def test_two_processes_leave_one_result_with_every_row(points, pencil, tmp_path):
    program = (*torchrun(2), "-m", "pencil")
    words = ("train", points, "--out", tmp_path / "run", "--noise", "symmetric:0.3", "--quiet", "--json")
    result = process(*words, program=program)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["examples"] == 90
    pencil("labels", tmp_path / "run", "--out", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"row\n{number}" for number in range(90)]
    changed = sum(row["given_label"] != row["suggested_label"] for row in rows)
    assert changed > 0
    assert json.loads(result.stdout)["labels_changed"] > 0


# several processes


def test_several_processes_must_name_the_folder(main_program, points, monkeypatch):
    """A default with the time in it would differ between ranks and restarts."""
    for name, value in (("WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "job")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            code, _, err = main_program("train", points, *QUICK)
        assert code == 2
        assert "--out: missing; several processes must use the same folder" in err


def test_a_mistake_of_all_ranks_is_told_in_full_by_the_main_one(main_program, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert main_program("resume", "nowhere", "--json")[:2] == (2, "")
    assert main_program("resume", "nowhere")[2].startswith("error, rank 1: nowhere is not a run")


def test_a_folder_made_in_the_same_second_gets_a_number(tmp_path, monkeypatch):
    from pencil.cli.training import _new_folder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "now")
    assert _new_folder("a/points.npz") == Path("runs/points-now")
    Path("runs/points-now").mkdir(parents=True)
    assert _new_folder("a/points.npz") == Path("runs/points-now-2")
    Path("runs/points-now-2").mkdir()
    assert _new_folder("a/points.npz") == Path("runs/points-now-3")
