"""A server that the console takes for the daemon: its files are the daemon's, but what the API says is the test's.

So there can be 10,000 streams, an hour of history and listeners of every protocol.
"""

import copy
import http.server
import json
import threading
import urllib.parse

STREAMS = 10000
SORTS = {"name": lambda stream: stream["name"], "state": lambda stream: stream["state"],
         "publisher": lambda stream: stream["publisher"]["address"], "media": lambda stream: stream["video"]["width"],
         "recording": lambda stream: 0, "rate": lambda stream: stream["bits_per_second"],
         "players": lambda stream: stream["subscribers"], "lost": lambda stream: stream["frames_dropped"],
         "uptime": lambda stream: stream["uptime_seconds"]}


class Server:
    """Its streams are like the first one of the daemon, with numbers of their own."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.asked = []  # Queries for the overview.
        self.overview = daemon.api("/api/v1/overview")
        self.streams = [self._stream(number) for number in range(STREAMS)]
        self.history = self._history()
        self.config = daemon.api("/api/v1/config")
        self.forwards = []
        self.documents = {}  # By path: instead of the daemon's.
        self.refuses = False  # To answer.
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if outer.refuses:
                    self.close_connection = True
                    return
                status, headers, body = outer.answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def address(self, _):
        return "127.0.0.1", self.port

    def _stream(self, number):
        stream = copy.deepcopy(self.overview["streams"][0])
        stream.update(id=number + 1, name="live/%05d" % number, bits_per_second=(number * 7919) % STREAMS * 1000,
                      subscribers=(number * 104729) % STREAMS, frames_dropped=(number * 1299709) % STREAMS,
                      uptime_seconds=float(STREAMS - number))
        return stream

    @staticmethod
    def _history():
        samples = 360
        wave = [1e6 + 1e4 * at for at in range(samples)]
        rates = [None if at == 100 else value for at, value in enumerate(wave)]
        return {"interval_seconds": 10, "samples_max": samples, "received_bits_per_second": rates,
                "sent_bits_per_second": [value and 5 * value for value in rates],
                "frames_dropped": [7 if at == 200 else 0 for at in range(samples)], "frames_lost": [0] * samples,
                "cpu": [[0.1 * (worker + 1)] * samples for worker in range(6)]}

    def page(self, query):
        query = dict(urllib.parse.parse_qsl(query))
        self.asked.append(query)
        found = [stream for stream in self.streams if query.get("search", "").lower() in stream["name"]]
        found.sort(key=SORTS[query.get("sort", "name")], reverse=query.get("order") == "desc")
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 50))
        return dict(self.overview, streams=found[offset:offset + limit], matching=len(found))

    def answer(self, target):
        path, _, query = target.partition("?")
        documents = {"/api/v1/overview": lambda: self.page(query), "/api/v1/history": lambda: self.history,
                     "/api/v1/config": lambda: self.config, "/api/v1/pulls": lambda: {"pulls": [], "total": 0},
                     "/api/v1/forwards": lambda: {"forwards": self.forwards[:200], "total": len(self.forwards)}}
        documents.update({path: lambda one=one: one for path, one in self.documents.items()})
        if path in documents:
            return 200, {"Content-Type": "application/json"}, json.dumps(documents[path]()).encode()
        status, headers, body = self.daemon.admin("GET", target)
        kept = ("Content-Type", "Content-Security-Policy")
        return status, {name: headers[name] for name in kept if headers[name]}, body
