"""`xla-equiv report`."""

import os
import sys
from pathlib import Path

import click

from xla_equiv.faces.markdown import render_markdown
from xla_equiv.faces.terminal import render_terminal, wants_colour
from xla_equiv.faces.tolerance_report import tolerance_json, tolerance_markdown, tolerance_table
from xla_equiv.store.atomic import write_bytes
from xla_equiv.store.report import read_report, write_report
from xla_equiv.store.runs import find_run_folder

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("report")
@click.argument("run", default="latest")
@click.option("--tolerances", "is_tolerances", is_flag=True, help="Show the tolerance report: what each group of keys used.")
@click.option("--markdown", type=FILE, help="Write the report as Markdown, for a job summary.")
@click.option("--json", "json_path", type=FILE, help="Write the report as JSON.")
@click.option("--tolerances-markdown", type=FILE, help="Write the tolerance report as Markdown.")
@click.option("--tolerances-json", type=FILE, help="Write the tolerance report as JSON.")
def command(
    run: str,
    is_tolerances: bool,
    markdown: Path | None,
    json_path: Path | None,
    tolerances_markdown: Path | None,
    tolerances_json: Path | None,
) -> int:
    """Render the report of RUN, a run folder or 'latest', again. Leaves with the exit code of the run."""
    report = read_report(find_run_folder(run).report)
    if json_path:
        write_report(report, json_path)
    for path, render in (
        (markdown, render_markdown),
        (tolerances_markdown, tolerance_markdown),
        (tolerances_json, tolerance_json),
    ):
        if path:
            write_bytes(path, render(report).encode())
    colour = wants_colour(is_terminal=sys.stdout.isatty(), environment=os.environ)
    click.echo(tolerance_table(report) if is_tolerances else render_terminal(report, colour=colour))
    return report.exit_code
