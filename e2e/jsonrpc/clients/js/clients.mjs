// Clients of JSON-RPC in JavaScript against the server at the address that is given. It
// prints a line for each case: "ok" or "not ok", the client, and what it did.
import assert from "node:assert/strict";
import net from "node:net";
import readline from "node:readline";
import jayson from "jayson/promise/index.js";
import { JSONRPCClient } from "json-rpc-2.0";
import WebSocket from "ws";

const [host, port] = process.argv[2].split(":");
const url = `http://${host}:${port}/jsonrpc`;
let failed = 0;

async function check(name, run) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error("no answer")), 20_000).unref());
  try {
    await Promise.race([run(), late]);
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${String(error).replaceAll("\n", " ")}`);
  }
}

// jayson answers with the whole response.
async function jaysonCases(name, client) {
  await check(`${name}: by position`, async () => assert.equal((await client.request("subtract", [42, 23])).result, 19));
  await check(`${name}: by name`, async () => assert.equal((await client.request("subtract", { subtrahend: 42, minuend: 23 })).result, -19));
  await check(`${name}: an error`, async () => assert.equal((await client.request("missing", [])).error.code, -32005));
  await check(`${name}: no such method`, async () => assert.equal((await client.request("nowhere", [])).error.code, -32601));
  await check(`${name}: a batch`, async () => {
    const answers = await client.request([
      client.request("subtract", [42, 23], undefined, false),
      client.request("nowhere", [], undefined, false),
    ]);
    assert.deepEqual(answers.map((a) => a.result ?? a.error.code).sort(), [-32601, 19]);
  });
}

await jaysonCases("jayson over TCP", jayson.Client.tcp({ host, port: Number(port) }));
await jaysonCases("jayson over HTTP", jayson.Client.http({ host, port: Number(port), path: "/jsonrpc" }));
const socket = new WebSocket(url.replace("http", "ws"));
await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
await jaysonCases("jayson over WebSocket", jayson.Client.websocket({ ws: socket }));
socket.close();

const old = jayson.Client.tcp({ host, port: Number(port), version: 1 });
await check("jayson of version 1.0 over TCP: by position", async () => assert.equal((await old.request("join", ["a", "b"])).result, "ab"));
await check("jayson of version 1.0 over TCP: an error", async () => {
  const answer = await old.request("missing", []);
  assert.match(String(answer.error), /it is not there/);
});
const oldPost = jayson.Client.http({ host, port: Number(port), path: "/jsonrpc", version: 1 });
await check("jayson of version 1.0 over HTTP: by position", async () => assert.equal((await oldPost.request("join", ["a", "b"])).result, "ab"));

// json-rpc-2.0 makes messages, and leaves sending them to us.
async function makerCases(name, client) {
  await check(`${name}: by position`, async () => assert.equal(await client.request("subtract", [42, 23]), 19));
  await check(`${name}: by name`, async () => assert.equal(await client.request("subtract", { subtrahend: 42, minuend: 23 }), -19));
  await check(`${name}: an error`, async () => assert.rejects(async () => client.request("missing", []), { code: -32005 }));
  await check(`${name}: at the same time`, async () => {
    const answers = await Promise.all([...Array(100).keys()].map((i) => client.request("subtract", [i, 1])));
    assert.deepEqual(answers, [...Array(100).keys()].map((i) => i - 1));
  });
  await check(`${name}: a notification`, async () => {
    const before = await client.request("noted", []);
    client.notify("note", [1]);
    while ((await client.request("noted", [])) === before);
    assert.equal(await client.request("noted", []), before + 1);
  });
}

const conn = net.connect(Number(port), host);
const overTCP = new JSONRPCClient((message) => void conn.write(JSON.stringify(message) + "\n"));
readline.createInterface({ input: conn }).on("line", (line) => overTCP.receive(JSON.parse(line)));
await makerCases("json-rpc-2.0 over TCP", overTCP);
conn.destroy();

const overHTTP = new JSONRPCClient(async (message) => {
  const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json", "X-User": "me" }, body: JSON.stringify(message) });
  if (answer.status === 200) overHTTP.receive(await answer.json());
  else assert.equal(answer.status, 204);
});
await makerCases("json-rpc-2.0 over HTTP", overHTTP);
await check("json-rpc-2.0 over HTTP: a header", async () => assert.equal(await overHTTP.request("user", []), "me"));

const ws = new WebSocket(url.replace("http", "ws"), { headers: { "X-User": "me" } });
await new Promise((resolve, reject) => ws.once("open", resolve).once("error", reject));
const overWebSocket = new JSONRPCClient((message) => void ws.send(JSON.stringify(message)));
ws.on("message", (data) => overWebSocket.receive(JSON.parse(data)));
await makerCases("json-rpc-2.0 over WebSocket", overWebSocket);
await check("json-rpc-2.0 over WebSocket: a header", async () => assert.equal(await overWebSocket.request("user", []), "me"));
ws.close();

process.exit(failed ? 1 : 0);
