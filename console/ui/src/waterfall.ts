import type { SpanAttempt, TracedSpan } from './api/types.ts'

// Span is a line of a waterfall: a call as its caller or its server saw it, or one attempt of it.
export interface Line {
  key: string
  kind: 'called' | 'served' | 'attempt' | 'retry' | 'hedge'
  n: number // of an attempt, from 1
  depth: number
  method: string
  process: string // the instance that tells of it
  list: string
  instance: string // of an attempt: where it went
  protocol: string
  peer: string
  began: number // ns since the trace began
  took: number // ns
  own: number // ns in which no part below it ran
  parts: readonly (readonly [number, number])[] // the intervals of its own time
  code: string // of an attempt that failed: 'failed'
  error: string
  notes: readonly Note[]
}

// A note says what is wrong with a line: the clock of its process is off, nobody tells of the call
// that it is part of, or it was put below an attempt only because that went to its instance.
export type Note = 'clock' | 'orphan' | 'placed'

export interface Waterfall {
  lines: readonly Line[]
  length: number // ns
  processes: number
  began: string // when the earliest line began
  skew: number // ns by which a child is outside its parent, at most
}

// A child may look a little longer than its parent, as they are timed at different places.
const tolerance = 50_000

interface Node extends Omit<Line, 'depth' | 'own' | 'parts' | 'notes'> {
  span: string
  notes: Note[]
  children: Node[]
}

// nanos returns the time of a text of RFC 3339 in ns since a second, of which numbers of JavaScript
// are exact to the nanosecond for days.
export function nanos(text: string, second: number): number {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? ''
  return (secondOf(text) - second) * 1e9 + Number(fraction.slice(0, 9).padEnd(9, '0'))
}

export function secondOf(text: string): number {
  const at = Date.parse(text.replace(/\.\d+/, ''))
  return Number.isNaN(at) ? 0 : at / 1000
}

function attemptsOf(parent: Node, list: readonly SpanAttempt[], second: number): Node[] {
  const nodes: Node[] = []
  const sorted = [...list].sort((a, b) => nanos(a.began, second) - nanos(b.began, second))
  sorted.forEach((a, i) => {
    const began = nanos(a.began, second)
    const overlaps = nodes.some((n) => n.began + n.took > began)
    nodes.push({
      ...parent, key: parent.key + '/' + i, kind: i === 0 ? 'attempt' : overlaps ? 'hedge' : 'retry', n: i + 1, instance: a.instance ?? '', peer: '', began, took: a.took,
      code: a.error ? 'failed' : 'ok', error: a.error ?? '', notes: [], children: [],
    })
  })
  return nodes
}

// place puts what a server tells below the attempt that went there, or below the call.
function place(served: Node, called: Node): boolean {
  const free = called.children.filter((a) => a.kind !== 'served' && a.instance === served.process)
  const attempt = free.find((a) => a.children.length === 0) ?? free[0]
  const under = attempt ?? called
  under.children.push(served)
  return attempt !== undefined
}

// waterfall arranges the spans of one trace. Servers' parts lie below the attempts of their callers.
export function waterfall(spans: readonly TracedSpan[]): Waterfall {
  const second = Math.min(...spans.map((s) => secondOf(s.began)))
  const seen = new Set<string>()
  const nodes: (Node & { parent: string })[] = []
  for (const s of spans) {
    const key = (s.client ? 'c' : 's') + s.span
    if (seen.has(key)) continue
    seen.add(key)
    nodes.push({
      key, kind: s.client ? 'called' : 'served', n: 0, span: s.span, parent: s.parent ?? '', method: s.method, process: s.instance, list: s.list, instance: '', protocol: s.protocol ?? '', peer: s.peer ?? '',
      began: nanos(s.began, second), took: s.took, code: s.code, error: s.error ?? '', notes: [], children: [],
    })
    const node = nodes.at(-1)
    if (node && (s.attempts?.length ?? 0) > 0) node.children = attemptsOf(node, s.attempts ?? [], second)
  }
  nodes.sort((a, b) => a.began - b.began)
  const called = new Map(nodes.filter((n) => n.kind === 'called').map((n) => [n.span, n]))
  const served = new Map(nodes.filter((n) => n.kind === 'served').map((n) => [n.span, n]))
  const roots: Node[] = []
  for (const n of nodes) {
    const caller = called.get(n.parent)
    const server = served.get(n.parent)
    if (n.kind === 'served' && caller && caller !== n) place(n, caller)
    else if (server && server !== n) server.children.push(n)
    else if (n.parent === '') roots.push(n)
    else if (n.kind === 'called' || !guess(n, called)) {
      n.notes.push('orphan')
      roots.push(n)
    }
  }
  return flatten(roots, nodes, second)
}

