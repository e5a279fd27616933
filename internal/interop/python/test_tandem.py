"""What a foreign client must be able to do with a Go server, whose methods
are in ../interop_test.go. It is started by the Go test, which gives the
server's address in TANDEM_SERVER; the last part, Goaway, ends the server.
"""

import os
import struct
import unittest

import tandem
from tandem import CANCEL, DATA, END, GOAWAY, PING, REQUEST, STREAM, Call, StatusError, string, uvarint

CANCELED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 1, 2, 3, 4, 5
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 12, 13, 14


def connect(**options):
    host, port = os.environ["TANDEM_SERVER"].rsplit(":", 1)
    return tandem.Connection((host, int(port)), **options)


class TestCase(unittest.TestCase):
    def setUp(self):
        self.conn = connect()
        self.addCleanup(lambda: self.conn.sock.close())

    def fails(self, code, text, call, *args, not_executed=False, **options):
        with self.assertRaises(StatusError) as caught:
            call(*args, **options)
        e = caught.exception
        self.assertEqual((code, not_executed), (e.code, e.not_executed), e)
        self.assertIn(text, e.message)
        return e


class Unary(TestCase):
    def test_call(self):
        self.assertEqual({"C": 56}, self.conn.call("Arith.Mul", {"A": 7, "B": 8}))

    def test_several_values(self):
        self.assertEqual([3, 1], self.conn.call("Arith.Divide", 7, 2, results=2))

    def test_no_values(self):
        self.assertEqual([], self.conn.call("Test.Nothing", results=0))

    def test_other_characters(self):
        self.assertEqual("größer ☃ 🚂", self.conn.call("Test.Echo", "größer ☃ 🚂"))

    def test_names_are_sent_once(self):
        for _ in range(3):
            self.conn.call("Arith.Mul", {"A": 1, "B": 1})
            self.conn.call("Test.Echo", "x")
        self.assertEqual({"Arith.Mul": 0, "Test.Echo": 1}, self.conn.names)
        self.assertEqual(b"\x03", self.conn.name("Test.Echo"))

    def test_names_without_a_number(self):
        self.conn.name_bytes = tandem.MAX_NAME_BYTES
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))
        self.assertEqual({}, self.conn.names)

    def test_refused_names_count(self):
        self.fails(UNIMPLEMENTED, "Test.Unknown", self.conn.call, "Test.Unknown", not_executed=True)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))
        self.assertEqual("y", self.conn.call("Test.Echo", "y"))

    def test_answers_in_any_order(self):
        held = self.conn.start("Test.Hold", "first")
        self.assertEqual("second", self.conn.call("Test.Echo", "second"))
        self.assertFalse(held.over)
        self.conn.call("Test.Release", "first", results=0)
        self.assertEqual("first", self.conn.wait(held))

    def test_numbers_are_used_again(self):
        for i in range(100):
            self.assertEqual(i, self.conn.call("Test.Twice", i) // 2)
        self.assertEqual(1, self.conn.indices)

    def test_many_at_a_time(self):
        calls = [self.conn.start("Test.Twice", i) for i in range(1000)]
        self.assertEqual([2 * i for i in range(1000)], [self.conn.wait(c) for c in calls])

    def test_metadata_and_trailer(self):
        call = self.conn.start("Test.Metadata", metadata={"Tenant": ["blue"], "trace": ["1", "2"]}, attempt=3)
        self.assertEqual({"tenant": ["blue"], "trace": ["1", "2"], "attempt": ["3"]}, self.conn.wait(call))
        self.assertEqual({"server": ["go"]}, call.trailer)

    def test_load_report(self):
        call = self.conn.start("Test.Echo", "x")
        self.conn.wait(call)
        running, queued, percent = call.load
        self.assertEqual((0, 0), (queued, percent))
        self.assertGreaterEqual(running, 0)

    def test_unknown_settings_and_frames_are_skipped(self):
        conn = connect(more_settings=uvarint(999) + string("whatever"))
        conn.frame(42, 0xFF, 1 << 16, b"whatever")
        self.assertEqual("x", conn.call("Test.Echo", "x"))
        conn.sock.close()

    def test_extension_is_skipped(self):
        call = self.conn.start("Test.Echo", message=b"")
        self.conn.wait(call)
        number = self.conn.take_number()
        self.conn.calls[number] = call = Call(self.conn, number, 2, END)
        head = b"\x02\x80" + bytes([self.conn.codecs.index("json")]) + string("later")
        self.conn.frame(REQUEST, END, number, head + b'"x"')
        self.assertEqual("x", self.conn.wait(call))


class Errors(TestCase):
    def test_a_method_s_own(self):
        self.fails(UNKNOWN, "divide by zero", self.conn.call, "Arith.Divide", 7, 0, results=2)

    def test_code_and_details(self):
        e = self.fails(NOT_FOUND, "no order 17", self.conn.call, "Test.Fail", "no order 17")
        self.assertEqual([("order", b"\x11"), ("hint", b"")], e.details)

    def test_advice_to_retry(self):
        for us, want in ((250_000, 0.25), (-1, 0), (0, None)):
            e = self.fails(RESOURCE_EXHAUSTED, "busy", self.conn.call, "Test.Busy", us)
            self.assertEqual((want, [("hint", b"")]), (e.retry_after, e.details))

    def test_advice_that_cannot_be_read(self):
        for value in (b"", b"\x80", b"\x01\x01"):
            status = b"\x08" + string("busy") + string("tandem-retry") + string(value)
            self.assertIsNone(tandem.parse_status(status).retry_after)

    def test_panic(self):
        e = self.fails(INTERNAL, "panicked", self.conn.call, "Test.Panic", "secret")
        self.assertNotIn("secret", e.message)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))

    def test_wrong_arguments(self):
        self.fails(INVALID_ARGUMENT, "Test.Twice", self.conn.call, "Test.Twice", "no number", not_executed=True)

    def test_no_such_codec(self):
        self.fails(UNIMPLEMENTED, "codec", self.conn.call, "Test.Echo", "x", codec=63, not_executed=True)

    def test_unary_as_a_stream(self):
        self.fails(UNIMPLEMENTED, "Test.Echo", self.conn.stream, "Test.Echo", not_executed=True)

    def test_stream_as_unary(self):
        self.fails(UNIMPLEMENTED, "Test.Talk", self.conn.call, "Test.Talk", "x", not_executed=True)


