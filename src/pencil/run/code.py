"""Code that settings name, and whether it may be imported.

Importing a module runs it, and run folders are shared. Code that a file names is therefore imported only with the
user's permission. Code named on the command line or in Python is always imported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pencil.config import RunConfig
from pencil.config.methods import OwnMethod
from pencil.embed import named_code as code_of_encoder
from pencil.embed.finetune import NAME as FINETUNED
from pencil.errors import RunError
from pencil.kinds import DataSection, kind_of
from pencil.models import named_code
from pencil.results import read_card
from pencil.run.directory import RunDirectory

Trust = bool | Collection[str]
"""True, or the import paths that are trusted."""


def code_in(config: RunConfig) -> dict[str, str]:
    """The code that the settings name, by field."""
    method = {"method.name": config.method.name} if isinstance(config.method, OwnMethod) else {}
    return code_of_data(config.data) | code_of_model(config.model.name, config.model.args) | method


def code_of_data(data: DataSection) -> dict[str, str]:
    """The code that makes or encodes the data, if any."""
    encoder = None if data.embed is None else code_of_encoder(data.embed)
    return code_of_rows(data) | ({} if encoder is None else {"data.embed": encoder})


def code_of_rows(data: DataSection) -> dict[str, str]:
    """The code that makes the rows of the data, which is all that is needed to show them."""
    return {"data.path": data.path} if kind_of(data).is_code else {}


def code_of_model(name: str, args: Mapping[str, Any]) -> dict[str, str]:
    """The code that building the network would import."""
    if name == FINETUNED:
        encoder, head = str(args.get("encoder", "")), str(args.get("head", ""))
        found = {
            "model.args.encoder": code_of_encoder(encoder),
            "model.args.head": named_code(head, args.get("head_args", {})),
        }
    else:
        found = {"model.name": named_code(name, args)}
    return {field: code for field, code in found.items() if code is not None}


def code_of_run(directory: RunDirectory) -> dict[str, str]:
    """The code that building the trained network of a finished run would import."""
    card = read_card(directory.path)
    return code_of_model(card.name, card.args)


def check_code(named: Mapping[str, str], trust: Trust, *, source: object) -> None:
    """Check that code named by a file is trusted.

    Raises:
        RunError: Some of the code is not trusted.
    """
    refused = {
        field: code for field, code in named.items() if trust is not True and (not trust or code not in trust)
    }
    if refused:
        raise RunError(
            f"{source} names code to run: {', '.join(f'{field} = {code!r}' for field, code in refused.items())}; "
            "if you trust it, add --trust-code (its folder must be on PYTHONPATH)"
        )
