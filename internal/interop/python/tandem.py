"""A tandem client in one file, written from docs/reference/protocol.md alone.

It shows that the document suffices, and how little a client needs: the
standard library, one thread, the codec "json".

    conn = tandem.Connection(("127.0.0.1", 8972))
    conn.call("Arith.Mul", {"A": 7, "B": 8})         # {'C': 56}
    conn.call("Arith.Divide", 7, 2, results=2)       # [3, 1]

Whoever waits for something handles the frames of all calls meanwhile. So one
thread at a time may use a connection, and somebody should wait now and then.
"""

import collections
import json
import socket
import struct
import time

REQUEST, RESPONSE, DATA, CANCEL, RESET, WINDOW, PING, PONG, GOAWAY = range(1, 10)
END, LAST, ONE_WAY, STREAM, ANSWER = 0x01, 0x02, 0x04, 0x08, 0x80
DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 4, 8, 12, 13, 14
MAGIC, HEADER, MAX_BLOCK, SMALL_BLOCK = b"\x93TND", 12, 65536, 4096
MAX_NAMES, MAX_NAME_BYTES = 4096, 262144
DEFAULTS = {1: 4194304, 2: 4096, 3: 262144, 4: 4194304}  # of the numeric settings, which are ours
AHEAD = 262144  # credit that we give ahead of what has arrived of a large answer


class ProtocolError(Exception):
    """The server broke the protocol."""


class StatusError(Exception):
    """A call failed: with the server's status, or with ours."""

    def __init__(self, code, message, details=(), not_executed=False, retry_after=None):
        super().__init__(f"code {code}: {message}")
        self.code, self.message, self.details, self.not_executed = code, message, list(details), not_executed
        self.retry_after = retry_after  # in s: wait so long before another attempt; 0: do not; None: no advice


def uvarint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def string(s):
    s = s.encode() if isinstance(s, str) else s
    return uvarint(len(s)) + s


class Reader:
    """Takes bytes apart from the front."""

    def __init__(self, data):
        self.data = data

    def take(self, n):
        if n > len(self.data):
            raise ProtocolError(f"{n} bytes expected, {len(self.data)} are left")
        part, self.data = self.data[:n], self.data[n:]
        return part

    def uvarint(self):
        n = 0
        for shift in range(0, 70, 7):
            b = self.take(1)[0]
            n |= (b & 127) << shift
            if b < 128:
                return n
        raise ProtocolError("number too large")

    def string(self):
        return self.take(self.uvarint())


def parse_status(data):
    """Return the error that a status stands for, None for success."""
    if not data or data[0] & 127 == 0:
        return None
    r, details, retry_after = Reader(data[1:]), [], None
    message = r.string().decode(errors="replace")
    while r.data:
        kind, value = r.string().decode(), r.string()
        if kind == "tandem-retry":
            retry_after = parse_retry(value)
        else:
            details.append((kind, value))
    code = data[0] & 127
    return StatusError(code if code <= 16 else 2, message, details, data[0] >= 128, retry_after)


def parse_retry(value):
    """Return how many seconds to wait; None if it can't be read."""
    r = Reader(value)
    try:
        us = r.uvarint()
    except ProtocolError:
        return None
    return None if r.data else min(us, 9007199254740) / 1e6


def parse_pairs(data):
    r, pairs = Reader(data), {}
    while r.data:
        pairs.setdefault(r.string().decode(), []).append(r.string().decode())
    return pairs


def encode(values):
    """Encode one value, or pack none or several."""
    parts = [json.dumps(v, separators=(",", ":")).encode() for v in values]
    return parts[0] if len(parts) == 1 else uvarint(len(parts)) + b"".join(map(string, parts))


def decode(data, results):
    if results == 1:
        return json.loads(data) if data else None
    r = Reader(data or b"\0")
    parts = [r.string() for _ in range(r.uvarint())]
    if len(parts) != results:
        raise ProtocolError(f"{len(parts)} results, want {results}")
    return [json.loads(p) if p else None for p in parts]


