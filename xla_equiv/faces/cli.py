"""The `xla-equiv` command. Each sub-command is imported when it is called, so that help stays fast."""

import importlib
import os
import sys
import traceback

import click

from xla_equiv import __version__
from xla_equiv.values.errors import Interrupted, XlaEquivError
from xla_equiv.values.verdict import EXIT_COULD_NOT_RUN

COMMANDS = {
    "doctor": "Check versions, the torch pair, devices and folders; every problem with its fix.",
    "list": "List suites, what each catches, variants, backends, and goldens with their age.",
    "run": "Train the variants of suites and compare them; the exit code says whether they agree.",
    "compare": "Compare two saved traces.",
    "golden": "Accept, compare, check and prune goldens.",
    "report": "Render the report of a run again.",
    "show": "Show saved values of one test, key by key and step by step.",
    "new": "Start a suite.",
}

EXIT_CODES = "Exit codes: 0 equivalent, 1 numeric difference, 2 usage or bad input, 3 could not run, 4 golden missing, stale or unused."


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: D102
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"xla_equiv.faces.commands.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: D102
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xla-equiv")
def cli() -> None:
    """Does this way of training compute the same thing as the trusted one?"""


def main() -> None:
    """Run the command line, and leave with the exit code that the outcome has."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        code = 2
    except click.ClickException as error:
        error.show()
        code = 2
    except XlaEquivError as error:
        click.echo(str(error), err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(str(Interrupted("interrupted")), err=True)
        code = Interrupted.exit_code
    except SystemExit:  # click's way out, with code 1, when the reader of the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 2
    except Exception:  # noqa: BLE001 (Python would leave with 1, which says that numbers differ)
        traceback.print_exc()
        code = EXIT_COULD_NOT_RUN
    sys.exit(code if isinstance(code, int) else 0)
