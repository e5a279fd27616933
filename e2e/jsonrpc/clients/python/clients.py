"""Clients of JSON-RPC in Python against the server at the address that is given. It
prints a line for each case: "ok" or "not ok", the client, and what it did."""

import asyncio
import json
import sys
import urllib.request

import aiorpcx
import jsonrpcclient
import websockets.asyncio.client

HOST, PORT = sys.argv[1].split(":")
URL = f"{HOST}:{PORT}/jsonrpc"
failed = 0


async def check(name, run):
    global failed
    try:
        await asyncio.wait_for(run(), 20)
        print(f"ok {name}", flush=True)
    except Exception as error:
        failed += 1
        print(f"not ok {name}: {type(error).__name__} {error}", flush=True)


async def session_cases(name, session, named):
    """aiorpcx speaks on a connection; version 1.0 knows no names and no codes."""

    async def by_position():
        assert await session.send_request("join", ["a", "b"]) == "ab"

    async def by_name():
        assert await session.send_request("subtract", {"minuend": 23, "subtrahend": 42}) == -19

    async def an_error():
        try:
            await session.send_request("missing", [])
        except aiorpcx.RPCError as error:
            assert error.code == -32005 or not named, error.code
            assert "it is not there" in error.message
        else:
            raise AssertionError("no error")

    async def together():
        answers = await asyncio.gather(*(session.send_request("join", ["x", str(i)]) for i in range(100)))
        assert answers == [f"x{i}" for i in range(100)]

    async def notification():
        params = [1]
        before = await session.send_request("noted", [])
        await session.send_notification("note", params)
        while await session.send_request("noted", []) == before:
            pass
        assert await session.send_request("noted", []) == before + 1

    async def batch():
        async with session.send_batch() as batch:
            batch.add_request("join", ["a", "b"])
            batch.add_request("nowhere", [])
        assert batch.results[0] == "ab", batch.results
        assert batch.results[1].code == -32601, batch.results

    await check(f"{name}: by position", by_position)
    await check(f"{name}: an error", an_error)
    await check(f"{name}: at the same time", together)
    await check(f"{name}: a notification", notification)
    if named:
        await check(f"{name}: by name", by_name)
        await check(f"{name}: a batch", batch)


def version(protocol):
    class Session(aiorpcx.RPCSession):
        def default_framer(self):
            return aiorpcx.NewlineFramer()

        def default_connection(self):
            return aiorpcx.JSONRPCConnection(protocol)

    return Session


def post(message):
    request = urllib.request.Request(f"http://{URL}", message.encode(), {"Content-Type": "application/json", "X-User": "me"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, answer.read()


def ok(text, want):
    parsed = jsonrpcclient.parse(json.loads(text))
    assert isinstance(parsed, jsonrpcclient.Ok) and parsed.result == want, parsed


async def http_cases(name):
    async def by_position():
        ok(post(jsonrpcclient.request_json("subtract", params=[42, 23]))[1], 19)

    async def by_name():
        ok(post(jsonrpcclient.request_json("subtract", params={"minuend": 23, "subtrahend": 42}))[1], -19)

    async def a_header():
        ok(post(jsonrpcclient.request_json("user"))[1], "me")

    async def an_error():
        parsed = jsonrpcclient.parse(json.loads(post(jsonrpcclient.request_json("missing"))[1]))
        assert isinstance(parsed, jsonrpcclient.Error) and parsed.code == -32005, parsed

    async def a_batch():
        message = json.dumps([jsonrpcclient.request("subtract", params=[42, 23]), jsonrpcclient.notification("note", params=[1])])
        parsed = list(jsonrpcclient.parse(json.loads(post(message)[1])))
        assert len(parsed) == 1 and parsed[0].result == 19, parsed

    async def a_notification():
        assert post(jsonrpcclient.notification_json("note", params=[1])) == (204, b"")

    for case in (by_position, by_name, a_header, an_error, a_batch, a_notification):
        await check(f"{name}: {case.__name__.replace('_', ' ')}", case)


async def websocket_cases(name):
    async with websockets.asyncio.client.connect(f"ws://{URL}", additional_headers={"X-User": "me"}) as socket:

        async def ask(method, params=None):
            await socket.send(jsonrpcclient.request_json(method, params=params))
            return await socket.recv()

        async def by_position():
            ok(await ask("subtract", [42, 23]), 19)

        async def in_pieces():
            await socket.send(iter(['{"jsonrpc": "2.0", "method": "join", ', '"params": ["a", "b"]', ', "id": 1}']))
            ok(await socket.recv(), "ab")

        async def a_header():
            ok(await ask("user"), "me")

        async def a_ping():
            await (await socket.ping())

        async def a_large_message():
            ok(await ask("echo", ["large ä" * 100_000]), "large ä" * 100_000)

        for case in (by_position, in_pieces, a_header, a_ping, a_large_message):
            await check(f"{name}: {case.__name__.replace('_', ' ')}", case)


async def main():
    for name, protocol, named in (
        ("aiorpcx over TCP", aiorpcx.JSONRPCv2, True),
        ("aiorpcx of version 1.0 over TCP", aiorpcx.JSONRPCv1, False),
    ):
        async with aiorpcx.connect_rs(HOST, int(PORT), session_factory=version(protocol)) as session:
            await session_cases(name, session, named)
    await http_cases("jsonrpcclient over HTTP")
    await websocket_cases("websockets, jsonrpcclient")
    sys.exit(1 if failed else 0)


asyncio.run(main())
