import { describe, expect, it } from 'vitest'
import type { CallRequest, MethodSchema, PlayInstance } from '../src/api/types.ts'
import { asCommand, asCurl, asGo, quote } from '../src/play/copy.ts'
import { readHistory, remember } from '../src/play/history.ts'
import { isNumber, Num, parse, pretty, print } from '../src/play/json.ts'
import { choices, exact, fits, isBase64, problem, resolve, shapeOf, zero, type Schema } from '../src/play/schema.ts'

describe('JSON', () => {
  it('keeps all digits, and the order of fields', () => {
    for (const text of ['9007199254740993', '-0', '1.50', '1e400', '"\\u0000é"', '[]', '{}', '[1,[2,{"b":null,"a":true,"10":false}]]']) {
      expect(print(parse(text), false)).toBe(text)
    }
    expect(pretty('{"b":[1,{"a":{}}]}')).toBe('{\n  "b": [\n    1,\n    {\n      "a": {}\n    }\n  ]\n}')
    expect(pretty('{')).toBe('{')
  })
  it('says where a text is wrong', () => {
    expect(() => parse('{"a": 01}')).toThrow('line 1, column 8: "1"')
    expect(() => parse('[1,\n 2')).toThrow('line 2, column 3: the end')
    for (const bad of ['', '[1,]', '{a:1}', '"\n"', '+1', '.5', '1 2', 'nul', '{"a":1,}', '['.repeat(1000)]) expect(() => parse(bad), bad).toThrow(SyntaxError)
    expect(isNumber('1.')).toBe(false)
  })
})

const text: Schema = { type: ['string', 'null'] }
const int64: Schema = { type: ['integer', 'null'], minimum: -(2 ** 63), maximum: 2 ** 63 }
const uint64: Schema = { type: ['integer', 'null'], minimum: 0, maximum: 2 ** 64 }
const long: Schema = { type: ['string', 'integer', 'null'], minimum: -(2 ** 63), maximum: 2 ** 63 }
const definitions = { Tree: { type: ['object', 'null'], properties: { name: text, children: { type: ['array', 'null'], items: { $ref: '#/definitions/Tree' } }, parent: { $ref: '#/definitions/Tree' } } } }

describe('schemas', () => {
  it('have shapes', () => {
    const shapes: [Schema, string][] = [
      [{}, 'any'], [text, 'text'], [int64, 'integer'], [long, 'long'], [{ type: ['number', 'string', 'null'] }, 'number'], [{ type: 'boolean' }, 'boolean'],
      [{ type: ['string', 'null'], contentEncoding: 'base64' }, 'base64'], [{ type: 'string', format: 'date-time' }, 'time'],
      [{ anyOf: [{ enum: ['A', 'B'] }, { type: 'integer' }] }, 'choice'], [{ type: 'array', items: text }, 'list'], [{ type: 'array', prefixItems: [text] }, 'tuple'],
      [{ type: ['object', 'null'], additionalProperties: text }, 'map'], [{ type: 'object', maxProperties: 0 }, 'nothing'], [{ type: 'object' }, 'any'], [definitions.Tree, 'object'],
    ]
    for (const [schema, shape] of shapes) {
      expect(shapeOf(schema), JSON.stringify(schema)).toBe(shape)
      if (shape !== 'any') expect(fits(zero(schema, definitions), schema), shape).toBe(true)
    }
    expect(choices({ enum: ['A', 1] })).toEqual(['A'])
    expect(resolve({ $ref: '#/definitions/No' }, definitions)).toEqual({})
  })
  it('begin with a value that ends', () => {
    expect(print(zero({ $ref: '#/definitions/Tree' }, definitions), false)).toBe('{"name":"","children":[],"parent":{"name":"","children":[],"parent":{}}}')
  })
  it('bound 64-bit integers exactly', () => {
    expect([problem('9223372036854775807', int64), problem('9223372036854775808', int64), problem('-9223372036854775808', int64), problem('-9223372036854775809', int64)]).toEqual([undefined, 'range', undefined, 'range'])
    expect([problem('18446744073709551615', uint64), problem('18446744073709551616', uint64), problem('-1', uint64)]).toEqual([undefined, 'range', 'range'])
    expect([problem('1.5', int64), problem('', int64), problem('1.5', { type: 'number' }), problem('x', { type: 'number' })]).toEqual(['number', 'number', undefined, 'number'])
    expect([isBase64(''), isBase64('YQ=='), isBase64('YQ='), isBase64('!!!!')]).toEqual([true, true, false, false])
    expect(fits(new Num('1'), text)).toBe(false)
    expect(print(exact(JSON.parse('[18446744073709551615,9223372036854775807,-9223372036854775808,255,1.5,{"a":null,"b":"x","c":true}]')), false)).toBe('[18446744073709551615,9223372036854775807,-9223372036854775808,255,1.5,{"a":null,"b":"x","c":true}]')
  })
})

