"""The Hugging Face hub, behind one file. Nothing else of the service asks anybody outside of this machine."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlparse

from models_app.digests import OnBytes
from models_app.formats.description import text
from models_app.refusals import CannotRegister

T = TypeVar("T")

# Read by the library when it is first imported. Plain HTTP, by which an interrupted transfer can be gone on with.
_QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_XET": "1",
}


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository.

    Attributes:
        name: with its folders.
        size: in bytes.
        sha256: in hexadecimal; empty for small files, of which the hub states `blob`.
        blob: git's digest of it, in hexadecimal.
    """

    name: str
    size: int
    sha256: str
    blob: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub at one commit."""

    name: str
    commit: str
    license: str
    files: tuple[HubFile, ...]


class _Counted:
    """A file that tells how much is written to it."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.seek, self.tell, self.truncate = file.seek, file.tell, file.truncate

    def write(self, block: bytes) -> int:
        written = self._file.write(block)
        self._on_bytes(written)
        return written


def look(repository: str, revision: str | None) -> Repository:
    """Ask the hub what a repository holds.

    Raises:
        CannotRegister: the hub cannot be reached, or does not show it.
    """

    def ask() -> Repository:
        from huggingface_hub import HfApi

        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
        files = tuple(
            HubFile(found.rfilename, found.size or 0, found.lfs.sha256 if found.lfs else "", found.blob_id or "")
            for found in info.siblings or ()
        )
        return Repository(repository, info.sha or "", _license(info), files)

    return _asking(repository, ask)


def fetch(repository: Repository, file: HubFile, target: Path, on_bytes: OnBytes) -> None:
    """Download a file, or what `target` lacks of it.

    Raises:
        CannotRegister: the transfer was broken off; what has come stays, and the next call goes on with it.
    """

    def ask() -> None:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        url = hf_hub_url(repository.name, file.name, revision=repository.commit)
        location = get_hf_file_metadata(url).location
        headers = build_hf_headers()
        if urlparse(location).netloc != urlparse(url).netloc:
            # Where large files lie is no business of the token.
            headers.pop("authorization", None)
        headers["Accept-Encoding"] = "identity"
        with target.open("ab") as opened:
            counted: Any = _Counted(opened, on_bytes)
            there = opened.tell()
            http_get(location, counted, resume_size=there, headers=headers, expected_size=file.size)
            opened.flush()
            os.fsync(opened.fileno())

    _asking(repository.name, ask)


def _asking(repository: str, ask: Callable[[], T]) -> T:
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    try:
        from huggingface_hub import errors
    except ImportError:
        raise CannotRegister("To pull models the package huggingface_hub is needed; it is not installed.") from None
    try:
        return ask()
    except errors.GatedRepoError as error:
        raise CannotRegister(
            f"{repository} asks for its terms to be accepted on its page; then set HF_TOKEN to a token of yours."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise CannotRegister(f"{repository} has no such revision.") from error
    except errors.RepositoryNotFoundError as error:
        raise CannotRegister(f"The hub has no {repository}, or shows it only with a token in HF_TOKEN.") from error
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:  # type: ignore[attr-defined]
        reason = text(error).rstrip(".")
        raise CannotRegister(f"{repository} could not be pulled: {reason}. Pull again to go on.") from error


def _license(info: Any) -> str:
    stated = info.card_data.get("license") if info.card_data else None
    tagged = (tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:"))
    return text(stated or next(tagged, ""))
