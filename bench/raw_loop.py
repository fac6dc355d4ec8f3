"""The raw decode loop: the limit that the service is measured against.

A program of its own that imports nothing of the service: llama.cpp's C API, numpy and the standard library. It is
written to be as fast as this library lets it be, and has no duties: no text while it runs, no stop texts, no
cancelling, no journal, one thread besides the library's. Its context settings are those of the service (flash
attention, one cache for each sequence, as many tokens and sequences); how it prefills is its own choice.

It reads one JSON object a line from stdin, answers each with one on stdout, and sleeps in between:

``{"op": "tokenize", "messages": [{"role", "content"}, ...]}``
    the prompt that the model's own template makes of a chat: ``{"tokens": [...]}``
``{"op": "generate", "prompts": [[...], ...], "tokens": N, "borders": [[...], ...]}``
    greedy decoding of all prompts side by side, N tokens each, or fewer where one of them ends before; the prefill of
    each prompt is cut at its borders (without them: not at all). ``{"seconds", "first_token", "prefill", "tokens":
    [[...], ...], "texts": [...]}``: the clock starts before the prefill and ends with the last token; ``first_token``
    is when the first prompt has its first one, and ``prefill`` when all have.
"""

import argparse
import ctypes
import json
import sys
import time
from itertools import pairwise
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np
import numpy.typing as npt

Tokens = list[int]

LARGEST_PREFILL = 512
"""Tokens of one prefill decode, at most."""

_FLASH_ATTENTION = 1
_ERROR_LEVEL = 4


