"""TLS between a client of hostile_tls.py and its socket, which does not block.

Python's ssl has neither new keys nor records of a chosen type: the two layers that send them call OpenSSL by ctypes.
"""

import ctypes
import functools
import hashlib
import hmac
import select
import ssl
import struct

import tls

RECORD = 16384


@functools.lru_cache(maxsize=None)
def context():
    """It verifies nothing: what counts is what a handshake costs the daemon."""
    return tls.context(verify=False)


@functools.lru_cache(maxsize=None)
def hello():
    return tls.client_hello()


class Layer:
    """The calls of a socket that does not block, with TLS in between."""

    record = RECORD

    def __init__(self, plain, on_open=lambda: None):
        """on_open: called when the handshake is complete."""
        self._plain, self._on_open, self._rest = plain, on_open, b""  # _rest: what is encrypted and not sent yet.
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self.client()
        self.is_open = False
        self._shake_hands()

    def client(self):
        return context().wrap_bio(self._in, self._out, server_hostname="localhost")

    def __getattr__(self, name):
        return getattr(self._plain, name)

    def wants(self, sends, reads):
        """Events to wait for; sends: there is data to be sent."""
        return ((select.EPOLLIN if reads or not self.is_open else 0) |
                (select.EPOLLOUT if self._rest or (sends and self.is_open) else 0))

    def _shake_hands(self):
        try:
            self._tls.do_handshake()
            self.is_open = True
            self._on_open()
        except ssl.SSLWantReadError:
            pass
        self._rest += self._out.read()

    def inject(self, data=b""):
        """Bytes that are sent as they are, behind what waits."""
        self._rest += data
        if self._rest:
            try:
                self._rest = self._rest[self._plain.send(self._rest):]
            except BlockingIOError:
                pass

    def send(self, data):
        """Takes nothing while something is encrypted and waits."""
        self.inject()
        if self._rest or not self.is_open:
            raise BlockingIOError
        for at in range(0, len(data), self.record):
            self._tls.write(data[at:at + self.record])
        self.inject(self._out.read())
        return len(data)

    def recv(self, most):
        """All that has been decrypted."""
        data = self._plain.recv(most)
        if not data:
            return data
        self._in.write(data)
        if not self.is_open:
            self._shake_hands()
        try:
            parts = self._read(most) if self.is_open else None
        finally:
            self.inject(self._out.read())
        if parts is None:
            raise BlockingIOError
        return parts

    def _read(self, most):
        """None: nothing yet; b"": close_notify."""
        data = b""
        try:
            while more := self._tls.read(most):
                data += more
        except ssl.SSLWantReadError:
            return data or None
        except ssl.SSLZeroReturnError:
            pass
        return data


class SmallRecords(Layer):
    record = 1


