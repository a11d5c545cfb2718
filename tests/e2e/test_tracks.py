#!/usr/bin/env python3
"""Streams of several video and audio tracks: what players of each kind, recordings and the API get of them.

Media are ffmpeg's, as its own multitrack and put together in the other forms by hand; what is played is read by ffmpeg,
which is not ours, and by a reader of the specification.
"""

import base64
import glob
import os
import tempfile
import unittest

import flv
import harness
import multitrack
import rtsp
from harness import Daemon, Ffmpeg, Player, Publisher
from test_spread import NAME, WebSocketPlayer

MEDIA = ("-f lavfi -i testsrc=size=320x180:rate=25 -f lavfi -i testsrc2=size=160x90:rate=25 %s "
         "-f lavfi -i sine=frequency=880:sample_rate=48000 -map 0 -map 1 -map 2 -map 3 -t 3 -c:v libx264 "
         "-preset ultrafast -g 25 -bf 2 -pix_fmt yuv420p %s" % (harness.tone(48000), harness.AAC))


def sps(number):
    """A video header that no other number has."""
    payload = bytearray(flv.VIDEO_HEADER.payload)
    payload[-1] = number
    return flv.VIDEO_HEADER._replace(payload=bytes(payload))


def aac(number):
    """An audio header likewise, up to 3: of so many channels."""
    return flv.AUDIO_HEADER._replace(payload=b"\xaf\0\x12" + bytes([(number % 3 + 1) << 3]))


def hand_made(count, video=(0, 1, 2), audio=(0, 1), gop=10, first=0):
    """Headers and frames of some tracks: [{track: tag}], each to be sent in one tag or in several."""
    groups = [{n: sps(n) for n in video}, {n: aac(n) for n in audio}]
    for at in range(first, first + count):
        groups.append({n: flv.video_frame(at * 40, at % gop == 0, at * 100 + n, 500 + 10 * n) for n in video})
        groups.append({n: flv.audio_frame(at * 40, at * 100 + n, 60 + n) for n in audio})
    return groups


FORMS = {
    "many": lambda group: [multitrack.join(group)],
    "many codecs": lambda group: [multitrack.join(group, codecs=True)],
    "one each": lambda group: [multitrack.wrap(tag, n) for n, tag in group.items()],
    "as ffmpeg does": lambda group: [multitrack.wrap(tag, n) if n else tag for n, tag in group.items()],
}


def tags_of(groups, form):
    return [tag for group in groups for tag in FORMS[form](group)]


def pack(tags):
    return flv.header() + b"".join(tag.pack() for tag in tags)


def by_track(split):
    """Times and what is said, by type and track."""
    found = {}
    for timestamp, kind, number, *rest in split:
        found.setdefault((kind, number), []).append((timestamp, *rest))
    return found


class Path(Player):
    """A player that asks for a path with a query."""
    REQUEST = b"GET /%s HTTP/%s\r\nHost: test\r\n\r\n"


