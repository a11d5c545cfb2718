"""A headless Chromium, driven by its WebDriver over plain HTTP (https://www.w3.org/TR/webdriver2/)."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

import harness

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class BrowserError(Exception):
    """The driver refuses a command."""


def find():
    """The driver and the browser, or None."""
    driver, browser = shutil.which("chromedriver"), shutil.which("chromium")
    return (driver, browser) if driver and browser else None


class Browser:
    STARTS = 5

    def __init__(self, *more):
        """more: arguments of the browser."""
        driver, browser = find()
        self._folder = tempfile.TemporaryDirectory()
        self._log = tempfile.TemporaryFile()
        self._driver = self._session = None
        try:
            self._base = "http://127.0.0.1:%d" % self._start(driver)
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--autoplay-policy=no-user-gesture-required", "--mute-audio", "--no-first-run",
                         "--disable-background-networking", "--disable-component-update", "--window-size=1200,900",
                         "--user-data-dir=" + os.path.join(self._folder.name, "profile"), *more]
            self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "unhandledPromptBehavior": "accept",
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": browser, "args": arguments}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _start(self, driver):
        """Starts the driver: its port. It has the system choose one of IPv6 and then wants the same of IPv4, or the
        other way round; where somebody has that it ends, and another one is to be tried."""
        for _ in range(self.STARTS):
            self._driver = subprocess.Popen([driver, "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=self._log, env=dict(os.environ, HOME=self._folder.name))
            said = b""
            for line in self._driver.stdout:
                found = re.search(rb"started successfully on port (\d+)", line)
                if found:
                    return int(found.group(1))
                said += line
            self._end()
        raise BrowserError("the driver has not started: " + said.decode(errors="replace")[-500:])

    def _end(self):
        if self._driver:
            self._driver.terminate()
            self._driver.wait()
            self._driver.stdout.close()
            self._driver = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _ask(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(error.read().decode(errors="replace")[:500]) from None

    def _command(self, method, path, body=None):
        return self._ask(method, "/session/%s%s" % (self._session, path), body)

    def open(self, url):
        self._command("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs a script in the page: what it returns."""
        return self._command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """Runs a script that has a function as its last argument: what it calls that with."""
        return self._command("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def click(self, path):
        """Clicks the element of that XPath, as a user would."""
        element = self._command("POST", "/element", {"using": "xpath", "value": path})[ELEMENT]
        self._command("POST", "/element/%s/click" % element)

    def accept(self):
        """Says yes to the question that the page asks."""
        self._command("POST", "/alert/accept")

    def complaints(self):
        """What the page and the browser have complained of, since it was last asked."""
        return [entry["message"] for entry in self._command("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def _devtools(self, command, **parameters):
        return self._command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width=0, height=0, touch=False):
        """Has the page that size, on a screen that is touched; without a size, the window's."""
        if width:
            self._devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        else:
            self._devtools("Emulation.clearDeviceMetricsOverride")
        self._devtools("Emulation.setTouchEmulationEnabled", enabled=touch)

    def hide_scrollbars(self, hidden):
        self._devtools("Emulation.setScrollbarsHidden", hidden=hidden)

    def prefer(self, scheme):
        """The user's colours: "dark", "light"."""
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def allow(self, *permissions):
        """Pages may do that, and nothing else of what has to be allowed."""
        self._devtools("Browser.grantPermissions", permissions=permissions)

    def accessible(self):
        """The nodes of the page as a screen reader has them: (role, name)."""
        nodes = self._devtools("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]

    def press(self, keys):
        """Presses these keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._command("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def screenshot(self):
        """A PNG, in base64."""
        return self._command("GET", "/screenshot")

    def close(self):
        if self._session:
            try:
                self._ask("DELETE", "/session/" + self._session)
            except (BrowserError, OSError):
                pass
            self._session = None
        self._end()
        self._log.close()
        self._folder.cleanup()
