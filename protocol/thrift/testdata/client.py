"""Calls the Desk at HOST PORT with thriftpy2, which knows nothing of Apache's code, in
every transport and protocol that it has, and prints a line for each."""

import os
import sys

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TBufferedTransportFactory, TFramedTransportFactory

desk = thriftpy2.load(os.path.join(os.path.dirname(__file__), "desk.thrift"), module_name="desk_thrift")


def expect(want, f, *args):
    try:
        f(*args)
    except want as e:
        return e
    raise AssertionError(f"no {want}")


def calls(c):
    assert c.add(40, 2) == 42
    assert c.divide(42, 6) == 7
    assert expect(desk.Missing, c.divide, 1, 0).where == "the drawer"
    assert expect(desk.Locked, c.divide, 1, -1).key == "brass"
    paper = desk.Paper(
        number=-5, title="Über", note="by hand", kind=desk.Kind.RARE, seal=b"\x00\xff", tags=["", "a"], pages={1, 2},
        sums={"x": 1 << 40}, answers=desk.Paper(title="older"), signed=True, copies=-128, year=1999, weight=0.25, filed=1 << 60,
    )
    same = c.mirror(paper)
    assert same.title == "Über" and same.answers.title == "older" and set(same.pages) == {1, 2}, same
    assert same.sums == {"x": 1 << 40} and same.filed == 1 << 60 and same.copies == -128 and same.signed, same
    assert c.kind_of(paper) == desk.Kind.RARE
    assert set(c.pages(paper)) == {1, 2} and not c.pages(desk.Paper(pages=set()))
    assert [p.title for p in c.copies(paper, 2)] == ["Über", "Über"]
    assert c.by_title([paper])["Über"].number == -5
    assert c.blob(b"\xff" * 300000) == b"\xff" * 300000
    c.note("a one-way call")
    c.ping()
    assert expect(TApplicationException, c.fail, "on purpose").message == "on purpose"


for transport in (TFramedTransportFactory(), TBufferedTransportFactory()):
    for protocol in (TBinaryProtocolFactory(), TCompactProtocolFactory()):
        client = make_client(desk.Desk, sys.argv[1], int(sys.argv[2]), trans_factory=transport, proto_factory=protocol, timeout=60000)
        calls(client)
        client.close()
        print(type(transport).__name__, type(protocol).__name__, "ok")
