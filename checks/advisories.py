"""Asks pip-audit whether a package of this environment has a published vulnerability; a part of ``make check``.

What the service of advisories said is kept for a day and for these very packages, so that a check stays quick. Where it
cannot be reached, or knows no package, that is said and the check goes on; with ``ADVISORIES=required`` it fails.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

# Advisories that were looked at and do not concern this project: the reason by the advisory's id.
IGNORED: dict[str, str] = {}

_STAMP = Path(__file__).resolve().parent.parent / ".cache" / "advisories.json"
# Every package is known to a service that works, this one to each.
_PROBED = "django"
_PROBE_SECONDS = 30
_AUDIT_SECONDS = 300


class Audit(NamedTuple):
    """What pip-audit found out, or why it could not."""

    audited: int
    unknown: list[str]
    vulnerable: list[str]
    fault: str = ""


def main() -> int:
    """Print one line, and one more for each vulnerability; return the exit status."""
    stamp = _stamp()
    if _STAMP.is_file() and _STAMP.read_text() == stamp:
        print("advisories: none for these packages, asked earlier today")
        return 0
    audit = _audit_environment()
    if not audit.audited:
        required = os.environ.get("ADVISORIES") == "required"
        end = "ADVISORIES=required, so this fails." if required else "ADVISORIES=required makes this a failure."
        print(f"advisories: NOT CHECKED: {audit.fault or 'the service knows none of the packages'}. {end}")
        return int(required)
    for line in audit.vulnerable:
        print(f"advisories: {line}")
    unknown = f"; NOT CHECKED, since unknown there: {', '.join(audit.unknown)}" if audit.unknown else ""
    print(f"advisories: {audit.audited} packages checked, {len(audit.vulnerable)} vulnerabilities{unknown}")
    if audit.vulnerable:
        return 1
    _STAMP.parent.mkdir(exist_ok=True)
    _STAMP.write_text(stamp)
    return 0


def _audit_environment() -> Audit:
    """Ask about one package first: a service that does not answer, or knows nothing, is not asked about all."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(f"{_PROBED}=={metadata.version(_PROBED)}\n")
        requirements.flush()
        probe = _ask(_PROBE_SECONDS, "--requirement", requirements.name, "--no-deps", "--disable-pip")
    return _ask(_AUDIT_SECONDS, "--local") if probe.audited else probe


def _ask(timeout: float, *arguments: str) -> Audit:
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return Audit(0, [], [], f"the service did not answer within {timeout:g} s")
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        said = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        return Audit(0, [], [], f"the service cannot be reached ({said[-1][:200]})")
    return _read(packages)


def _read(packages: list[dict[str, Any]]) -> Audit:
    known = [package for package in packages if "skip_reason" not in package]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    vulnerable = [
        f"{package['name']} {package['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'none'}"
        for package in known
        for found in package["vulns"]
        if not {found["id"], *found["aliases"]} & IGNORED.keys()
    ]
    return Audit(len(known), unknown, vulnerable)


def _stamp() -> str:
    """Return a line that stands for these packages, what is ignored, and this day."""
    packages = sorted(f"{package.name}=={package.version}" for package in metadata.distributions())
    digest = hashlib.sha256("\n".join([*packages, *sorted(IGNORED)]).encode()).hexdigest()
    return json.dumps({"day": f"{datetime.now(UTC):%Y-%m-%d}", "packages": digest})


if __name__ == "__main__":
    sys.exit(main())
