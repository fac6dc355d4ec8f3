"""The bench: what the service costs beside the bare engine. `python -m bench --help`.

It starts the real service on a data directory of its own, and the raw decode loop (`raw_loop`) beside it; only one of
the two ever works. Every comparison is made within one run, round by round, the order alternated, and is the median
of the rounds' ratios, so that a machine that changes its speed changes both sides.

The clocks include everything that a caller waits for: the connection, the prefill, the last event. The client is as
light as a real one can be (`client`) and runs in the bench's own process, on the same cores as the service. The raw
loop has no client and no second process; that difference is part of what is measured.

Each measurement is one module of `measurements`.
"""
