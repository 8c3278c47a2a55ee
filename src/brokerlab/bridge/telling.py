"""Where a bridge tells its counters: a page for Prometheus, a file, both or neither."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from brokerlab.bridge.counters import Counters, prometheus_text
from brokerlab.bridge.values import Metrics
from brokerlab.errors import UserError

_CONTENT = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def told_counters(metrics: Metrics, counters: Sequence[Counters]) -> Iterator[Callable[[float], float]]:
    """A function that writes the file when it is due (seconds), and says when it wants to be called again."""
    server = None if metrics.port is None else _server(metrics, counters)
    due_s = 0.0

    def tell(now_s: float) -> float:
        nonlocal due_s
        if metrics.file is None:
            return metrics.every_s
        if now_s >= due_s:
            _write(metrics, counters)
            due_s = now_s + metrics.every_s
        return due_s - now_s

    try:
        yield tell
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()
        if metrics.file is not None:
            _write(metrics, counters)


def _write(metrics: Metrics, counters: Sequence[Counters]) -> None:
    if metrics.file is not None:
        beside = metrics.file.with_name(metrics.file.name + ".new")
        beside.write_text(prometheus_text(counters), encoding="utf-8")
        beside.replace(metrics.file)  # a reader sees one state or the next, and never half


def _server(metrics: Metrics, counters: Sequence[Counters]) -> ThreadingHTTPServer:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] in ("/metrics", "/")
            body = prometheus_text(counters).encode() if is_known else b"the counters are at /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", _CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Is not kept."""

    try:
        server = ThreadingHTTPServer((metrics.host, metrics.port or 0), Page)
    except OSError as problem:
        place = f"{metrics.host}:{metrics.port}"
        raise UserError(f"the counters cannot be told at {place}: {problem.strerror}") from problem
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    return server
