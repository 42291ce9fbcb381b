"""Commands that use a run or data and write a result: ``evaluate``, ``predict``, ``labels``, ``noise``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from pencil.cli.options import (
    allow_current_folder,
    announce_code,
    as_json,
    changed_data_option,
    expert_option,
    for_spreadsheet,
    max_false_relabels_option,
    run_argument,
    set_option,
    trust_code_option,
)
from pencil.cli.output import percent, print_json, print_pairs, say


@click.command()
@run_argument
@click.option(
    "--split",
    type=click.Choice(["test", "validation", "train"]),
    default="test",
    show_default=True,
    help="The split to use.",
)
@expert_option
@trust_code_option
@changed_data_option
@as_json
def evaluate(run: Path, split: str, expert: bool, trust_code: bool, changed_data: bool, json_: bool) -> None:
    """Measure the accuracy of RUN's model on its own data.

    The model is compared with the given labels, which are noisy in the train and validation splits.
    """
    from pencil.run import RunDirectory, code_of_data, code_of_run
    from pencil.run import evaluate as measure

    directory = RunDirectory.open(run)
    if trust_code:
        announce_code(code_of_data(directory.config.data) | code_of_run(directory), run)
    result = measure(directory, split, trust_code=trust_code, changed_data=changed_data, expert=expert)
    if json_:
        print_json(result)
    else:
        print_pairs({**result, "accuracy": percent(result["accuracy"])})


@click.command()
@run_argument
@click.argument("data")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .parquet file.")
@click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="train",
    show_default=True,
    help="The split of DATA to use.",
)
@click.option("--distribution", is_flag=True, help="Write the probability of every class too.")
@expert_option
@for_spreadsheet
@set_option
@trust_code_option
@as_json
def predict(
    run: Path,
    data: str,
    out: Path,
    split: str,
    distribution: bool,
    expert: bool,
    spreadsheet: bool,
    settings: tuple[str, ...],
    trust_code: bool,
    json_: bool,
) -> None:
    """Predict every example of DATA with RUN's model.

    DATA is read like the run's own data; --set changes how. If DATA has labels, they are written too. DATA without
    labels may be an .npy or .npz of features, a folder of images, or a table of their paths.
    """
    from pencil.configure import check_reading, data_section, words_of
    from pencil.results import write_labels
    from pencil.run import RunDirectory, check_apart, code_of_data, code_of_run
    from pencil.run import predict as predictions

    check_reading(settings, "predict")
    directory = RunDirectory.open(run)
    directory.require_finished()
    section, said = data_section(data, settings, like=directory.config), {data, *words_of(settings)}
    for source in (section, directory.data):
        check_apart("--out", out, source)
    named = code_of_data(section)
    allow_current_folder(named, said)
    if trust_code:
        foreign = {field: code for field, code in named.items() if code not in said}
        announce_code(foreign | code_of_run(directory), run)
    chunks, names = predictions(directory, section, split, trust_code=trust_code or said, expert=expert)
    count = write_labels(out, chunks, names, distribution=distribution, spreadsheet=spreadsheet)
    _wrote(out, count, json_)


@click.command()
@run_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .parquet file.")
@click.option("--distribution", is_flag=True, help="Write the probability of every class too.")
@click.option(
    "--since",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Write only rows that are new since this earlier run, or whose label, verdict or decision changed.",
)
@click.option(
    "--take",
    type=click.Choice(["sure", "best"]),
    help="Write the label to use in a column of its own: sure replaces given labels by verdict relabel, so that few "
    "changes are false; best takes the likeliest class of every row, so that few labels are wrong.",
)
@max_false_relabels_option
@for_spreadsheet
@as_json
def labels(
    run: Path,
    out: Path,
    distribution: bool,
    since: Path | None,
    take: Literal["sure", "best"] | None,
    max_false_relabels: float | None,
    spreadsheet: bool,
    json_: bool,
) -> None:
    """Write RUN's labels: given, suggested, p_wrong, verdict.

    confidence is the probability that the suggested label is right, p_wrong that the given one is wrong. If RUN was
    reviewed, decisions replace estimates, and a column shows them. If its inputs are features, near-identical rows
    share a number in the column duplicates, and outlier shows how far a row is from all others.
    """
    from pencil.results import neighbour_counts, write_labels
    from pencil.run import RunDirectory, check_apart, judged_labels, labels_since
    from pencil.run.provenance import source_of, write_source

    directory = RunDirectory.open(run)
    directory.require_finished()
    source = source_of(directory)
    if since is None:
        chunks, names = judged_labels(directory, max_false_relabels, source["entry"], learned=take == "best")
    else:
        earlier = RunDirectory.open(since)
        chunks, names = labels_since(
            directory, earlier, max_false_relabels, source["entry"], learned=take == "best"
        )
    check_apart("--out", out, directory.data)
    count = write_labels(out, chunks, names, distribution=distribution, take=take, spreadsheet=spreadsheet)
    write_source(out, source)
    _wrote(out, count, json_, **neighbour_counts(directory.path))


@click.command()
@click.argument("data")
@click.option(
    "--noise", required=True, help="Kind and rate: symmetric:0.4, circular:0.3, cifar10:0.4 or instance:0.4."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .npy file.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@set_option
@as_json
def noise(data: str, noise: str, out: Path, seed: int, settings: tuple[str, ...], json_: bool) -> None:
    """Write noisy labels for DATA's training rows to a file.

    DATA is not changed. Train with the file: pencil train DATA --noise FILE.
    """
    from pencil.configure import check_reading, data_section
    from pencil.data import write_label_file
    from pencil.results import writing
    from pencil.run import check_apart, code_of_data, noisy_labels, read_splits

    check_reading(settings, "noise", but="noise")
    section = data_section(data, settings, noise=noise)
    check_apart("--out", out, section)
    allow_current_folder(code_of_data(section), {data})
    train_split = read_splits(section).train
    assert section.noise is not None
    noisy, clean = noisy_labels(train_split, section.noise, seed).hard, train_split.labels.hard
    with writing(out, ".csv", ".npy") as partial:
        write_label_file(partial, train_split.ids, noisy, train_split.class_names, clean=clean)
    share = float((noisy != clean).float().mean())
    result = {"out": str(out), "rows": len(noisy), "changed": share}
    print_json(result) if json_ else say(f"{out}: {len(noisy):,} labels, {percent(share)} of them changed")


def _wrote(out: Path, count: int, json_: bool, **more: int) -> None:
    print_json({"out": str(out), "rows": count, **more}) if json_ else say(f"{out}: {count:,} rows")
