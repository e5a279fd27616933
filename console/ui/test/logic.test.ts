import { describe, expect, it } from 'vitest'
import type { InstanceRow, ServiceRow } from '../src/api/types.ts'
import { diff } from '../src/diff.ts'
import { filterInstances, filterServices, words } from '../src/filter.ts'
import { bytes, count, duration, failedShare, rate, share, shortList, span, target, time } from '../src/format.ts'
import { en } from '../src/i18n/en.ts'
import { translate, type Key } from '../src/i18n/index.tsx'
import { zh } from '../src/i18n/zh.ts'
import { rowsOf } from '../src/loose.ts'
import { address, parse } from '../src/route.tsx'
import { editOf } from '../src/screens/edit.tsx'
import { find, type Hit } from '../src/screens/palette.tsx'
import { may, mayEdit, sourceOf } from '../src/session.tsx'
import { grid } from '../src/ui/heat.tsx'
import { sparkPath } from '../src/ui/spark.tsx'
import { stateName } from '../src/ui/state.tsx'
import { order, type Column } from '../src/ui/table.tsx'
import { inverse } from '../src/undo.ts'

describe('format', () => {
  it.each([[0, '–'], [undefined, '–'], [999, '999 ns'], [1000, '1.00 µs'], [850_000, '850 µs'], [999_900, '1.00 ms'], [1_234_567, '1.23 ms'], [98_760_000, '98.8 ms'], [1.5e9, '1.50 s'], [61e9, '1 min 1 s'], [300e9, '5 min']])('duration %s', (ns, text) => {
    expect(duration(ns)).toBe(text)
  })
  it.each([[0, '0'], [0.001, '<0.01'], [0.5, '0.50'], [9.999, '10.0'], [812.4, '812'], [999.6, '1.00 k'], [12_345, '12.3 k'], [1_480_000, '1.48 M']])('rate %s', (n, text) => {
    expect(rate(n)).toBe(text)
  })
  it.each([[0, '0%'], [0.00001, '<0.01%'], [0.0004, '0.04%'], [0.05, '5.00%'], [0.4567, '45.7%'], [0.9999, '>99.9%'], [1, '100%']])('share %s', (n, text) => {
    expect(share(n)).toBe(text)
  })
  it('others', () => {
    expect(count(1_234_567)).toBe('1\u202f234\u202f567')
    expect(count(999)).toBe('999')
    expect(bytes(183_402_112)).toBe('175 MiB')
    expect(bytes(12)).toBe('12 B')
    expect(failedShare({ rate: 200, errorRate: 1 })).toBe(0.005)
    expect(failedShare({ rate: 0, errorRate: 0 })).toBe(0)
    expect(span(0)).toBe('0 s')
    expect(span(90_061)).toBe('1 d 1 h')
    expect(shortList([])).toBe('–')
    expect(shortList(['a', 'b', 'c'])).toBe('a, b +1')
    expect(target('etcd://h:1,h:2/shop/Cart')).toEqual({ registry: 'etcd://h:1,h:2', path: 'shop/Cart' })
    expect(target('static')).toEqual({ registry: '', path: 'static' })
    expect(time('0001-01-01T00:00:00Z')).toBe('–')
    const t = new Date(2026, 10, 26, 9, 5, 7)
    expect(time(t.toISOString(), t)).toBe('09:05:07')
    expect(time(t.toISOString(), new Date(2026, 10, 27))).toBe('2026-11-26 09:05:07')
  })
})

const service = (s: Partial<ServiceRow>): ServiceRow => ({ source: 'etcd://h', list: 'etcd://h/shop/Cart', service: 'Cart', instances: { enabled: 2 }, versions: ['v1'], zones: ['a'], protocols: ['tandem'], rate: 0, errorRate: 0, p99: 0, overrides: 0, ...s })
const instance = (i: Partial<InstanceRow>): InstanceRow => ({ id: 'cart-1', endpoints: [{ transport: 'tcp', address: '10.0.0.1:90' }], list: 'l', state: 'enabled', set: 100, running: 0, rate: 0, errorRate: 0, p99: 0, admin: true, ...i })

