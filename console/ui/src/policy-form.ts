// The fields of a policy as a form, which is made from the policy's JSON Schema, and edits the text.

export interface Schema {
  type?: string
  enum?: readonly string[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  examples?: readonly string[]
  properties?: Readonly<Record<string, Schema>>
  additionalProperties?: Schema | boolean
  propertyNames?: { pattern?: string }
  required?: readonly string[]
}

export type Value = string | number | boolean
export type Path = readonly string[]

export interface Field {
  name: string
  kind: 'choice' | 'truth' | 'whole' | 'number' | 'duration' | 'text'
  choices: readonly string[]
  min: number | undefined
  max: number | undefined
  example: string
  required: boolean
}

// Group is an object of the schema: its fields, and the objects in it.
export interface Group {
  name: string
  fields: readonly Field[]
  groups: readonly Group[]
}

// isSchema tells whether a policy's schema is there.
export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && 'properties' in value
}

// What is not a setting: the console writes it.
const hidden = new Set(['change'])

// What people look for first. The schema has names in the order of the alphabet.
const order = [
  'version', 'default', 'methods', 'balancer', 'retryBudget', 'ejection', 'pick', 'timeout', 'attemptTimeout', 'failMode', 'retries', 'idempotent', 'off', 'consecutive', 'minCalls', 'failureRate', 'window', 'pause', 'maxPause',
]

function rank(name: string): number {
  const i = order.indexOf(name)
  return i < 0 ? order.length : i
}

// groupOf returns the form of an object. Maps, such as the methods, are not in it: see mapOf. Nor are
// lists, such as the routes: see routesOf.
export function groupOf(name: string, schema: Schema): Group {
  const fields: Field[] = []
  const groups: Group[] = []
  for (const [key, s] of Object.entries(schema.properties ?? {}).sort(([a], [b]) => rank(a) - rank(b))) {
    if (hidden.has(key) || s.type === 'array') continue
    if (s.properties) groups.push(groupOf(key, s))
    else if (typeof s.additionalProperties !== 'object') fields.push(fieldOf(key, s, schema.required?.includes(key) === true))
  }
  return { name, fields, groups }
}

function fieldOf(name: string, s: Schema, required: boolean): Field {
  const example = s.examples?.[0] ?? ''
  return { name, kind: kindOf(s), choices: s.enum ?? [], min: s.minimum, max: s.maximum, example, required }
}

function kindOf(s: Schema): Field['kind'] {
  if (s.enum) return 'choice'
  if (s.type === 'boolean') return 'truth'
  if (s.type === 'integer') return 'whole'
  if (s.type === 'number') return 'number'
  return s.pattern && s.examples ? 'duration' : 'text'
}

// mapOf returns the form of what a map holds, and the pattern of its keys.
export function mapOf(schema: Schema, key: string): { group: Group; pattern: string } | undefined {
  const s = schema.properties?.[key]
  if (typeof s?.additionalProperties !== 'object') return undefined
  return { group: groupOf(key, s.additionalProperties), pattern: s.propertyNames?.pattern ?? '' }
}

// RouteLine is a route of a policy in a table.
export interface RouteLine {
  name: string
  match: string // "" for all calls
  to: string
  fallback: string // with what happens when all are empty
}

// routesOf returns the routes of a policy as lines. The form keeps them, and does not edit them.
export function routesOf(value: unknown): readonly RouteLine[] {
  const list = at(value, ['routes'])
  if (!Array.isArray(list)) return []
  return list.map((r: unknown) => ({
    name: String(at(r, ['name']) ?? ''), match: brief(at(r, ['match'])), to: brief(at(r, ['to'])),
    fallback: [brief(at(r, ['fallback'])), String(at(r, ['ifEmpty']) ?? '')].filter((s) => s !== '').join('; '),
  }))
}

// brief writes a value with few signs: {"version":"2","weight":5} is "version 2, weight 5".
function brief(value: unknown, nested = false): string {
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.map((v) => brief(v, true)).join(' | ')
  if (typeof value !== 'object') return String(value)
  const text = Object.entries(value).map(([k, v]) => `${k} ${brief(v, true)}`).join(', ')
  return nested ? `(${text || '*'})` : text
}

type Json = { [key: string]: Json } | readonly Json[] | string | number | boolean | null

function isObject(v: unknown): v is Record<string, Json> {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
}

// Source is what a form shows, and how it may change the text.
export interface Source {
  value: Record<string, unknown>
  // direct: the text is JSON, of which a change keeps all but white space. rewrite: comments and
  // the writing of the text would be lost. broken: the text has no value that the form could show.
  how: 'direct' | 'rewrite' | 'broken'
  comments: number // lines with comments that would be lost
}

// sourceOf reads a text. json is what the console has read, if the text is YAML.
export function sourceOf(text: string, json: string | undefined): Source {
  if (text.trim() === '') return { value: {}, how: 'direct', comments: 0 }
  const plain = parse(text)
  if (plain && JSON.stringify(plain) === squeeze(text)) return { value: plain, how: 'direct', comments: 0 }
  const read = plain ?? (json === undefined ? undefined : parse(json))
  if (!read) return { value: {}, how: 'broken', comments: 0 }
  return { value: read, how: 'rewrite', comments: plain ? 0 : text.split('\n').filter((l) => /(^|\s)#/.test(l)).length }
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

// squeeze drops the white space of JSON between its words, and writes strings without escapes that
// they don't need.
function squeeze(text: string): string {
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, word: string | undefined) => (word === undefined ? '' : JSON.stringify(JSON.parse(word))))
}

// write returns a value as the text of a document, which ends as the one before does.
export function write(value: unknown, before: string): string {
  return JSON.stringify(value, null, 2) + (before.endsWith('\n') ? '\n' : '')
}

// at returns the value at a path; undefined if there is none.
export function at(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((v, key) => (isObject(v) && Object.hasOwn(v, key) ? v[key] : undefined), value)
}

// set returns a policy with another value at a path; undefined removes it, and objects that are
// empty then. Other fields keep their values and their order.
export function set(value: unknown, path: Path, to: unknown): Record<string, unknown> {
  const [key, ...rest] = path
  const old: Record<string, unknown> = isObject(value) ? value : {}
  if (key === undefined) return old
  const inner = rest.length === 0 ? to : set(Object.hasOwn(old, key) ? old[key] : {}, rest, to)
  const empty = inner === undefined || (rest.length > 0 && to === undefined && isObject(inner) && Object.keys(inner).length === 0)
  const entries = Object.entries(old)
  if (empty) return Object.fromEntries(entries.filter(([k]) => k !== key))
  if (Object.hasOwn(old, key)) return Object.fromEntries(entries.map(([k, v]) => [k, k === key ? inner : v]))
  return Object.fromEntries([...entries, [key, inner]])
}

// valueOf returns what a field's text stands for, undefined for none. What is no number stays a
// text, which the console refuses with a reason.
export function valueOf(field: Field, text: string): Value | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  switch (field.kind) {
    case 'truth':
      return trimmed === 'true'
    case 'whole':
    case 'number':
      return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed
    default:
      return trimmed
  }
}

// inherited returns what a field of a method is without a value of its own, and where from.
export function inherited(policy: unknown, method: string, path: Path): { value: unknown; from: string } | undefined {
  const dot = method.lastIndexOf('.')
  const wide = method.slice(0, dot) + '.*'
  for (const [from, p] of [[wide, ['methods', wide, ...path]], ['default', ['default', ...path]]] as const) {
    if (from === method) continue
    const value = at(policy, p)
    if (value !== undefined) return { value, from }
  }
  return undefined
}
