import type { Audit, AuditRequest, AuditRow, ChangeRef, Circuit, ClientState, Detail, Force, ForceRequest, Limiter, ListView, Override, Registries, Resilience, ResilienceRow, Undone } from '../api/types.ts'
import type { Entry } from './data.ts'
import { MockError } from './error.ts'
import { random } from './random.ts'

// The mock of resilience, registry and audit.

interface Forced {
  state: string
  until: string
  since: string
  why: string
}

const shape = { overrides: '[\n  {\n    "instance": "cart-5a1-0",\n    "state": "disabled",\n    "by": "bob",\n    "why": "disk replaced"\n  }\n]', policy: '{\n  "default": {\n    "timeout": "2s",\n    "retries": 2\n  }\n}' }

export class Boards {
  private readonly forced = new Map<string, Forced>()
  private readonly rows: AuditRow[]
  private changes = 7

  constructor(private readonly all: readonly Entry[]) {
    const list = 'etcd://10.0.0.5:2379/shop/Cart'
    const process = all[14]?.instances[0]?.id ?? 'p'
    const row = (n: number, of: Partial<AuditRow>): AuditRow => ({
      list, kind: 'overrides', key: 'row' + n, at: new Date(Date.parse('2026-11-26T10:02:10Z') - n * 1_260_000).toISOString(), by: 'ann', what: '', ...of,
    })
    this.rows = [
      row(0, { revision: '41', what: 'cart-5a1-0: disabled by bob: disk replaced', by: 'bob', why: 'disk replaced', undo: true }),
      row(1, { kind: 'policy', revision: '3', what: 'policy of 4 methods', why: 'slow disks since the move', undo: true }),
      row(2, { kind: 'process', list: all[14]?.row.list ?? list, instance: process, id: '7', what: 'breaker of etcd://10.0.0.5:2379/shop/Cart for cart-5af-2', before: 'auto', after: 'forced open until 2026-11-26T11:00:00Z', why: 'it answers wrongly', undo: true, from: '10.3.1.20' }),
      row(3, { kind: 'console', by: 'guest', what: 'cart-5a1-0: disabled', error: 'this needs the role operator', from: '10.3.1.77', count: 1 }),
      row(4, { kind: 'console', list: '', by: '', what: 'a call without a valid login', error: 'who are you?', from: '10.9.0.4', count: 12 }),
      row(5, { kind: 'process', list: 'etcd://10.0.0.5:2379/user/Login', instance: 'login-1', id: '2', what: 'level of the log', before: 'INFO', after: 'DEBUG', why: 'missing sessions', undone: true }),
      ...Array.from({ length: 240 }, (_, n) => row(n + 6, { list: all[n % all.length]?.row.list ?? list, revision: String(40 - (n % 30)), by: ['ann', 'bob', 'canary'][n % 3] ?? '', what: `weight ${10 + n} for 1 instance`, why: 'canary' })),
    ]
  }

  answer(name: string, request: Record<string, unknown>, now: number, role: string): unknown {
    switch (name) {
      case 'Resilience':
        return this.resilience(String(request['list'] ?? ''), now)
      case 'ForceBreaker':
        return this.force(request as unknown as ForceRequest, now, role)
      case 'Registry':
        return this.registry(String(request['list'] ?? ''), now)
      case 'Audit':
        return this.audit(request as AuditRequest, role)
      case 'Detail':
        return this.detail(request as unknown as ChangeRef)
      case 'Undo':
        return this.undo(request as unknown as { changes: ChangeRef[]; why: string }, now, role)
    }
    return undefined
  }

  private find(list: string): Entry {
    const e = this.all.find((x) => x.row.list === list)
    if (!e) throw new MockError('not found', `list "${list}": not in the registry`)
    return e
  }

  // callersOf are processes that call a service.
  private callersOf(e: Entry): { list: string; process: string; client: string }[] {
    const at = this.all.indexOf(e)
    return [1, 2, 3, 5].flatMap((d) => {
      const c = this.all[(at + d * 13) % this.all.length]
      return (c?.instances ?? []).slice(0, 2).map((i) => ({ list: c?.row.list ?? '', process: i.id, client: e.row.list }))
    })
  }