class GivingUp(TestCase):
    def test_deadline_of_the_server(self):
        call = self.conn.start("Test.Hold", "deadline", timeout=0.05)
        self.fails(DEADLINE_EXCEEDED, "", self.conn.wait, call)

    def test_deadline_of_the_client(self):
        self.fails(DEADLINE_EXCEEDED, "no answer in time", self.conn.wait, self.conn.start("Test.Hold", "patience"), patience=0.05)
        self.conn.until(lambda: not self.conn.calls)
        self.assertEqual([0], self.conn.free)

    def test_remaining_time_is_carried(self):
        left = self.conn.call("Test.TimeLeft", results=1, timeout=5)
        self.assertTrue(4 < left <= 5, left)
        self.assertEqual(0, self.conn.wait(self.conn.start("Test.TimeLeft")))

    def test_cancel(self):
        call = self.conn.start("Test.Hold", "cancel")
        self.conn.cancel(call)
        self.assertEqual([], self.conn.free)  # until the server has answered
        self.fails(CANCELED, "", self.conn.wait, call)
        self.assertEqual([0], self.conn.free)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))

    def test_cancel_of_a_request_on_its_way(self):
        call = self.conn.start("Test.Echo", "x" * 1000000)
        self.conn.cancel(call)
        self.fails(CANCELED, "", self.conn.wait, call, not_executed=True)

    def test_cancel_of_an_answer_on_its_way(self):
        call = self.conn.start("Test.Large", 1000000)
        self.conn.until(lambda: call.answer)
        self.conn.cancel(call)
        self.fails(CANCELED, "", self.conn.wait, call)

    def test_cancel_of_what_is_over(self):
        call = self.conn.start("Test.Echo", "x")
        self.conn.wait(call)
        self.conn.frame(CANCEL, 0, call.number)
        self.assertEqual("y", self.conn.call("Test.Echo", "y"))


