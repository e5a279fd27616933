// Calls Test.Echo with a JSON string, as a page of a browser would: the standard
// WebSocket, and docs/reference/protocol.md for what goes over it.
const text = (s) => [...new TextEncoder().encode(s)];
const preface = [0x93, ...text("TND"), 1, 0, 6, 0, 5, 4, ...text("json")];

// The codecs that the server lists, in their order: the settings with number 5.
function codecs(settings) {
  const names = [];
  for (let at = 0; at < settings.length; ) {
    const [id, size] = settings.slice(at, at + 2); // both are below 128 here
    if (id === 5) names.push(new TextDecoder().decode(settings.slice(at + 2, at + 2 + size)));
    at += 2 + size;
  }
  return names;
}

function request(codec, method, message) {
  const payload = [0, method.length, ...text(method), 0, codec, ...text(message)];
  return [payload.length, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, ...payload];
}

const socket = new WebSocket(process.argv[2], "tandem");
socket.binaryType = "arraybuffer";
let received = new Uint8Array();
let greeted = false;

socket.onopen = () => socket.send(new Uint8Array(preface));
socket.onerror = (e) => fail(e.message ?? "the connection failed");
socket.onclose = (e) => fail(`closed with ${e.code} ${e.reason}`);
socket.onmessage = (e) => {
  received = new Uint8Array([...received, ...new Uint8Array(e.data)]);
  if (!greeted) greet();
  if (greeted) answer();
};

function greet() {
  const size = received[6] | (received[7] << 8);
  if (received.length < 8 || received.length < 8 + size) return;
  const codec = codecs(received.slice(8, 8 + size)).indexOf("json");
  received = received.slice(8 + size);
  greeted = true;
  socket.send(new Uint8Array(request(codec, "Test.Echo", JSON.stringify("from a script"))));
}

// answer looks for the response frame, and prints its message: what follows the
// head of a response, which ends where the JSON begins.
function answer() {
  while (received.length >= 12) {
    const size = received[0] | (received[1] << 8) | (received[2] << 16);
    if (received.length < 12 + size) return;
    const [type, payload] = [received[3], received.slice(12, 12 + size)];
    received = received.slice(12 + size);
    if (type !== 2) continue;
    console.log(new TextDecoder().decode(payload.slice(payload.indexOf(0x22))));
    process.exit(0);
  }
}

function fail(why) {
  console.error(why);
  process.exit(1);
}
