"""The scene of the console's pictures: a daemon's answers with streams, players and an hour of load that are always the same.

The answers are those of a real daemon, so that nothing is missing that it says, with other values.
"""

import copy
import json
import math
import time

from console_server import Server

WORKERS = 2
# Name, state, protocol, codecs, size, frame rate, bits/s, players, state of recording; audio and video tracks.
STREAMS = (("cameras/door", "live", "rtsp", ("hevc", None), (1280, 720), 15, 912e3, 1, None, 1, 0),
           ("cameras/yard", "live", "rtsp", ("h264", "aac"), (1920, 1080), 25, 2.1e6, 2, "recording", 1, 1),
           ("live/lobby", "waiting", None, (None, None), None, None, 0, 3, None, 0, 0),
           ("live/stage", "live", "rtmp", ("h264", "aac"), (1920, 1080), 30, 6.2e6, 214, "recording", 1, 1),
           ("live/studio", "live", "rtmp", ("h264", "aac"), (1920, 1080), 60, 7.8e6, 48, None, 3, 2),
           ("radio/one", "live", "http", (None, "opus"), None, None, 132e3, 37, None, 0, 1))
LISTENERS = (("rtmp", 1935), ("http", 8080), ("rtsp", 8554), ("flv", 9000))
PULLS = (("cameras/door", "rtsp://10.0.7.21:554", "rtsp", "playing", "always", 0, None),
         ("cameras/gate", "rtsp://10.0.7.23:554", "rtsp", "waiting", "always", 8, "Connection refused"),
         ("events/hall", "http://origin.example:80", "http", "idle", "on-demand", 0, None))
FORWARDS = (("live/stage", "rtmp://live.example:1935", "rtmp", "sending", "default", 0, None),
            ("live/studio", "http://archive.example:80", "http", "sending", "all", 0, None),
            ("live/studio", "rtmp://backup.example:1935", "rtmp", "waiting", None, 3, "publish refused"))
PLAYERS = ("http", "http", "rtmp", "websocket", "rtsp", "http")


def wave(at, period, low, high):
    """A value between two, that is the same at the same time."""
    return low + (high - low) * (0.5 + 0.35 * math.sin(2 * math.pi * at / period) + 0.15 * math.sin(17.0 * at / period))


