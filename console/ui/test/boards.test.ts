import { describe, expect, it } from 'vitest'
import type { Circuit, Entry, ResilienceRow } from '../src/api/types.ts'
import { en } from '../src/i18n/en.ts'
import { translate, type T } from '../src/i18n/index.tsx'
import { requestOf, whatOf } from '../src/screens/audit.tsx'
import { differs, registered } from '../src/screens/registry.tsx'
import { boardOf, stateOf, troubles, whyOf } from '../src/screens/resilience.tsx'
import { overrideOf, rowsOfTags, sameTags, tagsOfRows, tagText } from '../src/tags.ts'

const t: T = (key, values) => translate(en, key, values)

describe('tags', () => {
  it('only what differs is set, and what was set can end', () => {
    expect(overrideOf({ a: '1', b: '2' }, { a: '1', b: '3', c: '4' }, {})).toEqual({ b: '3', c: '4' })
    expect(overrideOf({ a: '1' }, {}, {})).toEqual({ a: '' })
    expect(overrideOf({ a: '1' }, { a: '1' }, {})).toEqual({})
    // The console drops what the instance has anyway, so that this ends the override.
    expect(overrideOf({ a: '1' }, { a: '1' }, { a: '9', x: 'y' })).toEqual({ a: '1', x: '' })
  })
  it('rows', () => {
    expect(rowsOfTags({ b: '2', a: '1' })).toEqual([{ name: 'a', value: '1' }, { name: 'b', value: '2' }])
    expect(tagsOfRows([{ name: ' a ', value: ' 1 ' }, { name: '', value: 'x' }])).toEqual({ tags: { a: '1' } })
    expect(tagsOfRows([{ name: 'a', value: '1' }, { name: 'a', value: '2' }]).twice).toBe('a')
    expect(sameTags({ a: '1' }, { a: '1' })).toBe(true)
    expect(sameTags({ a: '1' }, { b: '1' })).toBe(false)
    expect(tagText({ b: '2', a: '1' })).toBe('a=1 b=2')
    expect(tagText(null)).toBe('')
  })
})

const circuit = (of: Partial<Circuit>): Circuit => ({ id: 'i', breaker: 'closed', inFlight: 0, latency: 0, calls: 0, failed: 0, weight: 100, list: 'l', process: 'p', client: 'c', share: 0, ...of })

describe('resilience', () => {
  it('states', () => {
    expect(stateOf(t, circuit({}))).toEqual({ icon: 'enabled', text: 'closed' })
    expect(stateOf(t, circuit({ breaker: 'open', forced: '2026-11-26T10:00:00Z' }))).toEqual({ icon: 'unhealthy', text: 'forced open' })
    expect(stateOf(t, circuit({ breaker: 'half-open' })).text).toBe('half open')
    expect(stateOf(t, circuit({ suspect: 'x' })).icon).toBe('draining')
    expect(stateOf(t, circuit({ unusable: 'x' })).text).toBe('no calls')
    expect(stateOf(t, circuit({ breaker: 'ajar' })).text).toBe('ajar')
  })
  it('why', () => {
    expect(whyOf(circuit({ breakerWhy: 'a', unusable: 'b' }))).toBe('a · b')
    expect(whyOf(circuit({ forced: '2026-11-26T10:00:00Z', reason: 'r', unusable: 'b' }))).toBe('r')
  })
  it('board', () => {
    const b = boardOf([circuit({ id: 'y' }), circuit({ id: 'x', process: 'q', breaker: 'open' })])
    expect(b?.clients.map((c) => c.process)).toEqual(['p', 'q'])
    expect(b?.rows.map((r) => r.id + ':' + r.cells.map((c) => c?.breaker ?? '-').join())).toEqual(['x:-,open', 'y:closed,-'])
    expect(boardOf([])).toBeUndefined()
    expect(boardOf(Array.from({ length: 41 }, (_, i) => circuit({ id: String(i) })))).toBeUndefined()
  })
  it('troubles', () => {
    const row: ResilienceRow = { list: '', clients: 1, instances: 1, open: 2, halfOpen: 0, forced: 0, methods: 0, suspect: 0, panicking: 1, spent: 0, retriesRefused: 9, guarding: 0, refused: 9, trouble: 1 }
    expect(troubles(row)).toEqual([['resilience.panicking', 1], ['resilience.open', 2]])
  })
})

describe('registry', () => {
  const entry: Entry = { id: 'a', endpoints: [], listed: true, state: 'enabled', set: 100, seen: { ready: 2 }, unseen: [], missing: 0, version: '1' }
  it('differences', () => {
    expect(differs(t, entry)).toBe('')
    expect(differs(t, { ...entry, missing: 1 })).toBe('unknown to 1 client')
    expect(differs(t, { ...entry, listed: false })).toBe('not listed any more, known to 2 clients')
  })
  it('what is registered', () => expect(registered(entry)).toEqual({ id: 'a', endpoints: [], version: '1' }))
})

describe('audit', () => {
  it('the address is the request', () => {
    expect(requestOf({})).toEqual({ offset: 0, max: 100 })
    const r = requestOf({ q: 'x y', who: 'ann', kind: 'policy', list: 'l', page: '2', from: '2026-11-26T10:00', to: 'soon' })
    expect(r).toMatchObject({ text: 'x y', who: 'ann', kind: 'policy', list: 'l', offset: 200 })
    expect(r.from).toBe(new Date('2026-11-26T10:00').toISOString())
    expect(r.to).toBeUndefined()
    expect(requestOf({ page: '-3' }).offset).toBe(0)
  })
  it('what', () => {
    expect(whatOf({ list: '', kind: 'process', key: '', at: '', by: '', what: 'level', before: 'INFO', after: 'DEBUG' })).toBe('level: INFO → DEBUG')
    expect(whatOf({ list: '', kind: 'process', key: '', at: '', by: '', what: 'breaker of etcd://h:1/shop/Cart for c', before: 'auto', after: 'x' })).toBe('breaker of shop/Cart for c: auto → x')
    expect(whatOf({ list: '', kind: 'policy', key: '', at: '', by: '', what: 'w' })).toBe('w')
  })
})