describe('filter', () => {
  it('reads words', () => {
    expect(words(' A -zone:B x:y - ')).toEqual([{ not: false, key: '', text: 'a' }, { not: true, key: 'zone', text: 'b' }, { not: false, key: '', text: 'x:y' }])
  })
  it('of services', () => {
    const all = [service({}), service({ service: 'Order', list: 'etcd://h/shop/Order', zones: null, instances: { enabled: 1, disabled: 1, silent: 0 } })]
    const names = (f: string) => filterServices(all, f).map((s) => s.service)
    expect(names('')).toEqual(['Cart', 'Order'])
    expect(names('order')).toEqual(['Order'])
    expect(names('shop -order')).toEqual(['Cart'])
    expect(names('state:disabled')).toEqual(['Order'])
    expect(names('state:silent')).toEqual([])
    expect(names('disabled')).toEqual([]) // states need the key
    expect(names('-disabled')).toEqual(['Cart', 'Order'])
    expect(names('zone:a tandem')).toEqual(['Cart'])
  })
  it('of instances', () => {
    const all = [instance({ tags: { team: 'shop' }, zone: 'a' }), instance({ id: 'cart-2', state: 'draining', endpoints: null })]
    expect(filterInstances(all, 'state:drain').map((i) => i.id)).toEqual(['cart-2'])
    expect(filterInstances(all, 'tag:team=shop 10.0.0.1').map((i) => i.id)).toEqual(['cart-1'])
  })
})

describe('diff', () => {
  const text = (before: string, after: string) => diff(before, after).map((l) => ({ same: ' ', removed: '-', added: '+' })[l.kind] + l.text)
  it('of lines', () => {
    expect(text('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual([' a', '-b', '+x', ' c', '+d'])
    expect(text('', 'a\n')).toEqual(['+a'])
    expect(text('a', '')).toEqual(['-a'])
    expect(text('a\n', 'a\n')).toEqual([' a'])
  })
  it('of long texts is bounded', () => {
    const long = Array.from({ length: 3000 }, (_, i) => 'l' + i).join('\n')
    expect(diff(long, long).every((l) => l.kind === 'same')).toBe(true)
    expect(diff(long, 'x')).toHaveLength(3001)
  })
})

describe('texts', () => {
  it('have the same values in both languages', () => {
    const values = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]))].sort()
    for (const key of Object.keys(en) as Key[]) {
      expect(values(zh[key]), key).toEqual(values(en[key]))
      for (const form of en[key].split('|')) expect(form, key).not.toBe('')
    }
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort())
  })
  it('choose the form', () => {
    expect(translate(en, 'edit.left', { n: 1 })).toBe('1 instance will get calls')
    expect(translate(en, 'edit.left', { n: 0 })).toBe('0 instances will get calls')
    expect(translate(zh, 'edit.left', { n: 1 })).toBe('之后有 1 个实例接收调用')
  })
  it('are Chinese', () => {
    for (const [key, text] of Object.entries(zh)) expect(text, key).toMatch(/[\u4e00-\u9fff]|^(tandem|CPU)/)
  })
})

describe('addresses', () => {
  it('keep what they are given', () => {
    const params = { list: 'etcd://h:1/shop/Cart?x=1', service: 'Cart', q: 'zone:a b' }
    expect(parse(address('service', params))).toEqual({ view: 'service', params })
  })
  it('of nothing, and of unknown screens, are the overview', () => {
    expect(parse('')).toEqual({ view: 'overview', params: {} })
    expect(parse('?view=x').view).toBe('overview')
    expect(address('services', { q: '' })).toBe('?view=services')
  })
})

describe('undo', () => {
  const weights = new Map([['a', 50]])
  it('ends overrides that were not there', () => {
    expect(inverse([{ instance: 'a', state: 'disabled' }], [{ instance: 'b', state: 'disabled' }], weights)).toEqual({ set: [], clear: ['a'] })
  })
  it('sets the earlier state again, and keeps the weight', () => {
    expect(inverse([{ instance: 'a', state: 'enabled' }], [{ instance: 'a', state: 'draining', until: 'T' }], weights)).toEqual({ set: [{ instance: 'a', state: 'draining', until: 'T' }], clear: [] })
    expect(inverse([{ instance: 'a', state: 'disabled' }], [{ instance: 'a', weight: 7 }], weights)).toEqual({ set: [{ instance: 'a', state: 'enabled' }], clear: [] })
  })
  it('sets the earlier weight again, or the registered one', () => {
    expect(inverse([{ instance: 'a', weight: 5 }], [{ instance: 'a', weight: 7, from: 1, ramp: '1m0s' }], weights).set).toEqual([{ instance: 'a', weight: 7 }])
    expect(inverse([{ instance: 'a', weight: 5 }], [{ instance: 'a', state: 'disabled' }], weights).set).toEqual([{ instance: 'a', weight: 50 }])
  })
})

