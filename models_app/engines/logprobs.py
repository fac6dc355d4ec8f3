"""How likely a token was: what every engine says of its tokens where a request asks for it.

Always of the model's own distribution, the softmax of its raw logits: before bias, penalties, filters, temperature
and grammar. So the numbers say what the model thinks, and do not depend on how its answer was drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 20
"""How many of the likeliest tokens a request may ask for."""

TokenLogprob = dict[str, Any]
"""`token`, `bytes`, `logprob` and, of the likeliest tokens, `top_logprobs` with the same three: as the API has it.

`token` is the token's text, or its name where it has none; `bytes` are those of its text (from 0 to 255), which may be
half a character. `logprob` is a natural logarithm.
"""

_LOWEST = -9999.0
"""In place of minus infinity, which JSON lacks."""

_DIGITS = 6


class Names(Protocol):
    """The texts and names of a model's tokens."""

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text."""

    def name(self, token: int) -> bytes:
        """The token's own name."""


def of(logits: NDArray[np.float32], token: int, top: int, names: Names) -> TokenLogprob:
    """Return the log probability of `token` under `logits`, with the `top` likeliest tokens, the likeliest first.

    Tokens that are equally likely come in the order of their ids.
    """
    import numpy as np

    raw = logits.astype(np.float64)
    highest = raw.max()
    total = highest + np.log(np.exp(raw - highest).sum())
    likeliest = np.argpartition(-raw, top)[:top] if top else np.empty(0, np.int64)
    ordered = likeliest[np.lexsort((likeliest, -raw[likeliest]))]
    said = _describe(token, raw[token] - total, names)
    return {**said, "top_logprobs": [_describe(int(one), raw[one] - total, names) for one in ordered]}


def _describe(token: int, logprob: float, names: Names) -> TokenLogprob:
    piece = names.piece(token)
    text = (piece or names.name(token)).decode("utf-8", "replace")
    return {"token": text, "bytes": list(piece), "logprob": max(round(float(logprob), _DIGITS), _LOWEST)}