class Large(TestCase):
    def test_sizes(self):
        for n in [0, 1, 65000, 65400, 65500, 65530, 65536, 65600, 70000, 131072, 300000, 3000000]:
            text = "ab" * (n // 2)
            self.assertEqual(text, self.conn.call("Test.Echo", text, timeout=20), n)

    def test_small_calls_pass(self):
        large = self.conn.start("Test.Echo", "x" * 4000000)
        self.assertEqual(4, self.conn.call("Test.Twice", 2))
        self.assertFalse(large.over)
        self.assertEqual(4000000, len(self.conn.wait(large)))

    def test_many_large_ones(self):
        calls = [self.conn.start("Test.Echo", str(i) * 300000) for i in range(8)]
        for i, call in enumerate(calls):
            self.assertEqual(str(i) * 300000, self.conn.wait(call))

    def test_too_large_is_refused(self):
        largest = self.conn.settings[1]
        self.fails(RESOURCE_EXHAUSTED, "message", self.conn.call, "Test.Echo", "x" * largest, not_executed=True)
        self.conn.settings[1] *= 2  # as if we did not know
        e = self.fails(RESOURCE_EXHAUSTED, "takes at most", self.conn.call, "Test.Echo", "x" * largest, not_executed=True)
        self.assertIn(str(largest), e.message)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))

    def test_answer_too_large(self):
        self.fails(RESOURCE_EXHAUSTED, "response of", self.conn.call, "Test.Large", 5000000)


class OneWay(TestCase):
    def test_small(self):
        call = self.conn.notify("Test.Note", "small")
        self.assertEqual(0, call.number)
        self.assertEqual(5, self.conn.call("Test.Noted", 5))

    def test_large(self):
        call = self.conn.notify("Test.Note", "x" * 200000)
        self.assertNotEqual(0, call.number)
        self.assertEqual(200000, self.conn.call("Test.Noted", 200000, timeout=10))
        self.assertEqual({}, self.conn.calls)

    def test_error_is_not_answered(self):
        self.conn.notify("Test.Fail", "nobody hears it")
        self.conn.notify("Test.Unknown", "nobody hears it")
        self.conn.notify("Test.Unknown", "x" * 200000)  # but that it need not be sent
        self.conn.until(lambda: not self.conn.calls)
        self.assertEqual([0], self.conn.free)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))


class Streams(TestCase):
    def test_both_ways(self):
        stream = self.conn.stream("Test.Talk")
        for i in range(3):
            stream.send(f"message {i}")
            self.assertEqual(f"message {i}, heard", stream.receive())
        stream.close_send()
        self.assertIsNone(stream.receive())
        self.assertEqual({"heard": ["3"]}, stream.trailer)

    def test_much_more_than_the_windows(self):
        # The connection's window is 16 MiB, a stream's 1 MiB.
        stream, received = self.conn.stream("Test.Talk"), 0
        for i in range(300):
            stream.send("x" * 60000)
            received += len(stream.receive())
        stream.close_send()
        self.assertEqual(300 * len("x" * 60000 + ", heard"), received)
        self.assertIsNone(stream.receive())

    def test_messages_larger_than_a_window(self):
        stream = self.conn.stream("Test.Talk")
        for _ in range(3):
            stream.send("x" * 2000000)
            self.assertEqual(2000007, len(stream.receive()))
        stream.close_send()
        self.assertEqual([], list(stream))

    def test_only_the_server_sends(self):
        stream = self.conn.stream("Test.Count")
        stream.send(20000)
        self.assertEqual(list(range(20000)), list(stream))

    def test_only_the_client_sends(self):
        stream = self.conn.stream("Test.Sum")
        for i in range(1000):
            stream.send(i)
        stream.close_send()
        self.assertEqual([499500], list(stream))

    def test_small_calls_pass(self):
        stream = self.conn.stream("Test.Count")
        stream.send(1000000)  # more than its window: it stands still
        self.assertEqual(4, self.conn.call("Test.Twice", 2))
        self.conn.cancel(stream)
        self.conn.until(lambda: stream.over)
        self.assertEqual(6, self.conn.call("Test.Twice", 3))

    def test_error_ends_it(self):
        stream = self.conn.stream("Test.Talk")
        stream.send("fail")
        self.fails(NOT_FOUND, "as you like", stream.receive)
        self.fails(NOT_FOUND, "as you like", stream.send, "more")

    def test_cancel(self):
        stream = self.conn.stream("Test.Talk")
        self.conn.cancel(stream)
        self.fails(CANCELED, "", stream.receive)

    def test_too_large_a_message_ends_it(self):
        stream = self.conn.stream("Test.Talk")
        self.fails(RESOURCE_EXHAUSTED, "", stream.send, "x" * 5000000)
        self.assertEqual("x", self.conn.call("Test.Echo", "x"))


