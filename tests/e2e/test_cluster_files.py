"""The files of packaging/cluster: each is read by the program it is for, and two nodes behind haproxy are started from theirs."""

import configparser
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import socket
import subprocess
import unittest

import harness
import redis_server
import relay
from cluster import Marked, wait_order
from harness import Player, wait_until
from private_files import FilesCase

try:
    import yaml
except ImportError:
    yaml = None

FILES = os.path.join(harness.SOURCE_DIR, "packaging", "cluster")
PEERS = os.path.join(harness.SOURCE_DIR, "build", "peers", "usr", "sbin")
HAPROXY = next((path for path in (os.path.join(PEERS, "haproxy"), "/usr/sbin/haproxy") if os.access(path, os.X_OK)), None)
SECRET = "0123456789abcdef0123456789abcdef\n"


def read(name):
    with open(os.path.join(FILES, name), encoding="utf-8") as file:
        return file.read()


def rights():
    """Commands of the engine that nodes need, as the design says."""
    with open(os.path.join(harness.SOURCE_DIR, "src", "daemon", "cluster", "DESIGN.md"), encoding="utf-8") as file:
        return re.search(r"needs the commands `([A-Z| ]+)`", file.read()).group(1).lower().split()


def other_host(number):
    """A loopback address of this process alone, beside harness.own_host()."""
    first, _, rest = harness.own_host().partition(".")
    second, _, rest = rest.partition(".")
    return "%s.%d.%s" % (first, int(second) + 64 * number, rest)


