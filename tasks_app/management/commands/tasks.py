"""Tasks on the command line."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from clients_app.lookup import UnknownClient
from lmsp_site.errors import ProtocolError
from lmsp_site.management.base import ServiceCommand
from lmsp_site.models import RestartPolicy
from tasks_app import cancelling, pages
from tasks_app.console import colours, deeds, finding, listing, showing, tables, tailing, telling
from tasks_app.event_log import Entry
from tasks_app.models import Task
from tasks_app.states import Status

_ID_HELP = "a task's id, its beginning or its end, or the id of its response"
_MOST_LISTED = 1000
_INTERRUPTED = 130


class Command(ServiceCommand):
    """``tasks list | show | tail | cancel | rerun``."""

    help = "List, show, follow, cancel and rerun tasks. Ids may be shortened to any beginning or end that is unique."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the subcommands; each takes ``--json``."""
        super().add_arguments(parser)
        actions = parser.add_subparsers(dest="action", required=True, metavar="list | show | tail | cancel | rerun")
        listed = self._action(actions, "list", "list tasks, newest first")
        listed.add_argument("--status", choices=list(map(str, Status)))
        listed.add_argument("--client", help="name or id of a client")
        listed.add_argument("--model", help="id of a model")
        listed.add_argument("--policy", choices=RestartPolicy.values)
        listed.add_argument("--limit", type=_limit, default=20, help=f"how many at most (20; {_MOST_LISTED} at most)")
        cursor = listed.add_mutually_exclusive_group()
        cursor.add_argument("--after", metavar="ID", help="what follows this task in the list: older ones")
        cursor.add_argument("--before", metavar="ID", help="what stands before it: newer ones")
        shown = self._action(actions, "show", "show everything about a task")
        shown.add_argument("id", help=_ID_HELP)
        shown.add_argument("--full", action="store_true", help="long texts to their end")
        followed = self._action(
            actions,
            "tail",
            "print a task's text and follow it to its end; states go to stderr. Exit status 0: it completed, 1: it did "
            "not. With --json nothing is printed until the end, then one object: id, status, events, output_text",
        )
        followed.add_argument("id", help=_ID_HELP)
        followed.add_argument("--events", action="store_true", help="print each event as a line of JSON instead")
        cancelled = self._action(actions, "cancel", "cancel tasks; exit status 1 where one does not exist")
        cancelled.add_argument("ids", metavar="id", nargs="+", help=_ID_HELP)
        again = self._action(actions, "rerun", "accept a task's request once more, as a new task")
        again.add_argument("id", help=_ID_HELP)
        again.add_argument("--tail", action="store_true", help="follow the new task to its end")

    @staticmethod
    def _action(actions: Any, name: str, description: str) -> CommandParser:
        parser: CommandParser = actions.add_parser(name, help=description.split(";")[0], description=description)
        # Also behind the subcommand; not to be overwritten there when it stood before it.
        for flag, meaning in (("--json", "print exactly one JSON object"), ("--no-color", "without colours")):
            parser.add_argument(flag, action="store_true", default=argparse.SUPPRESS, help=meaning)
        return parser

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the subcommand says, and tell by the exit status whether it came out well."""
        if options["no_color"]:
            os.environ["NO_COLOR"] = "1"
        self.style = colours.chosen(self.style)
        self._action_name = options["action"]
        try:
            super().handle(*args, **options)
        except (finding.NotOne, UnknownClient, deeds.NothingToRun, ProtocolError) as refusal:
            raise CommandError(str(refusal)) from refusal
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except BrokenPipeError:
            # Whoever read has had enough. What is left in the buffer goes nowhere, or Python would complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_INTERRUPTED)

    def finish(self) -> None:
        """See here, and not when Python ends, whether whoever reads has had enough."""
        self.stdout.flush()
        super().finish()

    def run(self, **options: Any) -> dict[str, Any]:
        """Do it."""
        self._options = options
        action: Any = getattr(self, f"_{self._action_name}")
        answer: dict[str, Any] = action(options)
        return answer

    def describe(self, answer: dict[str, Any]) -> None:
        """Tell a person what it came to; `tail` has told already."""
        tell: Any = getattr(self, f"_tell_{self._action_name}")
        for line in tell(answer):
            self.stdout.write(line)

    def _list(self, options: dict[str, Any]) -> dict[str, Any]:
        wanted = listing.Filter(
            status=options["status"],
            client=options["client"],
            model=options["model"],
            policy=options["policy"],
            older_than=finding.task(options["after"]).id if options["after"] else None,
            newer_than=finding.task(options["before"]).id if options["before"] else None,
        )
        found, has_more = listing.newest(wanted, options["limit"])
        return pages.list_object(list(listing.items(found)), has_more=has_more)

    def _tell_list(self, answer: dict[str, Any]) -> Sequence[str]:
        if not answer["data"]:
            return ["No task."]
        if answer["has_more"] and sys.stderr.isatty():
            cursor = f"--before {answer['first_id']}" if self._options["before"] else f"--after {answer['last_id']}"
            self._aside(f"There are more: {cursor}")
        return list(listing.lines(answer["data"], self.style, tables.width_of(sys.stdout)))

    def _show(self, options: dict[str, Any]) -> dict[str, Any]:
        return showing.details(finding.task(options["id"]))

    def _tell_show(self, answer: dict[str, Any]) -> Sequence[str]:
        page = telling.Page(answer, self.style, tables.width_of(sys.stdout), full=self._options["full"])
        return list(page.lines())

    def _tail(self, options: dict[str, Any]) -> dict[str, Any]:
        if options["events"] and options["json"]:
            raise CommandError("--events prints a JSON object for each event, --json one for all: choose one.")
        return self._watched(finding.task(options["id"]), silent=options["json"], events=options["events"])

    def _tell_tail(self, answer: dict[str, Any]) -> Sequence[str]:
        return []

    def _cancel(self, options: dict[str, Any]) -> dict[str, Any]:
        before: dict[str, str] = {}
        unknown = {}
        for text in options["ids"]:
            try:
                task = finding.task(text)
                before[task.id] = task.status
            except finding.NotOne as error:
                unknown[text] = str(error)
                self.exit_status = 1
        after = cancelling.cancel_and_wait(list(before))
        tasks = [{"id": task_id, "before": before[task_id], "status": after[task_id]} for task_id in before]
        return {"tasks": tasks, "unknown": unknown}

    def _tell_cancel(self, answer: dict[str, Any]) -> Sequence[str]:
        for message in answer["unknown"].values():
            self.stderr.write(message)
        return [f"{one['id']}  {self._outcome(**one)}" for one in answer["tasks"]]

    def _rerun(self, options: dict[str, Any]) -> dict[str, Any]:
        old = finding.task(options["id"])
        new = deeds.rerun(old)
        answer = {"id": new.id, "response_id": new.response.id, "status": str(new.status), "rerun_of": old.id}
        if not options["tail"]:
            return answer
        if not options["json"]:
            self._aside(new.id)
        return answer | self._watched(new, silent=options["json"], events=False)

    def _tell_rerun(self, answer: dict[str, Any]) -> Sequence[str]:
        return [] if self._options["tail"] else [answer["id"]]

    def _watched(self, task: Task, *, silent: bool, events: bool) -> dict[str, Any]:
        """Follow `task` to its end, showing its text, its events or nothing."""
        watcher = tailing.Watcher(task.id)
        screen = tailing.Screen(watcher, sys.stdout, sys.stderr)
        show = _pass if silent else _print_event if events else screen.show
        try:
            watcher.watch(show)
        except KeyboardInterrupt:
            screen.end_line()
            raise
        if watcher.status != Status.COMPLETED:
            self.exit_status = 1
        if watcher.status == "deleted":
            screen.aside(f"{task.id} was deleted")
        return {
            "id": task.id,
            "status": watcher.status,
            "events": watcher.events,
            "output_text": watcher.output.text,
        }

    def _outcome(self, before: str, status: str, **_: str) -> str:
        """Say what a cancel has come to."""
        remark = "" if status == Status.CANCELLED else "finished before it could be cancelled"
        if before == status:
            remark = "was so before" if status == Status.CANCELLED else "had finished before; nothing was changed"
        elif status == Status.CANCELLING:
            remark = "its worker has not stopped yet"
        return f"{colours.of_status(self.style, status)(status)}  {remark}".rstrip()

    @staticmethod
    def _aside(text: str) -> None:
        sys.stderr.write(colours.dim(sys.stderr, text) + "\n")
        sys.stderr.flush()


def _limit(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST_LISTED:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_MOST_LISTED}")
    return value


def _pass(_entry: Entry) -> None:
    """Show nothing."""


def _print_event(entry: Entry) -> None:
    sys.stdout.write(entry.to_json() + "\n")
    sys.stdout.flush()
