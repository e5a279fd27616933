"""gRPC's Python client, whose core is C, against a testservice: clients.py HOST:PORT.

The messages come by reflection. The last line says how many cases have passed.
"""
import sys

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "grpc.testing.TestService"
PATIENCE = 30  # seconds

channel = grpc.insecure_channel(sys.argv[1])
database = ProtoReflectionDescriptorDatabase(channel)
service = DescriptorPool(database).FindServiceByName(SERVICE)


def method(name):
    """Return the class of requests, and what calls the method."""
    m = service.methods_by_name[name]
    request = message_factory.GetMessageClass(m.input_type)
    response = message_factory.GetMessageClass(m.output_type)
    kind = ("stream" if m.client_streaming else "unary") + "_" + ("stream" if m.server_streaming else "unary")
    call = getattr(channel, kind)(f"/{SERVICE}/{name}", request.SerializeToString, response.FromString)
    return request, call


def services():
    assert {SERVICE, "grpc.health.v1.Health"} <= set(database.get_services())


def empty_unary():
    request, call = method("EmptyCall")
    call(request(), timeout=PATIENCE)


def large_unary(**options):
    request, call = method("UnaryCall")
    response = call(request(response_size=314159, payload={"body": b"\0" * 271828}), timeout=PATIENCE, **options)
    assert len(response.payload.body) == 314159


def gzip():
    large_unary(compression=grpc.Compression.Gzip)


def client_streaming():
    request, call = method("StreamingInputCall")
    sizes = [27182, 8, 1828, 45904]
    response = call((request(payload={"body": b"\0" * n}) for n in sizes), timeout=PATIENCE)
    assert response.aggregated_payload_size == sum(sizes)


def server_streaming():
    request, call = method("StreamingOutputCall")
    sizes = [31415, 9, 2653, 58979]
    got = [len(r.payload.body) for r in call(request(response_parameters=[{"size": n} for n in sizes]), timeout=PATIENCE)]
    assert got == sizes, got


def ping_pong():
    request, call = method("FullDuplexCall")
    sizes = [31415, 9, 2653, 58979]
    got = [len(r.payload.body) for r in call((request(response_parameters=[{"size": n}]) for n in sizes), timeout=PATIENCE)]
    assert got == sizes, got


def status():
    request, call = method("UnaryCall")
    try:
        call(request(response_status={"code": 2, "message": "\t\nüñ☺\n"}), timeout=PATIENCE)
    except grpc.RpcError as err:
        assert (err.code(), err.details()) == (grpc.StatusCode.UNKNOWN, "\t\nüñ☺\n")
        return
    raise AssertionError("it succeeded")


def metadata():
    request, call = method("UnaryCall")
    sent = (("x-grpc-test-echo-initial", "first"), ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"))
    _, done = call.with_call(request(), metadata=sent, timeout=PATIENCE)
    assert sent[0] in [tuple(m) for m in done.initial_metadata()]
    assert sent[1] in [tuple(m) for m in done.trailing_metadata()]


def deadline():
    request, call = method("StreamingOutputCall")
    try:
        list(call(request(response_parameters=[{"size": 1, "interval_us": 60_000_000}]), timeout=0.2))
    except grpc.RpcError as err:
        assert err.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        return
    raise AssertionError("it succeeded")


def unimplemented():
    request, call = method("UnimplementedCall")
    try:
        call(request(), timeout=PATIENCE)
    except grpc.RpcError as err:
        assert err.code() == grpc.StatusCode.UNIMPLEMENTED
        return
    raise AssertionError("it succeeded")


def health():
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status == health_pb2.HealthCheckResponse.SERVING


def health_watch():
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="nowhere"), timeout=PATIENCE)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


cases = [services, empty_unary, large_unary, gzip, client_streaming, server_streaming, ping_pong,
         status, metadata, deadline, unimplemented, health, health_watch]
passed = 0
for case in cases:
    try:
        case()
        passed += 1
    except Exception as err:  # the next case is another
        print(f"{case.__name__} failed: {err!r}")
print(f"{passed} of {len(cases)} passed")
sys.exit(passed != len(cases))