class Call:
    """A call of ours. The methods are for streams; iterating receives."""

    def __init__(self, conn, number, ordinal, flags):
        self.conn, self.number, self.ordinal, self.flags = conn, number, ordinal, flags
        self.accepted = self.over = False
        self.error, self.answer, self.size, self.trailer, self.load = None, b"", 0, {}, None
        self.rest, self.credit = b"", conn.settings[3] if flags & STREAM else 0  # of what we send
        self.inbox, self.given, self.owed = collections.deque(), 0, 0  # of what we receive

    def send(self, value):
        if not self.over:
            self.rest = encode([value])
            self.conn.until(lambda: self.over or not self.rest)
        if self.over:
            raise self.error or StatusError(9, "the stream is over", not_executed=True)

    def close_send(self):
        if not self.over:
            self.conn.frame(DATA, STREAM | LAST, self.number)

    def receive(self):
        """Return the next message, None when the stream has ended well."""
        self.conn.until(lambda: self.inbox or self.over)
        if self.inbox:
            message, cost = self.inbox.popleft()
            self.conn.give_back(self, cost)
            return json.loads(message)
        if self.error:
            raise self.error

    def __iter__(self):
        return iter(self.receive, None)


class Connection:
    def __init__(self, address, more_settings=b""):
        self.sock, self.buffer = socket.create_connection(address, 10), b""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.calls, self.free, self.indices, self.sent = {}, [], 0, 0  # calls by number
        self.names, self.name_bytes = {}, 0
        self.owed, self.away, self.pings, self.pongs = 0, None, 0, []
        settings = uvarint(5) + string("json") + more_settings
        self.sock.sendall(MAGIC + struct.pack("<BBH", 1, 0, len(settings)) + settings)
        magic, version, _, length = struct.unpack("<4sBBH", self.read(8))
        if magic != MAGIC or version == 0:
            raise ProtocolError(f"preface starts with {magic} {version}")
        self.settings, self.codecs, r = dict(DEFAULTS), [], Reader(self.read(length))
        while r.data:
            number, value = r.uvarint(), r.string()
            if number in DEFAULTS:
                self.settings[number] = Reader(value).uvarint()
            elif number == 5:
                self.codecs.append(value.decode())
        self.credit = self.settings[4]

    def call(self, method, *args, results=1, timeout=5.0, **options):
        """Make a call and return its result, or a list if results is not 1."""
        return self.wait(self.start(method, *args, timeout=timeout, **options), results, timeout)

    def stream(self, method, **options):
        """Open a stream and wait until the server accepts it."""
        call = self.start(method, flags=STREAM | END, message=b"", **options)
        self.until(lambda: call.accepted or call.over)
        if not call.accepted:
            raise call.error or StatusError(INTERNAL, "the stream ended before it was accepted")
        return call

    def notify(self, method, *args, **options):
        """Make a one-way call: nothing comes back."""
        return self.start(method, *args, flags=ONE_WAY, **options)

    def start(self, method, *args, flags=0, timeout=0, attempt=0, metadata=None, codec=None, message=None):
        """Send a request, or its beginning; wait takes the answer."""
        message = encode(args) if message is None else message
        if self.away or len(message) > self.settings[1]:
            code = UNAVAILABLE if self.away else RESOURCE_EXHAUSTED
            raise StatusError(code, "draining" if self.away else f"message of {len(message)} bytes", not_executed=True)
        mask, fields = 0, b""
        if timeout:
            mask, fields = 0x01, uvarint(max(1, int(timeout * 1e6)))
        if attempt:
            mask, fields = mask | 0x02, fields + uvarint(attempt)
        if metadata:
            pairs = b"".join(string(k.lower()) + string(v) for k in metadata for v in metadata[k])
            mask, fields = mask | 0x08, fields + string(pairs)
        most = MAX_BLOCK - len(method.encode()) - len(fields) - 20  # of the message, in the first frame
        if len(message) > most:
            mask, fields = mask | 0x10, fields + uvarint(len(message))
        else:
            flags |= END
        number = 0 if flags & ONE_WAY and flags & END else self.take_number()
        self.sent += 1
        call = Call(self, number, self.sent, flags)
        codec = self.codecs.index("json") if codec is None else codec
        self.frame(REQUEST, flags, number, self.name(method) + bytes([mask, codec]) + fields + message[:most])
        if number:
            self.calls[number], call.rest = call, message[most:]
        return call

    def wait(self, call, results=1, patience=10.0):
        """Return a call's result. When patience (in s) ends, give the call up."""
        if not self.until(lambda: call.over, patience):
            self.cancel(call)
            raise StatusError(DEADLINE_EXCEEDED, "no answer in time")
        if call.error:
            raise call.error
        return decode(call.answer, results)

    def cancel(self, call):
        """Give a call up. Its number is taken until the server has answered."""
        call.rest = b""
        if not call.over:
            self.frame(CANCEL, 0, call.number)

    # Sending.

    def frame(self, kind, flags, number, payload=b""):
        head = struct.pack("<IB", len(payload) | kind << 24, flags) + number.to_bytes(7, "little")
        self.sock.settimeout(10)
        self.sock.sendall(head + payload)

    def name(self, method):
        """Refer to a name by its number; the first time, give it one."""
        if method in self.names:
            return uvarint(self.names[method] + 2)
        size = len(method.encode())
        if len(self.names) == MAX_NAMES or self.name_bytes + size > MAX_NAME_BYTES:
            return uvarint(1) + string(method)
        self.names[method], self.name_bytes = len(self.names), self.name_bytes + size
        return uvarint(0) + string(method)

    def take_number(self):
        if not self.free and self.indices < self.settings[2]:
            self.free.append(self.indices)
            self.indices += 1
        self.until(lambda: self.free)
        return self.free.pop() | (self.sent + 1) << 16

    def finish(self, call, error=None):
        """The call is over: its number is free."""
        call.over, call.error, call.rest = True, error, b""
        del self.calls[call.number]
        self.free.append(call.number & 0xFFFF)

    def send_blocks(self):
        """Send a block of each large message in turn, as far as there is credit."""
        waiting = list(self.calls.values())
        while waiting:
            waiting = [call for call in waiting if call.rest and self.send_block(call)]

    def send_block(self, call):
        room = min(call.credit, self.credit) if call.flags & STREAM else call.credit
        n = min(len(call.rest), MAX_BLOCK, room - HEADER)
        if n < min(len(call.rest), SMALL_BLOCK):
            return False
        block, call.rest = call.rest[:n], call.rest[n:]
        call.credit -= HEADER + n
        if call.flags & STREAM:
            self.credit -= HEADER + n
        self.frame(DATA, call.flags & STREAM | (0 if call.rest else END), call.number, block)
        if call.flags & ONE_WAY and not call.rest:
            self.finish(call)
        return True

    # Receiving.

    def until(self, condition, patience=10.0):
        """Handle frames until the condition holds; False when patience ends."""
        end = time.monotonic() + patience
        while self.send_blocks() or not condition():
            try:
                head = self.read(HEADER, end, keep=True)
                frame = self.read(HEADER + int.from_bytes(head[:3], "little"), end)
            except TimeoutError:
                return False
            except OSError as e:
                self.lost(e)
                raise
            self.handle(frame[3], frame[4], int.from_bytes(frame[5:12], "little"), frame[HEADER:])
        return True

    def read(self, n, end=None, keep=False):
        """Read n bytes. If time runs out, those that have come stay there."""
        while len(self.buffer) < n:
            self.sock.settimeout(max(0.001, end - time.monotonic()) if end else 10)
            data = self.sock.recv(1 << 18)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self.buffer += data
        data, self.buffer = self.buffer[:n], self.buffer[0 if keep else n :]
        return data

    def lost(self, cause):
        for call in list(self.calls.values()):  # what was not sent whole was not executed
            self.finish(call, StatusError(UNAVAILABLE, f"connection lost: {cause}", not_executed=bool(call.rest)))

    def handle(self, kind, flags, number, payload):
        call = self.calls.get(number) if flags & ANSWER else None
        if kind == REQUEST and not flags & ONE_WAY:  # we serve nothing
            status = bytes([UNIMPLEMENTED | 0x80]) + string("this client has no methods")
            self.frame(RESPONSE, ANSWER | END | LAST, number, b"\x01" + string(status))
        elif kind in (RESPONSE, RESET) and not flags & ANSWER:
            raise ProtocolError("an answer without the flag Answer")
        elif kind == RESPONSE and call:
            self.on_response(call, flags, Reader(payload))
        elif kind == DATA:
            self.on_data(call, flags, payload)
        elif kind == RESET and call:
            self.finish(call, parse_status(payload) or StatusError(UNAVAILABLE, "the server broke off"))
        elif kind == WINDOW and (call or not number):
            (call or self).credit += int.from_bytes(payload, "little")
        elif kind == PING:
            self.pings += 1
            self.frame(PONG, 0, 0, payload)
        elif kind == PONG:
            self.pongs.append(payload)
        elif kind == GOAWAY:
            self.away = (*struct.unpack("<QB", payload[:9]), payload[9:].decode())
            for call in [c for c in self.calls.values() if c.ordinal > self.away[0]]:
                self.finish(call, StatusError(UNAVAILABLE, "the server is draining", not_executed=True))

    def on_response(self, call, flags, r):
        mask = r.take(1)[0]
        if mask & 0x70:
            raise ProtocolError(f"response with reserved bits {mask:#x}")
        error = parse_status(r.string()) if mask & 0x01 else None
        call.trailer = parse_pairs(r.string() if mask & 0x02 else b"")
        call.load = (r.uvarint(), r.uvarint(), r.take(1)[0]) if mask & 0x04 else None
        call.size = r.uvarint() if mask & 0x08 else 0
        if mask & 0x80:
            r.string()  # of a later version
        call.answer = r.data
        if call.flags & STREAM and not flags & LAST:
            call.accepted = True
        elif call.flags & STREAM or flags & END:
            self.finish(call, error)
        elif call.size <= len(call.answer):
            raise ProtocolError(f"answer of {call.size} bytes goes on after {len(call.answer)}")
        else:
            self.give(call)

    def give(self, call):
        """Keep the server in credit for a large answer."""
        if call.given < AHEAD // 2:
            self.frame(WINDOW, 0, call.number, AHEAD.to_bytes(4, "little"))
            call.given += AHEAD

    def on_data(self, call, flags, payload):
        cost = HEADER + len(payload)
        if flags & (STREAM | LAST | END) == STREAM | LAST:
            return  # a half close; the final response says the same
        if flags & STREAM and (call is None or not flags & END):
            self.give_back(call, cost)  # nobody could take it
        if call is None:
            return
        call.answer += payload
        if flags & STREAM and flags & END:
            call.inbox.append((call.answer, cost))
            call.answer = b""
        elif not flags & STREAM:
            call.given -= cost
            if len(call.answer) > call.size or flags & END and len(call.answer) < call.size:
                raise ProtocolError(f"answer of {len(call.answer)} bytes was announced as {call.size}")
            if flags & END:
                self.finish(call)
            else:
                self.give(call)

    def give_back(self, call, cost):
        """Give credit back, to the stream and to the connection, not too often."""
        for owner, which, number in ((self, 4, 0), (call, 3, call and call.number)):
            if owner is None or owner is call and call.over:
                continue
            owner.owed += cost
            if owner.owed >= DEFAULTS[which] // 4:
                self.frame(WINDOW, 0, number, owner.owed.to_bytes(4, "little"))
                owner.owed = 0