  private circuits(e: Entry, now: number): Circuit[] {
    const out: Circuit[] = []
    this.callersOf(e).forEach((caller, n) => {
      e.instances.slice(0, 40).forEach((i, at) => {
        const r = random(n * 1000 + at)
        const forced = this.forced.get([i.id, caller.process].join('|'))
        const live = forced && Date.parse(forced.until) > now ? forced : undefined
        const open = i.state === 'ejected' || i.state === 'unhealthy'
        out.push({
          ...caller, id: i.id, breaker: live?.state ?? (open ? (n % 3 === 0 ? 'half-open' : 'open') : 'closed'),
          ...(live ? { forced: live.until, breakerSince: live.since, reason: live.why, forcedBy: 'at 10.3.1.20:41022' } : open ? { breakerSince: new Date(now - 24_000 - n * 1000).toISOString(), breakerWhy: 'unavailable: connection refused' } : {}),
          ...(live?.state === 'open' ? { unusable: 'its circuit breaker is forced open until ' + live.until } : open ? { unusable: 'ejected: its circuit breaker is open' } : i.state === 'disabled' ? { unusable: 'disabled by ' + (i.why ?? '') } : {}),
          ...(i.state === 'silent' && n === 1 ? { suspect: 'it does not answer pings for 4 s' } : {}), ...(at === 3 && n === 0 ? { throttle: 0.42 } : {}),
          inFlight: Math.round(4 * r()), latency: e.row.p99 * (0.2 + 0.2 * r()), calls: Math.round(9000 + 500 * r()), failed: Math.round(open ? 3000 * r() : 12 * r()), weight: i.set, share: 1 / e.instances.length,
        })
      })
    })
    const rank = (c: Circuit) => (c.forced ? 4 : c.breaker === 'open' ? 3 : c.breaker === 'half-open' ? 2 : c.suspect || c.unusable ? 1 : 0)
    return out.sort((a, b) => rank(b) - rank(a))
  }

  private limiters(e: Entry): Limiter[] {
    return e.instances.slice(0, 60).flatMap((i, n): Limiter[] => [
      { instance: i.id, kind: 'concurrency', running: 12 + n, limit: 256, waiting: 0, queue: 512, refused: 0 },
      { instance: i.id, kind: 'overload', guarding: n === 1, running: 30 + n, limit: n === 1 ? 64 : 0, waiting: n === 1 ? 7 : 0, refused: n === 1 ? 431 : 0, reasons: { late: n === 1 ? 400 : 0, expired: n === 1 ? 31 : 0, full: 0, streams: 0 } },
    ])
  }

  private stateOf(e: Entry, n: number): ClientState {
    const count = (state: string) => e.instances.filter((i) => i.state === state).length
    const out = count('ejected') + count('unhealthy')
    return {
      target: e.row.list, connections: e.instances.length, instances: { ready: e.instances.length - out - count('disabled') - count('draining'), ejected: out, suspect: 0, unconnected: 0, unused: 0, withheld: count('disabled') + count('draining') }, panicking: false, ejections: out * 3,
      breakers: [{ method: e.methods[0] ?? '', closed: e.instances.length - 1, halfOpen: 0, open: n === 0 ? 1 : 0 }], retryBudget: n === 1 ? 0.4 : 9.4 - n, retriesRefused: n === 1 ? 118 : 0, registryError: '', policy: { version: 'p41', inForce: 'p41' },
    }
  }

  private resilience(list: string, now: number): Resilience {
    const at = new Date(now).toISOString()
    if (list === '') {
      const lists = this.all.slice(0, 1000).map((e, n): ResilienceRow => {
        const bad = e.instances.filter((i) => i.state === 'ejected' || i.state === 'unhealthy').length
        const guarding = n % 97 === 5 ? 1 : 0
        const forced = [...this.forced].filter(([key, f]) => Date.parse(f.until) > now && e.instances.some((i) => key.startsWith(i.id + '|'))).length
        return {
          list: e.row.list, clients: 8, instances: e.instances.length, open: bad * 5, halfOpen: bad * 3, forced, methods: n % 41 === 3 ? 2 : 0, suspect: n % 67 === 9 ? 1 : 0, panicking: n % 400 === 2 ? 1 : 0, spent: n % 200 === 11 ? 1 : 0, retriesRefused: n % 200 === 11 ? 118 : 0, guarding, refused: guarding * 431,
          trouble: bad * 21 + forced * 3 + guarding * 2 + (n % 41 === 3 ? 4 : 0) + (n % 400 === 2 ? 4 : 0) + (n % 67 === 9 ? 1 : 0) + (n % 200 === 11 ? 1 : 0),
        }
      })
      return { at, processes: 20_120, asked: 300, silent: 2, lists, circuits: null, cut: 0, clients: null, limiters: null }
    }
    const e = this.find(list)
    const callers = this.callersOf(e)
    return {
      at, processes: callers.length + e.instances.length, asked: callers.length + e.instances.length, silent: 0, lists: null, circuits: this.circuits(e, now), cut: 0,
      clients: callers.map((c, n) => ({ ...c, rate: e.row.rate / callers.length, errorRate: e.row.errorRate / callers.length, state: this.stateOf(e, n) })), limiters: this.limiters(e),
    }
  }

