"""`pyromq completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from .terminal.printing import print_text
from .terminal.tree import command


@command(
    "pyromq completion bash >> ~/.bashrc",
    "pyromq completion zsh >> ~/.zshrc",
    "pyromq completion fish > ~/.config/fish/completions/pyromq.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for bash (4.4 or newer), zsh or fish."""
    from click.shell_completion import get_completion_class

    from .main import cli

    found = get_completion_class(shell)
    assert found is not None  # click knows the three
    # `source` asks the installed bash for its version; the script itself is what is wanted here.
    script = found(cli, {}, "pyromq", "_PYROMQ_COMPLETE")
    print_text(script.source_template % script.source_vars())
