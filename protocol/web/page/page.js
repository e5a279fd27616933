// The page is made of openapi.json. Text is only ever set as text, so what a server
// says can't become part of the page.
"use strict";

const $ = (id) => document.getElementById(id);
const lines = "application/x-ndjson";
let api, chosen, stop;

const isStream = (path) => api.paths[path].post["x-tandem-kind"] === "stream";

// requestSchema returns the schema of a method's request, or of a stream's messages.
function requestSchema(path) {
  const content = api.paths[path].post.requestBody.content;
  return isStream(path) ? content[lines].schema.contentSchema : content["application/json"].schema;
}

// resolve follows a reference to a schema that has a name.
function resolve(schema) {
  while (schema && schema.$ref) schema = api.components.schemas[schema.$ref.split("/").pop()];
  return schema || {};
}

// example returns a value that fits a schema.
function example(schema, depth = 0) {
  schema = resolve(schema);
  const type = [].concat(schema.type || [])[0];
  if (schema.prefixItems) return schema.prefixItems.map((s) => example(s, depth + 1));
  if (schema.anyOf) return null;
  if (type === "object") {
    const value = {};
    if (depth < 4) for (const name in schema.properties || {}) value[name] = example(schema.properties[name], depth + 1);
    return value;
  }
  if (type === "array") return depth < 4 && schema.items ? [example(schema.items, depth + 1)] : [];
  if (type === "string") return schema.format === "date-time" ? new Date().toISOString() : "";
  if (type === "integer" || type === "number") return 0;
  if (type === "boolean") return false;
  return null;
}

function show(path) {
  if (stop) stop.abort();
  chosen = path;
  $("name").textContent = (isStream(path) ? "Stream " : "POST ") + path;
  $("what").textContent = isStream(path) ? "Requests, a message of JSON a line" : "Request, in JSON";
  $("request").value = JSON.stringify(example(requestSchema(path)), null, isStream(path) ? 0 : 2);
  $("call").hidden = false;
  $("answer").hidden = true;
  $("status").textContent = "";
  for (const b of document.querySelectorAll("#methods button")) {
    if (b.dataset.path === path) b.setAttribute("aria-current", "true");
    else b.removeAttribute("aria-current");
  }
  location.hash = path;
}

// list shows the methods whose path has what was typed, a service after the other.
function list() {
  const wanted = $("filter").value.toLowerCase();
  const services = new Map();
  for (const path in api.paths) {
    if (!path.toLowerCase().includes(wanted)) continue;
    const service = api.paths[path].post.tags[0];
    services.set(service, [...(services.get(service) || []), path]);
  }
  const parts = [];
  for (const [service, paths] of services) {
    const title = document.createElement("h2");
    title.textContent = service || "Functions";
    const items = document.createElement("ul");
    for (const path of paths) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = path.split("/").pop() + (isStream(path) ? " (stream)" : "");
      button.dataset.path = path;
      button.addEventListener("click", () => show(path));
      const item = document.createElement("li");
      item.append(button);
      items.append(item);
    }
    parts.push(title, items);
  }
  $("methods").replaceChildren(...parts);
}

function headers() {
  const h = new Headers();
  for (const line of $("header").value.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) h.append(line.slice(0, colon).trim(), line.slice(colon + 1).trim());
  }
  h.set("Content-Type", isStream(chosen) ? lines : "application/json");
  if (isStream(chosen)) h.set("Accept", lines);
  return h;
}

const quoted = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

const longest = 1 << 20; // characters that are shown of a stream

// readLines returns the response of a stream, and shows what has come of it.
async function readLines(res) {
  let text = "";
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text = (text + value).slice(-longest);
    $("response").textContent = text;
    $("answer").hidden = false;
  }
}

// indented returns a text, with white space if it is JSON.
function indented(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

async function call(event) {
  event.preventDefault();
  if (stop) {
    stop.abort();
    return;
  }
  stop = new AbortController();
  $("press").textContent = "Stop";
  await send(chosen, stop.signal);
  stop = undefined;
  $("press").textContent = "Call";
}

async function send(path, signal) {
  const status = $("status");
  status.className = "";
  status.textContent = "…";
  try {
    const h = headers();
    const body = $("request").value;
    const began = performance.now();
    const res = await fetch("." + path, { method: "POST", headers: h, body, signal });
    const text = isStream(path) && res.ok ? await readLines(res) : indented(await res.text());
    const took = (performance.now() - began).toFixed(1);
    status.textContent = `${res.status} ${res.statusText}, ${took} ms`;
    status.className = res.ok ? "" : "failed";
    $("response").textContent = text;
    const data = isStream(path) ? ["-N", "--data-binary"] : ["-d"]; // -d takes line ends out
    $("curl").textContent = ["curl", ...[...h].map(([k, v]) => "-H " + quoted(`${k}: ${v}`)), ...data, quoted(body), quoted(location.origin + path)].join(" ");
    $("answer").hidden = false;
  } catch (err) {
    status.textContent = signal.aborted ? "Stopped" : String(err);
    status.className = signal.aborted ? "" : "failed";
  }
}

async function start() {
  try {
    api = await (await fetch("openapi.json")).json();
    for (const path in api.paths) {
      const post = api.paths[path].post; // other paths of methods are not for this page
      if (!post || post["x-tandem-kind"] === "route") delete api.paths[path];
    }
  } catch (err) {
    $("name").textContent = "openapi.json can't be read: " + err;
    return;
  }
  $("filter").addEventListener("input", list);
  $("call").addEventListener("submit", call);
  list();
  const path = decodeURIComponent(location.hash.slice(1));
  if (api.paths[path]) show(path);
}

start();