  private force(request: ForceRequest, now: number, role: string): Force {
    const e = this.find(request.list)
    const is = (c: Circuit) => request.breakers.some((b) => b.instance === c.id && b.process === c.process)
    const chosen = this.circuits(e, now).filter(is)
    if (chosen.length === 0) throw new MockError('not found', 'no such breaker')
    const processes = [...new Set(chosen.map((c) => c.process))]
    const left = processes.map((p) => this.circuits(e, now).filter((c) => c.process === p && !c.unusable && !(is(c) && request.state === 'open')).length)
    const empties = request.state === 'open' ? processes.filter((_, n) => left[n] === 0) : []
    const out: Force = { circuits: chosen, share: chosen.reduce((sum, c) => sum + c.share, 0) / processes.length, left: Math.min(...left), empties, changes: [], failures: [] }
    if (request.dryRun) return out
    if (role === 'viewer' || role === 'developer') throw new MockError('permission denied', 'this needs the role operator')
    if (empties.length > 0 && request.confirm !== request.list) throw new MockError('failed precondition', 'no instance would be left to call')
    const changes = chosen.map((c): ChangeRef => {
      const key = [c.id, c.process].join('|')
      const before = this.forced.get(key)?.state ?? 'auto'
      if (request.state === 'auto') this.forced.delete(key)
      else this.forced.set(key, { state: request.state, until: new Date(now + request.for / 1e6).toISOString(), since: new Date(now).toISOString(), why: 'ann: ' + request.why })
      this.changes++
      const ref = { list: c.list, kind: 'process', instance: c.process, id: String(this.changes) }
      this.rows.unshift({ ...ref, key: 'change' + this.changes, at: new Date(now).toISOString(), by: 'ann', what: `breaker of ${c.client} for ${c.id}`, before, after: request.state === 'auto' ? 'auto' : 'forced ' + request.state, why: request.why, undo: true })
      return ref
    })
    return { ...out, circuits: this.circuits(e, now).filter(is), changes }
  }

  private registry(list: string, now: number): Registries {
    const source = { lists: this.all.length, at: new Date(now).toISOString(), directory: true, failing: 0 }
    const sources = [
      { ...source, name: 'etcd://10.0.0.5:2379', kind: 'etcd', address: '10.0.0.5:2379', path: '', options: { ttl: '10s' }, inspects: true, documents: true, writable: true, instances: 20_420, names: this.all.map((e) => e.row.list) },
      { ...source, name: 'dns://cluster.local', lists: 0, kind: 'dns', address: 'cluster.local', path: '', documents: false, inspects: false, writable: false, directory: false, instances: 0, names: [], error: 'lookup cluster.local: no such host' },
    ]
    return list === '' ? { sources } : { sources, list: this.view(this.find(list), now) }
  }

