"""Requests about whose length parsers differ: what lets one request hide in another between a proxy and a server.

Each is a connection's bytes: a request that may be read in several ways, and a plain one behind it. CASES has them by name.
"""

LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CASES = {}


def add(name, head, body=b"", request_line=b"POST /a HTTP/1.1", host=b"Host: x\r\n", last=LAST):
    assert name not in CASES, name
    CASES[name] = request_line + b"\r\n" + host + head + b"\r\n" + body + last


def transfer_encodings():
    """What the header may say, with and without a Content-Length beside it. 5 bytes are a body either way."""
    values = {
        "chunked": b"chunked", "Chunked": b"Chunked", "CHUNKED": b"CHUNKED", "xchunked": b"xchunked",
        "chunkedx": b"chunkedx", "chunked, identity": b"chunked, identity", "identity, chunked": b"identity, chunked",
        "identity": b"identity", "gzip, chunked": b"gzip, chunked", "chunked, gzip": b"chunked, gzip", "gzip": b"gzip",
        "chunked, chunked": b"chunked, chunked", "chunked with a parameter": b"chunked;q=1", "two blanks": b"  chunked",
        "tab before": b"\tchunked", "tab behind": b"chunked\t", "blank behind": b"chunked ", "vertical tab": b"\x0bchunked",
        "form feed": b"chunked\x0c", "NUL in it": b"chun\x00ked", "in quotes": b'"chunked"', "in ticks": b"'chunked'",
        "comma behind": b"chunked,", "comma before": b",chunked", "empty": b"", "bare CR behind": b"chunked\r",
        "bare CR in it": b"chun\rked", "folded": b"\r\n chunked", "folded behind": b"chunked\r\n ", "high byte": b"chunked\xff",
        "a blank inside": b"chun ked", "colon first": b":chunked",
    }
    for name, value in values.items():
        add("TE %s" % name, b"Transfer-Encoding: " + value + b"\r\n", b"0\r\n\r\n")
        add("TE %s, CL 5" % name, b"Content-Length: 5\r\nTransfer-Encoding: " + value + b"\r\n", b"0\r\n\r\n")


def transfer_encoding_names():
    lines = {
        "blank before colon": b"Transfer-Encoding : chunked\r\n", "tab before colon": b"Transfer-Encoding\t: chunked\r\n",
        "blank before name": b" Transfer-Encoding: chunked\r\n", "underscore": b"Transfer_Encoding: chunked\r\n",
        "upper case": b"TRANSFER-ENCODING: chunked\r\n", "lower case": b"transfer-encoding: chunked\r\n",
        "behind bare LF": b"X: y\nTransfer-Encoding: chunked\r\n", "behind bare CR": b"X: y\rTransfer-Encoding: chunked\r\n",
        "NUL in the name": b"Transfer-Encoding\x00: chunked\r\n", "no blank": b"Transfer-Encoding:chunked\r\n",
        "in a folded value": b"X: y\r\n Transfer-Encoding: chunked\r\n", "vertical tab": b"\x0bTransfer-Encoding: chunked\r\n",
        "identity, then chunked": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "chunked, then identity": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "chunked, then nonsense": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n",
        "no colon": b"Transfer-Encoding chunked\r\n", "CR LF LF": b"X: y\r\n\nTransfer-Encoding: chunked\r\n",
        "LF ends": b"Transfer-Encoding: chunked\n", "quoted name": b'"Transfer-Encoding": chunked\r\n',
    }
    for name, line in lines.items():
        add("TE name %s" % name, line, b"0\r\n\r\n")
        add("TE name %s, CL 5" % name, b"Content-Length: 5\r\n" + line, b"0\r\n\r\n")


