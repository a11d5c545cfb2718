#!/usr/bin/env python3
"""Makes the vectors in this folder anew with ffmpeg: what other programs send, for the unit tests.

Usage: make.py [FOLDER]

For each kind NAME of stream: NAME.publish and NAME.listen, the two directions of an RTSP session over TCP, ffmpeg
publishing to a listening ffmpeg; and NAME.video, NAME.audio, what was published: Annex B, ADTS or raw samples as the
encoder made them. Opus comes as its packets, each behind a length of two bytes.

For each kind NAME of file: NAME.flv, and NAME.publish as above, ffmpeg publishing it as it is. Those with codecs of
Enhanced RTMP need a newer ffmpeg, by default that of the Python package imageio-ffmpeg; without it they are left out.
"""

import os
import socket
import subprocess
import sys
import threading

VIDEO = "-f lavfi -i testsrc2=size=128x96:rate=10".split()
AUDIO = "-f lavfi -i sine=frequency=440:sample_rate={}".split(" ")
H264 = "-c:v libx264 -preset veryfast -bf 2 -g 5 -x264-params slices=2:repeat-headers=1 -pix_fmt yuv420p".split()
H265 = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=5:bframes=0:repeat-headers=1".split()
AAC = "-c:a aac -b:a 32k -ac 1".split()
# name, inputs, encoding, the muxers of the two tracks
STREAMS = [
    ("h264-aac", ["v", "44100"], H264 + AAC, ["h264", "adts"]),
    ("h265", ["v"], H265, ["hevc"]),
    ("pcmu", ["8000"], "-c:a pcm_mulaw -ac 1".split(), ["mulaw"]),
    ("pcma", ["8000"], "-c:a pcm_alaw -ac 1".split(), ["alaw"]),
    ("opus", ["48000"], "-c:a libopus -b:a 24k -ac 2".split(), ["data"]),
]
# name, inputs, encoding, whether the newer ffmpeg is needed
BFRAMES = "-c:v libx264 -preset veryfast -bf 3 -b_strategy 0 -g 12 -sc_threshold 0 -pix_fmt yuv420p".split()
H265_BFRAMES = "-c:v libx265 -preset veryfast -x265-params log-level=none:keyint=12:bframes=3:b-adapt=0".split()
FILES = [
    ("flv-h264-aac", ["v", "44100"], BFRAMES + AAC, False),
    ("flv-h265-aac", ["v", "48000"], H265_BFRAMES + AAC, True),
    ("flv-h264-opus", ["v", "48000"], BFRAMES + "-c:a libopus -b:a 24k -ac 2".split(), True),
    ("flv-pcma", ["8000"], "-c:a pcm_alaw -ac 1".split(), False),
    ("flv-pcmu", ["8000"], "-c:a pcm_mulaw -ac 1".split(), False),
]


def newer_ffmpeg():
    try:
        import imageio_ffmpeg
    except ImportError:
        return None
    return imageio_ffmpeg.get_ffmpeg_exe()


def relay(source, target, name):
    with open(name, "wb") as copy:
        try:
            while data := source.recv(65536):
                copy.write(data)
                target.sendall(data)
        except OSError:
            pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            pass


def record(name, container, program="ffmpeg", read=()):
    """Publishes the container's streams as they are, through a relay that writes both directions down."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port, target = listener.getsockname()[1], free_port()
    quiet = ["-v", "error", "-nostdin", "-y"]
    server = subprocess.Popen(["ffmpeg"] + quiet + ["-rtsp_flags", "listen", "-i", f"rtsp://127.0.0.1:{target}/live/{name}",
                                       "-c", "copy", "-f", "null", "-"], stderr=subprocess.DEVNULL)
    client = subprocess.Popen([program] + quiet + [*read, "-i", container, "-c", "copy", "-rtsp_transport", "tcp", "-pkt_size", "500",
                                       "-f", "rtsp", f"rtsp://127.0.0.1:{port}/live/{name}"])
    near, _ = listener.accept()
    far = connect(target)
    back = threading.Thread(target=relay, args=(far, near, name + ".listen"))
    back.start()
    relay(near, far, name + ".publish")
    back.join()
    client.wait(20)
    server.wait(20)


def opus_packets(container, name):
    listing = subprocess.run(["ffprobe", "-v", "error", "-show_packets", "-show_data", "-of", "json", container],
                             capture_output=True, check=True, text=True).stdout
    import json
    with open(name, "wb") as out:
        for packet in json.loads(listing)["packets"]:
            data = b"".join(bytes.fromhex(line[10:50].replace(" ", "")) for line in packet["data"].split("\n") if line)
            out.write(len(data).to_bytes(2, "big") + data)


def encode(program, name, inputs, encoding, container):
    command = [program, "-v", "error", "-nostdin", "-y", "-flags", "+bitexact"]
    for kind in inputs:
        command += VIDEO if kind == "v" else [word.format(kind) for word in AUDIO]
    subprocess.run(command + ["-t", "1"] + encoding + ["-fflags", "+bitexact", container], check=True)


def make_files():
    for name, inputs, encoding, needs_newer in FILES:
        program = newer_ffmpeg() if needs_newer else "ffmpeg"
        if program:
            encode(program, name, inputs, encoding, name + ".flv")
            # At its own pace, so that the tracks come as an encoder would send them.
            record(name, name + ".flv", program, ["-re"])
            os.remove(name + ".listen")


def main(arguments):
    os.chdir(arguments[0] if arguments else os.path.dirname(os.path.abspath(__file__)))
    make_files()
    for name, inputs, encoding, muxers in STREAMS:
        container = name + ".mkv"
        encode("ffmpeg", name, inputs, encoding, container)
        record(name, container)
        for track, muxer in enumerate(muxers):
            kind = "video" if muxer in ("h264", "hevc") else "audio"
            if muxer == "data":
                opus_packets(container, name + ".audio")
                continue
            subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-i", container, "-map", f"0:{track}", "-c",
                            "copy", "-f", muxer, f"{name}.{kind}"], check=True)
        os.remove(container)


if __name__ == "__main__":
    main(sys.argv[1:])
