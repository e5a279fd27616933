// Checks a built site: nothing in it makes a browser ask another origin, links between pages are
// whole, and the search finds Chinese words.
import fs from 'node:fs'
import path from 'node:path'

const out = process.argv[2]
const faults = []
const files = fs.readdirSync(out, { recursive: true }).filter((name) => fs.statSync(path.join(out, name)).isFile())

// What makes a browser load something: elements with their attributes, styles, and calls of scripts.
// Links that people follow are none.
const elsewhere = String.raw`(?:https?:)?\/\/`
const loads = {
  '.html': [
    new RegExp(String.raw`<(?:script|img|iframe|source|video|audio|embed|object|input)\b[^>]*\b(?:src|srcset|data|poster)=["']?${elsewhere}[^>]*>`, 'gi'),
    new RegExp(String.raw`<link\b[^>]*\bhref=["']?${elsewhere}[^>]*>`, 'gi'),
    new RegExp(String.raw`url\(["']?${elsewhere}[^)]*\)`, 'gi'),
  ],
  '.css': [new RegExp(String.raw`url\(["']?${elsewhere}[^)]*\)`, 'gi'), new RegExp(String.raw`@import\s+["']?${elsewhere}[^;]*`, 'gi')],
  '.js': [new RegExp(String.raw`(?:\bimport\(|\bfetch\(|\bfrom|\bimport|new (?:Worker|WebSocket|EventSource)\(|\.(?:src|href)=)\s*["'\`]${elsewhere}[^"'\`]*`, 'gi')],
  '.svg': [new RegExp(String.raw`(?:xlink:href|href|src)=["']${elsewhere}[^"']*`, 'gi'), new RegExp(String.raw`url\(["']?${elsewhere}[^)]*\)`, 'gi')],
}

function loadsOf(extension, text) {
  return (loads[extension] ?? []).flatMap((pattern) => text.match(pattern) ?? [])
}

// A rule that never fails proves nothing.
for (const [extension, text] of [
  ['.html', '<script async src="https://cdn.example/x.js"></script>'],
  ['.html', '<link rel="stylesheet" href="//fonts.example/css">'],
  ['.css', '@font-face{src:url(https://fonts.example/x.woff2)}'],
  ['.js', 'import("https://cdn.example/x.js")'],
  ['.js', 'fetch(`https://api.example/`)'],
  ['.svg', '<image href="https://a.example/x.png"/>'],
]) {
  if (loadsOf(extension, text).length !== 1) throw new Error(`the check does not see ${text}`)
}

for (const name of files) {
  const extension = path.extname(name)
  if (!(extension in loads)) continue
  const text = fs.readFileSync(path.join(out, name), 'utf8')
  for (const load of loadsOf(extension, text)) faults.push(`${name} loads from another origin: ${load.slice(0, 200)}`)
  if (extension !== '.html') continue
  if (!text.includes("default-src 'self'")) faults.push(`${name} has no Content-Security-Policy`)
  // VitePress checks links in Markdown; this is for those of the sidebar and the menus.
  for (const [, href] of text.matchAll(/<a\b[^>]*\bhref="(\/[^"#?]*)/g)) {
    const page = href.endsWith('/') ? href + 'index.html' : href
    if (!fs.existsSync(path.join(out, decodeURIComponent(page)))) faults.push(`${name} links to ${href}, which does not exist`)
  }
}

// The search's index of Chinese pages has words, not clauses.
const index = files.find((name) => /localSearchIndexzh\.[^/]*\.js$/.test(name))
if (index === undefined) faults.push('there is no index for the search in Chinese')
else if (!fs.readFileSync(path.join(out, index), 'utf8').includes('"均衡"')) faults.push(`${index} does not have the word 均衡 by itself`)

for (const fault of new Set(faults)) console.error(fault)
console.log(`${files.filter((name) => name.endsWith('.html')).length} pages checked, ${faults.length} faults`)
process.exit(faults.length === 0 ? 0 : 1)
