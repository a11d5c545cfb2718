"""Runs checks, inside the guest: one argument, a list in JSON. Each result is a line "@check" with JSON behind it."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

MOST_OUTPUT = 6000


def run(check):
    begin = time.monotonic()
    with subprocess.Popen(check["command"], cwd=check["folder"], env={**os.environ, **check["environment"]},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=check["limit"])
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            status = "time"
    return {"name": check["name"], "status": status, "seconds": round(time.monotonic() - begin, 1),
            "output": output.decode(errors="replace")[-MOST_OUTPUT:]}


def main():
    checks = json.loads(sys.argv[1])
    together = [check for check in checks if not check["alone"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, check) for check in together]):
            print("@check " + json.dumps(done.result()), flush=True)
    for check in checks:
        if check["alone"]:
            print("@check " + json.dumps(run(check)), flush=True)


main()
