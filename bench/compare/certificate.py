"""A certificate for the servers of a run, on a curve, as most servers have them now; nobody verifies it."""

import os
import subprocess

from compare.processes import RunError

SUITE = "TLS_AES_256_GCM_SHA384"  # The first choice of OpenSSL; the load offers no other.


def make(folder):
    """Paths of the certificate and its key, in PEM."""
    chain, key = (os.path.join(folder, name) for name in ("certificate.pem", "certificate.key"))
    try:
        done = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                               "/CN=localhost", "-days", "30", "-keyout", key, "-out", chain], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RunError("openssl is missing: tools/install-deps bench") from None
    if done.returncode:
        raise RunError("openssl: " + " ".join(done.stderr.split()))
    os.chmod(key, 0o600)
    return chain, key
