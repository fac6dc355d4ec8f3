"""`python -m bench`: measure, print a table on stderr and one JSON object on stdout.

The exit status is 1 when something kept it from measuring, or when the service's text is not the raw loop's. A target
that is missed is told, and is no error: it may be the machine's fault.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from bench import measurements, report
from bench.comparison import DifferentOutput
from bench.raw import RawLoopError
from bench.service import REPOSITORY, ServiceError
from bench.subjects import Options, Subjects
from lmsp_site.bootstrap import demo_model
from models_app.engines.cores import default_threads


def main() -> None:
    """Run the measurements that were asked for."""
    arguments = _parse_arguments()
    if not arguments.model.is_file():
        sys.exit(f"{arguments.model} is missing: `make bench` fetches the demo model")
    options = Options(
        model=arguments.model.resolve(),
        threads=arguments.threads,
        max_running=arguments.max_running,
        tokens=arguments.tokens,
        rounds=arguments.rounds,
        samples=arguments.samples,
        patience=arguments.patience,
        purge_seconds=arguments.purge_seconds,
        growth_steps=arguments.growth_steps,
    )
    try:
        outcome = _measure(options, arguments.only or list(measurements.ALL))
    except (DifferentOutput, RawLoopError, ServiceError) as error:
        sys.exit(f"bench: {error}")
    text = json.dumps(outcome, indent=2, ensure_ascii=False)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    print(text)


def _measure(options: Options, names: list[str]) -> dict[str, object]:
    findings = []
    with tempfile.TemporaryDirectory(prefix="lmsp-bench-") as directory:
        _say("Starting the service …")
        with Subjects(options, Path(directory)) as subjects:
            threads = options.threads or "measured"
            _say(f"{options.model.name}, threads: {threads}, {options.max_running} at once")
            for name in names:
                began = time.monotonic()
                found = measurements.ALL[name](subjects)
                _say("".join(f"{report.line(each)}\n" for each in found) + f"  in {time.monotonic() - began:.0f} s")
                findings += found
            outcome = report.summary(subjects, findings)
    _say("\n" + report.table(findings))
    return outcome


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS='…'", description="Measure the service beside the bare engine."
    )
    add = parser.add_argument
    add("--only", action="append", choices=list(measurements.ALL), help="measure this alone; may be repeated")
    add("--output", type=Path, help="a file for the JSON, besides stdout")
    add("--model", type=Path, default=demo_model.path(REPOSITORY / ".cache"), help="a GGUF file; the demo model")
    add(
        "--threads",
        type=int,
        default=default_threads(),
        help="of all sides; all cores but one. 0: the service chooses while it works, the others have all cores",
    )
    add("--max-running", type=int, default=4, help="tasks that the service runs at once; 8 measures 8 at once, too")
    add("--tokens", type=int, default=192, help="tokens of each response")
    add("--rounds", type=int, default=5, help="rounds of each comparison of speeds")
    add("--samples", type=int, default=20, help="samples of the first token")
    add("--purge-seconds", type=float, default=60.0, help="after which the purge is broken off; 900 lets it end")
    add("--growth-steps", type=int, default=4, choices=(2, 3, 4), help="sizes that growth is measured at")
    add("--patience", type=float, default=0.0, help="seconds for which each comparison waits for a quiet machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