class HalfHandshake(Layer):
    """The client's last messages are cut in half, and then nothing more comes."""

    def _shake_hands(self):
        super()._shake_hands()
        if self.is_open:
            self._rest = self._rest[:len(self._rest) // 2]

    def send(self, data):
        self.inject()
        raise BlockingIOError

    def _read(self, most):
        return None


# -- OpenSSL by ctypes --

TLS_1_2, TLS_1_3 = 0x303, 0x304
SET_MIN_PROTO_VERSION, SET_MAX_PROTO_VERSION = 123, 124
KEY_UPDATE_REQUESTED = 1
WANT_READ, ZERO_RETURN = 2, 6
SET_IV_LENGTH, GET_TAG = 9, 16  # Of EVP_CIPHER_CTX_ctrl().
HANDSHAKE, DATA = b"\x16", b"\x17"  # Types of records.


@functools.lru_cache(maxsize=None)
def libraries():
    ssl_, crypto = ctypes.CDLL("libssl.so.3"), ctypes.CDLL("libcrypto.so.3")
    for library, names in ((ssl_, ("TLS_client_method", "SSL_CTX_new", "SSL_new", "SSL_get_session")),
                           (crypto, ("BIO_new", "BIO_s_mem", "EVP_CIPHER_CTX_new", "EVP_aes_128_gcm"))):
        for name in names:
            getattr(library, name).restype = ctypes.c_void_p
    for name in ("SSL_get_client_random", "SSL_get_server_random", "SSL_SESSION_get_master_key"):
        getattr(ssl_, name).restype = ctypes.c_size_t
    return ssl_, crypto


@functools.lru_cache(maxsize=None)
def openssl_context(version):
    ssl_, _ = libraries()
    made = ctypes.c_void_p(ssl_.SSL_CTX_new(ctypes.c_void_p(ssl_.TLS_client_method())))
    for which in (SET_MIN_PROTO_VERSION, SET_MAX_PROTO_VERSION):
        ssl_.SSL_CTX_ctrl(made, which, ctypes.c_long(version), None)
    ssl_.SSL_CTX_set_cipher_list(made, b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256")
    return made


class OpenSsl:
    """The calls of ssl.SSLObject that the layer needs."""

    def __init__(self, version, incoming, outgoing):
        self._ssl, self._crypto = libraries()
        self.incoming, self.outgoing = incoming, outgoing
        self.ssl = ctypes.c_void_p(self._ssl.SSL_new(openssl_context(version)))
        self._bios = [ctypes.c_void_p(self._crypto.BIO_new(ctypes.c_void_p(self._crypto.BIO_s_mem()))) for _ in range(2)]
        self._ssl.SSL_set_bio(self.ssl, *self._bios)
        self._ssl.SSL_set_connect_state(self.ssl)
        self._buffer = ctypes.create_string_buffer(65536)

    def __del__(self):
        self._ssl.SSL_free(self.ssl)

    def _call(self, function, *arguments):
        """The result; what has arrived goes in before, and what is to be sent out behind it."""
        data = self.incoming.read()
        if data:
            self._crypto.BIO_write(self._bios[0], data, len(data))
        self._crypto.ERR_clear_error()
        result = function(self.ssl, *arguments)
        error = self._ssl.SSL_get_error(self.ssl, result) if result <= 0 else 0
        while True:
            size = self._crypto.BIO_read(self._bios[1], self._buffer, len(self._buffer))
            if size <= 0:
                break
            self.outgoing.write(self._buffer.raw[:size])
        if error == WANT_READ:
            raise ssl.SSLWantReadError
        if error == ZERO_RETURN:
            return 0
        if error:
            raise ssl.SSLError(error)
        return result

    def do_handshake(self):
        self._call(self._ssl.SSL_do_handshake)

    def write(self, data):
        data = bytes(data)
        return self._call(self._ssl.SSL_write, data, len(data))

    def read(self, most):
        size = self._call(self._ssl.SSL_read, self._buffer, min(most, len(self._buffer)))
        return self._buffer.raw[:size]

    def update_key(self):
        """A new key, with which the peer is asked for one of its own."""
        self._ssl.SSL_key_update(self.ssl, KEY_UPDATE_REQUESTED)
        self.do_handshake()

    def secrets(self):
        """TLS 1.2: the master secret, and the random values of client and server."""
        session = ctypes.c_void_p(self._ssl.SSL_get_session(self.ssl))
        found = []
        for function, of in ((self._ssl.SSL_SESSION_get_master_key, session), (self._ssl.SSL_get_client_random, self.ssl),
                             (self._ssl.SSL_get_server_random, self.ssl)):
            size = function(of, self._buffer, ctypes.c_size_t(64))
            found.append(self._buffer.raw[:size])
        return found


class KeyUpdates(Layer):
    def client(self):
        return OpenSsl(TLS_1_3, self._in, self._out)

    def update(self, count, between=b""):
        """So many new keys, with data before each."""
        for _ in range(count):
            if between:
                self._tls.write(between)
            self._tls.update_key()
        self.inject(self._out.read())


class RecordsOfAnyType(Layer):
    """TLS 1.2 whose records are encrypted here once the handshake is complete."""

    def client(self):
        return OpenSsl(TLS_1_2, self._in, self._out)

    def _shake_hands(self):
        super()._shake_hands()
        if self.is_open:
            master, client, server = self._tls.secrets()
            seed, block = b"key expansion" + server + client, b""
            last = seed
            while len(block) < 40:
                last = hmac.digest(master, last, hashlib.sha256)
                block += hmac.digest(master, last + seed, hashlib.sha256)
            self._key, self._salt = block[:16], block[32:36]
            self._sequence = 1  # The handshake's last record was the first.

    def _read(self, most):
        """OpenSSL would end at the first refusal of a handshake."""
        self._in.read()

    def encrypt(self, kind, data):
        _, crypto = libraries()
        number = struct.pack(">Q", self._sequence)
        self._sequence += 1
        cipher = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
        out, tag, size = ctypes.create_string_buffer(len(data)), ctypes.create_string_buffer(16), ctypes.c_int()
        associated = number + kind + struct.pack(">HH", TLS_1_2, len(data))
        crypto.EVP_EncryptInit_ex(cipher, ctypes.c_void_p(crypto.EVP_aes_128_gcm()), None, self._key, self._salt + number)
        crypto.EVP_EncryptUpdate(cipher, None, ctypes.byref(size), associated, len(associated))
        crypto.EVP_EncryptUpdate(cipher, out, ctypes.byref(size), data, len(data))
        crypto.EVP_EncryptFinal_ex(cipher, out, ctypes.byref(size))
        crypto.EVP_CIPHER_CTX_ctrl(cipher, GET_TAG, 16, tag)
        crypto.EVP_CIPHER_CTX_free(cipher)
        return kind + struct.pack(">HH", TLS_1_2, len(data) + 24) + number + out.raw + tag.raw

    def send(self, data):
        self.inject()
        if self._rest or not self.is_open:
            raise BlockingIOError
        self.inject(self.encrypt(DATA, bytes(data[:RECORD])))
        return min(len(data), RECORD)

    def handshakes(self, count):
        """So many requests for another handshake."""
        message = hello()[5:]
        self.inject(b"".join(self.encrypt(HANDSHAKE, message) for _ in range(count)))