describe('edits', () => {
  const now = new Date('2026-11-26T10:00:00Z')
  it('name each instance', () => {
    expect(editOf('weight', ['a', 'b'], { weight: 20, ramp: '5m', until: '' }, now)).toEqual([{ instance: 'a', weight: 20, ramp: '5m' }, { instance: 'b', weight: 20, ramp: '5m' }])
    expect(editOf('drain', ['a'], { weight: 1, ramp: '1m', until: '4' }, now)).toEqual([{ instance: 'a', state: 'draining', until: '2026-11-26T14:00:00.000Z' }])
    expect(editOf('enable', ['a'], { weight: 1, ramp: '', until: '4' }, now)).toEqual([{ instance: 'a', state: 'enabled' }])
  })
})

describe('session', () => {
  const session = { name: 'x', role: 'operator', readOnly: false, version: '', sources: [{ name: 'etcd://h', lists: 1, at: '', documents: true }, { name: 'dns://d', lists: 1, at: '', documents: false }] }
  it('knows roles', () => {
    expect(may(undefined, 'developer')).toBe(false)
    expect(may(session, 'operator')).toBe(true)
    expect(may(session, 'administrator')).toBe(false)
    expect(may({ ...session, readOnly: true }, 'operator')).toBe(false)
    expect(may({ ...session, role: 'odd' }, 'developer')).toBe(false)
  })
  it('knows where documents are kept', () => {
    expect(sourceOf(session, 'dns://d/x')?.name).toBe('dns://d')
    expect(mayEdit(session, 'etcd://h/a')).toBe(true)
    expect(mayEdit(session, 'dns://d/x')).toBe(false)
  })
})

describe('parts', () => {
  it('order', () => {
    const columns: Column<{ n: number; s: string }>[] = [{ key: 'n', head: '', width: '', cell: () => null, sort: (r) => r.n }, { key: 's', head: '', width: '', cell: () => null, sort: (r) => r.s }]
    const rows = [{ n: 1, s: 'x-10' }, { n: 3, s: 'x-9' }, { n: 2, s: 'x-10' }]
    expect(order(rows, columns, '-n').map((r) => r.n)).toEqual([3, 2, 1])
    expect(order(rows, columns, 's').map((r) => r.n)).toEqual([3, 1, 2])
    expect(order(rows, columns, 'none')).toBe(rows)
  })
  it('heat map', () => {
    const g = grid([[{ took: 1024, calls: 5 }], null, [{ took: 4096, calls: 9 }]])
    expect(g.rows).toEqual([4096, 2048, 1024])
    expect(g.cells).toEqual([[0, 0, 9], [0, 0, 0], [5, 0, 0]])
    expect(g.max).toBe(9)
    expect(grid(null).rows).toEqual([])
  })
  it('spark', () => {
    expect(sparkPath([1])).toBe('')
    expect(sparkPath([0, 2])).toBe('M0.0 19.0L96.0 2.0')
  })
  it('states', () => {
    expect(stateName('draining')).toBe('draining')
    expect(stateName('new')).toBe('silent')
  })
  it('loose rows', () => {
    const rows = rowsOf([{ id: 1, peer: { address: 'a' }, rtt: 2_000_000 }, { id: 2, odd: true }])
    expect(rows[0]?.map((c) => [c.name, c.text])).toEqual([['id', '1'], ['peer.address', 'a'], ['rtt', '2.00 ms'], ['odd', '–']])
    expect(rows[1]?.map((c) => c.text)).toEqual(['2', '–', '–', 'true'])
    expect(rowsOf(null)).toEqual([])
  })
  it('palette', () => {
    const hit = (name: string): Hit => ({ kind: 'service', name, note: 'shop', view: 'service', params: {} })
    expect(find([hit('xCart'), hit('Cart'), hit('Order')], 'cart shop').map((h) => h.name)).toEqual(['Cart', 'xCart'])
    expect(find(Array.from({ length: 200 }, (_, i) => hit('s' + i)), '')).toHaveLength(50)
  })
})
