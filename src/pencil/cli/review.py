"""``pencil review``: serve a local page to review a run's labels."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import click

from pencil.cli.options import changed_data_option
from pencil.cli.output import print_json, say


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
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
    "--all", "with_sure", is_flag=True, help="Also review rows with the verdict keep, after all others."
)
@click.option(
    "--reviewer", help="Your name in the history; it can be changed on the page. [default: the user name]"
)
@click.option(
    "--lease-minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Minutes an item stays reserved for its reviewer.",
)
@changed_data_option
@click.option("--json", "json_", is_flag=True, help="Print address and token as one line of JSON.")
def review(
    run: Path,
    host: str,
    port: int | None,
    allow_remote: bool,
    with_sure: bool,
    reviewer: str | None,
    lease_minutes: float,
    changed_data: bool,
    json_: bool,
) -> None:
    """Review RUN's labels in a browser, most doubtful first.

    Every decision is saved in RUN before the next item is shown. pencil labels includes them, and
    pencil train --trusted RUN trains on them. Ctrl-C stops.
    """
    from pencil.review import Review
    from pencil.review.access import check_host, is_loopback, new_token
    from pencil.review.server import address, build_app, check_installed, listen, serve
    from pencil.run import RunDirectory

    check_installed()
    check_host(host, allow_remote=allow_remote)
    directory, token = RunDirectory.open(run), new_token()
    with (
        listen(host, port) as listening,
        closing(
            Review(
                directory,
                with_sure=with_sure,
                lease_seconds=60 * lease_minutes,
                changed_data=changed_data,
            )
        ) as opened,
    ):
        if not is_loopback(host):
            say(
                f"warning: --host {host}: others on the network can read the token and the images; use ssh -L instead"
            )
        if opened.trouble:
            say(f"warning: {opened.trouble}")
        _greet(run, address(listening, token), token, opened.progress(), json_)
        serve(build_app(opened, token, host, reviewer or getpass.getuser()), listening)
        done, place = opened.progress()["decided"], shlex.quote(str(run))
    say(
        f"{done:,} decided; next: pencil labels {place} --out labels.csv, or pencil train DATA --trusted {place}"
    )


def _greet(run: Path, url: str, token: str, progress: Mapping[str, int], json_: bool) -> None:
    if json_:
        print_json({"url": url, "token": token, "run": str(run), **progress})
        return
    say(f"{progress['total']:,} rows to review, {progress['decided']:,} of them decided; Ctrl-C stops")
    click.echo(url)