class RawLoop:
    """A loaded model and the fastest loop around it."""

    def __init__(self, path: str, *, threads: int, sequences: int, context_length: int) -> None:
        self._model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not self._model:
            sys.exit(f"{path} cannot be loaded")
        self._vocabulary = llama.llama_model_get_vocab(self._model)
        self._size = llama.llama_vocab_n_tokens(self._vocabulary)
        self._ends = {token for token in range(self._size) if llama.llama_vocab_is_eog(self._vocabulary, token)}
        params = llama.llama_context_default_params()
        params.n_ctx = context_length * sequences
        params.n_seq_max = sequences
        params.n_batch = params.n_ubatch = max(LARGEST_PREFILL, sequences)
        params.n_outputs_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = _FLASH_ATTENTION
        params.kv_unified = False
        params.no_perf = True
        self._context = llama.llama_init_from_model(self._model, params)
        if not self._context:
            sys.exit("a context of that size cannot be made")
        self._cache = llama.llama_get_memory(self._context)
        self._prefill_batch = llama.llama_batch_init(LARGEST_PREFILL, 0, 1)
        self._decode_batch = llama.llama_batch_init(sequences, 0, 1)
        for row in range(sequences):
            self._decode_batch.n_seq_id[row] = 1
            self._decode_batch.seq_id[row][0] = row
            self._decode_batch.logits[row] = True

    def tokenize(self, messages: list[dict[str, str]]) -> Tokens:
        """Return the prompt that the model's own template makes of a chat."""
        chat = (llama.llama_chat_message * len(messages))()
        for entry, message in zip(chat, messages, strict=True):
            entry.role, entry.content = message["role"].encode(), message["content"].encode()
        template = llama.llama_model_chat_template(self._model, None)
        room = 4096 + 4 * sum(len(message["content"]) for message in messages)
        text = ctypes.create_string_buffer(room)
        length = llama.llama_chat_apply_template(template, chat, len(messages), True, text, room)
        if not 0 <= length <= room:
            sys.exit("llama.cpp does not know this model's chat template")
        tokens = (llama.llama_token * room)()
        count = llama.llama_tokenize(self._vocabulary, text.raw[:length], length, tokens, room, False, True)
        return list(tokens[:count])

    def generate(self, prompts: list[Tokens], count: int, borders: list[list[int]] | None = None) -> dict[str, Any]:
        """Decode `count` tokens greedily for each of the prompts, side by side, and say how long that took."""
        cuts = borders or [list(range(LARGEST_PREFILL, len(prompt), LARGEST_PREFILL)) for prompt in prompts]
        # One prompt after the other: llama.cpp splits a decode of several where their lengths differ, which costs more
        # than the one or two per cent of the prefill that are won where they do not.
        began = time.perf_counter()
        feed = []
        for sequence, prompt in enumerate(prompts):
            feed.append(self._prefill(sequence, prompt, cuts[sequence]))
            if sequence == 0:
                first_token = time.perf_counter()
        prefilled = time.perf_counter()
        outputs = self._decode(feed, [len(prompt) for prompt in prompts], count)
        ended = time.perf_counter()
        llama.llama_memory_clear(self._cache, False)
        return {
            "seconds": ended - began,
            "first_token": first_token - began,
            "prefill": prefilled - began,
            "tokens": outputs,
            "texts": [self._text(output) for output in outputs],
        }

    def _prefill(self, sequence: int, prompt: Tokens, cuts: list[int]) -> int:
        """Read a prompt, cut at some places, and return the first token of its output."""
        batch = self._prefill_batch
        for start, end in pairwise([0, *cuts, len(prompt)]):
            part = prompt[start:end]
            for row, token in enumerate(part):
                batch.token[row] = token
                batch.pos[row] = start + row
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = sequence
                batch.logits[row] = False
            batch.logits[len(part) - 1] = end == len(prompt)
            batch.n_tokens = len(part)
            self._run(batch)
        return int(self._logits(1)[0].argmax())

    def _decode(self, feed: Tokens, positions: list[int], count: int) -> list[Tokens]:
        """Decode all sequences in step until each has `count` tokens, or one of them has ended."""
        batch, rows = self._decode_batch, len(feed)
        token, position = batch.token, batch.pos
        batch.n_tokens = rows
        steps = [feed]
        for _ in range(count - 1):
            if not self._ends.isdisjoint(feed):
                break
            for row in range(rows):
                token[row] = feed[row]
                position[row] = positions[row]
                positions[row] += 1
            self._run(batch)
            feed = self._logits(rows).argmax(axis=1).tolist()
            steps.append(feed)
        return [list(output) for output in zip(*steps, strict=True)]

    def _run(self, batch: Any) -> None:
        if status := llama.llama_decode(self._context, batch):
            sys.exit(f"llama_decode returned {status}")

    def _logits(self, rows: int) -> npt.NDArray[np.float32]:
        """The logits of the last decode's `rows` outputs, where llama.cpp has them."""
        address = ctypes.cast(llama.llama_get_logits(self._context), ctypes.c_void_p).value
        buffer = (ctypes.c_float * (rows * self._size)).from_address(address or 0)
        return np.frombuffer(buffer, dtype=np.float32).reshape(rows, self._size)

    def _text(self, tokens: Tokens) -> str:
        room = 256
        piece = ctypes.create_string_buffer(room)
        pieces = []
        for token in tokens:
            length = llama.llama_token_to_piece(self._vocabulary, token, piece, room, 0, False)
            pieces.append(piece.raw[: max(length, 0)])
        return b"".join(pieces).decode("utf-8", "replace")


def _log(level: int, text: bytes, _user_data: object) -> None:
    """Keep llama.cpp's narration out of the way."""
    if level == _ERROR_LEVEL:
        sys.stderr.write(text.decode("utf-8", "replace"))


_LOG_CALLBACK = llama.llama_log_callback(_log)
"""The library keeps the pointer: it must never be collected."""


def main() -> None:
    """Load the model, say so, and answer until stdin ends."""
    parser = argparse.ArgumentParser(description="The fastest greedy decode loop over llama.cpp, asked over stdin.")
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--sequences", type=int, default=4, help="how many the context has room for")
    parser.add_argument("--context-length", type=int, default=2048, help="tokens of each")
    arguments = parser.parse_args()
    llama.llama_log_set(_LOG_CALLBACK, None)
    llama.llama_backend_init()
    loop = RawLoop(
        arguments.model,
        threads=arguments.threads,
        sequences=arguments.sequences,
        context_length=arguments.context_length,
    )
    answer: dict[str, Any] = {"ready": True}
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "tokenize":
            answer = {"tokens": loop.tokenize(request["messages"])}
        else:
            answer = loop.generate(request["prompts"], request["tokens"], request.get("borders"))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
