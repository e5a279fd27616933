import type { CallAnswer, CallRequest, MethodSchema, Playground } from '../api/types.ts'
import { isList, Num, parse, print, type Json } from '../play/json.ts'
import type { Entry } from './data.ts'

const text = { type: ['string', 'null'] }
const item = { $ref: '#/definitions/Item' }

const definitions = {
  Item: {
    type: ['object', 'null'],
    properties: {
      id: { type: ['integer', 'null'], minimum: 0, maximum: 18446744073709551615 },
      name: text,
      price: { type: ['number', 'null'] },
      kind: { anyOf: [{ enum: ['BOOK', 'TOY', 'FOOD'] }, { type: ['string', 'null'] }, { type: 'integer' }] },
      gift: { type: ['boolean', 'null'] },
      photo: { type: ['string', 'null'], contentEncoding: 'base64', format: 'byte' },
      labels: { type: ['object', 'null'], additionalProperties: text },
      bought: { type: ['string', 'null'], format: 'date-time' },
      parts: { type: ['array', 'null'], items: item },
    },
  },
  Key: { type: ['object', 'null'], properties: { id: { type: ['integer', 'null'], minimum: -(2 ** 63), maximum: 2 ** 63 } } },
}

function methods(e: Entry): MethodSchema[] {
  return e.methods.map((method): MethodSchema => {
    const base = { method, kind: 'unary', arguments: 1, request: { $ref: '#/definitions/Key' }, response: item }
    switch (method.split('.').pop()) {
      case 'Add': return { ...base, request: item }
      case 'List': return { ...base, safe: true, arguments: 2, request: { type: 'array', prefixItems: [text, { type: ['integer', 'null'], minimum: 0, maximum: 255 }], minItems: 2, maxItems: 2 }, response: { type: ['array', 'null'], items: item } }
      case 'Remove': return { ...base, response: { type: ['object', 'null'], maxProperties: 0 } }
      case 'Watch': return { ...base, kind: 'bidirectional' }
      default: return { ...base, safe: true }
    }
  })
}

export function playground(e: Entry): Playground {
  return {
    services: [e.row.service], protocols: ['connect', 'grpc', 'jsonrpc', 'tandem'], described: e.instances[0]?.id ?? '',
    instances: e.instances.map((i) => ({
      id: i.id, state: i.state, protocols: ['tandem', 'grpc', 'connect', 'jsonrpc'],
      targets: Object.fromEntries(['tandem', 'grpc', 'connect', 'jsonrpc'].map((p) => [p, `${p === 'tandem' ? 'tcp' : p}://${i.endpoints?.[0]?.address}`])),
    })),
    schema: { methods: methods(e), definitions },
  }
}

// answer is how a call ends: Get fails for the ID 404.
export function answer(e: Entry, request: CallRequest, now: number): CallAnswer {
  const instance = request.instance || (e.instances.find((i) => i.state === 'enabled')?.id ?? '')
  const base = { instance, began: new Date(now).toISOString(), took: e.row.p99 / 3, sent: (request.arguments ?? '').length, received: 0 }
  const last = request.method.split('.').pop()
  const given = request.arguments ? parse(request.arguments) : null
  const id = given instanceof Map ? (given as ReadonlyMap<string, Json>).get('id') : undefined
  if (last === 'Get' && id instanceof Num && id.text === '404') return { ...base, code: 'not found', message: 'no item 404', remote: true, details: [{ type: 'shop.v1.Missing', value: btoa('404') }] }
  const result = last === 'Remove' ? '' : last === 'List' ? '[{"id":1},{"id":9007199254740993}]' : last === 'Add' ? print(given, false) : `{"id":${id instanceof Num ? id.text : 0},"name":"a book","price":12.5,"kind":"BOOK"}`
  return { ...base, code: 'ok', result, received: result.length, metadata: { 'x-cache': ['miss'] } }
}

// reply is what a stream answers a message with.
export function reply(message: string): string {
  const value = parse(message)
  return print(isList(value) ? value : new Map<string, Json>([['seen', value]]), false)
}
