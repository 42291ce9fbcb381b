"""``pencil review``: serve a local page to review a run's labels."""

from __future__ import annotations

import shlex
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pencil.cli.asking import ask
from pencil.cli.audit import Shown
from pencil.cli.options import (
    beside,
    changed_data_option,
    images_option,
    max_false_relabels_option,
    texts_option,
    user_name,
)
from pencil.cli.output import print_json, say
from pencil.errors import ConfigError

if TYPE_CHECKING:
    from pencil.review import Review

GOALS = (
    "clean",
    "relabel",
    "duplicates",
)  # as in pencil.review.orders, which the command line imports on use only
NOT_ASKED = {
    *("goal", "stop_below", "with_sure", "second_opinion"),
    *("open_", "host", "allow_remote", "lease_minutes"),
}
"""What --ask has no use for."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--goal",
    type=click.Choice(GOALS),
    help="clean: rows that nobody reviews keep the given label, so those most likely wrong come first. "
    "relabel: they take the suggestion, so the least sure suggestions come first. "
    "duplicates: groups of near-identical rows with different labels, a group at a time. [default: clean]",
)
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Show decided rows again without the decisions, and how far the second opinions agree with them.",
)
@click.option(
    "--stop-below",
    type=click.FloatRange(0),
    help="Suggest to stop when the next 100 looks are expected to find fewer errors than this. [default: 5]",
)
@images_option
@texts_option
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="[default: 8642, or any free port if that is taken]"
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Allow a --host that other machines can reach. The connection is not encrypted.",
)
@click.option(
    "--all", "with_sure", is_flag=True, help="Also review rows with the verdict keep, in the same order."
)
@click.option(
    "--reviewer",
    help="Your name in the history; it can be changed on the page. "
    "[default: the name last typed on the page, or the user name]",
)
@click.option(
    "--lease-minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Minutes an item stays reserved for its reviewer.",
)
@max_false_relabels_option
@changed_data_option
@click.option(
    "--ask",
    "asks",
    type=click.IntRange(1),
    metavar="N",
    help="Ask about N rows whose answers release most labels, without showing given and suggested label.",
)
@click.option(
    "--csv",
    "sheet",
    type=click.Path(path_type=Path),
    help="With --ask: write the rows to this file to fill in.",
)
@click.option("--answers", type=click.Path(path_type=Path), help="Read the answers from the filled-in file.")
@click.option("--json", "json_", is_flag=True, help="Print address, token and forecast as one line of JSON.")
def review(
    run: Path,
    goal: str | None,
    second_opinion: bool,
    stop_below: float | None,
    images: Path | None,
    texts: Path | None,
    open_: bool,
    host: str,
    port: int | None,
    allow_remote: bool,
    with_sure: bool,
    reviewer: str | None,
    lease_minutes: float,
    max_false_relabels: float | None,
    changed_data: bool,
    asks: int | None,
    sheet: Path | None,
    answers: Path | None,
    json_: bool,
) -> None:
    """Review RUN's labels in a browser, likely errors first.

    --ask 100 asks about a hundred doubtful rows instead. The answers say which suggestions can be trusted, so that
    many more labels are replaced than were looked at.

    Every decision is saved in RUN before the next item is shown. pencil labels includes them, and
    pencil train --trusted RUN trains on them. Ctrl-C stops.
    """
    from pencil.review import Review
    from pencil.review.access import check_host, is_loopback, new_token
    from pencil.review.review import STOP_BELOW
    from pencil.review.server import address, build_app, check_installed, listen, serve
    from pencil.run import RunDirectory

    _check_used(goal, stop_below, second_opinion=second_opinion, with_sure=with_sure)
    if asks is not None or answers is not None:
        _check_asked()
        ask(
            run,
            asks,
            sheet=sheet,
            answers=answers,
            reviewer=reviewer,
            rows=Shown(changed_data, beside(images, texts)),
            port=port,
            max_false_relabels=max_false_relabels,
            json_=json_,
        )
        return
    if sheet is not None:
        raise ConfigError("--csv: only with --ask, such as --ask 100 --csv questions.csv")
    check_installed()
    check_host(host, allow_remote=allow_remote)
    shown = beside(images, texts)
    directory, token = RunDirectory.open(run), new_token()
    with (
        listen(host, port) as listening,
        closing(
            Review(
                directory,
                goal=goal or GOALS[0],
                second_opinion=second_opinion,
                stop_below=STOP_BELOW if stop_below is None else stop_below,
                with_sure=with_sure,
                lease_seconds=60 * lease_minutes,
                max_false_relabels=max_false_relabels,
                changed_data=changed_data,
                beside=shown,
            )
        ) as opened,
    ):
        if not is_loopback(host):
            say(
                f"warning: --host {host}: others on the network can read the token and the images; use ssh -L instead"
            )
        if opened.matched:
            say(opened.matched)
        if opened.trouble:
            say(f"warning: {opened.trouble}")
        url = address(listening, token)
        _greet(run, url, token, opened, json_)
        app = build_app(opened, token, host, reviewer or user_name(), named=bool(reviewer))
        with _opened(url, open_):
            serve(app, listening, opened.stop)
        done, place = opened.progress()["decided"], shlex.quote(str(run))
    say(
        f"{done:,} decided; next: pencil labels {place} --out labels.csv, or pencil train DATA --trusted {place}"
    )


def _check_used(goal: str | None, stop_below: float | None, *, second_opinion: bool, with_sure: bool) -> None:
    """Check that no option is given that would have no effect."""
    given = {"--goal": goal is not None, "--stop-below": stop_below is not None, "--all": with_sure}
    unused = " and ".join(name for name, is_given in given.items() if is_given)
    if second_opinion and unused:
        raise ConfigError(
            f"--second-opinion and {unused}: decided rows are shown, in random order; leave out {unused}"
        )
    if goal == "duplicates" and with_sure:
        raise ConfigError(
            "--goal duplicates and --all cannot be combined: this goal shows whole groups anyway; leave out --all, or "
            "use another goal"
        )


def _check_asked() -> None:
    context = click.get_current_context()
    unused = " and ".join(
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in NOT_ASKED
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    )
    if unused:
        raise ConfigError(
            f"--ask and {unused}: --ask chooses rows, order and page itself; leave out {unused}"
        )


def _greet(run: Path, url: str, token: str, review: Review, json_: bool) -> None:
    state = review.start()
    progress, forecast, agreement = state["progress"], state["forecast"], state["agreement"]
    until = None if forecast is None else review.looks_until_stop()
    if json_:
        about = {
            "goal": state["goal"],
            "forecast": forecast,
            "looks_until_stop": until,
            "agreement": agreement,
        }
        print_json({"url": url, "token": token, "run": str(run), **progress, **about})
        return
    say(f"{progress['total']:,} rows to review, {progress['decided']:,} of them decided; Ctrl-C stops")
    say(_expected(state["goal"], forecast, until) if forecast else _agreed(agreement))
    click.echo(url)


def _expected(goal: str, forecast: dict[str, Any], until: int | None) -> str:
    errors = "wrong suggestions" if goal == "relabel" else "wrong labels"
    found = (
        f"the next {forecast['looks']} looks are expected to find about {forecast['expected']:.0f} {errors}"
    )
    if forecast["stop"]:
        return f"{found}, fewer than {forecast['stop_below']:g}: you can stop here"
    return f"{found}; suggested stop after {until:,} looks" if until else found


def _agreed(agreement: dict[str, Any]) -> str:
    if not agreement["both"]:
        return "second opinions: none yet"
    kappa = "" if agreement["kappa"] is None else f", kappa {agreement['kappa']:.2f}"
    share = f"{100 * agreement['share']:.0f} %"
    return f"second opinions: {agreement['agree']:,} of {agreement['both']:,} agree ({share}{kappa})"


@contextmanager
def _opened(url: str, wanted: bool) -> Iterator[None]:
    """Open the page in a browser through a private file, because other users can see the arguments of a process."""
    if not wanted:
        yield
        return
    with NamedTemporaryFile("w", prefix="pencil-review-", suffix=".html", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">')
        file.flush()
        # In a thread, because some browsers block until they are closed.
        Thread(target=_open, args=(Path(file.name).as_uri(),), daemon=True).start()
        yield


def _open(address: str) -> None:
    if not webbrowser.open(address):
        say("warning: --open: no browser was found; open the printed address")
