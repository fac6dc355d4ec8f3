"""llama.cpp's own server, as xllamacpp has it: `xllamacpp_server.py MODEL PORT THREADS PARALLEL CONTEXT_LENGTH`.

Runs in the environment of the rivals, imports nothing of the service, and ends when stdin does. All that is not said
on the command line is as it comes.
"""

import sys

import xllamacpp


def main() -> None:
    """Serve until stdin ends."""
    model, port, threads, parallel, context_length = sys.argv[1], *map(int, sys.argv[2:])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_parallel = parallel
    params.n_ctx = context_length * parallel
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
