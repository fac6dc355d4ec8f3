"""The demo model with another chat template: one that has it think before it answers, and shows it tools."""

import shutil
from pathlib import Path

from models_app.engines import llamacpp
from tests.service import demo_model

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}<tool_call></tool_call>{% endif %}<|im_start|>assistant\n<think>\n{# </think> #}"
)


def make(path: Path) -> Path:
    """Write the model to `path`: the template is put over the one in the file, and filled up to its length."""
    original = llamacpp.open_tokenizer(demo_model()).chat_template
    assert original is not None
    new = TEMPLATE.encode()
    new += b"{#" + b" " * (len(original.encode()) - len(new) - 4) + b"#}"
    shutil.copy(demo_model(), path)
    with path.open("r+b") as file:
        at = file.read(4 << 20).index(original.encode())
        file.seek(at)
        file.write(new)
    assert llamacpp.open_tokenizer(path).chat_template == new.decode()
    return path
