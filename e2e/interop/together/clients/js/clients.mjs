// Clients in JavaScript call the gate: node clients.mjs KIND ADDRESS CERTIFICATE PROTO.
// What they are told is printed, in JSON.
import { readFileSync } from "node:fs";

const [kind, address, certificate, proto] = process.argv.slice(2);
const ca = readFileSync(certificate);
const patience = 300_000; // milliseconds

// JSON-RPC 2.0 over WebSocket; with TLS if the kind says so.
async function socket(secure) {
  const { default: WebSocket } = await import("ws");
  const { JSONRPCClient } = await import("json-rpc-2.0");
  const ws = new WebSocket(`${secure ? "wss" : "ws"}://${address}/jsonrpc`, { ca });
  const client = new JSONRPCClient(async (request) => ws.send(JSON.stringify(request)));
  ws.on("message", (data) => client.receive(JSON.parse(data)));
  await new Promise((resolve, reject) => ws.once("open", resolve).once("error", reject));
  return client.request("gate.v1.Gate.Open", [{ client: kind }]);
}

async function grpcJS() {
  const { default: grpc } = await import("@grpc/grpc-js");
  const { default: loader } = await import("@grpc/proto-loader");
  const { gate } = grpc.loadPackageDefinition(loader.loadSync(proto));
  const client = new gate.v1.Gate(address, grpc.credentials.createInsecure());
  const deadline = Date.now() + patience;
  return new Promise((resolve, reject) =>
    client.Open({ client: kind }, { deadline }, (error, visit) => (error ? reject(error) : resolve(visit))));
}

// connect-node, which wants the definition as a descriptor.
async function connectNode(make, options) {
  const { createFileRegistry, fromBinary } = await import("@bufbuild/protobuf");
  const { FileDescriptorSetSchema } = await import("@bufbuild/protobuf/wkt");
  const { createClient } = await import("@connectrpc/connect");
  const transports = await import("@connectrpc/connect-node");
  const set = fromBinary(FileDescriptorSetSchema, readFileSync(proto + ".binpb"));
  const service = createFileRegistry(set).getService("gate.v1.Gate");
  const transport = transports[make]({ baseUrl: `https://${address}`, nodeOptions: { ca }, ...options });
  const { client, inside } = await createClient(service, transport).open({ client: kind }, { timeoutMs: patience });
  return { client, inside };
}

const kinds = {
  "node-websocket": () => socket(false),
  "node-websocket-tls": () => socket(true),
  "grpc-js": grpcJS,
  "connect-node": () => connectNode("createConnectTransport", { httpVersion: "2" }),
  "grpc-web-node": () => connectNode("createGrpcWebTransport", { httpVersion: "1.1" }),
};
console.log(JSON.stringify(await kinds[kind]()));
process.exit(0); // they keep their connections