class Scene(Server):
    def __init__(self, daemon):
        self._begun = time.monotonic()
        self._page = {}
        super().__init__(daemon)
        model = self.overview
        stream = dict(daemon.api("/api/v1/streams/" + model["streams"][0]["name"].replace("/", "%2F")), players=[])
        self._player = model["players"][0]
        self._pull, self._forward = daemon.api("/api/v1/pulls")["pulls"][0], daemon.api("/api/v1/forwards")["forwards"][0]
        self.pulls = [dict(self._pull, id=at, stream=one[0], type=one[2], state=one[3], step=None, mode=one[4], failures=one[5],
                           reason=one[6], retry_seconds=12.0 if one[3] == "waiting" else None, **{"from": one[1]})
                      for at, one in enumerate(PULLS, 1)]
        self.forwards = [dict(self._forward, id=at, stream=one[0], to=one[1], type=one[2], state=one[3], step=None, tracks=one[4],
                              failures=one[5], reason=one[6], retry_seconds=7.0 if one[3] == "waiting" else None,
                              bytes_sent=int(9.4e9 / at) if one[3] == "sending" else 0, frames_dropped=0)
                         for at, one in enumerate(FORWARDS, 1)]
        self.pages = [self._stream_of(at, copy.deepcopy(stream), *one) for at, one in enumerate(STREAMS)]
        self.config["listeners"] = [dict(self.config["listeners"][0], protocol=protocol, address="0.0.0.0:%d" % port, stream=None)
                                    for protocol, port in LISTENERS]
        self.config["settings"].update(rule=[], record=[])
        self.history = self._hour()

    def _stream(self, number):
        return None  # The streams are made when there is a model of all that they have.

    def _at(self):
        return time.monotonic() - self._begun

    @staticmethod
    def _tracks(kind, codec, count, rate):
        return [{**kind["tracks"][0], "id": at, "codec": codec, "default": at == 0, "frames": 512000 // (at + 1),
                 "bytes": int(rate * 1200 / (at + 1) ** 2)} for at in range(count)]

    def _stream_of(self, at, stream, name, state, protocol, codecs, size, fps, rate, players, recording, videos, audios):
        stream.update(id=at + 1, name=name, worker=at % WORKERS, state=state, uptime_seconds=11520.0 / (at + 1),
                      bits_per_second=int(rate), subscribers=players, frames_dropped=0, record="rule",
                      gop={"frames": 118, "bytes": int(rate / 4)})
        stream["publisher"] = protocol and dict(stream["publisher"], stream=name, address="10.0.7.%d:%d" % (20 + at, 40112 + at),
                                                protocol=protocol)
        stream["video"] = dict(stream["video"], codec=codecs[0], width=size[0], height=size[1], frame_rate=fps,
                               tracks=self._tracks(stream["video"], codecs[0], videos, rate)) if codecs[0] else None
        stream["audio"] = dict(stream["audio"], codec=codecs[1], tracks=self._tracks(stream["audio"], codecs[1], audios, 128e3)) \
            if codecs[1] else None
        if recording:
            stream["recording"].update(state=recording, files=12, bytes=int(rate * 900), frames=345600, queued_bytes=0)
        else:
            stream["recording"] = None
        return stream

    def _grown(self, stream):
        """Its counters go on: frames by their rate, bytes by the stream's."""
        def grow(kind, frames, rate):
            return kind and dict(kind, tracks=[dict(track, frames=track["frames"] + int(frames * self._at()),
                                                    bytes=track["bytes"] + int(rate / 8 * self._at() / (track["id"] + 1) ** 2))
                                               for track in kind["tracks"]])
        video = stream["video"]
        return dict(stream, audio=grow(stream["audio"], 46.9, 128e3),
                    video=grow(video, video and video["frame_rate"], 0.7 * stream["bits_per_second"]))

    def _rate(self, stream):
        at = self._at() + stream["id"]
        return int(wave(at, 23, 0.95, 1.05) * stream["bits_per_second"])

    def _players_of(self, stream, count):
        """Each has been sent what its stream has brought; one of them is slow."""
        found = []
        for number in range(min(count, stream["subscribers"])):
            slow = stream["name"] == "live/stage" and number == 0
            sent = stream["bits_per_second"] / 8 * (1200 + self._at()) * (0.4 if slow else 1) * wave(number, 7, 0.98, 1)
            found.append(dict(self._player, id=100 * stream["id"] + number, stream=stream["name"], worker=stream["worker"],
                              address="192.0.2.%d:%d" % (11 + number, 51344 + 7 * number), protocol=PLAYERS[number % len(PLAYERS)],
                              slow=slow, bytes_sent=int(sent), state="playing" if stream["state"] == "live" else "waiting",
                              queued_bytes=1300000 if slow else 0, encrypted_bytes=0, queued_ms=2400 if slow else 0,
                              behind_ms=6300 if slow else 0, stalled_ms=900 if slow else 0, frames_dropped=318 if slow else 0))
        return found

    def _minute(self, stream):
        video = stream["video"] or {"frame_rate": 50}
        mean = stream["bits_per_second"] / 8 / video["frame_rate"]
        seconds = []
        for at in range(60):
            key = at % 2 == 0 and bool(stream["video"])
            largest = mean * wave(at, 11, 1.6, 2.2) * (3 if key else 1)
            seconds.append(dict(stream["last_minute"][0], frames=video["frame_rate"], key_frames=int(key), largest=int(largest),
                                bytes=int(mean * video["frame_rate"] * wave(at, 31, 0.9, 1.1)),
                                largest_key=int(largest) if key else 0))
        return seconds

    @staticmethod
    def _hour():
        samples = 360
        times = [at / samples for at in range(samples)]
        into = [wave(at, 0.7, 12e6, 17e6) + (3e6 if at > 0.6 else 0) for at in times]
        players = [wave(at, 1.3, 60, 110) for at in times]
        return {"interval_seconds": 10, "samples_max": samples, "received_bits_per_second": into,
                "sent_bits_per_second": [one * count / 3 for one, count in zip(into, players)],
                "frames_dropped": [21 if at in (200, 203) else 4 if 196 < at < 215 else 0 for at in range(samples)],
                "frames_lost": [0] * samples,
                "cpu": [[wave(at + worker / 9, 0.7, 0.1, 0.2 + 0.04 * worker) for at in times] for worker in range(WORKERS)]}

    def page(self, query):
        self.asked.append(query)
        streams = [dict(one, bits_per_second=self._rate(one)) for one in self.pages]
        for one in streams:
            del one["players"], one["last_minute"]
        counts = dict(self.overview["counts"], live=5, waiting=1, players=sum(one["subscribers"] for one in streams),
                      slow_players=1, bits_per_second=sum(one["bits_per_second"] for one in streams),
                      bytes_sent=int(2e9 + 52.4e6 * self._at()), workers=WORKERS, workers_answering=WORKERS)
        pool = dict(self.overview["pool"], bytes_held=61 << 20)
        players = [player for one in (self.pages[3], *self.pages[:3]) for player in self._players_of(one, 3)]
        return dict(self.overview, uptime_seconds=11520.0, counts=counts, pool=pool, streams=streams, matching=len(streams),
                    players=players)

    def answer(self, target):
        path = target.partition("?")[0]
        documents = {"/api/v1/pulls": lambda: {"pulls": self.pulls, "total": len(self.pulls)}}
        for one in self.pages:
            documents["/api/v1/streams/" + one["name"].replace("/", "%2F")] = lambda one=one: dict(
                self._grown(one), bits_per_second=self._rate(one), players=self._players_of(one, 200), last_minute=self._minute(one))
        if path not in documents:
            return super().answer(target)
        self.asked.append(path)
        return 200, {"Content-Type": "application/json"}, json.dumps(documents[path]()).encode()
