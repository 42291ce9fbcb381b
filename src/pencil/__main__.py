"""``python -m pencil``, which is also what torchrun starts."""

from pencil.cli import main

if __name__ == "__main__":
    main()