  private view(e: Entry, now: number): ListView {
    const readers = this.callersOf(e)
    const lacks = e.instances.at(-1)?.id ?? ''
    const gone = `${e.row.service.toLowerCase()}-old-1`
    const entries = e.instances.map((i): NonNullable<ListView['entries']>[number] => {
      const { list: _a, rate: _b, errorRate: _c, p99: _d, admin: _e, error: _f, running: _g, until: _h, state, ...rest } = i
      const missing = i.id === lacks && readers.length > 1 ? 2 : 0
      const tags = e.set.find((o) => o.instance === i.id && o.tags)?.tags
      return {
        ...rest, held: { id: i.id, key: `${e.row.list.replace(/^etcd:\/\/[^/]*/, '')}/${i.id}`, revision: 184_022, lease: '694d8f2a3c1e', ttl: 15e9, left: 11e9 }, incarnation: 'Q3XK2MDPBE2I5GGZ77', load: { at: new Date(now - 21_000).toISOString(), rate: i.rate, inFlight: i.running }, listed: true, state: state === 'disabled' || state === 'draining' ? state : 'enabled',
        seen: { [state === 'enabled' || state === 'silent' ? 'ready' : state === 'ejected' || state === 'unhealthy' ? 'ejected' : 'withheld']: readers.length - missing }, unseen: missing > 0 ? readers.slice(0, 2).map((r) => r.process) : [], missing,
        ...(tags ? { effective: merged(i.tags ?? {}, tags) } : {}),
      }
    })
    entries.push({ id: gone, endpoints: null, listed: false, state: 'gone', set: 0, seen: { suspect: 1 }, unseen: [], missing: 0 })
    const revision = e.set.length > 0 ? 41 : 0
    return {
      list: e.row.list, source: 'etcd://10.0.0.5:2379', kind: 'etcd', at: new Date(now).toISOString(), entries, asked: readers.length, processes: readers.length, silent: 0, set: e.set,
      readers: readers.map((r, n) => ({ ...r, known: e.instances.length - (n < 2 ? 1 : 0) + (n === 0 ? 1 : 0), missing: n < 2 ? [lacks] : [], extra: n === 0 ? [gone] : [], counts: this.stateOf(e, n).instances, listed: new Date(now - 90_000).toISOString(), policy: 'p41', override: true })),
      documents: [
        { kind: 'overrides', key: '/tandem-overrides' + e.row.list.replace(/^etcd:\/\/[^/]*/, ''), revision, ...(revision > 0 ? { at: '2026-11-26T10:02:10Z', by: 'bob', why: 'disk replaced' } : {}), bytes: revision > 0 ? 412 : 0, versions: revision > 0 ? 41 : 0, text: revision > 0 ? shape.overrides : '', rollout: revision > 0 ? { list: e.row.list, kind: 'overrides', version: '41', applied: 7, pending: 1, refused: 0, text: '' } : null },
        { kind: 'policy', key: '/shop/policies/' + e.row.service, revision: 3, at: '2026-11-26T09:40:02Z', by: 'ann', why: 'slow disks since the move', bytes: 231, versions: 3, text: shape.policy, rollout: { list: e.row.list, kind: 'policy', version: 'p41', applied: 37, pending: 2, refused: 1, text: 'cart-9f1: retries: 12: limit 10' } },
      ],
    }
  }

  private audit(request: AuditRequest, role: string): Audit {
    const own = role === 'operator' || role === 'administrator'
    const words = (request.text ?? '').toLowerCase().split(/\s+/).filter(Boolean)
    const rows = this.rows.filter((r) => (own || r.kind !== 'console') && (!request.list || r.list === request.list) && (!request.kind || r.kind === request.kind) && r.by.includes(request.who ?? '')
      && (!request.from || r.at >= request.from) && (!request.to || r.at <= request.to) && words.every((w) => JSON.stringify(r).toLowerCase().includes(w)))
    const from = request.offset ?? 0
    return { rows: rows.slice(from, from + (request.max ?? 100)), total: rows.length, who: ['canary', 'ann', 'guest', 'bob'], unread: [], skipped: request.list ? 0 : 1800, own }
  }

  private detail(ref: ChangeRef): Detail {
    const kind = ref.kind === 'policy' ? 'policy' : 'overrides'
    return kind === 'policy' ? { before: shape.policy.replace('"2s"', '"1.5s"'), after: shape.policy, base: '2' } : { before: '[]', after: shape.overrides, base: '40' }
  }

  private undo(request: { changes: ChangeRef[]; why: string }, now: number, role: string): Undone {
    if (role === 'viewer' || role === 'developer') throw new MockError('permission denied', 'this needs the role operator')
    for (const ref of request.changes) {
      if (ref.kind === 'overrides') {
        const e = this.find(ref.list)
        e.set = e.set.filter((o: Override) => !o.tags)
      }
      const row = this.rows.find((r) => r.kind === ref.kind && r.list === ref.list && r.revision === ref.revision && r.id === ref.id)
      if (!row) continue
      if (ref.kind === 'process') {
        const instance = row.what.split(' ').at(-1) ?? ''
        this.forced.delete([instance, ref.instance].join('|'))
        Object.assign(row, { undo: false, undone: true })
      } else row.undo = false
      this.changes++
      this.rows.unshift({ ...row, key: 'undo' + this.changes, at: new Date(now).toISOString(), why: request.why, undo: false, undone: false, ...(row.revision ? { revision: String(Number(row.revision) + 1) } : {}) })
    }
    return { changes: [], failures: [] }
  }
}

// merged are tags with others over them; "" removes one.
export function merged(tags: Readonly<Record<string, string>>, over: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries({ ...tags, ...over }).filter(([, v]) => v !== ''))
}
