"""``python -m ident3d`` is the ``ident3d`` command."""

from ident3d.cli import run

if __name__ == "__main__":
    run()
