"""``python -m models_app.inspect_file PATH…``: print what a model's files say about themselves, as JSON.

A process of its own, with bounds of its own, for files that nobody has vouched for. Paths are one GGUF file, the parts
of one in their order, or one folder.
"""

import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path

from lmsp_site.processes import end_with_parent
from models_app.formats.description import Description, Unreadable, text

_MOST_MEMORY = 2 << 30
_MOST_SECONDS = 100


def main(paths: list[Path]) -> None:
    """Print the metadata of the model at `paths`, or exit with a reason."""
    end_with_parent()
    bound()
    try:
        description = _describe(paths)
    except Unreadable as refusal:
        sys.exit(str(refusal))
    except MemoryError:
        sys.exit("To read it would take more memory than for any model.")
    except RecursionError:
        sys.exit("It is nested deeper than any model's file.")
    except Exception as error:  # noqa: BLE001 - the parsers were not made for files of this kind
        sys.exit(f"It cannot be read: {type(error).__name__}: {text(error)}")
    json.dump(asdict(description), sys.stdout)


def bound() -> None:
    """Bound what this process may take."""
    # Not of the address space: a file that is mapped may be larger than memory, and costs none.
    for kind, most in (
        (resource.RLIMIT_DATA, _MOST_MEMORY),
        (resource.RLIMIT_CPU, _MOST_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _describe(paths: list[Path]) -> Description:
    if paths[0].is_dir():
        from models_app.formats import safetensors_folder

        return safetensors_folder.describe(paths[0])
    from models_app.formats import gguf_file

    return gguf_file.describe(paths)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