const request: CallRequest = { list: 'etcd://h:2379/shop/Cart', method: 'Cart.Add', arguments: '{\n  "name": "it\'s"\n}', metadata: [{ key: 'region', value: 'hz a' }], timeout: 2.5e9 }
const unary: MethodSchema = { method: 'Cart.Add', kind: 'unary', arguments: 1, request: {}, response: {} }
const instances: PlayInstance[] = [
  { id: 'off', state: 'disabled', protocols: ['tandem'], targets: { tandem: 'tcp://10.0.0.1:1', connect: 'connect://10.0.0.1:1' } },
  { id: 'on', state: 'enabled', protocols: ['tandem', 'grpc'], targets: { tandem: 'tcp://10.0.0.2:2', grpc: 'grpc://10.0.0.2:2' } },
]

describe('copies', () => {
  it('quote what a shell would read', () => {
    expect([quote('a-b.c'), quote(''), quote("it's $HOME"), quote('a\nb')]).toEqual(['a-b.c', "''", "'it'\\''s $HOME'", "'a\nb'"])
  })
  it('are a command', () => {
    expect(asCommand(request, unary, instances)).toBe(`tandem call --timeout 2.5s --metadata 'region=hz a' -- etcd://h:2379/shop/Cart Cart.Add '{"name":"it'\\''s"}'`)
    expect(asCommand({ list: 'l', method: 'M.S', protocol: 'grpc' }, { ...unary, kind: 'bidirectional' }, instances)).toBe('tandem call --stream -- grpc://10.0.0.2:2 M.S')
    expect(asCommand({ list: 'l', method: 'M.D', instance: 'off', several: true, arguments: '[1, 2]' }, unary, instances)).toBe("tandem call --several -- tcp://10.0.0.1:1 M.D '[1,2]'")
    expect(asCommand({ list: 'l', method: 'M.D', protocol: 'jsonrpc' }, unary, instances)).toBeUndefined()
  })
  it('are a request of curl', () => {
    expect(asCurl(request, unary, instances)).toBe(`curl -sS --max-time 2.5 -H 'region: hz a' -H 'Content-Type: application/json' --data-raw '{"name":"it'\\''s"}' http://10.0.0.2:2/Cart/Add`)
    expect(asCurl({ ...request, instance: 'off', method: 'a.b.C.D' }, unary, instances)).toContain('http://10.0.0.1:1/a.b.C/D')
    expect(asCurl(request, { ...unary, kind: 'server stream' }, instances)).toBeUndefined()
  })
  it('are a program', () => {
    const go = asGo(request, unary, instances) ?? ''
    for (const part of ['client.WithResolver("etcd", etcd.Resolver())', 'c.Call(ctx, "Cart.Add", json.RawMessage(`{"name":"it\'s"}`), &reply, client.Timeout(2500*time.Millisecond), client.Metadata("region", "hz a"))']) expect(go).toContain(part)
    expect(go).not.toContain('"errors"')
    const two = { type: 'array', prefixItems: [{}, {}] }
    expect(asGo({ list: 'l', method: 'M.D', instance: 'on', several: true, arguments: '[1,"x"]' }, { ...unary, arguments: 2, response: two }, instances)).toContain('tandem.Args{json.RawMessage(`1`), json.RawMessage(`"x"`)}, tandem.Results{&reply[0], &reply[1]}')
    expect(asGo({ list: 'l', method: 'M.S', instance: 'on', protocol: 'grpc', arguments: '1' }, { ...unary, kind: 'bidirectional' }, instances)).toContain('errors.Is(err, io.EOF)')
  })
})

describe('the history', () => {
  it('keeps the last 50 calls without secrets', () => {
    const kept = new Map<string, string>()
    const storage = { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v) }
    const metadata = ['Authorization', 'cookie', 'x-token', 'API-Key', 'region'].map((key) => ({ key, value: 'v-' + key }))
    for (let i = 0; i < 60; i++) remember({ at: i, request: { ...request, method: 'M.' + i, metadata, arguments: i === 58 ? 'x'.repeat(30_000) : '1' }, code: 'ok', took: 1 }, storage)
    const list = readHistory(storage)
    expect(list).toHaveLength(50)
    expect(list[0]?.request.method).toBe('M.59')
    expect(list[0]?.request.metadata).toEqual([{ key: 'region', value: 'v-region' }])
    expect(list[1]?.request.arguments).toBe('')
    expect([...kept.values()].join()).not.toMatch(/v-(Auth|cookie|x-token|API)/)
    expect(readHistory({ getItem: () => '{broken' })).toEqual([])
    expect(readHistory({ getItem: () => '[null, {"request": 7}]' })).toEqual([])
  })
})