def content_lengths():
    lines = {
        "5": b"Content-Length: 5\r\n", "+5": b"Content-Length: +5\r\n", "-5": b"Content-Length: -5\r\n",
        "05": b"Content-Length: 05\r\n", "0x5": b"Content-Length: 0x5\r\n", "blank behind": b"Content-Length: 5 \r\n",
        "5,5": b"Content-Length: 5,5\r\n", "5, 5": b"Content-Length: 5, 5\r\n", "5,6": b"Content-Length: 5,6\r\n",
        "tab before": b"Content-Length:\t5\r\n", "semicolon": b"Content-Length: 5;\r\n", "5.0": b"Content-Length: 5.0\r\n",
        "5e0": b"Content-Length: 5e0\r\n", "wide digit": "Content-Length: \uff15\r\n".encode(), "NUL behind":
        b"Content-Length: 5\x00\r\n", "two digits and a blank": b"Content-Length: 0 5\r\n", "empty": b"Content-Length: \r\n",
        "2^64 + 5": b"Content-Length: 18446744073709551621\r\n", "2^63": b"Content-Length: 9223372036854775808\r\n",
        "2^32 + 5": b"Content-Length: 4294967301\r\n", "twice": b"Content-Length: 5\r\nContent-Length: 5\r\n",
        "5, then 6": b"Content-Length: 5\r\nContent-Length: 6\r\n", "0, then 5": b"Content-Length: 0\r\nContent-Length: 5\r\n",
        "blank before colon": b"Content-Length : 5\r\n", "underscore": b"Content_Length: 5\r\n",
        "folded": b"Content-Length:\r\n 5\r\n", "folded twice": b"Content-Length: 5\r\n 5\r\n",
        "bare LF": b"Content-Length: 5\n", "bare CR": b"Content-Length: 5\r", "in a folded value": b"X: y\r\n Content-Length: 5\r\n",
        "behind bare LF": b"X: y\nContent-Length: 5\r\n", "behind NUL": b"X: y\x00Content-Length: 5\r\n",
        "in quotes": b'Content-Length: "5"\r\n', "the empty name": b": x\r\nContent-Length: 5\r\n",
    }
    for name, line in lines.items():
        add("CL %s" % name, line, b"hello")
    add("CL in GET", b"Content-Length: 5\r\n", b"hello", request_line=b"GET /a HTTP/1.1")
    add("TE in GET", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", request_line=b"GET /a HTTP/1.1")


def chunks():
    """Bodies in chunks, of which each begins with a size line."""
    bodies = {
        "plain": b"5\r\nhello\r\n0\r\n\r\n", "leading zero": b"05\r\nhello\r\n0\r\n\r\n", "0x5": b"0x5\r\nhello\r\n0\r\n\r\n",
        "blank behind the size": b"5 \r\nhello\r\n0\r\n\r\n", "tab behind the size": b"5\t\r\nhello\r\n0\r\n\r\n",
        "blank before the size": b" 5\r\nhello\r\n0\r\n\r\n", "extension": b"5;a\r\nhello\r\n0\r\n\r\n",
        "extension with a value": b"5;a=b\r\nhello\r\n0\r\n\r\n", "blank before the extension": b"5 ;a=b\r\nhello\r\n0\r\n\r\n",
        "quoted extension": b'5;a="b c"\r\nhello\r\n0\r\n\r\n', "CR LF in a quoted extension": b'5;a="\r\n"\r\nhello\r\n0\r\n\r\n',
        "bare LF in an extension": b"5;a\nhello\r\n0\r\n\r\n", "bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        "NUL in an extension": b"5;\x00\r\nhello\r\n0\r\n\r\n", "+5": b"+5\r\nhello\r\n0\r\n\r\n", "-5": b"-5\r\nhello\r\n0\r\n\r\n",
        "bare LF behind the size": b"5\nhello\r\n0\r\n\r\n", "bare CR behind the size": b"5\rhello\r\n0\r\n\r\n",
        "no size": b"\r\nhello\r\n0\r\n\r\n", "no digit": b"g\r\nhello\r\n0\r\n\r\n", "2^64 + 5": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        "2^32 + 5": b"100000005\r\nhello\r\n0\r\n\r\n", "twenty zeros": b"0" * 20 + b"5\r\nhello\r\n0\r\n\r\n",
        "no CR LF behind the data": b"5\r\nhello0\r\n\r\n", "bare LF behind the data": b"5\r\nhello\n0\r\n\r\n",
        "bare CR behind the data": b"5\r\nhello\r0\r\n\r\n", "another byte behind the data": b"5\r\nhelloX\r\n0\r\n\r\n",
        "two bytes for CR LF": b"5\r\nhelloXX0\r\n\r\n", "bare LF at the end": b"5\r\nhello\r\n0\n\n",
        "bare LF as the last line": b"5\r\nhello\r\n0\r\n\n", "00 at the end": b"5\r\nhello\r\n00\r\n\r\n",
        "extension at the end": b"5\r\nhello\r\n0;a\r\n\r\n", "blank at the end": b"5\r\nhello\r\n0 \r\n\r\n",
        "trailer": b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", "trailer Content-Length": b"5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n",
        "trailer Transfer-Encoding": b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "folded trailer": b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n", "trailer without a colon": b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n",
        "trailer with a blank before the colon": b"5\r\nhello\r\n0\r\nX : y\r\n\r\n", "trailer ends with LF": b"5\r\nhello\r\n0\r\nX: y\n\r\n",
        "underscore in the size": b"1_0\r\nhello\r\n0\r\n\r\n", "upper case": b"A\r\nhellohello\r\n0\r\n\r\n",
    }
    for name, body in bodies.items():
        add("chunk %s" % name, b"Transfer-Encoding: chunked\r\n", body)


def lines():
    """Around it: versions, line ends, the request line, Host."""
    chunked = b"Transfer-Encoding: chunked\r\n"
    for version in (b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"HTTP/01.1", b"HTTP/1.10",
                    b"HTTP/1"):
        name = version.decode().replace("1.1 ", "1.1 and a blank")
        add("%s, TE" % name, chunked, b"0\r\n\r\n", request_line=b"POST /a " + version)
        add("%s, CL" % name, b"Content-Length: 5\r\n", b"hello", request_line=b"POST /a " + version)
    add("HTTP/1.0, kept, TE", b"Connection: keep-alive\r\n" + chunked, b"0\r\n\r\n", request_line=b"POST /a HTTP/1.0")
    add("HTTP/1.0, kept, TE and CL", b"Connection: keep-alive\r\nContent-Length: 5\r\n" + chunked, b"0\r\n\r\n",
        request_line=b"POST /a HTTP/1.0")
    add("no version", b"", request_line=b"GET /a")
    add("two blanks in the request line", b"", request_line=b"GET  /a HTTP/1.1")
    add("tabs in the request line", b"", request_line=b"GET\t/a\tHTTP/1.1")
    add("blank in the target", b"", request_line=b"GET /a b HTTP/1.1")
    add("NUL in the target", b"", request_line=b"GET /a\x00b HTTP/1.1")
    add("high byte in the target", b"", request_line=b"GET /a\xff HTTP/1.1")
    add("fragment in the target", b"", request_line=b"GET /a#b HTTP/1.1")
    add("empty line before", b"", request_line=b"\r\nGET /a HTTP/1.1")
    add("LF before", b"", request_line=b"\nGET /a HTTP/1.1")
    add("CR before", b"", request_line=b"\rGET /a HTTP/1.1")
    add("blank before", b"", request_line=b" GET /a HTTP/1.1")
    add("request line ends with LF", b"", request_line=b"GET /a HTTP/1.1\nX: y")
    add("request line ends with CR", b"", request_line=b"GET /a HTTP/1.1\rX: y")
    add("no Host", b"", request_line=b"GET /a HTTP/1.1", host=b"")
    add("Host twice", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: x\r\nHost: x\r\n")
    add("two Hosts", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: x\r\nHost: y\r\n")
    add("a Host with a blank", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: x y\r\n")
    add("a Host with a comma", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: x, y\r\n")
    add("a Host with a path", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: x/y\r\n")
    add("another Host in the target", b"", request_line=b"GET http://y/a HTTP/1.1")
    add("a name in the Host", b"", request_line=b"GET /a HTTP/1.1", host=b"Host: u@x\r\n")
    add("first line folded", b"", request_line=b"GET /a HTTP/1.1", host=b" X: y\r\nHost: x\r\n")
    add("a header with a bare CR", b"X: a\rb\r\n", request_line=b"GET /a HTTP/1.1")
    add("a header with a NUL", b"X: a\x00b\r\n", request_line=b"GET /a HTTP/1.1")
    add("a header with a blank in its name", b"X y: z\r\n", request_line=b"GET /a HTTP/1.1")
    add("a header with a bracket in its name", b"X[]: z\r\n", request_line=b"GET /a HTTP/1.1")
    add("empty line of LF", b"X: y\r\n\n", request_line=b"GET /a HTTP/1.1", last=b"X: z\r\n\r\n" + LAST)


for make in (transfer_encodings, transfer_encoding_names, content_lengths, chunks, lines):
    make()
