"""``pencil train`` and ``pencil resume``."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import click

from pencil.cli.options import (
    allow_current_folder,
    announce_code,
    as_json,
    changed_data_option,
    run_argument,
    set_option,
    trust_code_option,
)
from pencil.cli.output import percent, print_json, print_pairs, print_text, say
from pencil.cli.ranks import exit_after_main, printing_for_all
from pencil.errors import ConfigError


@click.command()
@click.argument("data", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with the settings.")
@click.option("--preset", "preset_name", help="Named settings; see: pencil presets.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The run's folder. [default: runs/<data>-<time>]"
)
@click.option("--method", help="A method by name, or your own as package.module:Name.")
@click.option(
    "--embed",
    metavar="MODEL",
    help="Learn from the features of a pretrained network, e.g. transformers:facebook/dinov2-small or "
    "transformers:FOLDER; none: train from scratch. [default: for images and texts, what is installed]",
)
@click.option(
    "--start",
    type=click.Choice(["given", "prototypes"]),
    help="The labels that training starts from. given: those of DATA. prototypes: labels estimated from the features "
    "before training. [default: prototypes for features, unless --method, --preset or --config is given]",
)
@click.option(
    "--from",
    "earlier",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A finished run on earlier data: known rows start from its labels and decisions, new rows join.",
)
@click.option(
    "--finetune",
    type=click.Choice(["last", "all"]),
    help="With --from RUN, which was trained with --embed: train the pretrained network too, its last block or all "
    "of it, on the labels as RUN corrected them.",
)
@click.option(
    "--noise",
    help="Add noise to the labels in memory, to try the method: KIND:RATE with symmetric, circular, cifar10 or "
    "instance, e.g. symmetric:0.4; or take the labels of a FILE or FILE:KEY.",
)
@click.option("--trusted", help="Verified labels: a reviewed run, or a CSV with id and label.")
@click.option("--epochs", help="Epochs of the phases backbone, correction and finetune, e.g. 2,28,20.")
@click.option("--seed", type=int, help="Seed of everything random.")
@click.option(
    "--on-error",
    type=click.Choice(["error", "skip"]),
    help="skip: leave out rows that cannot be read, and list them. [default: error]",
)
@set_option
@trust_code_option
@as_json
@click.option("--quiet", is_flag=True, help="Show no progress.")
def train(
    data: str | None,
    config: Path | None,
    preset_name: str | None,
    out: Path | None,
    trust_code: bool,
    json_: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Train on DATA: images, texts, a table, features or shards.

    DATA is a folder with a folder of images per class, a .csv, .jsonl or .parquet file with labels and image paths,
    texts, numbers or embeddings, an .npz or .npy of features, a saved Hugging Face data set, the folder that pencil
    index wrote, a folder of CIFAR or IDX files, or your own function as package.module:function. The kind of
    data selects the settings, unless --config or --preset names others.
    """
    from pencil import run
    from pencil.cli.progress import progress
    from pencil.configure import choose_encoder, continued, train_config, words_of

    said = {data or "", flags["method"] or "", flags["embed"] or "", *words_of(flags["settings"])}
    earlier, others = flags.pop("earlier"), {"config": config, "preset": preset_name, "embed": flags["embed"]}
    asked = flags["settings"], flags["trusted"], flags["on_error"]
    flags["base"] = continued(data, earlier, flags.pop("finetune"), *asked, **others)
    flags["embed"], line = choose_encoder(
        data, flags["embed"], config, preset_name, earlier, settings=flags["settings"]
    )
    if line is not None:
        say(line)
    chosen = train_config(data, config, preset_name, **flags)
    source = config or earlier or (preset_name and f"--preset {preset_name}")
    _take_code(run.code_in(chosen), said, trust_code, source)
    _report(run.train(chosen, out or _new_folder(chosen.data.path), [] if quiet else [progress()]), json_)


@click.command()
@run_argument
@trust_code_option
@changed_data_option
@as_json
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--from-start", is_flag=True, help="Ignore all checkpoints and begin at the first step.")
def resume(
    run: Path, json_: bool, quiet: bool, trust_code: bool, changed_data: bool, from_start: bool
) -> None:
    """Continue a stopped or killed RUN exactly where it stopped."""
    from pencil.cli.progress import progress
    from pencil.run import RunDirectory, code_in
    from pencil.run import resume as continue_run

    directory = RunDirectory.open(run)
    if directory.is_finished:
        say(f"{run} is already finished")
    elif trust_code:
        announce_code(code_in(directory.config), run)
    listeners = [] if quiet else [progress()]
    directory = continue_run(
        run, listeners, trust_code=trust_code, changed_data=changed_data, from_start=from_start
    )
    _report(directory, json_)


def _take_code(named: dict[str, str], said: set[str], trust_code: bool, source: object) -> None:
    """Accept code that the command line names; code that a file names requires --trust-code."""
    from pencil.run import check_code

    foreign = {field: code for field, code in named.items() if code not in said}
    check_code(foreign, trust_code, source=source)
    announce_code(foreign, source)
    allow_current_folder(named, said)


def _new_folder(data: str) -> Path:
    if "TORCHELASTIC_RUN_ID" in os.environ or os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("--out: missing; several processes must use the same folder, so name it")
    name = re.sub(r"[^\w.-]+", "-", Path(data).expanduser().absolute().stem)
    folder = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    others = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(place for place in itertools.chain([folder], others) if not place.exists())


def _report(directory: Any, json_: bool) -> None:
    """Print the result of a finished run, or how to continue a stopped one; on the main rank only."""
    if not directory.is_finished:
        _report_stopped(directory, json_)
    if os.environ.get("RANK", "0") != "0":
        return
    if json_:
        print_json({"run": str(directory.path), "finished": True, **directory.summary})
    else:
        _print_summary(directory)


def _report_stopped(directory: Any, json_: bool) -> NoReturn:
    """Exit with code 3 on all ranks after the main rank has printed how to continue."""
    exit_after_main(3)
    with printing_for_all():
        if json_:
            print_json({"run": str(directory.path), "finished": False})
        say(f"stopped after saving a checkpoint; continue with: {directory.resume_command}")
    sys.exit(3)


def _print_summary(directory: Any) -> None:
    from pencil.report.contents import alarms_of
    from pencil.report.text import seem_wrong
    from pencil.report.words import relabel_words, too_few_held_out
    from pencil.results import RELABEL
    from pencil.run import LabelTable

    summary, table = directory.summary, LabelTable.open(directory)
    last = {
        name.replace("_", " "): percent(value)
        for name, value in summary["last"].items()
        if name.endswith(("accuracy", "correct")) and value is not None
    }
    relabels = sum(int((rows.verdict == RELABEL).sum()) for rows in table.chunks())
    print_text(f"{seem_wrong(table.estimates.rate, len(table))}; {relabel_words(relabels, table.rule)}")
    print_pairs({"run": directory.path, **last, "seconds": summary["seconds"]})
    if not relabels and (few := too_few_held_out(table.estimates)):
        say(few)
    for alarm in alarms_of(table.estimates, summary):
        say(f"alarm: {alarm}")
    place = shlex.quote(str(directory.path))
    question = table.question
    ask = f"pencil review {place} --ask 100 (ten minutes that say {question})"
    say(f"next: {ask if question else f'pencil review {place}'}, or pencil report {place}")