// guess finds the attempt of a call whose spans have IDs of their own, as OpenTelemetry's do.
function guess(n: Node, called: ReadonlyMap<string, Node>): boolean {
  for (const c of called.values()) {
    if (c.method === n.method && c.children.some((a) => a.kind !== 'served' && a.instance === n.process && a.children.length === 0)) {
      n.notes.push('placed')
      return place(n, c)
    }
  }
  return false
}

function flatten(roots: readonly Node[], nodes: readonly Node[], second: number): Waterfall {
  const all: { n: Node; depth: number }[] = []
  let skew = 0
  const visited = new Set<Node>() // IDs may go in a circle, by a fault of a program
  const visit = (n: Node, depth: number, parent: Node | undefined) => {
    if (visited.has(n)) return
    visited.add(n)
    if (parent && n.kind === 'served' && parent.process !== n.process) {
      const off = Math.max(parent.began - n.began, n.began + n.took - parent.began - parent.took)
      if (off > tolerance) {
        n.notes.push('clock')
        skew = Math.max(skew, off)
      }
    }
    all.push({ n, depth })
    for (const c of [...n.children].sort((a, b) => a.began - b.began || a.n - b.n)) visit(c, depth + 1, n)
  }
  for (const r of [...roots].sort((a, b) => a.began - b.began)) visit(r, 0, undefined)
  for (const n of nodes) {
    if (visited.has(n)) continue
    n.notes.push('orphan')
    visit(n, 0, undefined)
  }
  const first = Math.min(...all.map(({ n }) => n.began))
  const last = Math.max(...all.map(({ n }) => n.began + n.took))
  const lines = all.map(({ n, depth }): Line => {
    const { children, span: _, ...rest } = n
    const parts = gaps(n.began, n.began + n.took, children).map(([a, b]) => [a - first, b - first] as const)
    return { ...rest, depth, began: n.began - first, parts, own: parts.reduce((sum, [a, b]) => sum + b - a, 0) }
  })
  if (lines.length === 0) return { lines, length: 0, processes: 0, began: '', skew: 0 }
  return {
    lines, length: last - first, processes: new Set(lines.map((l) => l.list + '\n' + l.process)).size, began: new Date(second * 1000 + Math.floor(first / 1e6)).toISOString(), skew,
  }
}

// gaps returns the intervals from a to b in which none of the children ran.
function gaps(a: number, b: number, children: readonly Node[]): [number, number][] {
  const out: [number, number][] = []
  let at = a
  for (const c of [...children].sort((x, y) => x.began - y.began)) {
    if (c.began >= b) break
    if (c.began > at) out.push([at, c.began])
    at = Math.max(at, Math.min(b, c.began + c.took))
  }
  if (at < b) out.push([at, b])
  return out
}

// ticks returns round times for an axis, at most six.
export function ticks(length: number): number[] {
  if (length <= 0) return []
  const power = 10 ** Math.floor(Math.log10(length / 5))
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => length / s <= 6) ?? power * 10
  return Array.from({ length: Math.floor(length / step + 1e-9) + 1 }, (_, i) => i * step)
}

// traceLink returns the address of a trace in another program.
export function traceLink(template: string | undefined, trace: string): { url: string; host: string } | undefined {
  if (!template) return undefined
  try {
    const url = new URL(template.replaceAll('{trace}', encodeURIComponent(trace)))
    return url.protocol === 'http:' || url.protocol === 'https:' ? { url: url.href, host: url.host } : undefined
  } catch {
    return undefined
  }
}
