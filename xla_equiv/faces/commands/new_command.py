"""`xla-equiv new`."""

from pathlib import Path

import click

from xla_equiv.faces.options import suites_option
from xla_equiv.faces.scaffold import new_suite


@click.command("new")
@click.argument("name")
@suites_option
def command(name: str, suites_folder: Path) -> None:
    """Write SUITES/NAME.py, a suite that runs, with the places to change marked TODO."""
    path = new_suite(name, suites_folder)
    click.echo(f"wrote {path}; run it: xla-equiv run {name}")
