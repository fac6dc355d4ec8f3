"""A server on this machine that answers as the Hugging Face hub does: what a repository holds, redirects, ranges."""

import hashlib
import json
import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_SMALL = 5000


class LocalHub(AbstractContextManager["LocalHub"]):
    """Repositories are folders: ``{"someone/model": path}``.

    Attributes:
        requests: method, path and headers of each request, oldest first.
        cut_after: bytes after which a transfer stops coming, once; ``None`` for never.
        lies: names of files of which another digest is stated than they have.
    """

    def __init__(self, repositories: dict[str, Path]) -> None:
        self.repositories = repositories
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.cut_after: int | None = None
        self.hangs = threading.Event()
        self.go_on = threading.Event()
        self.lies: set[str] = set()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def transfers(self) -> list[str | None]:
        """Return the ranges that the transfers asked for, ``None`` for all of a file."""
        return [headers.get("range") for method, path, headers in self.requests if method == "GET" and "/cdn/" in path]

    def files(self, repository: str) -> dict[str, Path]:
        folder = self.repositories[repository]
        return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}

    def sha256(self, file: Path) -> str:
        stated = file.name.encode() if file.name in self.lies else file.read_bytes()
        return hashlib.sha256(stated).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append((self.command, path, headers))
        for name in self.hub.repositories:
            if path in (f"/api/models/{name}", f"/api/models/{name}/revision/main"):
                return self._answer(200, json.dumps(self._info(name)).encode())
            if path.startswith(f"/{name}/resolve/{COMMIT}/"):
                return self._resolve(name, path.removeprefix(f"/{name}/resolve/{COMMIT}/"))
        if path.startswith("/cdn/"):
            return self._transfer(path.removeprefix("/cdn/"), headers.get("range"))
        return self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _info(self, name: str) -> dict[str, Any]:
        siblings = []
        for file, path in self.hub.files(name).items():
            size, content = path.stat().st_size, path.read_bytes()
            entry: dict[str, Any] = {"rfilename": file, "size": size}
            entry["blobId"] = hashlib.sha1(b"blob %d\0" % size + content, usedforsecurity=False).hexdigest()
            if size > _SMALL:
                entry["lfs"] = {"sha256": self.hub.sha256(path), "size": size, "pointerSize": 134}
            siblings.append(entry)
        return {"id": name, "sha": COMMIT, "tags": ["gguf", "license:apache-2.0"], "siblings": siblings}

    def _resolve(self, name: str, file: str) -> None:
        path = self.hub.files(name)[file]
        # Another host than the hub's, as its storage is.
        location = f"http://localhost:{self.hub.port}/cdn/{name}/{file}"
        stated = {"ETag": f'"{self.hub.sha256(path)}"', "X-Repo-Commit": COMMIT}
        linked = {"X-Linked-ETag": stated["ETag"], "X-Linked-Size": str(path.stat().st_size)}
        self._answer(302, b"", {"Location": location, **stated, **linked})

    def _transfer(self, name: str, wanted: str | None) -> None:
        owner, repository, file = name.split("/", 2)
        content = self.hub.files(f"{owner}/{repository}")[file].read_bytes()
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        cut, self.hub.cut_after = self.hub.cut_after, None
        if cut is not None:
            self.wfile.write(content[start : start + cut])
            self.wfile.flush()
            self.hub.hangs.set()
            self.hub.go_on.wait(60)
            self.close_connection = True
            return
        self.wfile.write(content[start:])

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the tests' output free of it."""
