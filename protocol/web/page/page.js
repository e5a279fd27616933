// The page is made of openapi.json. Text is only ever set as text, so what a server
// says can't become part of the page.
"use strict";

const $ = (id) => document.getElementById(id);
let api, chosen;

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
  chosen = path;
  const schema = api.paths[path].post.requestBody.content["application/json"].schema;
  $("name").textContent = "POST " + path;
  $("request").value = JSON.stringify(example(schema), null, 2);
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
      button.textContent = path.split("/").pop();
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
  h.set("Content-Type", "application/json");
  return h;
}

const quoted = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

async function call(event) {
  event.preventDefault();
  const status = $("status");
  status.className = "";
  status.textContent = "…";
  try {
    const h = headers();
    const body = $("request").value;
    const began = performance.now();
    const res = await fetch("." + chosen, { method: "POST", headers: h, body });
    let text = await res.text();
    const took = (performance.now() - began).toFixed(1);
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as it is */ }
    status.textContent = `${res.status} ${res.statusText}, ${took} ms`;
    status.className = res.ok ? "" : "failed";
    $("response").textContent = text;
    $("curl").textContent = ["curl", ...[...h].map(([k, v]) => "-H " + quoted(`${k}: ${v}`)), "-d", quoted(body), quoted(location.origin + chosen)].join(" ");
    $("answer").hidden = false;
  } catch (err) {
    status.textContent = String(err);
    status.className = "failed";
  }
}

async function start() {
  try {
    api = await (await fetch("openapi.json")).json();
    for (const path in api.paths) {
      const post = api.paths[path].post; // streams, and other paths of methods, are not for this page
      if (!post || post["x-tandem-kind"]) delete api.paths[path];
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
