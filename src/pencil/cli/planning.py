"""``pencil plan`` estimates the resources of a run; ``pencil presets`` shows named settings."""

from __future__ import annotations

from typing import Any

import click

from pencil.cli.options import as_json
from pencil.cli.output import human, print_json, print_pairs, say


@click.command()
@click.option("--rows", type=int, required=True, help="Training examples.")
@click.option("--classes", type=int, required=True, help="Classes.")
@click.option("--ranks", type=int, default=1, show_default=True, help="Processes that train together.")
@click.option(
    "--k", type=int, help="Classes to keep of each label row, the likeliest ones. [default: by memory]"
)
@click.option(
    "--batch-size", type=int, default=1024, show_default=True, help="Batch size, all ranks together."
)
@click.option(
    "--image-size",
    type=int,
    default=224,
    show_default=True,
    help="Side of an image in pixels; 0 for features.",
)
@click.option("--features", type=int, default=2048, show_default=True, help="Inputs of the last layer.")
@click.option("--parameters", type=int, help="Weights before the last layer. [default: ResNet-50's]")
@click.option("--memory", type=float, default=24.0, show_default=True, help="Memory of one rank in GiB.")
@click.option(
    "--parallel",
    type=click.Choice(["ddp", "fsdp"]),
    default="ddp",
    show_default=True,
    help="Copies or shards of the network.",
)
@as_json
def plan(json_: bool, memory: float, image_size: int, parameters: int | None, **sizes: Any) -> None:
    """Estimate memory, network traffic and checkpoint size.

    Sizes are exact counts. Times were measured on one rank with two slow cores; expect less on a faster machine.
    """
    from pencil.run import Plan

    chosen: dict[str, Any] = {} if parameters is None else {"parameters": parameters}
    planned = Plan(memory=int(memory * 2**30), image_size=image_size or None, **chosen, **sizes)
    figures = planned.figures()
    if json_:
        print_json({**figures, "advice": planned.advice})
        return
    print_pairs({name.replace("_", " "): human(name, value) for name, value in figures.items()})
    say(planned.advice)


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def presets(context: click.Context, json_: bool) -> None:
    """List named settings, or show one as TOML."""
    if context.invoked_subcommand is None:
        from pencil.presets import GROUPS, PRESETS, describe

        if json_:
            print_json({name: describe(name) for name in PRESETS})
            return
        for number, (title, group) in enumerate(GROUPS.items()):
            click.echo(f"{chr(10) if number else ''}{title}")
            print_pairs({f"  {name}": describe(name) for name in group})


@presets.command()
@click.argument("name")
@as_json
@click.pass_context
def show(context: click.Context, name: str, json_: bool) -> None:
    """Print the settings of preset NAME as TOML, ready to edit and pass to --config.

    Comments name the experiment, and our choices for settings that its description does not give.
    """
    from pencil.presets import choices, describe, preset

    config = preset(name, "PATH")
    if json_ or (context.parent and context.parent.params["json_"]):
        print_json(config.table())
        return
    for line in (describe(name), *choices(name)):
        click.echo(f"# {line}")
    click.echo(f"\n{config.toml()}", nl=False)
