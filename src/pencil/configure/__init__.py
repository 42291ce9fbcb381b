"""The settings of a run from what somebody says: a path, a few options, an earlier run.

The settings themselves are ``config``; here is what they are when nobody says.
"""

from pencil.configure.continuing import continued
from pencil.configure.settings import (
    apply_settings,
    check_reading,
    choose_encoder,
    data_section,
    parse_noise,
    train_config,
    words_of,
)

__all__ = [
    "apply_settings",
    "check_reading",
    "choose_encoder",
    "continued",
    "data_section",
    "parse_noise",
    "train_config",
    "words_of",
]