class Connections(TestCase):
    def test_ping(self):
        self.conn.frame(PING, 0, 0, b"12345678")
        self.assertTrue(self.conn.until(lambda: self.conn.pongs == [b"12345678"]))

    def test_pings_of_the_server_are_answered(self):
        # The second one comes only if the first was answered.
        call = self.conn.start("Test.Hold", "ping")
        self.assertTrue(self.conn.until(lambda: self.conn.pings >= 2))
        self.conn.call("Test.Release", "ping", results=0)
        self.assertEqual("ping", self.conn.wait(call))

    def test_the_server_calls_back(self):
        text = self.conn.call("Test.CallBack", "Client.Method")
        self.assertIn("unimplemented: this client has no methods, not executed: true", text)

    def ends(self):
        """The server closes this connection, and goes on with others."""
        with self.assertRaises(ConnectionError):
            self.conn.until(lambda: False)
        other = connect()
        self.assertEqual("x", other.call("Test.Echo", "x"))
        other.sock.close()

    def test_violation(self):
        self.conn.frame(PING, 0, 0, b"1234567")
        self.ends()
        self.assertEqual((0, 1, "protocol violation: ping of 7 bytes, want 8"), self.conn.away)

    def test_violation_by_a_name(self):
        self.conn.frame(REQUEST, END, 1 << 16, b"\x07\x00\x00")
        self.ends()
        self.assertIn("method name number 5", self.conn.away[2])

    def test_violation_of_a_window(self):
        stream = self.conn.stream("Test.Deaf")
        for _ in range(self.conn.settings[3] // 65536):  # their heads are too much
            self.conn.frame(DATA, STREAM | END, stream.number, b"x" * 65536)
        self.ends()  # the goaway may be lost when the server was writing
        self.fails(UNAVAILABLE, "connection lost", stream.receive)

    def test_violation_of_the_preface(self):
        self.assertRaises(ConnectionError, connect, more_settings=uvarint(2) + string(uvarint(0)))


class Goaway(TestCase):
    """The server shuts down, and waits for what runs."""

    def test_goaway(self):
        stream = self.conn.stream("Test.Talk")
        self.conn.call("Test.Shutdown", results=0)
        self.assertTrue(self.conn.until(lambda: self.conn.away))
        goaway = self.conn.away
        self.assertEqual((2, 0, "shutting down"), goaway)
        self.fails(UNAVAILABLE, "draining", self.conn.call, "Test.Echo", "x", not_executed=True)

        self.conn.away = None  # as if the goaway were still on its way
        late = self.conn.start("Test.Echo", "x")
        stream.send("running calls go on")
        self.assertEqual("running calls go on, heard", stream.receive())
        self.assertFalse(late.over)
        self.conn.handle(GOAWAY, 0, 0, struct.pack("<QB", *goaway[:2]))
        self.fails(UNAVAILABLE, "draining", self.conn.wait, late, not_executed=True)

        stream.close_send()
        self.assertIsNone(stream.receive())


if __name__ == "__main__":
    unittest.main()
