"""Clients in Python call the gate: clients.py KIND ADDRESS CERTIFICATE FOLDER, the last
being where its definitions are. What they are told is printed, in JSON."""

import json
import os
import sys

KIND, ADDRESS, CERTIFICATE, FOLDER = sys.argv[1:]
HOST, PORT = ADDRESS.split(":")
PATIENCE = 300  # seconds


def post():
    """JSON-RPC 2.0 over HTTP."""
    import urllib.request

    import jsonrpcclient

    body = jsonrpcclient.request_json("gate.v1.Gate.Open", params=[{"client": KIND}])
    request = urllib.request.Request(f"http://{ADDRESS}/jsonrpc", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return jsonrpcclient.parse(json.loads(answer.read())).result


def lines():
    """JSON-RPC 2.0 over TCP, with TLS."""
    import asyncio
    import ssl

    import aiorpcx

    class Session(aiorpcx.RPCSession):
        sent_request_timeout = PATIENCE

        def default_framer(self):
            return aiorpcx.NewlineFramer()

    async def call():
        context = ssl.create_default_context(cafile=CERTIFICATE)
        async with aiorpcx.connect_rs(HOST, int(PORT), session_factory=Session, ssl=context) as session:
            return await session.send_request("gate.v1.Gate.Open", [{"client": KIND}])

    return asyncio.run(call())


def grpcio():
    """gRPC, with TLS."""
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    with open(os.path.join(FOLDER, "gate.proto.binpb"), "rb") as f:
        definition = descriptor_pb2.FileDescriptorSet.FromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for file in definition.file:
        pool.Add(file)
    visit = message_factory.GetMessageClass(pool.FindMessageTypeByName("gate.v1.Visit"))
    with open(CERTIFICATE, "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    with grpc.secure_channel(ADDRESS, credentials) as channel:
        call = channel.unary_unary("/gate.v1.Gate/Open", visit.SerializeToString, visit.FromString)
        answer = call(visit(client=KIND), timeout=PATIENCE)
    return {"client": answer.client, "inside": answer.inside}


def thrift(secure=False):
    """Thrift, framed and compact, or buffered and binary with TLS."""
    import thriftpy2
    from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
    from thriftpy2.rpc import make_client
    from thriftpy2.transport import TBufferedTransportFactory, TFramedTransportFactory

    gate = thriftpy2.load(os.path.join(FOLDER, "gate.thrift"), module_name="gate_thrift")
    options = {"trans_factory": TFramedTransportFactory(), "proto_factory": TCompactProtocolFactory()}
    if secure:
        options = {"trans_factory": TBufferedTransportFactory(), "proto_factory": TBinaryProtocolFactory(), "cafile": CERTIFICATE}
    client = make_client(gate.Gate, HOST, int(PORT), timeout=PATIENCE * 1000, **options)
    answer = client.Open(gate.Visit(client=KIND))
    client.close()
    return {"client": answer.client, "inside": answer.inside}


kinds = {
    "python-post": post,
    "aiorpcx": lines,
    "grpcio": grpcio,
    "thriftpy2": thrift,
    "thriftpy2-tls": lambda: thrift(secure=True),
}
print(json.dumps(kinds[KIND]()))
