import { isFields, isList, isNumber, Num, type Json } from './json.ts'

// Schema is what is used of a JSON Schema.
export interface Schema {
  $ref?: string
  type?: string | readonly string[]
  properties?: Readonly<Record<string, Schema>>
  additionalProperties?: Schema | boolean
  items?: Schema
  prefixItems?: readonly Schema[]
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  minimum?: number
  maximum?: number
  format?: string
  contentEncoding?: string
  maxProperties?: number
}

export type Definitions = Readonly<Record<string, Schema>>

// Shape is how a value is entered.
export type Shape = 'boolean' | 'integer' | 'long' | 'number' | 'text' | 'time' | 'base64' | 'choice' | 'list' | 'tuple' | 'object' | 'map' | 'nothing' | 'any'

// resolve follows references.
export function resolve(schema: Schema | undefined, definitions: Definitions): Schema {
  let s = schema ?? {}
  for (let i = 0; i < 32 && s.$ref; i++) s = definitions[s.$ref.replace(/^#\/definitions\//, '')] ?? {}
  return s
}

function typesOf(s: Schema): readonly string[] {
  return (typeof s.type === 'string' ? [s.type] : s.type ?? []).filter((t) => t !== 'null')
}

// choices are the names of an enum; Protocol Buffers allow numbers besides.
export function choices(s: Schema): readonly string[] {
  return (s.enum ?? s.anyOf?.find((a) => a.enum)?.enum ?? []).filter((v): v is string => typeof v === 'string')
}

const simple: Readonly<Record<string, Shape>> = { boolean: 'boolean', integer: 'integer', number: 'number', array: 'list', object: 'object' }

export function shapeOf(s: Schema): Shape {
  if (choices(s).length > 0) return 'choice'
  const types = typesOf(s)
  const first = types[0]
  if (first === undefined) return 'any'
  if (types.includes('string') && types.includes('integer')) return 'long' // a 64-bit integer of Protocol Buffers is a string
  if (first === 'array' && s.prefixItems) return 'tuple'
  if (first === 'object' && s.maxProperties === 0) return 'nothing'
  if (first === 'object' && typeof s.additionalProperties === 'object') return 'map'
  if (first === 'object' && !s.properties) return 'any'
  if (first !== 'string') return simple[first] ?? 'any'
  return s.contentEncoding === 'base64' ? 'base64' : s.format === 'date-time' ? 'time' : 'text'
}

const deepest = 2 // objects in objects that a new value has

// zero is the value with which a field begins.
export function zero(schema: Schema | undefined, definitions: Definitions, depth = 0): Json {
  const s = resolve(schema, definitions)
  switch (shapeOf(s)) {
    case 'boolean': return false
    case 'integer': case 'number': return new Num('0')
    case 'long': return '0'
    case 'text': case 'base64': return ''
    case 'time': return new Date().toISOString().slice(0, 10) + 'T00:00:00Z' // today
    case 'choice': return choices(s)[0] ?? ''
    case 'list': return []
    case 'tuple': return (s.prefixItems ?? []).map((p) => zero(p, definitions, depth))
    case 'map': return new Map()
    case 'object':
      return new Map(depth >= deepest ? [] : Object.entries(s.properties ?? {}).map(([name, p]) => [name, zero(p, definitions, depth + 1)] as const))
    case 'nothing': case 'any': return null
  }
}

// problem says why a text is no value of an integer or number field: "number", "range", or none.
export function problem(text: string, s: Schema): 'number' | 'range' | undefined {
  if (!isNumber(text)) return 'number'
  if (shapeOf(s) === 'number') return undefined
  if (!/^-?\d+$/.test(text)) return 'number'
  // The limits are read from JSON as floats, so those of 64 bits are rounded up.
  const value = BigInt(text)
  const [low, high] = [bound(s.minimum), bound(s.maximum)]
  return (low !== undefined && value < low) || (high !== undefined && value > high) ? 'range' : undefined
}

function bound(n: number | undefined): bigint | undefined {
  if (n === undefined) return undefined
  if (n >= 2 ** 64) return 2n ** 64n - 1n
  if (n >= 2 ** 63) return n === 2 ** 63 ? 2n ** 63n - 1n : BigInt(n)
  return BigInt(n)
}

// fits tells whether a value can be edited in a field of the schema; other values are edited as JSON.
export function fits(value: Json, s: Schema): boolean {
  switch (shapeOf(s)) {
    case 'boolean': return typeof value === 'boolean'
    case 'integer': case 'number': return value instanceof Num
    case 'long': return typeof value === 'string' || value instanceof Num
    case 'text': case 'base64': case 'time': case 'choice': return typeof value === 'string'
    case 'list': return isList(value)
    case 'tuple': return isList(value) && value.length === (s.prefixItems?.length ?? 0)
    case 'map': case 'object': return isFields(value)
    case 'nothing': return value === null
    case 'any': return false
  }
}

// isBase64 tells whether a text is what Go accepts as bytes.
export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}

// exact returns a schema as it is shown: the largest 64-bit integers, which a browser has rounded up,
// as they were.
export function exact(value: unknown): Json {
  if (typeof value === 'number') return new Num(String(value === 2 ** 63 || value === 2 ** 64 ? BigInt(value) - 1n : value === -(2 ** 63) ? BigInt(value) : value))
  if (Array.isArray(value)) return value.map(exact)
  if (typeof value === 'object' && value !== null) return new Map(Object.entries(value).map(([k, v]) => [k, exact(v)] as const))
  return typeof value === 'string' || typeof value === 'boolean' ? value : null
}
