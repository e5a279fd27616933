import { describe, expect, it } from 'vitest'
import { readFileSync } from 'node:fs'
import type { Access, Gathered, PolicyView, SpanAttempt, TracedSpan } from '../src/api/types.ts'
import { Mock } from '../src/mock/server.ts'
import { at, groupOf, inherited, isSchema, mapOf, routesOf, set, sourceOf, valueOf, write, type Field } from '../src/policy-form.ts'
import { nanos, secondOf, ticks, traceLink, waterfall } from '../src/waterfall.ts'

const second = '2026-11-26T10:00:00'
const when = (ms: number) => `${second}.${String(Math.round(ms * 1e6)).padStart(9, '0')}+08:00`
const span = (id: string, began: number, took: number, more: Partial<TracedSpan> = {}): TracedSpan => ({ list: 'l', instance: 'a', trace: 't', span: id, method: 'M.A', began: when(began), took: took * 1e6, code: 'ok', ...more })
const attempt = (instance: string, began: number, took: number, error?: string): SpanAttempt => ({ instance, began: when(began), took: took * 1e6, ...(error ? { error } : {}) })
const shape = (spans: TracedSpan[]) => waterfall(spans).lines.map((l) => '  '.repeat(l.depth) + [l.kind, l.kind === 'called' || l.kind === 'served' ? l.process : l.instance, ...l.notes].join(' '))

describe('waterfall', () => {
  it('times are exact to the nanosecond', () => {
    const base = secondOf('2026-11-26T10:00:00.1+08:00')
    expect(nanos('2026-11-26T10:00:01.000000007+08:00', base)).toBe(1_000_000_007)
    expect(nanos('2026-11-26T02:00:00.25Z', base)).toBe(250_000_000)
  })

  const client = span('1', 1, 20, { client: 'x', attempts: [attempt('s2', 12, 9), attempt('s1', 1, 6, 'gone')] })
  it('retries are siblings, with the servers\' parts below them', () => {
    expect(shape([span('0', 0, 22), { ...client, parent: '0' }, span('3', 13, 7, { parent: '1', instance: 's2' }), span('2', 2, 4, { parent: '1', instance: 's1', code: 'unavailable' })])).toEqual([
      'served a', '  called a', '    attempt s1', '      served s1', '    retry s2', '      served s2',
    ])
    const lines = waterfall([client]).lines
    expect(lines.map((l) => l.own / 1e6)).toEqual([5, 6, 9])
    expect(lines[0]?.parts.map(([a, b]) => [a / 1e6, b / 1e6])).toEqual([[6, 11]]) // the pause before the retry
    expect(lines[1]?.code).toBe('failed')
  })

  it('an attempt that begins before the one before ends is a hedge, also at the same instance', () => {
    const hedged = span('1', 0, 10, { client: 'x', attempts: [attempt('s1', 0, 12), attempt('s1', 4, 6)] })
    expect(shape([hedged, span('2', 0.1, 8, { parent: '1', instance: 's1' }), span('3', 5, 4, { parent: '1', instance: 's1' })])).toEqual([
      'called a', '  attempt s1', '    served s1', '  hedge s1', '    served s1',
    ])
  })

  it('a clock that is off is said, and moves nothing', () => {
    const fall = waterfall([client, span('2', 300, 4, { parent: '1', instance: 's1' })])
    expect(fall.lines[2]?.notes).toEqual(['clock'])
    expect(fall.lines[2]?.began).toBe(299e6)
    expect(fall.length).toBe(303e6)
    expect(fall.skew).toBe(297e6)
    // What takes a little longer at its own process is not off.
    expect(shape([client, span('2', 0.96, 6, { parent: '1', instance: 's1' })])[2]).toBe('    served s1')
  })

  it('a part without its caller is said, or put below the attempt that went there', () => {
    expect(shape([span('9', 3, 1, { parent: '77', instance: 's5' })])).toEqual(['served s5 orphan'])
    expect(shape([client, span('9', 13, 1, { parent: '77', instance: 's2' })])).toEqual(['called a', '  attempt s1', '  retry s2', '    served s2 placed'])
  })

  it('what comes twice is there once, and circles end', () => {
    expect(shape([client, client])).toHaveLength(3)
    expect(shape([span('1', 0, 1, { parent: '2' }), span('2', 0, 1, { parent: '1' })])).toEqual(['served a orphan', '  served a'])
  })

  it('the axis has round times', () => {
    expect(ticks(24e6)).toEqual([0, 5e6, 10e6, 15e6, 20e6])
    expect(ticks(1e9).length).toBeLessThanOrEqual(6)
    expect(ticks(0)).toEqual([])
  })

  it('a trace is linked to by http only', () => {
    expect(traceLink('https://j.example/trace/{trace}', 'ab')).toEqual({ url: 'https://j.example/trace/ab', host: 'j.example' })
    expect(traceLink('javascript:alert({trace})', '1')).toBeUndefined()
    expect(traceLink(undefined, '1')).toBeUndefined()
  })

  it('the mock has a retry, a hedge, a clock that is off, and a part without its caller', () => {
    const mock = new Mock(20, 200)
    const found = (mock.answer('Traces', { list: 'x', code: 'error' }) as Gathered).spans ?? []
    expect(found.every((s) => s.code !== 'ok')).toBe(true)
    const all = (mock.answer('Traces', {}) as Gathered).spans ?? []
    const kinds = new Set(all.flatMap((s) => waterfall((mock.answer('Trace', { trace: s.trace }) as Gathered).spans ?? []).lines.flatMap((l) => [l.kind, ...l.notes])))
    for (const kind of ['retry', 'hedge', 'clock', 'orphan'] as const) expect(kinds).toContain(kind)
  })
})

