"""``python -m ident3d`` is the ``ident3d`` command."""

from ident3d.cli import main

if __name__ == "__main__":
    main()
