"""GGUF files: whole, or split into parts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf

from models_app.engines import llamacpp
from models_app.engines.base import LoadError
from models_app.formats.description import Description, Unreadable, count, text

MAGIC = b"GGUF"
_MOST_FIELDS, _MOST_TENSORS, _MOST_DIMENSIONS = 65_536, 1 << 20, 8
_COUNTS_AT, _COUNTS_END = 8, 24
_CUT_OFF = "It is cut off: what it says that it holds goes beyond its end."


class _Reader(gguf.GGUFReader):
    """The package's reader, which passes over vocabularies and does not believe a length before it has looked."""

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
        found = super()._get(offset, dtype, count, override_order)
        if len(found) != int(count):
            raise Unreadable(_CUT_OFF)
        return found

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type != gguf.GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        # Element by element the package takes seconds for a vocabulary, and nobody asks for it here.
        kind = int(self._get(orig_offs, "<u4")[0])
        length = int(self._get(orig_offs + 4, "<u8")[0])
        types = [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType(kind)]
        start = orig_offs + 12
        if kind == gguf.GGUFValueType.ARRAY:
            raise Unreadable("It has arrays of arrays, as no model has.")
        if kind == gguf.GGUFValueType.STRING:
            return self._end_of_texts(start, length) - orig_offs, [], [], types
        size = length * self.gguf_scalar_to_np[types[1]]().itemsize
        if start + size > len(self.data):
            raise Unreadable(_CUT_OFF)
        return 12 + size, [], [], types

    def _end_of_texts(self, offset: int, length: int) -> int:
        data = memoryview(self.data)  # type: ignore[arg-type]
        for _ in range(length):
            offset += 8 + int.from_bytes(data[offset : offset + 8], "little")
            if offset > len(data):
                raise Unreadable(_CUT_OFF)
        return offset

    def _get_tensor_info_field(self, orig_offs: int) -> Any:
        length = int(self._get(orig_offs, "<u8")[0])
        if int(self._get(orig_offs + 8 + length, "<u4")[0]) > _MOST_DIMENSIONS:
            raise Unreadable("It has a tensor of more dimensions than any model's.")
        return super()._get_tensor_info_field(orig_offs)


def describe(parts: Sequence[Path]) -> Description:
    """Read the metadata of a model in one file or several.

    Raises:
        Unreadable: a part is damaged or does not belong to the others, or llama.cpp does not take the model.
    """
    readers = [_read(part) for part in parts]
    fields = _scalars(readers[0])
    _check_split(readers)
    architecture = text(fields.get("general.architecture"))[:50]
    try:
        # What this engine takes only it can tell: an unknown architecture, a vocabulary of another kind.
        llamacpp.open_tokenizer(parts[0])
    except LoadError as error:
        raise Unreadable(f"llama.cpp does not take it: {text(error)}") from error
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    return Description(
        engine="llamacpp",
        format="gguf",
        architecture=architecture,
        trained_context_length=count(fields, f"{architecture}.context_length"),
        parameter_count=sum(int(tensor.n_elements) for tensor in tensors),
        quantization=_quantization(fields, tensors),
        license=text(fields.get("general.license")),
        base_model=text(
            fields.get("general.base_model.0.name") or fields.get("general.basename") or fields.get("general.name")
        ),
        has_chat_template=bool(fields.get("tokenizer.chat_template")),
    )


def _read(part: Path) -> _Reader:
    with part.open("rb") as file:
        head = file.read(_COUNTS_END)
    if not head:
        raise Unreadable("It is empty.")
    if head[:4] != MAGIC:
        raise Unreadable(f"It does not begin as a GGUF file does.{_what_it_is(head)}")
    if len(head) < _COUNTS_END:
        raise Unreadable(_CUT_OFF)
    tensors, fields = (int.from_bytes(head[at : at + 8], "little") for at in (_COUNTS_AT, _COUNTS_AT + 8))
    if fields > _MOST_FIELDS or tensors > _MOST_TENSORS:
        raise Unreadable(f"It says that it has {fields} fields and {tensors} tensors, more than any model.")
    reader = _Reader(part)
    end = max((tensor.data_offset + tensor.n_bytes for tensor in reader.tensors), default=0)
    if end > part.stat().st_size:
        raise Unreadable(f"It is cut off: {end} bytes belong to it, and it has {part.stat().st_size}.")
    return reader


def _what_it_is(head: bytes) -> str:
    if head[8:9] == b"{":
        return " It looks like a safetensors file: name the folder that holds it."
    if head[:2] == b"PK":
        return " It looks like a checkpoint of PyTorch, which no engine here reads."
    return ""


def _scalars(reader: _Reader) -> dict[str, Any]:
    arrays = gguf.GGUFValueType.ARRAY
    return {name: field.contents() for name, field in reader.fields.items() if arrays not in field.types}


def _check_split(readers: Sequence[_Reader]) -> None:
    for number, reader in enumerate(readers):
        fields = _scalars(reader)
        parts = int(fields.get("split.count", 1) or 1)
        if parts != len(readers) or (parts > 1 and fields.get("split.no") != number):
            raise Unreadable(
                f"It says that it is part {int(fields.get('split.no', 0)) + 1} of {parts}, "
                f"and its name that it is part {number + 1} of {len(readers)}."
            )


def _quantization(fields: dict[str, Any], tensors: Sequence[gguf.ReaderTensor]) -> str:
    try:
        return gguf.LlamaFileType(fields["general.file_type"]).name.removeprefix("MOSTLY_").removeprefix("ALL_")
    except (KeyError, ValueError):
        weights: Counter[str] = Counter()
        for tensor in tensors:
            weights[tensor.tensor_type.name] += int(tensor.n_elements)
        return weights.most_common(1)[0][0] if weights else ""
