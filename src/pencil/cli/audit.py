"""``pencil audit``: check a random sample of labels by hand, and certify how many of all of them are wrong."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pencil.cli.options import (
    as_json,
    beside,
    changed_data_option,
    images_option,
    max_false_relabels_option,
    share,
    texts_option,
    user_name,
)
from pencil.cli.output import print_json, print_text, say
from pencil.errors import ConfigError

if TYPE_CHECKING:
    from pencil.audit import Audit, FrozenLabels, Wanted
    from pencil.data import Beside
    from pencil.run import RunDirectory

HOST = "127.0.0.1"


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--what",
    type=click.Choice(["relabels", "all"]),
    help="relabels: check a sample of the labels with the verdict relabel. all: check a sample of all labels, for the "
    "noise rate. [default: relabels]",
)
@click.option("--looks", type=click.IntRange(1), help="How many labels to check. [default: 100]")
@click.option(
    "--bound",
    type=click.Choice(["exact", "live"]),
    help="exact: one statement after the last answer. live: a statement after every answer, so you may stop at any "
    "time; it needs a few more checks. Fixed when the audit begins. [default: exact]",
)
@click.option(
    "--max-error", type=share, metavar="SHARE", help="The share of errors to certify. [default: 5%]"
)
@click.option("--confidence", type=share, metavar="SHARE", help="How sure the statements are. [default: 95%]")
@click.option("--seed", type=click.IntRange(0), help="Seed of the draw. [default: random, and recorded]")
@click.option("--new", is_flag=True, help="Begin another audit, although RUN has one.")
@click.option(
    "--csv", "sheet", type=click.Path(path_type=Path), help="Write the sample to this file to fill in."
)
@click.option("--answers", type=click.Path(path_type=Path), help="Read the answers from the filled-in file.")
@click.option(
    "--page", is_flag=True, help="Answer in a browser on this machine; the default --bound is then live."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port of --page. [default: 8642, or any free port]"
)
@click.option(
    "--auditor",
    help="Your name in the certificate. [default: with --page the name last typed there, or the user name]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the certificate to this .json file.")
@click.option(
    "--verify",
    type=click.Path(path_type=Path),
    help="Recompute a certificate, and compare it with RUN if given.",
)
@images_option
@texts_option
@max_false_relabels_option
@changed_data_option
@as_json
def audit(
    run: Path | None,
    what: Any,
    looks: int | None,
    bound: Any,
    max_error: float | None,
    confidence: float | None,
    seed: int | None,
    new: bool,
    sheet: Path | None,
    answers: Path | None,
    page: bool,
    port: int | None,
    auditor: str | None,
    out: Path | None,
    verify: Path | None,
    images: Path | None,
    texts: Path | None,
    max_false_relabels: float | None,
    changed_data: bool,
    json_: bool,
) -> None:
    """Check a random sample of RUN's labels, and certify them.

    Answer in a browser (--page), or write the sample (--csv), fill in its column "answer", and read it back
    (--answers). Neither the page nor the choices in the file show which label is given or suggested. --out writes a
    certificate that anyone can recompute with --verify.
    """
    from pencil.audit import Wanted, current_audit
    from pencil.run import RunDirectory

    if verify is not None:
        _verify(verify, run, max_false_relabels, json_)
        return
    if run is None:
        raise ConfigError("RUN is missing; give the folder of a run, or --verify FILE")
    alpha = None if confidence is None else _risk(confidence)
    _check(max_error)
    wanted = Wanted(what=what, bound=bound, looks=looks, seed=seed, alpha=alpha, max_error=max_error)
    rows, directory = Shown(changed_data, beside(images, texts)), RunDirectory.open(run)
    known = None if new else current_audit(directory)
    labels = frozen_labels(directory, max_false_relabels, known)
    begun = _open(
        directory, labels, known, wanted, begins=sheet is not None or page, page=page and sheet is None
    )
    if begun is None:
        _propose(run, labels, wanted, json_, unused=answers or out)
        return
    done: dict[str, Any] = {}
    if answers is not None:
        begun = read_answers(directory, begun, labels, answers, auditor or user_name())
    if sheet is not None:
        done["csv"] = write_questions(directory, begun, labels, sheet, rows)
    if page:
        begun = serve_questions(directory, begun, labels, auditor, rows, port=port, json_=json_)
    if out is not None:
        done["certificate"] = _certify(begun, out)
    _show(run, begun, done, json_)


def _risk(confidence: float) -> float:
    risk = round(1 - confidence, 12)
    if not 0 < risk < 1:
        raise ConfigError(f"--confidence: {confidence:g} must be above 0 and below 1; use 95%, for example")
    return risk


def _check(max_error: float | None) -> None:
    if max_error == 1:
        raise ConfigError("--max-error: 100 % of the labels may always be wrong; ask for less, such as 5%")


def frozen_labels(
    directory: RunDirectory, max_false_relabels: float | None, known: Audit | None, asked: int = 0
) -> FrozenLabels:
    """The labels as they are now, or were when a known audit began."""
    from pencil.audit import FrozenLabels
    from pencil.run import LabelTable

    entry = None if known is None else known.plan.entry
    return FrozenLabels.of(LabelTable.open(directory, max_false_relabels, entry=entry), asked)


def _verify(file: Path, run: Path | None, max_false_relabels: float | None, json_: bool) -> None:
    from pencil.audit import FrozenLabels, verify
    from pencil.run import LabelTable, RunDirectory

    def labels(entry: int) -> FrozenLabels:
        table = LabelTable.open(RunDirectory.open(Path(str(run))), max_false_relabels, entry=entry)
        return FrozenLabels.of(table)

    contents = verify(file, None if run is None else labels)
    compared = "" if run is None else f", and it matches {run}"
    if json_:
        print_json({"verified": True, "run": None if run is None else str(run), **_statements(contents)})
        return
    say(f"{file}: verified; its statements follow from its answers{compared}")
    for sentence in contents["statements"]:
        print_text(sentence)


def _statements(contents: dict[str, Any]) -> dict[str, Any]:
    return {name: contents[name] for name in ("statements", "findings")}


def _open(
    directory: RunDirectory,
    labels: FrozenLabels,
    known: Audit | None,
    wanted: Wanted,
    *,
    begins: bool,
    page: bool,
) -> Audit | None:
    """The known audit, or a new one; None if there is none and neither a sheet nor the page asks to begin."""
    from pencil.audit import begin, resumed

    if known is not None:
        return resumed(directory, known, labels, wanted)
    if page and wanted.bound is None:
        wanted = replace(wanted, bound="live")
    return begin(directory, labels, wanted) if begins else None


def _propose(run: Path, labels: FrozenLabels, wanted: Wanted, json_: bool, *, unused: object) -> None:
    """Say what could be audited, and how; an option that needs an audit is an error."""
    from pencil.audit import suggested_looks
    from pencil.audit.session import ALPHA, MAX_ERROR

    if unused:
        raise ConfigError(
            "there is no audit to continue; begin one with --page or --csv FILE, or leave out --new"
        )
    alpha = ALPHA if wanted.alpha is None else wanted.alpha
    limit = MAX_ERROR if wanted.max_error is None else wanted.max_error
    size = len(labels.rows_of("relabel"))
    needed = suggested_looks(size, alpha, limit)
    if json_:
        print_json({"run": str(run), "audit": None, "changed": size, "checks_needed": needed})
        return
    place = shlex.quote(str(run))
    if not size:
        print_text(
            f"no label has the verdict relabel; check a sample of all: pencil audit {place} --what all --page"
        )
        return
    print_text(
        f"{size:,} changed labels; {needed:,} checks without an error certify that at most {100 * limit:g} % of them "
        f"are wrong\nbegin with: pencil audit {place} --page, or --csv sample.csv"
    )


def read_answers(
    directory: RunDirectory, begun: Audit, labels: FrozenLabels, file: Path, auditor: str
) -> Audit:
    """Record the answers of a filled-in sheet."""
    from pencil.audit import answer, read_sheet

    return answer(directory, begun, labels, list(read_sheet(file, begun, labels.names)), auditor)


class Shown(NamedTuple):
    """How rows are shown."""

    changed_data: bool
    beside: Beside | None


def write_questions(
    directory: RunDirectory, begun: Audit, labels: FrozenLabels, file: Path, rows: Shown
) -> str:
    """Write the sheet to fill in."""
    from pencil.audit import ids_name_labels, takes_letters, texts_of, write_sheet
    from pencil.run import check_apart

    check_apart("--csv", file, directory.data)
    count = write_sheet(file, begun, texts_of(directory, **rows._asdict()), labels.names)
    if ids_name_labels(begun):
        say("warning: the ids in this file name the given labels, which may influence you; --page hides them")
    letters = ", a, b or c" if takes_letters(labels.names) else " (no letter, since a class has such a name)"
    say(
        f"{file}: {count:,} lines; fill in the column answer with a class name{letters}, or ? if you cannot tell"
    )
    return str(file)


def serve_questions(
    directory: RunDirectory,
    begun: Audit,
    labels: FrozenLabels,
    auditor: str | None,
    rows: Shown,
    *,
    port: int | None,
    json_: bool,
) -> Audit:
    """Serve the page until Ctrl-C, and return the audit with its new answers."""
    from pencil.audit import AuditPage
    from pencil.review.access import new_token
    from pencil.review.server import address, build_app, check_installed, listen, serve

    check_installed()
    shown, token = AuditPage(directory, begun, labels, **rows._asdict()), new_token()
    with listen(HOST, port) as listening:
        if shown.matched:
            say(shown.matched)
        if shown.trouble:
            say(f"warning: {shown.trouble}")
        url = address(listening, token)
        if json_:
            print_json({"url": url, "token": token, "run": str(directory.path)})
        else:
            say(
                f"{len(begun.items):,} labels to check, {len(begun.answered):,} of them answered; Ctrl-C stops"
            )
            click.echo(url)
        serve(build_app(shown, token, HOST, auditor or user_name(), named=bool(auditor)), listening)
    return shown.audit


def _certify(begun: Audit, file: Path) -> str:
    from pencil.audit import write_certificate

    if not begun.answered or (begun.plan.bound == "exact" and not begun.is_complete):
        raise ConfigError(
            f"--out {file}: there is nothing to certify yet; answer all labels of the sample first (--answers FILE)"
        )
    write_certificate(file, begun)
    say(f"{file}: certificate; anyone can recompute it with: pencil audit --verify {shlex.quote(str(file))}")
    return str(file)


def _show(run: Path, begun: Audit, done: dict[str, Any], json_: bool) -> None:
    from pencil.audit import findings, sentences

    found = findings(begun)
    said = sentences(begun, found)
    plan = begun.plan
    if json_:
        about = {
            "run": str(run),
            "what": plan.what,
            "bound": plan.bound,
            "seed": plan.seed,
            "sizes": plan.sizes,
        }
        print_json({**about, "statements": said, "findings": found, **done})
        return
    print_text(f"{found['answered']:,} of {found['looks']:,} looks answered")
    for sentence in said:
        print_text(sentence)
