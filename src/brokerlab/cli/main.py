"""The program `brokerlab`: its commands, and what becomes of an error on its way out.

LabError                its message and hint, and the exit code that it carries
a wrong command line    what is wrong, the nearest name, 64
Ctrl-C, SIGTERM         what is finished and how to go on, 130
anything else           a bug of ours: the traceback, 70
"""

import errno
import signal
import sys
import traceback
from importlib import import_module
from typing import Annotated

import typer

import brokerlab
from brokerlab.cli.terminal import say, warn
from brokerlab.errors import ExitCode, LabError

EXIT_CODES = {
    ExitCode.VALID: "everything is valid",
    ExitCode.CHECK_FAILED: "a check failed: a run is not valid, a contract is broken",
    ExitCode.UNKNOWN: "unknown: nothing failed, but a contract could not be decided",
    ExitCode.BAD_INPUT: "bad input: the study, an option or the machine must change",
    ExitCode.OUR_BUG: "a bug of brokerlab",
    ExitCode.INTERRUPTED: "interrupted",
}
_VERSION = "--version"
_KEEP_LINES = "\b\n"  # Click's mark of a paragraph that it must not fill
_EPILOG = _KEEP_LINES + "\n".join(["Exit codes:", *(f"{code.value:>5}  {text}" for code, text in EXIT_CODES.items())])

# In the order of the help text: the module in brokerlab.cli and what of it is the command, or the group of commands.
_COMMANDS = {
    "doctor": ("doctor", "doctor"),
    "calibrate": ("calibrate", "calibrate"),
    "presets": ("presets", "app"),
    "brokers": ("brokers", "app"),
    "plan": ("plan", "plan"),
    "run": ("run", "run"),
    "analyze": ("analyze", "analyze"),
    "show": ("show", "show"),
    "report": ("report", "report"),
    "quality": ("quality", "app"),
    "claims": ("claims", "claims"),
    "published": ("published", "show_published"),
    "bridge": ("bridge", "bridge"),
    "compare": ("compare", "compare"),
    "bundle": ("bundle", "bundle"),
    "import": ("importing", "import_results"),
    "clean": ("clean", "clean"),
}


def app_for(first: str) -> typer.Typer:
    """The program for a command line that begins with this word.

    Only the command that is called is loaded: all of them together take seconds, most of it for libraries that
    few of them need.
    """
    app = typer.Typer(
        name="brokerlab",
        help="A laboratory for MQTT brokers: from a study file to a report that can be believed.",
        epilog=_EPILOG,
        invoke_without_command=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in [first] if first in _COMMANDS else _COMMANDS if first != _VERSION else ():
        module, attribute = _COMMANDS[name]
        command = getattr(import_module(f"brokerlab.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        say(f"brokerlab {brokerlab.__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option(_VERSION, callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


def main() -> None:
    """The console script: runs one command and exits with its code."""
    _stop_like_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without µ still gets the line
    sys.exit(_exit_code())


def _stop_like_ctrl_c() -> None:
    """Whatever asks us to stop gives every `finally` its turn, so that no broker is left running."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP on purpose
            signal.signal(number, signal.default_int_handler)


def _our_bug() -> int:
    """A bug keeps its traceback and gets its exit code."""
    traceback.print_exc()
    _explain("this is a bug of brokerlab", "please report it with the lines above")
    return ExitCode.OUR_BUG


def _exit_code() -> int:
    try:
        code = app_for(*sys.argv[1:2] or [""])(standalone_mode=False, prog_name="brokerlab")
        sys.stdout.flush()
    except LabError as error:
        _explain(error.message, error.hint)
        return error.exit_code
    except typer.TyperException as error:
        _explain(error.format_message(), f"see `{_asked_command()} --help`")
        return ExitCode.BAD_INPUT
    except BrokenPipeError:
        return _left_by_reader()
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            return _our_bug()
        _explain(f"{problem.filename or 'the disk'}: {problem.strerror}", "make room, or take another --out")
        return ExitCode.BAD_INPUT
    except Exception:  # noqa: BLE001 - the last one to see it
        return _our_bug()
    if code == ExitCode.INTERRUPTED:
        warn("brokerlab: interrupted")
    return code if isinstance(code, int) else ExitCode.VALID


def _explain(message: str, hint: str) -> None:
    first, *others = message.splitlines() or [""]
    warn(f"brokerlab: {first}")
    for line in others:
        warn(f"           {line}")
    for line in hint.splitlines():
        warn(f"           {line}")


def _asked_command() -> str:
    """The command that was called, as far as it is one."""
    return " ".join(["brokerlab", *(argument for argument in sys.argv[1:2] if argument in _COMMANDS)])


def _left_by_reader() -> int:
    """`brokerlab show ... | head`: the reader has enough, and nobody wants to hear of it."""
    sys.stdout = None  # or Python flushes it once more at exit, and complains
    return ExitCode.VALID


if __name__ == "__main__":
    main()
