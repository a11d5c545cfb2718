"""Streams pulled by HTTP-FLV: from another sluiced, from servers of other projects, and from one by script, well or badly."""

import contextlib
import functools
import http.server
import os
import socket
import threading
import unittest

import flv
import harness
import pulls
from harness import Daemon, Player, Publisher
from pulls import LISTEN



class Script:
    """An HTTP server that sends what the path's row has, and then ends or holds the connection; each head that it receives
    is kept."""

    def __init__(self, test, rows):
        self.rows, self.heads = rows, []
        self._ending, self._peers, self._threads = threading.Event(), [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._start(self._accept)
        test.addCleanup(self.close)

    def _start(self, work, *arguments):
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                self._start(self._serve, peer)

    def _serve(self, peer):
        with peer, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = peer.recv(65536)
                if not part:
                    return
                head += part
            self.heads.append(head.decode())
            path = head.split(b" ")[1].decode()
            answer = self.rows[path.partition("?")[0]]
            if callable(answer):
                answer = answer(head.decode())
            holds, data = answer if isinstance(answer, tuple) else (False, answer)
            peer.sendall(data)
            if holds:
                self._ending.wait()

    def asked(self, path):
        return [head for head in self.heads if head.startswith("GET %s HTTP/1.1\r\n" % path)]

    def close(self):
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for peer in list(self._peers):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()
        for peer in (self._listener, *self._peers):
            peer.close()


def response(status, body=b"", **headers):
    lines = ["%s: %s" % (name.replace("_", "-"), value) for name, value in headers.items()]
    return ("\r\n".join(["HTTP/1.1 %d Some Text" % status, *lines, "", ""])).encode() + body


def redirect(location, status=302):
    return response(status, Location=location, Content_Length=0)


def login(answer, challenge="Basic realm=x"):
    """A row whose answer is for requests with credentials."""
    return lambda head: answer if "\r\nAuthorization: " in head else response(401, WWW_Authenticate=challenge,
                                                                               Content_Length=0)


def chunked(data, size):
    parts = [data[at:at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


class PullHttpTest(pulls.PullTest):
    def test_from_another_sluiced(self):
        """With a user, a password and a query, which nothing shows; the same tags; the players stay when it ends."""
        users = self.users("viewer:ge:heim")
        origin = Daemon("--wait", "60", "--rtsp-users", users, "--rule", "publish * allow", "--rule", "play * user",
                        listen=LISTEN)
        self.addCleanup(origin.kill)
        place = "%s:%d" % origin.address("http")
        daemon = self.puller({"live/x": "http://viewer:ge%%3Aheim@%s/live/a.flv?key=quiet,z" % place,
                              "live/y": "http://%s/live/a.flv" % place, "live/z": "http://viewer:no@%s/live/a.flv" % place})
        data, tags = flv.stream(200)
        with Player(daemon, "live/x") as player:
            origin.wait_player("live/a")
            with Publisher(origin, "live/a", "http") as publisher:
                publisher.send(data)
                player.wait_frame(tags[-1])
                self.assertEqual(player.frames, [tag for tag in tags if tag.is_frame])
                pull, = [pull for pull in daemon.api()["pulls"] if pull["stream"] == "live/x"]
                self.assertEqual((pull["type"], pull["from"], pull["state"]), ("http", "http://" + place, "playing"))
                source = daemon.stream("live/x")["publisher"]
                self.assertEqual((source["protocol"], source["address"]), ("http", place))
            for name, detail in (("live/y", "the server needs credentials, and the pull has none for that host and port"),
                                 ("live/z", "wrong user or password")):
                daemon.wait_log("pull", stream=name, state="waiting", reason="GET answered 401", detail=detail)
            origin.kill()
            daemon.wait_log("pull", stream="live/x", state="waiting")
            self.assertEqual(daemon.log("player ended"), [])
        self.check_secrets(daemon, "viewer", "ge:heim", "ge%3Aheim", "quiet")
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)

    def test_from_a_file_server(self):
        """Python's: HTTP/1.0, and a body with a length."""
        folder = self.folder()
        data, tags = flv.stream(300)
        with open(os.path.join(folder, "a.flv"), "wb") as file:
            file.write(data)

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        daemon = self.puller({"live/x": "http://127.0.0.1:%d/a.flv" % server.server_port})
        daemon.wait_log("pull", stream="live/x", state="waiting", reason="the server has ended the stream")
        with Player(daemon, "live/x") as player:
            player.wait(lambda player: len(player.frames) >= 300, "300 frames")
            expected = [tag.payload for tag in tags if tag.is_frame]
            begin = expected.index(player.frames[0].payload)
            self.assertEqual([frame.payload for frame in player.frames[:len(expected) - begin]], expected[begin:])
            times = [frame.timestamp for frame in player.frames]
            self.assertEqual(times, sorted(times))

    def test_from_ffmpeg(self):
        """ffmpeg's own server, which sends chunks; the same packets by HTTP-FLV."""
        ffmpeg, media = self.media()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        folder = self.folder()
        daemon = self.puller({"live/x": "http://127.0.0.1:%d/any/path,on-demand" % port})
        target = os.path.join(folder, "got")
        server = harness.Ffmpeg(ffmpeg, "-re", "-i", media, "-c", "copy", "-f", "flv", "-listen", "1",
                                "http://127.0.0.1:%d/any/path" % port)
        self.addCleanup(server.kill)
        with Player(daemon, "live/x") as player:
            player.wait(lambda player: player.frames, "frames")
            server.wait()
            daemon.wait_log("pull", stream="live/x", state="waiting")
            with open(target, "wb") as file:
                file.write(flv.header() + b"".join(tag.pack() for tag in player.tags))
        texts = []
        for name, source in (("sent", media), ("got", target)):
            reader = harness.Ffmpeg(ffmpeg, "-i", source, "-map", "0", "-c", "copy", "-f", "framemd5",
                                    os.path.join(folder, name + ".md5"))
            self.addCleanup(reader.kill)
            reader.wait()
            with open(os.path.join(folder, name + ".md5"), encoding="ascii") as file:
                texts.append(sorted((kind, line.split(",")[-1]) for kind, _, line in harness.packets(file.read())))
        harness.check_same(texts[1], texts[0])

    def test_bodies_and_redirects(self):
        """Each delimiter of a body, up to each bound, and what redirects lead to."""
        data, tags = flv.stream(100)
        rows = {"/until-close": (True, response(200, data)),
                "/length": (True, response(200, data, Content_Length=len(data) + 1)),
                "/chunks": (True, response(200, chunked(data, 1000), Transfer_Encoding="chunked")),
                "/identity": (True, response(200, data, Content_Encoding="identity")),
                "/interim": (True, 8 * response(103, Link="x") + response(200, data)),
                "/head": (True, response(200, data, X="x" * 8000)),
                "/login": login(redirect("r/2")), "/r/5": redirect("4"), "/r/4": redirect("/r/3", 301), "/r/3": redirect("?x=1", 307),
                "/moved": redirect("HTTP://PLACE/r/2?a=http://b", 308), "/r/2": redirect("//PLACE/until-close#part", 303)}
        names = [path for path in rows if not path.startswith(("/r/", "/moved", "/login"))]
        server = Script(self, rows)
        rows["/r/3"] = redirect("../moved?token=t", 307)
        for path in ("/moved", "/r/2"):
            rows[path] = rows[path].replace(b"PLACE", server.place.encode())
        rows["/../moved"] = rows["/r/../moved"] = rows["/moved"]
        pulls = {"live%s" % path: "http://%s%s?key=1&x=y" % (server.place, path) for path in names}
        pulls["live/five"] = "http://%s/r/5" % server.place
        pulls["live/login"] = "http://u:geheim@%s/login" % server.place
        daemon = self.puller(pulls)
        for name in pulls:
            with self.subTest(name), Player(daemon, name) as player:
                player.wait_frame(tags[-1])
                begin = tags.index(player.frames[0])
                self.assertEqual(player.frames, [tag for tag in tags[begin:] if tag.is_frame])
        head, = server.asked("/length?key=1&x=y")
        self.assertIn("\r\nHost: %s\r\n" % server.place, head)
        self.assertNotIn("Authorization", head)
        self.assertEqual(len(server.asked("/r/../moved?token=t")), 1)
        self.assertEqual(len(server.asked("/r/2?a=http://b")), 1)
        self.assertIn("\r\nAuthorization: Basic ", server.asked("/r/2")[0])
        first, second = server.asked("/login")
        self.assertNotIn("Authorization", first)
        self.assertIn("\r\nAuthorization: Basic dTpnZWhlaW0=\r\n", second)
        self.assertEqual(len(server.asked("/until-close")), 2)
        self.check_secrets(daemon, "geheim", "token=t", "key=1", "moved?")
        server.close()

    def test_password_stays(self):
        """Another port of the host is followed to, and does not get the password."""
        rows = {"/a": (True, response(200, flv.stream(100)[0]))}
        other = Script(self, rows)
        server = Script(self, {"/a": login(redirect("http://u:other@%s/a" % other.place))})
        daemon = self.puller({"live/x": "http://u:geheim@%s/a" % server.place})
        daemon.wait_stream("live/x")
        self.assertEqual(["Authorization: Basic" in head for head in server.heads], [False, True])
        self.assertEqual(len(other.asked("/a")), 1)
        self.assertNotIn("Authorization", other.heads[0])
        self.check_secrets(daemon, "geheim")
        server.close()
        other.close()

    def test_failures(self):
        """One step beyond each bound, and what is no stream: each is a state with a reason, and is tried again."""
        data, _ = flv.stream(20)
        frame = flv.Tag(flv.VIDEO, 4000, b"\x17\x01\0\0\0" + bytes(200 * 1024)).pack()
        limit, big = "malformed HTTP, or over a limit: ", response(200, X="x" * 8192)
        rows = {"none": (response(404), "GET answered 404"),
                "part": (response(206, data), "GET answered 206"),
                "user": (response(401), "GET answered 401: the server needs credentials, and the pull has none for that host "
                         "and port"),
                "digest": (response(401, WWW_Authenticate="Digest realm=x, nonce=1"),
                           "GET answered 401: the server needs credentials, and the pull has none for that host and port"),
                "zip": (response(200, data, Content_Encoding="gzip"), "the response has a Content-Encoding"),
                "coding": (response(200, data, Transfer_Encoding="gzip, chunked"), limit + "Operation not supported"),
                "text": (b"SSH-2.0-OpenSSH\r\n", limit + "Protocol error"),
                "head": (big, limit + "Message too long"),
                "interim": (9 * response(100) + response(200, data), limit + "too many 1xx responses"),
                "silent": (b"", "the server has ended the connection"),
                "empty": (response(200, Content_Length=0), "the server has ended the stream"),
                "page": (response(200, b"<html>" + bytes(100)), None),
                "short": (response(200, data, Content_Length=len(data) + 1), "the server has ended the connection"),
                "broken": (response(200, chunked(data, 1000) + b"x\r\n", Transfer_Encoding="chunked"),
                           "malformed chunks, or over a limit: Protocol error"),
                "large": (response(200, data + frame), None),
                "away": (redirect("http://127.0.0.2/x"), "redirected to another host"),
                "tls": (redirect("https://127.0.0.1:1/x"), "Connection refused"),
                "rtsp": (redirect("rtsp://127.0.0.1/x"), "redirected to what is no http:// URL"),
                "long": (redirect("/" + "x" * 2048), "redirected to what is no http:// URL"),
                "nowhere": (response(302), "redirected to what is no http:// URL"),
                "round": (redirect("round"), "too many redirects")}
        server = Script(self, {"/" + name: row[0] for name, row in rows.items()})
        daemon = self.puller({"live/" + name: "http://%s/%s" % (server.place, name) for name in rows},
                             "--frame-limit", "128K")
        for name, (_, reason) in rows.items():
            with self.subTest(name):
                line = daemon.wait_log("pull", stream="live/" + name, state="waiting")
                self.assertEqual(line.fields["failures"], "1")
                if reason:
                    self.assertEqual(": ".join(filter(None, (line.fields["reason"], line.fields.get("detail")))), reason)
                else:
                    self.assertNotEqual(line.fields["reason"], "the server has ended the connection")
        self.assertEqual(len(server.asked("/round")), 6)
        daemon.wait_log("pull", 2, stream="live/none", state="waiting", reason="GET answered 404")


if __name__ == "__main__":
    harness.main()
