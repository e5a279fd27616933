// JSON whose numbers keep all their digits: a browser's own parser rounds 64-bit integers.

// Num is a number as it is written.
export class Num {
  constructor(readonly text: string) {}
}

export type Fields = ReadonlyMap<string, Json>
export type Json = null | boolean | string | Num | readonly Json[] | Fields

const deepest = 200
const numberText = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const stringText = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const spaceText = /[ \t\n\r]*/y

export function isNumber(text: string): boolean {
  numberText.lastIndex = 0
  return numberText.exec(text)?.[0] === text && text !== ''
}

// parse reads a JSON text. It throws a SyntaxError that names the place.
export function parse(text: string): Json {
  const reader = new Reader(text)
  const value = reader.value(0)
  reader.space()
  if (reader.at < text.length) reader.fail()
  return value
}

class Reader {
  at = 0
  constructor(private readonly text: string) {}

  fail(): never {
    const before = this.text.slice(0, this.at).split('\n')
    const found = this.at < this.text.length ? JSON.stringify(this.text[this.at]) : 'the end'
    throw new SyntaxError(`line ${before.length}, column ${(before.at(-1) ?? '').length + 1}: ${found}`)
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0] ?? ''
    this.at += found.length
    return found
  }

  space() {
    this.match(spaceText)
  }

  private eat(token: string): boolean {
    this.space()
    if (!this.text.startsWith(token, this.at)) return false
    this.at += token.length
    return true
  }

  private string(): string {
    this.space()
    const found = this.match(stringText)
    return found === '' ? this.fail() : (JSON.parse(found) as string)
  }

  value(depth: number): Json {
    if (depth > deepest) this.fail()
    if (this.eat('{')) return this.object(depth)
    if (this.eat('[')) return this.array(depth)
    if (this.eat('null')) return null
    if (this.eat('true')) return true
    if (this.eat('false')) return false
    if (this.text[this.at] === '"') return this.string()
    const found = this.match(numberText)
    return found === '' ? this.fail() : new Num(found)
  }

  private object(depth: number): Json {
    const out = new Map<string, Json>()
    if (this.eat('}')) return out
    do {
      const name = this.string()
      if (!this.eat(':')) this.fail()
      out.set(name, this.value(depth + 1))
    } while (this.eat(','))
    return this.eat('}') ? out : this.fail()
  }

  private array(depth: number): Json {
    const out: Json[] = []
    if (this.eat(']')) return out
    do out.push(this.value(depth + 1)); while (this.eat(','))
    return this.eat(']') ? out : this.fail()
  }
}

export function isFields(value: Json): value is Fields {
  return value instanceof Map
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}

// print writes a value, with an indent of two spaces, or in one line.
export function print(value: Json, pretty = true, indent = ''): string {
  if (value instanceof Num) return value.text
  const inner = indent + '  '
  const [open, between, close] = pretty ? ['\n' + inner, ',\n' + inner, '\n' + indent] : ['', ',', '']
  if (isFields(value)) {
    if (value.size === 0) return '{}'
    return '{' + open + [...value].map(([k, v]) => JSON.stringify(k) + (pretty ? ': ' : ':') + print(v, pretty, inner)).join(between) + close + '}'
  }
  if (isList(value)) {
    if (value.length === 0) return '[]'
    return '[' + open + value.map((v) => print(v, pretty, inner)).join(between) + close + ']'
  }
  return JSON.stringify(value)
}

// pretty returns a JSON text with indents, and another text as it is.
export function pretty(text: string): string {
  try {
    return print(parse(text))
  } catch {
    return text
  }
}

// compact returns a JSON text in one line, and another text as it is.
export function compact(text: string): string {
  try {
    return print(parse(text), false)
  } catch {
    return text
  }
}
