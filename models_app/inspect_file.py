"""``python -m models_app.inspect_file PATH``: print what a model file says about itself, as JSON.

A process of its own, for files that nobody has vouched for.
"""

import json
import sys
from pathlib import Path

from models_app.engines import llamacpp
from models_app.engines.base import LoadError

_GGUF = b"GGUF"


def main(path: Path) -> None:
    """Print the metadata of the GGUF file at `path`, or exit with a reason."""
    with path.open("rb") as file:
        if file.read(4) != _GGUF:
            sys.exit("It does not begin as a GGUF file does.")
    try:
        tokenizer = llamacpp.open_tokenizer(path)
    except LoadError as error:
        sys.exit(str(error))
    json.dump(
        {
            "engine": "llamacpp",
            "format": "gguf",
            "architecture": tokenizer.metadata.get("general.architecture", ""),
            "trained_context_length": tokenizer.context_length,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