class FormsTest(unittest.TestCase):
    """Each form in which tracks are sent comes to each kind of player with all of them."""

    def check_all(self, tags, groups, late=0):
        """All tracks' headers, and then their frames from the group's beginning on."""
        sent = by_track(multitrack.split_all(tags_of(groups, "many")))
        got = by_track(multitrack.split_all(tags))
        self.assertEqual(got.keys(), sent.keys())
        for track, what in sent.items():
            start = late * 40
            expected = [(start if one[2] == 0 else one[0], *one[1:]) for one in what
                        if one[2] == 0 or one[0] >= start]
            harness.check_same(got[track], expected, "track %s" % (track,))

    def check_default(self, tags, groups, number, late=0):
        """The track alone, as tags that name none, in the form that the oldest players read."""
        sent = [group[number] for group in groups if number in group]
        headers = [tag._replace(timestamp=late * 40) for tag in sent if tag.is_sequence_header]
        frames = [tag for tag in sent if tag.is_frame and tag.timestamp >= late * 40]
        harness.check_same([tag for tag in tags if tag.type != flv.SCRIPT], headers + frames)

    def test_each_form(self):
        groups = hand_made(25)
        for form in FORMS:
            with self.subTest(form), Daemon("--workers", "2", "--spread", "1") as daemon:
                tags = tags_of(groups, form)
                early = [Player(daemon, NAME), Path(daemon, NAME + ".flv?tracks=all"),
                         Path(daemon, NAME + ".flv?x=1&tracks=default")]
                daemon.wait_player(NAME, len(early))
                with Publisher(daemon, NAME, "http") as publisher:
                    publisher.send(pack(tags))
                    last = (24 * 40, flv.AUDIO)
                    for player in early:
                        player.wait(lambda player: len([tag for tag in player.tags if tag[1::-1] == last])
                                    >= (1 if player is early[2] else 2), "the last frame")
                    # The cached group begins at the 21st frame.
                    late = [Player(daemon, NAME), WebSocketPlayer(daemon),
                            Path(daemon, NAME + ".flv?tracks=default")]
                    for player in late:
                        player.wait(lambda player: len([tag for tag in player.tags if tag[1::-1] == last])
                                    >= (1 if player is late[2] else 2), "the last frame")
                    for player in early[:2]:
                        self.check_all(player.tags, groups)
                    self.check_default(early[2].tags, groups, 0)
                    for player in late[:2]:
                        self.check_all(player.tags, groups, late=20)
                    self.check_default(late[2].tags, groups, 0, late=20)
                    stream = daemon.stream(NAME)
                    self.assertEqual([(track["id"], track["codec"], track["default"], track["frames"])
                                      for track in stream["video"]["tracks"]],
                                     [(0, "h264", True, 25), (1, "h264", False, 25), (2, "h264", False, 25)])
                    self.assertEqual([(track["id"], track["codec"], track["default"], track["frames"])
                                      for track in stream["audio"]["tracks"]],
                                     [(0, "aac", True, 25), (1, "aac", False, 25)])
                    self.assertEqual(stream["frames_beyond_tracks"], 0)
                    self.assertEqual(stream["frames"], {"video": 75, "audio": 50})
                    self.assertEqual(publisher.finish(), 200)
                for player in early + late:
                    player.close()
                daemon.blocks_settled()
                self.assertEqual(daemon.complaints(), [])

    def test_one_track_with_a_fourcc(self):
        """Frames of Enhanced FLV without tracks: in the form of old for players that ask for the default, of which each has a
        composition time there; with ModEx in front, too."""
        frames = [flv.video_frame(40 * number, number == 0, number, 500) for number in range(4)]
        moved = frames[3]._replace(payload=frames[3].payload[:2] + b"\0\0\x50" + frames[3].payload[5:])
        plain = [flv.VIDEO_HEADER, flv.AUDIO_HEADER, *frames[:3], moved, flv.audio_frame(120, 3, 60)]
        sent = [multitrack.alone(tag) for tag in plain]
        # Without a composition time.
        sent[3] = multitrack.alone(plain[3], without_time=True)
        # With one, behind a modifier.
        sent[4] = multitrack.modified(sent[4])
        with Daemon() as daemon, Player(daemon, NAME) as whole, Path(daemon, NAME + ".flv?tracks=default") as player:
            daemon.wait_player(NAME, 2)
            with Publisher(daemon, NAME, "http") as publisher:
                publisher.send(pack(sent))
                for one in (whole, player):
                    one.wait(lambda one: one.frames and one.frames[-1].type == flv.AUDIO, "the last frame")
                harness.check_same(whole.tags, sent)
                harness.check_same(player.tags, plain)
                self.assertEqual(publisher.finish(), 200)
            daemon.blocks_settled()

    def test_the_lowest_track_is_the_default_where_there_is_no_track_0(self):
        groups = hand_made(25, video=(7, 3), audio=(9, 200))
        for form in ("many", "many codecs", "one each"):
            with self.subTest(form), Daemon(listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")) as daemon:
                with Publisher(daemon, NAME, "http") as publisher, \
                        Path(daemon, NAME + ".flv?tracks=default") as player, Player(daemon, NAME) as whole:
                    daemon.wait_player(NAME, 2)
                    publisher.send(pack(tags_of(groups, form)))
                    player.wait(lambda player: player.frames and player.frames[-1].timestamp == 24 * 40 and
                                player.frames[-1].type == flv.AUDIO, "the last frame")
                    whole.wait(lambda player: len([tag for tag in player.tags if tag.timestamp == 24 * 40]) == 4,
                               "the last frames")
                    video = [tag for tag in player.tags if tag.type == flv.VIDEO]
                    audio = [tag for tag in player.tags if tag.type == flv.AUDIO]
                    self.check_default(video, groups, 3)
                    self.check_default(audio, groups, 9)
                    self.check_all(whole.tags, groups)
                    with rtsp.Client(daemon, NAME) as client:
                        self.assertIn("config=12%02X" % aac(9).payload[3], client.play()[0].body.upper().replace(
                            "CONFIG", "config"))
                        # The group's first pictures and sounds, of these tracks alone.
                        packets = [client.next_rtp() for _ in range(12)]
                        units = [packet.payload for packet in packets if packet.channel == 0]
                        sounds = [packet.payload[4:] for packet in packets if packet.channel == 2]
                        self.assertIn(flv.video_frame(0, True, 2003, 530).payload[9:], units)
                        self.assertEqual(sounds[0], flv.audio_frame(0, 2009, 69).payload[2:])
                        self.assertTrue(all(len(sound) == len(sounds[0]) for sound in sounds))
                    self.assertEqual([(track["id"], track["default"])
                                      for track in daemon.stream(NAME)["video"]["tracks"]], [(7, False), (3, True)])
                daemon.blocks_settled()

    def test_tracks_that_may_not_be_asked_for(self):
        with Daemon() as daemon:
            for query in ("tracks=", "tracks=2", "tracks=Default", "a&tracks=default,all"):
                status, _, body = daemon.request("GET", "/live/a.flv?" + query)
                self.assertEqual((status, body.strip()), (400, b"invalid parameter: tracks is all or default"), query)

    def test_so_many_tracks_and_one_more(self):
        """16 of a kind are taken; frames of further ones are counted, and change nothing."""
        numbers = list(range(17))
        for form in ("one each", "many"):
            groups = hand_made(20, video=numbers, audio=(0,))
            with self.subTest(form), Daemon() as daemon, Player(daemon, NAME) as player:
                daemon.wait_player(NAME)
                with Publisher(daemon, NAME, "http") as publisher:
                    publisher.send(pack(tags_of(groups, form)))
                    player.wait(lambda player: player.tags and player.tags[-1][:2] == (flv.AUDIO, 19 * 40), "the last frame")
                    got = by_track(multitrack.split_all(player.tags))
                    self.assertEqual(sorted(number for kind, number in got if kind == flv.VIDEO), numbers[:16])
                    self.assertTrue(all(len(what) == 21 for what in got.values()))
                    stream = daemon.stream(NAME)
                    self.assertEqual(len(stream["video"]["tracks"]), 16)
                    self.assertEqual(stream["frames_beyond_tracks"], 20)
                player.close()
                daemon.blocks_settled()

    def test_a_tag_of_more_tracks_than_anybody_has(self):
        """A quarter of a million empty tracks in a tag cost no more than sixteen; a tag that breaks off is counted."""
        empty = b"".join(bytes([number & 255, 0, 0, 0]) for number in range(250000))
        broken = b"\x95\x11Opus\0\0\0\4four\1\0\0\5four"
        with Daemon() as daemon, Player(daemon, NAME) as player, Publisher(daemon, NAME, "http") as publisher:
            publisher.send(pack([aac(0), flv.audio_frame(0, 1, 60), flv.Tag(flv.AUDIO, 10, b"\x95\x11Opus" + empty),
                                 flv.Tag(flv.AUDIO, 20, broken), flv.audio_frame(600, 2, 60)]))
            player.wait_frame(flv.audio_frame(600, 2, 60))
            stream = daemon.stream(NAME)
            self.assertEqual([track["frames"] for track in stream["audio"]["tracks"]], [4] + [1] * 15)
            self.assertEqual((stream["frames_beyond_tracks"], stream["frames_dropped"]), (1, 1))
            self.assertEqual(len(player.tags), 1 + 1 + 16 + 1 + 1)
            self.assertEqual(publisher.finish(), 200)
            player.close()
            daemon.blocks_settled()

    def test_a_recording_has_all_tracks(self):
        groups = hand_made(40)
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--record", "*=%s" % folder, "--record-segment", "1") as daemon:
            with Publisher(daemon, NAME, "http") as publisher:
                publisher.send(pack(tags_of(groups, "many")))
                publisher.finish()
            daemon.wait_log("recorded", 2)
            files = sorted(glob.glob(os.path.join(folder, NAME, "*.flv")))
            for path, start, count in zip(files, (0, 30), (30, 10)):
                with open(path, "rb") as file:
                    tags = flv.parse(file.read())
                got = by_track(multitrack.split_all(tags))
                sent = by_track(multitrack.split_all(tags_of(groups, "many")))
                self.assertEqual(got.keys(), sent.keys())
                for track, what in sent.items():
                    expected = [one[1:] for one in what if one[2] == 0]
                    expected += [one[1:] for one in what if one[2] == 1 and start * 40 <= one[0] < (start + count) * 40]
                    harness.check_same([one[1:] for one in got[track]], expected, "track %s" % (track,))
                # Seeking is by the main track's key frames alone.
                self.assertEqual(self.key_places(tags[0].payload), count // 10)
            daemon.blocks_settled()

    @staticmethod
    def key_places(metadata):
        """How many key frames onMetaData names."""
        at = metadata.index(b"filepositions") + len(b"filepositions") + 1
        return int.from_bytes(metadata[at:at + 4], "big")


class ChangeTest(unittest.TestCase):
    """A publisher changes its decoders' configuration within a group: who comes then is told the one before it first.

    The new one stands where it has changed. So it is for players of all protocols, also at another worker, and for
    those that come behind the next key frame the new one is the first.
    """

    LISTEN = ("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")

    def setUp(self):
        self.daemon = self.enterContext(Daemon("--workers", "2", "--spread", "1", listen=self.LISTEN))
        self.publisher = self.enterContext(Publisher(self.daemon, NAME, "http"))
        self.sent = []

    def send(self, *tags):
        self.sent += tags
        for tag in tags:
            self.publisher.send(tag)

    def frames(self, first, count, key):
        for at in range(first, first + count):
            yield flv.video_frame(at * 40, key and at == first, at, 300)
            yield flv.audio_frame(at * 40, at, 60)

    def begin(self, *headers):
        self.publisher.send(flv.header())
        self.send(flv.first_tags()[0], *headers, *self.frames(0, 5, True))
        self.daemon.wait_stream(NAME)

    def join(self, last):
        """Players by HTTP and WebSocket, at both workers."""
        players = [Player(self.daemon, NAME), WebSocketPlayer(self.daemon), WebSocketPlayer(self.daemon),
                   Player(self.daemon, NAME)]
        for player in players:
            self.addCleanup(player.close)
            player.wait_frame(last)
        workers = {one["worker"] for one in self.daemon.api()["players"]}
        self.assertEqual(len(workers), 2)
        return players

    @staticmethod
    def at(header, timestamp):
        return header._replace(timestamp=timestamp)

    def test_players_that_come_meanwhile(self):
        self.begin(sps(1), aac(1))
        self.send(*self.frames(5, 5, True))
        self.send(self.at(sps(2), 400), self.at(aac(2), 400), *self.frames(10, 5, False))
        meanwhile = self.join(self.sent[-1])
        self.send(*self.frames(15, 5, True))
        behind = self.join(self.sent[-1])
        metadata = self.sent[0]
        for player in meanwhile:
            player.wait_frame(self.sent[-1])
            harness.check_same(player.tags[:3], [metadata, self.at(sps(1), 200), self.at(aac(1), 200)])
            harness.check_same(player.tags[3:], self.sent[13:])
        for player in behind:
            harness.check_same(player.tags, [metadata, self.at(sps(2), 600), self.at(aac(2), 600), *self.sent[-10:]])

    def test_rtsp_players_of_other_parameter_sets(self):
        """What they are told is of the group that they begin with; then the sets come with the key frames."""
        self.begin(sps(1), aac(1))
        first = rtsp.Client(self.daemon, NAME)
        self.addCleanup(first.close)
        self.assertIn(self.pps(1), first.play()[0].body)
        self.send(self.at(sps(2), 200), *self.frames(5, 5, False))
        meanwhile = rtsp.Client(self.daemon, NAME)
        self.addCleanup(meanwhile.close)
        self.assertIn(self.pps(1), meanwhile.play()[0].body)
        self.send(*self.frames(10, 5, True))
        self.daemon.wait_stream(NAME, lambda stream: stream["frames"]["audio"] == 15, "all")
        behind = rtsp.Client(self.daemon, NAME)
        self.addCleanup(behind.close)
        self.assertIn(self.pps(2), behind.play()[0].body)
        for client, sets in ((first, (1, 2)), (meanwhile, (1, 2)), (behind, (2,))):
            self.assertEqual(self.sets(client, len(sets)), [bytes(sps(n).payload[-len(flv.PPS):]) for n in sets])

    @staticmethod
    def pps(number):
        return base64.b64encode(sps(number).payload[-len(flv.PPS):]).decode()

    @staticmethod
    def sets(client, count):
        """The picture parameter sets that come."""
        found = []
        while len(found) < count:
            packet = client.next_rtp()
            if packet.channel == 0 and packet.payload[0] & 31 == 8:
                found.append(packet.payload)
        return found

    def test_rtsp_players_of_another_sound(self):
        """No RTP says that: those who were told of the one before are ended, and others begin behind it."""
        self.begin(sps(1), aac(1))
        first = rtsp.Client(self.daemon, NAME)
        self.addCleanup(first.close)
        self.assertIn(self.config(1), first.play()[0].body)
        self.send(self.at(aac(2), 200), *self.frames(5, 5, False))
        first.read_to_end()
        second = rtsp.Client(self.daemon, NAME)
        self.addCleanup(second.close)
        self.assertIn(self.config(2), second.play()[0].body)
        self.send(*self.frames(10, 5, True))
        times = {second.next_rtp().payload[-4:] for _ in range(6)}
        self.assertTrue(times)
        self.assertEqual(self.daemon.stream(NAME)["subscribers"], 1)

    def test_rtsp_players_of_a_codec_that_has_no_header(self):
        self.begin(sps(1), aac(1))
        for at in range(5, 10):
            self.send(flv.video_frame(at * 40, at == 5, at, 300), flv.Tag(flv.AUDIO, at * 40, b"\x72" + bytes(320)))
        self.daemon.wait_stream(NAME, lambda stream: stream["audio"]["codec"] == "pcm_alaw" and
                                stream["frames"]["audio"] == 10, "all")
        with rtsp.Client(self.daemon, NAME) as client:
            self.assertIn("m=audio 0 RTP/AVP 8", client.play()[0].body)

    @staticmethod
    def config(number):
        return "config=" + aac(number).payload[2:].hex().upper()


class RecordedChangeTest(unittest.TestCase):
    """A file begins with the headers of its first group, also one that an operator has begun within it."""

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--record", "none=%s" % folder, "--record-segment", "1") as daemon, \
                Publisher(daemon, NAME, "http") as publisher:
            publisher.send(pack([sps(1)] + [flv.video_frame(at * 40, at == 0, at, 300) for at in range(5)] +
                                [sps(2)._replace(timestamp=200)] +
                                [flv.video_frame(at * 40, False, at, 300) for at in range(5, 10)]))
            daemon.wait_stream(NAME, lambda stream: stream["frames"]["video"] == 10, "all")
            status, _, _ = daemon.admin("POST", "/api/v1/recordings/" + NAME)
            self.assertIn(status, (200, 204))
            for at in range(10, 40):
                publisher.send(flv.video_frame(at * 40, at % 10 == 0, at, 300))
            self.assertEqual(publisher.finish(), 200)
            daemon.wait_log("recorded", 2)
            said = []
            for path in sorted(glob.glob(os.path.join(folder, NAME, "*.flv"))):
                with open(path, "rb") as file:
                    tags = flv.parse(file.read())
                said.append([(tag.timestamp, tag.payload[-1]) for tag in tags if tag.is_sequence_header])
                self.assertTrue(next(tag for tag in tags if tag.is_frame).is_key_frame)
            self.assertEqual(said, [[(0, 1), (200, 2)], [(0, 2)]])


class AgainTest(unittest.TestCase):
    """What the next publisher says before its frames is sent to players that have it only where it is something else."""

    def test_what_has_changed_is_sent(self):
        metadata = flv.first_tags()[0]
        other = flv.metadata(videocodecid=7.0, width=640.0, height=360.0, framerate=25.0, audiocodecid=10.0)
        publishers = ([metadata, sps(1), aac(1)], [metadata, sps(1), aac(1)], [metadata, sps(2), aac(1)],
                      [other, sps(2), aac(1)], [metadata, sps(1), aac(2)])
        expected = (3, 0, 1, 1, 3)
        with Daemon() as daemon, Player(daemon, NAME) as player, \
                Path(daemon, NAME + ".flv?tracks=default") as alone:
            daemon.wait_player(NAME, 2)
            count = 0
            for headers, new in zip(publishers, expected):
                source = flv.frames(first=count)
                frames = [next(source) for _ in range(20)]
                with Publisher(daemon, NAME, "http") as publisher:
                    publisher.send(pack([*headers, *frames]))
                    self.assertEqual(publisher.finish(), 200)
                count += 20
                for one in (player, alone):
                    one.wait(lambda one, count=count: len(one.frames) == count, "its frames")
                    got = [tag.payload for tag in one.tags[-20 - new:-20]]
                    self.assertEqual([payload in [tag.payload for tag in headers] for payload in got], [True] * new)
                self.assertEqual(len(player.tags), len(alone.tags))
            said = [tag.payload for tag in player.tags if not tag.is_frame]
            self.assertEqual(said, [tag.payload for tag in (metadata, sps(1), aac(1), sps(2), other, metadata, sps(1),
                                                            aac(2))])


class FfmpegTest(unittest.TestCase):
    """ffmpeg's multitrack, and the same in one tag for each moment: ffmpeg reads the same packets of all four tracks."""

    def setUp(self):
        self.ffmpeg = harness.find_current_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.media = harness.make_media(self.ffmpeg, MEDIA)

    def hashes(self, source, *options, name="got"):
        path = os.path.join(self.folder, name)
        reader = Ffmpeg(self.ffmpeg, *options, "-copyts", "-i", source, "-map", "0", "-c", "copy", "-f", "framemd5", path)
        self.addCleanup(reader.kill)
        return reader, path

    @staticmethod
    def read(path):
        """The packets of each stream: {number: [(pts, size, hash)]}"""
        found = {}
        with open(path, encoding="ascii") as file:
            for line in file:
                if not line.startswith("#"):
                    stream, _, pts, _, size, digest = [part.strip() for part in line.split(",")[:6]]
                    found.setdefault(int(stream), []).append((int(pts), int(size), digest))
        return found

    def test_all_tracks(self):
        reader, path = self.hashes(self.media)
        reader.wait()
        sent = self.read(path)
        self.assertEqual([len(sent[i]) for i in range(4)], [75, 75, len(sent[3]), len(sent[3])])
        with open(self.media, "rb") as file:
            tags = flv.parse(file.read())
        for name, data in (("ffmpeg's", pack(tags)), ("joined", pack(self.joined(tags)))):
            with self.subTest(name), Daemon() as daemon:
                player, path = self.hashes("http://%s:%d/%s.flv" % (*daemon.address(), NAME))
                daemon.wait_player(NAME)
                with Publisher(daemon, NAME, "http") as publisher:
                    publisher.send(data)
                    publisher.finish()
                daemon.wait_stream(NAME, lambda stream: stream["state"] == "waiting", "the end")
                daemon.stop()
                player.wait()
                harness.check_same(list(self.read(path).items()), list(sent.items()))

    @staticmethod
    def joined(tags):
        """Frames and headers of one moment and kind in one tag of many tracks."""
        waiting, result = {}, []

        def flush():
            for group in waiting.values():
                result.append(multitrack.join(group) if len(group) > 1 else multitrack.wrap(*group.popitem()[::-1]))
            waiting.clear()

        for tag in tags:
            if tag.type == flv.SCRIPT:
                result.append(tag)
                continue
            (_, number, _, packet, data), = multitrack.split(tag)
            if packet > 1:
                continue
            first = (tag.payload[0] & 0x70 | 7 if tag.type == flv.VIDEO else 0xAF)
            plain = flv.Tag(tag.type, tag.timestamp, bytes([first, packet]) +
                            (b"\0\0\0" if packet == 0 and tag.type == flv.VIDEO else b"") + data)
            key = (tag.type, tag.timestamp, packet, first)
            if key not in waiting:
                flush() if any(other[1] != tag.timestamp for other in waiting) else None
            waiting.setdefault(key, {})[number] = plain
        flush()
        return result


if __name__ == "__main__":
    harness.main()
