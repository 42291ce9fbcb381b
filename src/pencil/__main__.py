"""``python -m pencil``, also used by torchrun."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # -m puts the current folder first on the import path; its modules must be imported on request only.
    if not sys.flags.safe_path and sys.path[0] == str(Path.cwd()):
        del sys.path[0]

    from pencil.cli import main

    main()
