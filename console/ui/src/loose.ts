import { count, duration, time } from './format.ts'

// Some answers are passed on as an instance's admin API gives them, and may gain fields. They are
// shown as they come.

export interface Cell {
  name: string
  text: string
  sort: number | string
  end: boolean
}

// Names, in lower case, of fields that are durations in nanoseconds.
const durations = new Set(['rtt', 'took', 'age', 'waited', 'runningfor', 'timeout', 'latency'])

// Names of fields that are numbers, but no figures.
const numbers = new Set(['id', 'ID', 'connection', 'Connection'])

// rowsOf returns the rows of a list of objects. All rows have the fields of all.
export function rowsOf(value: unknown): Cell[][] {
  const list = Array.isArray(value) ? value : []
  const objects = (list as unknown[]).filter((v): v is Record<string, unknown> => typeof v === 'object' && v !== null).map(flat)
  const names = [...new Set(objects.flatMap((o) => Object.keys(o)))]
  const figures = new Set(names.filter((n) => !numbers.has(n) && objects.every((o) => o[n] === undefined || typeof o[n] === 'number')))
  return objects.map((o) => names.map((name) => cell(name, o[name], figures.has(name))))
}

// flat lifts the fields of objects inside: peer.address.
function flat(o: Record<string, unknown>): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const [name, v] of Object.entries(o)) {
    if (typeof v === 'object' && v !== null && !Array.isArray(v)) for (const [inner, w] of Object.entries(v)) out[name + '.' + inner] = w
    else out[name] = v
  }
  return out
}

function cell(name: string, v: unknown, end: boolean): Cell {
  const last = (name.split('.').at(-1) ?? name).toLowerCase()
  if (v === undefined || v === null || v === '') return { name, text: '–', sort: end ? -1 : '', end }
  if (typeof v === 'number') return { name, text: durations.has(last) ? duration(v) : end ? count(v) : String(v), sort: v, end }
  if (typeof v === 'string') return { name, text: /^\d{4}-\d\d-\d\dT/.test(v) ? time(v) : v, sort: v, end }
  if (Array.isArray(v) && typeof v[0] === 'object') return { name, text: count(v.length), sort: v.length, end }
  return { name, text: JSON.stringify(v), sort: JSON.stringify(v), end }
}
