// Prints what is loaded first, and what each screen adds, in bytes after brotli.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'

const dist = new URL('../../dist/', import.meta.url).pathname
const size = (name) => statSync(join(dist, name) + '.br').size
const html = readFileSync(join(dist, 'index.html'), 'utf8')
const first = [...html.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map((m) => m[1])
let sum = size('index.html')
console.log('first load')
for (const f of first) {
  sum += size(f)
  console.log(String(size(f)).padStart(9), f)
}
console.log(String(sum).padStart(9), 'in all\nloaded later')
let all = sum
for (const f of readdirSync(join(dist, 'assets')).sort()) {
  if (f.endsWith('.br') || first.some((x) => basename(x) === f)) continue
  all += size('assets/' + f)
  console.log(String(size('assets/' + f)).padStart(9), f)
}
console.log(String(all).padStart(9), 'everything')
if (sum > 400_000) {
  console.error('the first load is over 400 KB')
  process.exit(1)
}
