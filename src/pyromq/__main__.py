"""`python -m pyromq` is the `pyromq` command."""

from .cli.main import main

main()
