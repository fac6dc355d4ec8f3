"""`python -m tests.crash.soak`: the long crash test, and ten thousand cancel races.

Prints a table on stderr as it goes and one JSON object on stdout; the exit status is 1 when any rule was broken. With
``--minutes`` it runs for that long beside purges and backups, and what grows is a violation as well.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_DIRECTORY = Path(tempfile.mkdtemp(prefix="lmsp-soak-"))
# Before Django reads its settings: the races run in this process, on a database of their own.
os.environ |= {
    "LMSP_DATA_DIR": str(_DIRECTORY / "races"),
    "LMSP_LOG_LEVEL": "WARNING",
    "DJANGO_SETTINGS_MODULE": "lmsp_site.settings",
}

import django

django.setup()

from tests.crash import growth
from tests.crash.growth import Growth
from tests.crash.harness import Plan, Tally, soaking
from tests.crash.races import Outcome, race
from tests.crash.record import Record
from tests.service import REPOSITORY

_SAMPLES = REPOSITORY / ".cache" / "soak"
# A shorter run is told and not judged: what has just started is still filling its caches.
_LEAST_RUN_MINUTES = 8.0
_LEAST_LIFE_SECONDS = 240.0


def main() -> None:
    """Run both, tell, and leave nothing behind but the data of a service that broke a rule."""
    arguments = _parse_arguments()
    # Whoever ends this run, by Ctrl-C or not, ends the service with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before its time"))
    races = _races(arguments.seed, arguments.races)
    plan = Plan(
        seed=arguments.seed,
        rounds=arguments.rounds,
        minutes=arguments.minutes,
        upkeep=arguments.minutes > 0,
        tasks=arguments.tasks,
        kills=arguments.kills,
        limit=arguments.limit,
    )
    tally, record = _soak(plan)
    grown = [*growth.of_run(record), *growth.of_lives(record, _LEAST_LIFE_SECONDS)]
    judged = arguments.minutes >= _LEAST_RUN_MINUTES
    violations = [*races.violations, *tally.violations]
    if judged:
        violations += [f"it grew: {one}" for one in grown if not one.is_flat]
    _say(_table(tally, races))
    if plan.upkeep:
        _say(_flatness(grown, judged=judged))
        _keep(record, arguments.plot)
    found = {"growth": {"judged": judged, "found": [one.to_dict() for one in grown]}} if plan.upkeep else {}
    told = {"seed": arguments.seed, **tally.to_dict(), "races": races.to_dict(), **found, "violations": violations}
    print(json.dumps(told))
    if violations:
        sys.exit(f"{len(violations)} violations; database and log are kept in {_DIRECTORY}")
    shutil.rmtree(_DIRECTORY)


def _races(seed: int, count: int) -> Outcome:
    began = time.monotonic()
    outcome = race(seed, count)
    _say(f"{count} cancel races: {time.monotonic() - began:.0f} s")
    for violation in outcome.violations:
        _say(f"  {violation}")
    return outcome


def _soak(plan: Plan) -> tuple[Tally, Record]:
    if not (plan.rounds or plan.minutes):
        return Tally(), Record()
    _say("Starting the service, and computing the twins …")
    told = 0

    def tell(tally: Tally) -> None:
        nonlocal told
        _say(_progress(tally))
        for violation in tally.violations[told:]:
            _say(f"  {violation}")
        told = len(tally.violations)

    with soaking(_DIRECTORY / "data", plan) as soak:
        return soak.run(after_round=tell), soak.sampler.record


def _progress(tally: Tally) -> str:
    return (
        f"round {tally.rounds}: {tally.seconds / tally.rounds:.0f} s each, {tally.kills.total()} kills,"
        f" {tally.tasks.total()} tasks, {len(tally.violations)} violations,"
        f" {tally.resumed_exactly} of {tally.resumed} resumes exact"
    )


def _table(tally: Tally, races: Outcome) -> str:
    rows: list[tuple[str, object]] = [
        ("rounds", tally.rounds),
        ("kills", tally.kills.total()),
        *((f"  {victim}", count) for victim, count in sorted(tally.kills.items())),
        ("tasks", tally.tasks.total()),
        *((f"  {outcome}", count) for outcome, count in sorted(tally.tasks.items())),
        ("readers", tally.readers),
        ("  times one was cut off", tally.interruptions),
        ("cancels over HTTP", tally.cancels),
        ("retried tasks", tally.retried),
        ("resumed tasks", tally.resumed),
        ("  equal to their twin", tally.resumed_exactly),
        ("replays that began at a checkpoint", tally.from_checkpoints),
        ("cancel races", sum(races.winners.values())),
        *((f"  {contest}", count) for contest, count in sorted(races.winners.items())),
        *((name.replace("_", " "), count) for name, count in tally.upkeep.items()),
        ("violations", len(tally.violations) + len(races.violations)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value:>7}" for name, value in rows)


def _flatness(grown: Sequence[Growth], *, judged: bool) -> str:
    rows = [f"  {'' if one.is_flat else 'GREW  '}{one}" for one in grown]
    verdict = "" if judged else f", which is judged from {_LEAST_RUN_MINUTES:g} minutes on"
    return "\n".join([f"Medians of the second quarter and of the last{verdict}:", *rows])


def _keep(record: Record, plot: Path | None) -> None:
    record.save(_SAMPLES)
    _say(f"The samples are in {_SAMPLES}")
    if plot:
        # Imported here: nobody else needs the library.
        from tests.crash import figure

        figure.draw(record, plot)
        _say(f"The figure is {plot}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description="Kill parts of the service under load.")
    add = parser.add_argument
    add("--rounds", type=int, default=50)
    add("--minutes", type=float, default=0.0, help="for so long in place of rounds, beside purges and backups")
    add("--plot", type=Path, help="a file for the figure of memory and handles, with --minutes; its ending decides")
    add("--seed", type=int, default=1, help="decides what is ordered, and who is killed when")
    add("--tasks", type=int, default=10, help="tasks of a round")
    add("--kills", type=int, default=2, help="kills of a round")
    add(
        "--limit", type=float, default=Plan.limit, help="seconds after which a round is given up; more where it is busy"
    )
    add("--races", type=int, default=10_000, help="cancel races in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
