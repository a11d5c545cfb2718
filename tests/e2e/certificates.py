"""Certificates that are made for a test, by the program openssl."""

import base64
import hashlib
import os
import ssl
import subprocess

import harness

# Of openssl ca, which alone can sign for a time that is over.
CA_CONFIG = """
[ca]
default_ca = this
[this]
database = {folder}/{name}.index
serial = {folder}/{name}.serial
new_certs_dir = {folder}
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
subjectAltName = DNS:{name}
"""


def openssl(*arguments, **options):
    """Runs openssl; what it prints."""
    done = subprocess.run(["openssl", *arguments], capture_output=True, timeout=harness.PATIENCE, check=False, **options)
    if done.returncode:
        raise AssertionError("openssl %s: %s" % (" ".join(arguments), done.stderr.decode(errors="replace")))
    return done.stdout


class Certificate:
    """A file with a certificate, and one with its key."""

    def __init__(self, folder, file):
        self.chain, self.key = (os.path.join(folder, file + end) for end in (".pem", ".key"))

    @property
    def option(self):
        """CHAIN,KEY, as --tls-certificate takes them."""
        return self.chain + "," + self.key

    @property
    def der(self):
        with open(self.chain, encoding="ascii") as file:
            return ssl.PEM_cert_to_DER_cert(file.read())

    @property
    def sha256(self):
        return hashlib.sha256(self.der).hexdigest()

    @property
    def pin(self):
        """The hash of its public key, as Chromium takes it (RFC 7469, 2.4)."""
        key = openssl("x509", "-in", self.chain, "-noout", "-pubkey")
        return base64.b64encode(hashlib.sha256(openssl("pkey", "-pubin", "-outform", "DER", input=key)).digest()).decode()


def make(folder, name, file=None, days=90, issuer=None, names=None, rsa=0, is_ca=False):
    """A certificate for a common name.

    file: the files' name; issuer: the Certificate that signs it, or itself; names: alternative ones, as openssl
    writes them; rsa: bits of the key, in place of one on a curve.
    """
    made = Certificate(folder, file or name)
    kind = ["rsa:%d" % rsa] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    extensions = ["-addext", "basicConstraints=critical,CA:true" if is_ca else "subjectAltName=" + (names or "DNS:" + name)]
    key = ["-newkey", *kind, "-nodes", "-keyout", made.key, "-subj", "/CN=" + name, *extensions]
    if not issuer:
        # An authority has that extension anyway.
        key = key[:-2] if is_ca else key
        openssl("req", "-x509", *key, "-out", made.chain, "-days", str(days))
    else:
        request = openssl("req", "-new", *key)
        openssl("x509", "-req", "-CA", issuer.chain, "-CAkey", issuer.key, "-CAcreateserial", "-copy_extensions", "copyall",
                "-days", str(days), "-out", made.chain, input=request)
    os.chmod(made.key, 0o600)
    return made


def make_expired(folder, name, issuer=None):
    """One that was valid in January 2020, signed by the issuer or itself."""
    made = Certificate(folder, name + ".expired")
    request, config = os.path.join(folder, name + ".request"), os.path.join(folder, name + ".conf")
    for path, text in ((config, CA_CONFIG.format(folder=folder, name=name)), (os.path.join(folder, name + ".index"), ""),
                       (os.path.join(folder, name + ".serial"), "01\n")):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", made.key, "-subj",
            "/CN=" + name, "-out", request)
    signer = ["-cert", issuer.chain, "-keyfile", issuer.key] if issuer else ["-selfsign", "-keyfile", made.key]
    openssl("ca", "-batch", "-notext", "-config", config, *signer, "-in", request, "-out", made.chain, "-startdate", "20200101000000Z",
            "-enddate", "20200131000000Z")
    os.chmod(made.key, 0o600)
    return made
