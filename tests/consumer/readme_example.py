"""Compiles the program of which the README shows a part, by the line that stands there, and has ffmpeg send it a stream.

Usage: readme_example.py README LIBDIR BUILD-DIR
"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

PROGRAM = "flv_tags.c"
SECONDS = 60


def example(readme):
    """The program of which the README shows a part."""
    program = os.path.join(os.path.dirname(readme), "src", "examples", PROGRAM)
    with open(readme, encoding="utf-8") as file:
        blocks = re.findall(r"^```c\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    with open(program, encoding="utf-8") as file:
        text = file.read()
    if len(blocks) != 1 or blocks[0] not in text:
        sys.exit(f"{readme}: not one ```c block that is a part of {program}")
    return text


def compiling(readme, libdir):
    """The line by which it is compiled, for where the library has been installed."""
    with open(readme, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.startswith("    cc " + PROGRAM + " ")]
    if len(lines) != 1 or "PREFIX/lib" not in lines[0]:
        sys.exit(f"{readme}: not one line that compiles {PROGRAM}: {lines}")
    return lines[0].replace("PREFIX/lib", libdir)


def compile_example(text, line, build):
    shutil.rmtree(build, ignore_errors=True)
    os.makedirs(build)
    source = os.path.join(build, PROGRAM)
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_RUN_PATH")}
    # Callbacks take what they do not all use.
    warnings = " -Wall -Wextra -Wno-unused-parameter -Werror -o checked"
    for command in (line, line + warnings):
        subprocess.run(["sh", "-c", command], cwd=build, env=environment, check=True)
    return os.path.join(build, "a.out"), environment


class Terminal:
    """What a program prints on a terminal, where it is printed line by line."""

    def __init__(self, command, environment):
        self.descriptor, inside = pty.openpty()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=inside, env=environment)
        os.close(inside)
        self.text = ""
        self.deadline = time.monotonic() + SECONDS

    def read(self):
        """More text; False at the end."""
        left = self.deadline - time.monotonic()
        if left <= 0 or not select.select([self.descriptor], [], [], left)[0]:
            raise TimeoutError(f"nothing more for {SECONDS} s; printed so far:\n{self.text}")
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # how a terminal says that nobody has it open any more
            return False
        self.text += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def port(self):
        while True:
            found = re.search(r"^listening on 127\.0\.0\.1:(\d+)$", self.text, re.MULTILINE)
            if found:
                return found.group(1)
            if not self.read():
                sys.exit(f"the example ended before it listened:\n{self.text}")


def run_example(program, environment):
    terminal = Terminal([program, "0"], environment)
    try:
        port = terminal.port()
        subprocess.run(
            ["ffmpeg", "-nostdin", "-v", "error",
             "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=2",
             "-f", "lavfi", "-i", "sine=duration=2",
             "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac",
             "-f", "flv", "-flvflags", "no_duration_filesize", f"tcp://127.0.0.1:{port}"],
            check=True, timeout=SECONDS)
        while terminal.read():
            pass
        status = terminal.process.wait(timeout=SECONDS)
    finally:
        terminal.process.kill()
        terminal.process.wait()
    return status, terminal.text.splitlines()


def main():
    readme, libdir, build = sys.argv[1:]
    program, environment = compile_example(example(readme), compiling(readme, os.path.abspath(libdir)), build)
    status, lines = run_example(program, environment)
    print("\n".join(lines[:8]), f"... {len(lines)} lines", sep="\n")
    if status != 0:
        sys.exit(f"the example ended with status {status}")
    for kind in ("video", "audio"):
        if not any(kind in line for line in lines):
            sys.exit(f"no {kind} tag was printed")


if __name__ == "__main__":
    main()
