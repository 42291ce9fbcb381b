"""``python -m pencil``, which is also what torchrun starts."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # -m puts the current folder first on the import path; what lies there is imported only where it is asked for.
    if not sys.flags.safe_path and sys.path[0] == str(Path.cwd()):
        del sys.path[0]

    from pencil.cli import main

    main()