const schema = JSON.parse(readFileSync(new URL('../../../docs/policy.schema.json', import.meta.url), 'utf8')) as unknown
if (!isSchema(schema)) throw new Error('no schema')

describe('the form of policies', () => {
  const field = (kind: Field['kind']): Field => ({ name: 'x', kind, choices: [], min: 0, max: 1, example: '', required: false })

  it('has the fields of the schema', () => {
    const top = groupOf('', schema)
    expect(top.groups.map((g) => g.name).sort()).toEqual(['balancer', 'default', 'ejection', 'retryBudget'])
    const method = top.groups.find((g) => g.name === 'default')
    expect(Object.fromEntries(method?.fields.map((f) => [f.name, f.kind]) ?? [])).toEqual({ attemptTimeout: 'duration', failMode: 'choice', idempotent: 'truth', retries: 'whole', timeout: 'duration' })
    expect(method?.groups[0]?.fields.find((f) => f.name === 'failureRate')?.kind).toBe('number')
    expect(top.groups.find((g) => g.name === 'retryBudget')?.fields.every((f) => f.required)).toBe(true)
    expect(mapOf(schema, 'methods')?.group.fields.find((f) => f.name === 'retries')?.max).toBe(10)
    expect(JSON.stringify(top)).not.toContain('"revision"')
  })

  it('shows routes, has no field for them, and keeps them', () => {
    const text = '{"default": {"timeout": "2s"}, "routes": [{"name": "canary", "match": {"methods": ["Cart.*"]}, "to": [{"version": "2", "weight": 5}, {}], "fallback": [{"version": "1"}], "ifEmpty": "anywhere"}, {"name": "rest", "to": [{}]}]}'
    const source = sourceOf(text, undefined)
    expect(source.how).toBe('direct')
    expect(groupOf('', schema).fields.map((f) => f.name)).not.toContain('routes')
    expect(routesOf(source.value)).toEqual([
      { name: 'canary', match: 'methods Cart.*', to: '(version 2, weight 5) | (*)', fallback: '(version 1); anywhere' },
      { name: 'rest', match: '', to: '(*)', fallback: '' },
    ])
    const next = set(source.value, ['default', 'timeout'], '1s')
    expect(next['routes']).toEqual(source.value['routes'])
    expect(Object.keys(next)).toEqual(['default', 'routes'])
  })

  it('changes one value, and keeps the rest with its order', () => {
    const text = '{"version": "a \\u003c b", "x-note": [1, {"deep": null}], "default": {"timeout": "2s", "retries": 2}}'
    const source = sourceOf(text, undefined)
    expect(source.how).toBe('direct')
    const next = set(source.value, ['default', 'timeout'], '1s')
    expect(write(next, text)).toBe(JSON.stringify({ version: 'a < b', 'x-note': [1, { deep: null }], default: { timeout: '1s', retries: 2 } }, null, 2))
    expect(set(set(next, ['default', 'timeout'], undefined), ['default', 'retries'], undefined)).not.toHaveProperty('default')
    expect(set({}, ['methods', 'A.B', 'breaker', 'off'], true)).toEqual({ methods: { 'A.B': { breaker: { off: true } } } })
    expect(at(next, ['default', 'retries'])).toBe(2)
    expect(at(next, ['toString', 'call'])).toBeUndefined()
    expect(set({ methods: { 'A.B': { retries: 1 } } }, ['methods', 'A.B'], undefined)).toEqual({})
  })

  it('asks before it would lose something, and leaves alone what it can\'t read', () => {
    expect(sourceOf('', undefined)).toEqual({ value: {}, how: 'direct', comments: 0 })
    const yaml = '# first\ndefault:\n  timeout: 2s # slow disks\n'
    expect(sourceOf(yaml, '{"default":{"timeout":"2s"}}')).toEqual({ value: { default: { timeout: '2s' } }, how: 'rewrite', comments: 2 })
    expect(sourceOf(yaml, undefined).how).toBe('broken')
    expect(sourceOf('{"a": 1, "a": 2}', undefined).how).toBe('rewrite') // one of them would be lost
    expect(sourceOf('{"a": 1.0}', undefined).how).toBe('rewrite')
    expect(sourceOf('[1]', undefined).how).toBe('broken')
    expect(sourceOf('{"a": ', undefined).how).toBe('broken')
  })

  it('reads fields', () => {
    expect(valueOf(field('whole'), ' 3 ')).toBe(3)
    expect(valueOf(field('whole'), 'three')).toBe('three') // which the console refuses
    expect(valueOf(field('truth'), 'false')).toBe(false)
    expect(valueOf(field('duration'), ' ')).toBeUndefined()
    const policy = { default: { timeout: '2s', retries: 1 }, methods: { 'Cart.*': { timeout: '1s' } } }
    expect(inherited(policy, 'Cart.Add', ['timeout'])).toEqual({ value: '1s', from: 'Cart.*' })
    expect(inherited(policy, 'Cart.*', ['timeout'])).toEqual({ value: '2s', from: 'default' })
    expect(inherited(policy, 'Cart.Add', ['retries'])).toEqual({ value: 1, from: 'default' })
  })

  it('the mock reads YAML as the console does', () => {
    const mock = new Mock(20, 200)
    const list = 'etcd://10.0.0.5:2379/shop/Cart'
    const read = (text: string) => mock.answer('PutPolicy', { list, key: '', text, base: '3', why: '', dryRun: true }) as PolicyView
    expect(JSON.parse(read('default:\n  timeout: 2s # x\n  retries: 2\n').text)).toEqual({ default: { timeout: '2s', retries: 2 } })
    expect(read('- :').error).toContain('expected')
  })
})

it('the mock shows sessions to administrators only', () => {
  const mock = new Mock(20, 200)
  expect((mock.answer('Access', {}) as Access).sessions).toBeUndefined()
  mock.role = 'administrator'
  expect((mock.answer('Access', {}) as Access).sessions).toHaveLength(4)
  mock.answer('RefuseUser', { name: 'bob', why: 'left' })
  expect((mock.answer('Access', {}) as Access).sessions).toHaveLength(2)
})