class FilesTest(FilesCase):
    def setUp(self):
        super().setUp()
        self.write("cluster-secret", SECRET)
        self.write("token-keys", "main:0123456789abcdef0123456789abcdef\n")

    def settings(self, number=1, right="token=main"):
        """sluiced.conf of a node, with addresses of this host."""
        text = read("sluiced.conf").replace("/run/credentials/sluiced.service", self.folder)
        text = text.replace('"node1"', '"node%d"' % number).replace("192.0.2.11", other_host(1 + (number == 2)))
        text = text.replace("192.0.2.10", harness.own_host()).replace("token=main", right)
        return self.write("node%d.conf" % number, text)

    def proxy(self):
        """haproxy.cfg, likewise."""
        text = read("haproxy.cfg").replace("bind :", "bind %s:" % harness.own_host())
        for number in (1, 2):
            text = text.replace("192.0.2.1%d" % number, other_host(number))
        # It wants two descriptors for each, which this machine may not allow.
        text = re.sub(r"maxconn \d+", "maxconn 1000", text)
        # Where it connects from is what the nodes know it by.
        text = text.replace("mode tcp\n", "mode tcp\n    source %s\n" % harness.own_host())
        return self.write("haproxy.cfg", text)

    def test_settings(self):
        for number in (1, 2):
            self.check("--config", self.settings(number))

    def test_unit(self):
        """Its credentials are the files that the settings name."""
        unit = configparser.ConfigParser(strict=False)
        unit.optionxform = str
        unit.read_string(read("sluiced.service.d.conf"))
        credentials = re.findall(r"^LoadCredential=([^:]+):", read("sluiced.service.d.conf"), re.MULTILINE)
        named = re.findall(r'"/run/credentials/sluiced\.service/([^"]+)"', read("sluiced.conf"))
        self.assertEqual(list(unit), ["DEFAULT", "Service"])
        self.assertEqual(sorted(credentials), sorted(named))

    def test_tool(self):
        """tools/cluster, with each node in a namespace of its own, beyond loopback."""
        loader = importlib.machinery.SourceFileLoader("tool", os.path.join(harness.SOURCE_DIR, "tools", "cluster"))
        tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("tool", loader))
        loader.exec_module(tool)
        tool.BUILD = pathlib.Path(harness.BUILD_DIR)
        harness.need_namespace(self, "net")
        net = tool.Namespaces(2)
        self.addCleanup(net.close)
        cluster = tool.Cluster(2, net, [])
        self.addCleanup(cluster.close)
        with socket.create_connection((cluster.nodes[1].host, cluster.nodes[1].ports["http"]), harness.PATIENCE) as peer:
            peer.sendall(b"HEAD /live/demo.flv HTTP/1.0\r\n\r\n")
            self.assertIn(b" 404 ", peer.recv(100))

    @unittest.skipUnless(HAPROXY, "no haproxy")
    def test_haproxy(self):
        for path in (os.path.join(FILES, "haproxy.cfg"), self.proxy()):
            done = subprocess.run([HAPROXY, "-c", "-f", path], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, re.findall(r"\[(?:ALERT|WARNING)\].*", done.stderr)), (0, []))

    @unittest.skipUnless(HAPROXY and redis_server.REDIS, "no haproxy, or no redis-server")
    def test_two_nodes_behind_haproxy(self):
        """Published by the proxy, played by the proxy from either node, by the client's own address; one node is killed."""
        engine = redis_server.Redis(address=(harness.own_host(), 6379))
        self.addCleanup(engine.stop)
        engine.ask("ACL", "SETUSER", "sluice", "on", ">change-me", "resetchannels", "-@all", "~live:*", "&live:events",
                   *("+" + command for command in rights()))
        nodes = [harness.Daemon("--config", self.settings(number, "allow"), listen=()) for number in (1, 2)]
        for node in nodes:
            self.addCleanup(node.stop)
        process = subprocess.Popen([HAPROXY, "-f", self.proxy()], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        proxy = Through()
        wait_until(lambda: proxy.is_there() or process.poll() is not None, "haproxy to listen")
        self.assertIsNone(process.poll())
        with Marked(proxy, "live/a", 1):
            players = [Player(proxy, "live/a") for _ in range(4)]
            for player in players:
                wait_order(player, 1)
            shown = [player for node in nodes for player in node.api()["players"] if player["protocol"] == "http"]
            self.assertEqual({player["address"] for player in shown}, {player.address for player in players})
            at = [sum(player["protocol"] == "http" for player in node.api()["players"]) for node in nodes]
            self.assertEqual(sum(at), 4)
            self.assertNotIn(0, at)
            # The next ones come to the other node at once.
            owner = engine.ask("HGET", "live:stream:live/a", "node")
            nodes[0 if owner == "node2" else 1].kill()
            players += [self.play_again(proxy) for _ in range(2)]
            for player in players:
                player.close()

    @staticmethod
    def play_again(proxy):
        """As players do whose connection ends: the kernel may end the listeners of a node that is killed behind its process."""
        while True:
            player = Player(proxy, "live/a")
            try:
                wait_order(player, 1)
                return player
            except AssertionError:
                player.close()
                if not player.finished or player.tags:
                    raise

    @unittest.skipUnless(yaml, "no PyYAML")
    def test_compose(self):
        services = yaml.safe_load(read("compose.yaml"))["services"]
        for name in ("node1", "node2"):
            service = services[name]
            self.check_container(service["command"], [volume.split(":")[1] for volume in service["volumes"]])
            listening = dict(re.fullmatch(r"--(http|rtmp)=.*:(\d+)", word).groups() for word in service["command"]
                             if re.match("--(http|rtmp)=", word))
            self.assertEqual(sorted(port.rpartition(":")[2] for port in service["ports"]), sorted(listening.values()))
            self.assertEqual(self.value(service["command"], "node"), name)
            self.assertEqual(self.value(service["command"], "advertise"),
                             service["networks"]["nodes"]["ipv4_address"] + ":" + listening["http"])
            self.assertIn(self.value(service["command"], "cluster").split("/")[2].split(":")[0], services)

    @unittest.skipUnless(yaml, "no PyYAML")
    def test_kubernetes(self):
        documents = {(document["kind"], document["metadata"]["name"]): document
                     for document in yaml.safe_load_all(read("kubernetes.yaml"))}
        template = documents["StatefulSet", "sluice"]["spec"]["template"]
        container, = template["spec"]["containers"]
        names = {variable["name"] for variable in container["env"]}
        self.assertEqual(set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))), names)
        arguments = [word.replace("$(POD_IP)", "192.0.2.20").replace("$(POD_NAME)", "sluice-0") for word in container["args"]]
        self.check_container(arguments, [self.mount(container, "token-keys"), self.mount(container, "cluster-secret")])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual(ports, {name: int(self.value(arguments, name).rpartition(":")[2]) for name in ports})
        self.assertIn(container["readinessProbe"]["tcpSocket"]["port"], ports)
        for name in ("sluice", "sluice-nodes"):
            spec = documents["Service", name]["spec"]
            self.assertLessEqual(spec["selector"].items(), template["metadata"]["labels"].items())
            self.assertLessEqual({port["name"]: port["port"] for port in spec["ports"]}.items(), ports.items())
        self.assertEqual(documents["StatefulSet", "sluice"]["spec"]["serviceName"], "sluice-nodes")
        self.check_probe(container["livenessProbe"]["exec"]["command"], self.value(arguments, "admin"))

    @staticmethod
    def mount(container, file):
        return os.path.join(container["volumeMounts"][0]["mountPath"], file)

    @staticmethod
    def value(arguments, name):
        return next(word.partition("=")[2] for word in arguments if word.startswith("--%s=" % name))

    def check_container(self, arguments, files):
        """The daemon knows the options; the files that they name are those that are mounted."""
        named = [word.partition("=")[2] for word in arguments if "=/run/secrets/" in word]
        self.assertEqual(sorted(named), sorted(files))
        for path in named:
            arguments = [word.replace(path, os.path.join(self.folder, os.path.basename(path))) for word in arguments]
        self.check(*arguments)

    def check_probe(self, command, admin):
        """It is answered by a daemon."""
        sluicectl = os.environ.get("SLUICECTL") or os.path.join(harness.BUILD_DIR, "sluicectl")
        self.assertEqual(command[0], "sluicectl")
        self.assertIn(admin, command)
        with harness.Daemon() as daemon:
            words = ["%s:%d" % daemon.address("admin") if word == admin else word for word in command[1:]]
            subprocess.run([sluicectl, *words], check=True, stdout=subprocess.DEVNULL, timeout=harness.PATIENCE)


class Through:
    """What is at the proxy, for those that connect to a daemon."""

    def is_there(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def connect(self, protocol="http", at=0, receive_buffer=0):
        peer = socket.create_connection((harness.own_host(), {"http": 8080, "rtmp": 1935, "rtsp": 8554}[protocol]),
                                        harness.PATIENCE)
        return peer


if __name__ == "__main__":
    harness.main()
