"""`mqadmin`: RocketMQ's administration command with the options and output of 5.5.0.

Exit codes: 0 done, 1 failed or refused (the Java tool leaves with 0 there), 2 nobody answered, 64 wrong usage.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Sequence

from ..ambient import SystemClock, system_random
from ..client.config import ClientConfig, name_servers
from ..client.connect.session import Session
from ..client.connect.tls_choice import from_environment
from ..client.errors import NoNameServer, Refused
from ..errors import CallFailed, PyroError
from ..model.codes import ResponseCode
from ..model.foreign_text import visible
from ..text.standard_streams import open_closed_streams
from . import catalogue
from .command import Failed, NotServed, Run, Subcommand
from .files import credentials
from .options import Chosen, UsageError, command_help, command_list, parse
from .printing import as_line

DONE, FAILED, NO_ANSWER, USAGE = 0, 1, 2, 64
TIMEOUT_S = 5.0

Print = Callable[[str], object]


def main() -> None:
    if sys.flags.optimize > 1:
        sys.exit("mqadmin: docstrings declare options here: run it without -OO and PYTHONOPTIMIZE=2")
    open_closed_streams()
    try:
        code = run(sys.argv[1:], sys.stdout.write, sys.stderr.write)
        sys.stdout.flush()
    except BrokenPipeError:  # `mqadmin topicList | head`
        sys.stderr.close()
        code = DONE
    except KeyboardInterrupt:
        code = 130
    gc.freeze()  # nothing is worth collecting at the end of a process: a tenth of a short command's time
    sys.exit(code)


def run(words: Sequence[str], raw_out: Print, raw_err: Print) -> int:
    """Run one command line and return its exit code. All that commands print is made visible here."""

    def out(text: str) -> None:
        raw_out(visible(text))

    def err(text: str) -> None:
        raw_err(visible(text))

    if not words or list(words) == ["help"]:
        out(command_list((each, catalogue.find(each).text) for each in catalogue.COMMANDS) + "\n")
        return DONE
    wants_help = words[0] == "help" and len(words) == 2
    name = words[1] if wants_help else words[0]
    known = catalogue.spelled(name)
    if known is None:
        out(f"The sub command {name} not exist.\n")
        from difflib import get_close_matches  # not at the top: most commands exist

        close = get_close_matches(name, catalogue.COMMANDS, 3)
        hint = f"did you mean {', '.join(close)}?" if close else "without arguments it lists all commands"
        err(f"mqadmin: {hint}\n")
        return USAGE
    command = catalogue.find(known)
    if wants_help:
        out(command_help(known, command.options) + "\n")
        return DONE
    return _run_command(command, words[1:], out, err)


def _run_command(command: Subcommand, words: Sequence[str], out: Print, err: Print) -> int:
    try:
        chosen = parse(command.options, words)
        if "h" in chosen:
            out(command_help(command.name, command.options) + "\n")
            return DONE
        if chosen.stray:
            err(f"mqadmin: ignored, as no option takes it: {' '.join(chosen.stray)}\n")
        asyncio.run(execute(command, chosen, out, err))
    except UsageError as fault:
        out(f"{fault}\n{command_help(command.name, command.options)}\n")
        return USAGE
    except BrokenPipeError:
        raise
    except (PyroError, Failed, OSError) as fault:
        err(f"mqadmin: {command.name} failed\nCaused by: {words_of(fault, command)}\n")
        return NO_ANSWER if isinstance(fault, CallFailed) else FAILED
    return DONE


async def execute(command: Subcommand, chosen: Chosen, out: Print, err: Print) -> None:
    config = ClientConfig(
        name_servers=name_servers(chosen.get("n") or None),
        instance="mqadmin",
        call_timeout_s=TIMEOUT_S,
        name_server_timeout_s=TIMEOUT_S,
        tls=from_environment().settings(),
        **credentials()._asdict(),
    )
    clock = SystemClock()
    session = Session(config, clock=clock, rng=system_random())  # not started: it asks, and is no member of anything
    try:
        await command.run(Run(chosen, session, clock, out, err))
    finally:
        await session.stop()


def words_of(fault: Exception, command: Subcommand) -> str:
    """Return what went wrong, and what to do where we know it."""
    if isinstance(fault, NoNameServer) and not fault.is_explained:
        return f"{str(fault).removesuffix(fault.hint).rstrip('. ')}. Is it running? Name others by -n or NAMESRV_ADDR"
    text = as_line(str(fault))
    if isinstance(fault, Refused):
        text = as_line(f"CODE: {fault.code}  DESC: {fault.remark} BROKER: {fault.address}")
    if command.waits_for and _lacks(fault):
        text += f"\nPyroMQ's own servers do not serve {command.name} yet: it waits for {command.waits_for}."
    return text


def _lacks(fault: Exception) -> bool:
    """Return whether the command failed because PyroMQ does not serve its request yet."""
    if isinstance(fault, Refused):
        return fault.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED or "controllerMode" in fault.remark
    return isinstance(fault, NotServed)
