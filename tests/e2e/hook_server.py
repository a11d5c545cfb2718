"""An HTTP server as operators have one: it is asked and told by hooks, and answers in every way there is."""

import contextlib
import json
import socket
import threading

import harness


class Hook:
    """Answers each question with the bytes of its reply, after a while; None: never; a list: one after the other."""

    def __init__(self, test, reply, delay=0):
        self.reply, self.delay = reply, delay
        self.questions, self.now, self.most = [], 0, 0
        self._ending, self._lock, self._threads = threading.Event(), threading.Lock(), []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = "http://127.0.0.1:%d/hook?key=geheim" % self._listener.getsockname()[1]
        self._run(self._accept)
        test.addCleanup(self.close)

    def _run(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self):
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self._run(self._answer, self._listener.accept()[0])

    def _answer(self, peer):
        with peer, contextlib.suppress(OSError):
            peer.settimeout(harness.PATIENCE)
            data = b""
            while b"\r\n\r\n" not in data or len(data) < data.index(b"\r\n\r\n") + 4 + self._length(data):
                more = peer.recv(65536)
                if not more:
                    return
                data += more
            with self._lock:
                self.questions.append(data)
                self.now += 1
                self.most = max(self.most, self.now)
            self._ending.wait(self.delay)
            with self._lock:
                self.now -= 1
            for part in self.reply if isinstance(self.reply, list) else [self.reply]:
                if part is None:
                    self._ending.wait()
                    return
                peer.sendall(part)
                if isinstance(self.reply, list) and self._ending.wait(0.05):
                    return

    @staticmethod
    def _length(data):
        return int(data.lower().partition(b"content-length:")[2].split()[0])

    def wait(self, count):
        harness.wait_until(lambda: len(self.questions) >= count, "%d questions" % count)

    @property
    def asked(self):
        return [json.loads(data.partition(b"\r\n\r\n")[2]) for data in self.questions]


def reply(status, headers=b"Content-Length: 0\r\n"):
    return b"HTTP/1.1 %d X\r\n%s\r\n" % (status, headers)
