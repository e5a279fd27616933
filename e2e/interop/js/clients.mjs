// grpc-js, connect-node, grpc-web, EventSource and fetch against a testservice: node clients.mjs HOST:PORT FILE, the
// file being its definition. The last line says how many cases have passed.
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";
import { create, createFileRegistry, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { Validator } from "@seriousme/openapi-schema-validator";
import { EventSource } from "eventsource";
import XMLHttpRequest from "xhr2";

globalThis.XMLHttpRequest = XMLHttpRequest; // grpc-web is for browsers
const web = (await import("grpc-web")).default;

const [address, file] = process.argv.slice(2);
const definition = readFileSync(file);
const sizes = [31415, 9, 2653, 58979];
const cases = [];

const service = createFileRegistry(fromBinary(FileDescriptorSetSchema, definition)).getService("grpc.testing.TestService");
const baseUrl = `http://${address}`;
const transports = {
  "connect-json-1": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  "connect-1": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  "connect-2": createConnectTransport({ baseUrl, httpVersion: "2" }),
  "grpc-web-1": createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
  "grpc-web-2": createGrpcWebTransport({ baseUrl, httpVersion: "2" }),
  "grpc-2": createGrpcTransport({ baseUrl }),
};

async function* all(list) {
  yield* list;
}

for (const [name, transport] of Object.entries(transports)) {
  const client = createClient(service, transport);
  const add = (what, run) => cases.push([`${name} ${what}`, run]);
  add("unary", async () => {
    const r = await client.unaryCall({ responseSize: 314159, payload: { body: new Uint8Array(271828) } });
    assert.equal(r.payload.body.length, 314159);
  });
  add("error", async () => {
    await assert.rejects(client.unaryCall({ responseStatus: { code: 9, message: "Grüße" } }),
      (err) => err.code === Code.FailedPrecondition && err.rawMessage === "Grüße");
  });
  add("server stream", async () => {
    const got = [];
    for await (const r of client.streamingOutputCall({ responseParameters: sizes.map((size) => ({ size })) })) got.push(r.payload.body.length);
    assert.deepEqual(got, sizes);
  });
  add("client stream", async () => {
    const r = await client.streamingInputCall(all(sizes.map((n) => ({ payload: { body: new Uint8Array(n) } }))));
    assert.equal(r.aggregatedPayloadSize, sizes.reduce((a, b) => a + b));
  });
  add("unimplemented", async () => {
    await assert.rejects(client.unimplementedCall({}), (err) => err.code === Code.Unimplemented);
  });
  if (name.endsWith("2")) {
    add("both ways", async () => {
      const got = [];
      const requests = all(sizes.map((size) => ({ responseParameters: [{ size }] })));
      for await (const r of client.fullDuplexCall(requests)) got.push(r.payload.body.length);
      assert.deepEqual(got, sizes);
    });
  }
}

const Service = grpc.loadPackageDefinition(loader.loadFileDescriptorSetFromBuffer(definition, { keepCase: true })).grpc.testing.TestService;
const js = new Service(address, grpc.credentials.createInsecure());
const done = (call) => new Promise((resolve, reject) => call((err, value) => (err ? reject(err) : resolve(value))));
const add = (what, run) => cases.push([`grpc-js ${what}`, run]);
add("unary", async () => {
  const r = await done((cb) => js.UnaryCall({ response_size: 314159, payload: { body: Buffer.alloc(271828) } }, cb));
  assert.equal(r.payload.body.length, 314159);
});
add("error", async () => {
  await assert.rejects(done((cb) => js.UnaryCall({ response_status: { code: 9, message: "Grüße" } }, cb)),
    (err) => err.code === grpc.status.FAILED_PRECONDITION && err.details === "Grüße");
});
add("metadata", async () => {
  const sent = new grpc.Metadata();
  sent.set("x-grpc-test-echo-initial", "first");
  sent.set("x-grpc-test-echo-trailing-bin", Buffer.from("ababab", "hex"));
  let header, trailer;
  await done((cb) => {
    const call = js.UnaryCall({}, sent, cb);
    call.on("metadata", (m) => { header = m; });
    call.on("status", (s) => { trailer = s.metadata; });
  });
  await new Promise(setImmediate); // the status comes after the answer
  assert.deepEqual(header.get("x-grpc-test-echo-initial"), ["first"]);
  assert.equal(trailer.get("x-grpc-test-echo-trailing-bin")[0].toString("hex"), "ababab");
});
add("both ways", async () => {
  const call = js.FullDuplexCall();
  const got = [];
  for (const size of sizes) call.write({ response_parameters: [{ size }] });
  call.end();
  for await (const r of call) got.push(r.payload.body.length);
  assert.deepEqual(got, sizes);
});
add("deadline", async () => {
  const call = js.StreamingOutputCall({ response_parameters: [{ size: 1, interval_us: 60_000_000 }] }, { deadline: Date.now() + 200 });
  await assert.rejects(async () => { for await (const _ of call); }, (err) => err.code === grpc.status.DEADLINE_EXCEEDED);
});
add("unimplemented", async () => {
  await assert.rejects(done((cb) => js.UnimplementedCall({}, cb)), (err) => err.code === grpc.status.UNIMPLEMENTED);
});

// grpc-web, the client of the gRPC project, in text mode, whose bodies are base64.
const text = new web.GrpcWebClientBase({ format: "text" });
const describe = (name) => {
  const m = service.methods.find((m) => m.name === name);
  return [
    `${baseUrl}/${service.typeName}/${name}`,
    (fields) => create(m.input, fields),
    new web.MethodDescriptor(`/${service.typeName}/${name}`, m.methodKind === "unary" ? web.MethodType.UNARY : web.MethodType.SERVER_STREAMING,
      Object, Object, (v) => toBinary(m.input, v), (b) => fromBinary(m.output, b)),
  ];
};
const addText = (what, run) => cases.push([`grpc-web text ${what}`, run]);
const unary = (fields, metadata = {}) => done((cb) => {
  const [url, request, method] = describe("UnaryCall");
  text.rpcCall(url, request(fields), metadata, method, cb);
});
const follow = (name, fields, metadata = {}) => new Promise((resolve) => {
  const [url, request, method] = describe(name);
  const got = [];
  text.serverStreaming(url, request(fields), metadata, method)
    .on("data", (r) => got.push(r.payload.body.length))
    .on("error", (err) => resolve({ got, err }))
    .on("end", () => resolve({ got }));
});
addText("unary", async () => {
  const r = await unary({ responseSize: 314159, payload: { body: new Uint8Array(271828) } });
  assert.equal(r.payload.body.length, 314159);
});
addText("error", async () => {
  await assert.rejects(unary({ responseStatus: { code: 9, message: "Grüße" } }),
    (err) => err.code === web.StatusCode.FAILED_PRECONDITION && decodeURIComponent(err.message) === "Grüße");
});
addText("server stream", async () => {
  assert.deepEqual(await follow("StreamingOutputCall", { responseParameters: sizes.map((size) => ({ size })) }), { got: sizes });
});
addText("server stream in time", async () => {
  const pauses = [1, 2, 3, 4, 5].map((size) => ({ size, intervalUs: 20_000 }));
  assert.deepEqual(await follow("StreamingOutputCall", { responseParameters: pauses }), { got: [1, 2, 3, 4, 5] });
});
addText("deadline", async () => {
  const { got, err } = await follow("StreamingOutputCall", { responseParameters: [{ size: 1 }, { size: 1, intervalUs: 60_000_000 }] },
    { deadline: String(Date.now() + 300) });
  assert.deepEqual([got, err.code], [[1], web.StatusCode.DEADLINE_EXCEEDED]);
});
addText("unimplemented", async () => {
  const [url, request, method] = describe("UnimplementedCall");
  await assert.rejects(done((cb) => text.rpcCall(url, request({}), {}, method, cb)), (err) => err.code === web.StatusCode.UNIMPLEMENTED);
});

// Clients without a library: EventSource, and fetch with a message a line.
const addPlain = (what, run) => cases.push([`plain ${what}`, run]);
const listen = (message) => new Promise((resolve) => {
  const source = new EventSource(`${baseUrl}/grpc.testing.TestService/StreamingOutputCall?message=${encodeURIComponent(JSON.stringify(message))}`);
  const got = [];
  const finish = (how, event) => {
    source.close();
    resolve({ got, how, event });
  };
  source.addEventListener("message", (e) => got.push(Buffer.from(JSON.parse(e.data).payload.body, "base64").length));
  source.addEventListener("end", (e) => finish("end", e));
  source.addEventListener("error", (e) => finish("error", e));
});
addPlain("EventSource", async () => {
  const { got, how } = await listen({ responseParameters: sizes.map((size) => ({ size, intervalUs: 10_000 })) });
  assert.deepEqual([got, how], [sizes, "end"]);
});
addPlain("EventSource that is refused", async () => {
  const { got, how, event } = await listen({ responseParameters: 1 });
  assert.deepEqual([got, how, event.code], [[], "error", 400]);
});
const lines = (method, accept, messages) => fetch(`${baseUrl}/grpc.testing.TestService/${method}`, {
  method: "POST", headers: { "Content-Type": "application/x-ndjson", Accept: accept }, body: messages.map((m) => JSON.stringify(m) + "\n").join(""),
});
addPlain("client stream of lines", async () => {
  const res = await lines("StreamingInputCall", "*/*", sizes.map((n) => ({ payload: { body: Buffer.alloc(n).toString("base64") } })));
  assert.equal(res.headers.get("content-type"), "application/json"); // as the definition says
  assert.equal((await res.json()).aggregatedPayloadSize, sizes.reduce((a, b) => a + b));
});
addPlain("both ways in lines", async () => {
  const res = await lines("FullDuplexCall", "application/x-ndjson", sizes.map((size) => ({ responseParameters: [{ size }] })));
  const got = (await res.text()).trim().split("\n").map((line) => Buffer.from(JSON.parse(line).payload.body, "base64").length);
  assert.deepEqual(got, sizes);
});
addPlain("document of OpenAPI 3.1", async () => {
  const document = await (await fetch(`${baseUrl}/openapi.json`)).json();
  assert.equal(document.paths["/grpc.testing.TestService/FullDuplexCall"].post["x-tandem-kind"], "stream");
  const { valid, errors } = await new Validator().validate(document);
  assert.ok(valid, JSON.stringify(errors));
  delete document.paths["/Arith/Mul"].post.responses;
  document.paths["/Arith/Mul"].post.answers = {};
  assert.equal((await new Validator().validate(document)).valid, false);
});

let passed = 0;
for (const [name, run] of cases) {
  try {
    await run();
    passed++;
  } catch (err) {
    console.log(`${name} failed: ${err.stack}`);
  }
}
console.log(`${passed} of ${cases.length} passed`);
js.close();
process.exit(passed === cases.length ? 0 : 1); // connect-node keeps its connections
