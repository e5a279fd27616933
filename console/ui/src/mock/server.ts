import { readFileSync } from 'node:fs'
import type { CallRequest, ChangeRow, Edit, EditRequest, InstanceRow, Override, Overview, PolicyView, PutPolicyRequest, RestoreRequest, Rollout, TracesRequest } from '../api/types.ts'
import { cluster, counts, detail, figures, row, seconds, type Entry } from './data.ts'
import { answer, playground } from './playground.ts'
import { topology } from './topology.ts'
import { Boards, merged } from './boards.ts'
import { MockError } from './error.ts'
import { Users } from './access.ts'
import { json } from './yaml.ts'
import { one, search, traceOf } from './traces.ts'

const schema = JSON.parse(readFileSync(new URL('../../../../docs/policy.schema.json', import.meta.url), 'utf8')) as unknown

export { MockError }

interface Policy {
  text: string
  revision: number
  texts: Map<number, string>
}

const policyText = `{
  "version": "p41",
  "balancer": {
    "pick": "p2c",
    "slowStart": "30s"
  },
  "ejection": {
    "consecutive": 5,
    "maxShare": 0.3
  },
  "default": {
    "timeout": "2s",
    "retries": 2
  }
}
`

// Mock answers as the console does, from a cluster in memory.
export class Mock {
  private readonly all: Entry[]
  private readonly boards: Boards
  private revision = 41
  private readonly history: ChangeRow[] = [
    { list: 'etcd://10.0.0.5:2379/pay/Ledger', kind: 'overrides', revision: '41', at: '2026-11-26T10:02:10Z', by: 'canary', what: 'weight 20 for 1 instance', why: 'canary at a fifth' },
    { list: 'etcd://10.0.0.5:2379/shop/Cart', kind: 'policy', revision: '40', at: '2026-11-26T09:40:02Z', by: 'ann', what: 'default.timeout: 1.5s → 2s', why: 'slow disks since the move' },
    { list: 'etcd://10.0.0.5:2379/shop/Cart', kind: 'overrides', revision: '39', at: '2026-11-26T09:12:44Z', by: 'bob', what: 'disabled 1 instance', why: 'disk replaced' },
    { list: 'etcd://10.0.0.5:2379/user/Login', kind: 'process', revision: '', at: '2026-11-26T08:55:31Z', by: 'ann', what: 'log level info → debug', why: 'missing sessions', undone: true },
  ]
  private readonly policies = new Map<string, Policy>()
  private readonly users = new Users()
  private readonly began = Date.now() // of the traces, which are the same in each search
  private level = 'INFO'
  private levelBefore = 'INFO'
  role = 'operator'

  constructor(services = 2000, instances = 20_000) {
    this.all = cluster(services, instances)
    this.boards = new Boards(this.all)
  }

  private rollouts(): Rollout[] {
    return [
      { list: 'etcd://10.0.0.5:2379/shop/Cart', kind: 'policy', version: 'p41', applied: 37, pending: 2, refused: 1, text: 'cart-9f1: methods["Cart.Add"].retries: 12: limit 10' },
      { list: 'etcd://10.0.0.5:2379/pay/Ledger', kind: 'overrides', version: String(this.revision), applied: 12, pending: 3, refused: 0, text: '' },
    ]
  }

  private find(list: string): Entry {
    const e = this.all.find((x) => x.row.list === list)
    if (!e) throw new MockError('not found', `list "${list}": not in the registry`)
    return e
  }

  // answer returns the answer of a call, or throws a MockError.
  answer(name: string, request: Record<string, unknown>, now = Date.now()): unknown {
    switch (name) {
      case 'Session':
        return { name: 'ann', role: this.role, readOnly: false, sources: this.sources(now), version: 'v0.9.0', traceURL: 'https://jaeger.example.com/trace/{trace}' }
      case 'Overview':
        return this.overview(now)
      case 'Services':
        return { services: this.all.map((e, i) => row(e, now, i)), at: new Date(now).toISOString() }
      case 'Service':
        return detail(this.find(String(request['list'])), this.all, now)
      case 'Instance':
        return this.instance(String(request['list']), String(request['instance']), now)
      case 'Edit':
        return this.edit(request as unknown as EditRequest, now)
      case 'Topology':
        return topology(this.all, String(request['center']), Number(request['hops']))
      case 'Policy':
        return this.policy(String(request['list']), String(request['key'] ?? ''))
      case 'PutPolicy':
        return this.putPolicy(request as unknown as PutPolicyRequest, now)
      case 'Restore':
        return this.restore(request as unknown as RestoreRequest, now)
      case 'Playground':
        return playground(this.find(String(request['list'])))
      case 'Call':
        return this.play(request as unknown as CallRequest, now)
      case 'Profile':
        return { name: `${request['instance']}-${request['kind']}.pprof`, data: btoa('a profile') }
      // Traces, Access, log level
      case 'Traces':
        return search(this.all, request as TracesRequest, this.began)
      case 'Trace':
        return one(this.all, String(request['trace']), this.began)
      case 'Access':
        return this.users.access(this.all, this.role, now)
      case 'RefuseUser':
        if (this.role !== 'administrator') throw new MockError('permission denied', 'this needs the role administrator')
        return this.users.refuse(String(request['name']), String(request['why']), request['dryRun'] === true, now)
      case 'AdmitUser':
        return this.users.admit(String(request['name']))
      case 'Logout':
        throw new MockError('failed precondition', "the console's Authorizer decides who is logged in: log out where you logged in")
      case 'Ask':
        return this.ask(String(request['method']), request['request'] as { level?: string })
    }
    const answer = this.boards.answer(name, request, now, this.role)
    if (answer !== undefined) return answer
    throw new MockError('unimplemented', `method ${name}: the mock does not have it`)
  }

  private ask(method: string, request: { level?: string }) {
    if (this.role === 'viewer' || this.role === 'developer') throw new MockError('permission denied', 'this needs the role operator')
    const before = this.level
    if (method === 'SetLogLevel') [this.level, this.levelBefore] = [request.level ?? '', this.level]
    else if (method === 'Undo') this.level = this.levelBefore
    else throw new MockError('unimplemented', `the console passes no "${method}" on`)
    return { id: '7', what: 'level of the log', before, after: this.level }
  }

  private sources(now: number) {
    return [
      { name: 'etcd://10.0.0.5:2379', lists: this.all.length, at: new Date(now).toISOString(), documents: true },
      { name: 'dns://cluster.local', lists: 0, at: new Date(now - 60_000).toISOString(), documents: false, error: 'lookup cluster.local: no such host' },
    ]
  }

  private overview(now: number): Overview {
    const instances: Record<string, number> = {}
    let rate = 0
    let failed = 0
    for (const e of this.all) {
      rate += e.row.rate
      failed += e.row.errorRate
      for (const [s, n] of Object.entries(counts(e.instances))) instances[s] = (instances[s] ?? 0) + n
    }
    const top = [...this.all].sort((a, b) => b.row.rate * b.row.p99 - a.row.rate * a.row.p99).slice(0, 10)
    const all = Object.values(instances).reduce((a, b) => a + b, 0)
    const silent = instances['silent'] ?? 0
    return {
      services: this.all.length, instances, rate, errorRate: failed, answering: all - silent, silent,
      versions: { 'v0.9.0': Math.round(all * 0.82), 'v0.8.2': Math.round(all * 0.17), 'v0.8.0': 41 }, sources: this.sources(now), top: top.map((e, i) => row(e, now, i)),
      rollouts: this.rollouts(), changes: this.history.slice(0, 10), perSecond: seconds(rate, 1, now, failed / rate),
    }
  }

  private instance(list: string, id: string, now: number) {
    const e = this.find(list)
    const i = e.instances.find((x) => x.id === id)
    if (!i) throw new MockError('not found', `instance "${id}": not listed`)
    if (!i.admin) return i
    const share = i.rate / (e.row.rate || 1)
    return {
      ...i,
      info: {
        host: i.tags?.['host'] ?? '', pid: 4121, command: 'cartd', began: i.started ?? '', go: 'go1.26.8', module: 'example.com/shop/cartd', version: i.version ?? '', revision: '8c1f0a9d7731be', tandem: 'v0.9.0', gomaxprocs: 8,
        goroutines: 412, heapBytes: 183_402_112, logLevel: this.level, role: this.role, addresses: (i.endpoints ?? []).map((x) => x.address), services: i.services ?? [], clients: ['etcd://10.0.0.5:2379/pay/Ledger'], payloads: false,
      },
      methods: figures(e, now).map((m) => ({ ...m, rate: m.rate * share, errorRate: m.errorRate * share, calls: Math.round(m.calls * share), perSecond: seconds(m.rate * share, 2, now) })),
      connections: { total: 14, protocols: [{ name: 'grpc', count: 5 }, { name: 'tandem', count: 9 }], connections: Array.from({ length: 14 }, (_, n) => ({ id: 100 + n, protocol: n % 3 === 0 ? 'grpc' : 'tandem', peer: `10.20.3.${n}:51${200 + n}`, ...(n % 2 === 0 ? { subject: 'CN=web', tls: true } : {}), since: new Date(now - n * 3_600_000).toISOString(), running: n % 4, calls: 91_220 - n * 411, draining: false, rtt: 210_000 + n * 9000 })) },
      runningCalls: { calls: Array.from({ length: 3 }, (_, n) => ({ method: e.methods[n] ?? e.methods[0], kind: 'unary', peer: `10.20.3.${n}:51${200 + n}`, connection: 100 + n, since: new Date(now - n * 40).toISOString(), ...(n === 2 ? { waits: 'slot' } : {}) })) },
      limits: { limits: [{ method: '', running: 12, limit: 2048, queued: 0, queue: 4096, refused: 0 }], overload: [{ guarding: false, slots: 0, running: 3, waiting: 0, streams: 2, queued: 0 }] },
      settings: [
        { name: 'WithDrainTimeout', value: '30s', from: 'option' }, { name: 'WithMaxConcurrency', value: '2048', from: 'option' }, { name: 'WithMemory', value: '268435456', from: 'default' },
        { name: 'WithTLS', value: 'on', from: 'option' }, { name: 'WithMaxMessage', value: '4194304', from: 'default' }, { name: 'WithIdleTimeout', value: '10m0s', from: 'default' },
      ],
      clients: [{
        list, instance: id, client: 'etcd://10.0.0.5:2379/pay/Ledger', rate: i.rate * 0.8, errorRate: i.rate * 0.0004, p99: 8.2e6,
        state: { target: 'etcd://10.0.0.5:2379/pay/Ledger', connections: 5, instances: { ready: 4, ejected: 1, suspect: 0, unconnected: 0, unused: 0, withheld: 0 }, panicking: false, ejections: 3, breakers: [{ method: 'Ledger.Get', closed: 4, halfOpen: 0, open: 1 }], retryBudget: 9.4, retriesRefused: 0, registryError: '', policy: { version: 'p41', inForce: 'p41', at: '' } },
        explanation: {
          method: 'Ledger.Get', target: '', policy: 'p2c', retryBudget: 9.4,
          attempts: [{
            number: 0, began: '', took: 0, chosen: 'ledger-2', steps: [{ policy: 'zone', kept: ['ledger-0', 'ledger-2'], dropped: { 'ledger-1': 'zone sh-a', 'ledger-3': 'zone sh-a' } }, { policy: 'p2c', kept: ['ledger-2'], dropped: {} }],
            instances: Array.from({ length: 5 }, (_, n) => ({ id: 'ledger-' + n, breaker: n === 4 ? 'open' : 'closed', ...(n === 4 ? { unusable: 'ejected: 7 failures in a row' } : {}), inFlight: n, latency: 2e6 + n * 3e5, calls: 1000 - n, failed: n === 4 ? 80 : n, weight: 100 })),
          }],
        },
      }],
    }
  }

  private edit(request: EditRequest, now: number): Edit {
    const e = this.find(request.list)
    const ids = new Set([...request.set.flatMap((o) => (o.instance ? [o.instance] : [])), ...(request.clear ?? [])])
    const after = e.instances.map((i) => (ids.has(i.id) ? changed(i, request) : i))
    const rows = after.filter((a, n) => a.state !== e.instances[n]?.state || a.set !== e.instances[n]?.set || a.tags !== e.instances[n]?.tags)
    const left = after.filter((a) => a.state === 'enabled').length
    const total = e.instances.reduce((sum, i) => sum + i.rate, 0)
    const touched = rows.reduce((sum, r) => sum + (e.instances.find((i) => i.id === r.id)?.rate ?? 0), 0)
    const answer: Edit = { rows, share: total > 0 ? touched / total : 0, left, empties: left === 0 }
    if (request.dryRun) return answer
    if (this.role === 'viewer') throw new MockError('permission denied', 'Edit needs the role operator')
    if (answer.empties && request.confirm !== request.list) throw new MockError('failed precondition', 'no instance of the service would be left to call')
    e.instances = after.map((i, n) => ({ ...i, tags: e.instances[n]?.tags ?? {} })) // tags that are set are no part of an entry
    e.set = [...e.set.filter((o) => !ids.has(o.instance ?? '')), ...request.set.filter((o) => o.state !== 'enabled').map((o): Override => ({ ...o, by: 'ann', why: request.why, at: new Date(now).toISOString() }))]
    this.revision++
    this.record(request.list, 'overrides', String(this.revision), `${rows.length} instances changed`, request.why, now)
    return { ...answer, revision: String(this.revision) }
  }

  private record(list: string, kind: string, revision: string, what: string, why: string, now: number) {
    this.history.unshift({ list, kind, revision, at: new Date(now).toISOString(), by: 'ann', what, why })
  }

  private policyOf(list: string): Policy {
    const old = this.policies.get(list)
    if (old) return old
    const p: Policy = { text: policyText, revision: 3, texts: new Map([[1, policyText.replace('p41', 'p39').replace('2s', '1s')], [2, policyText.replace('p41', 'p40').replace('"retries": 2', '"retries": 1')], [3, policyText]]) }
    this.policies.set(list, p)
    return p
  }

  private policy(list: string, key: string): PolicyView {
    this.find(list)
    const p = this.policyOf(list)
    const history = [...p.texts.keys()].reverse().map((n): ChangeRow => ({ list, kind: 'policy', revision: String(n), at: new Date(Date.parse('2026-11-20T09:00:00Z') + n * 86_400_000).toISOString(), by: 'ann', what: p.texts.get(n) ?? '', why: n === 3 ? 'slow disks since the move' : '' }))
    return { key: key || list.replace('etcd://10.0.0.5:2379/', ''), text: p.text, revision: String(p.revision), history, rollout: { list, kind: 'policy', version: 'p41', applied: 37, pending: 2, refused: 1, text: 'cart-9f1: retries: 12: limit 10' }, schema }
  }

  private putPolicy(request: PutPolicyRequest, _now: number): PolicyView {
    const p = this.policyOf(request.list)
    try {
      request = { ...request, text: json(request.text) }
    } catch (error) {
      if (request.dryRun) return { ...this.policy(request.list, request.key), text: request.text, error: String(error) }
      throw new MockError('invalid argument', String(error))
    }
    if (request.dryRun) return { ...this.policy(request.list, request.key), text: request.text }
    if (request.base !== String(p.revision)) throw new MockError('aborted', `policy: revision ${p.revision} is newer than ${request.base}`)
    p.revision++
    p.text = request.text
    p.texts.set(p.revision, request.text)
    return this.policy(request.list, request.key)
  }

  private restore(request: RestoreRequest, now: number): unknown {
    const p = this.policyOf(request.list)
    const text = p.texts.get(Number(request.revision))
    if (text === undefined) throw new MockError('not found', `revision ${request.revision}: not kept`)
    return this.putPolicy({ list: request.list, key: request.key ?? '', text, base: String(p.revision), why: request.why }, now)
  }

  // play answers a call of the playground.
  play(request: CallRequest, now: number) {
    if (this.role === 'viewer') throw new MockError('permission denied', 'this needs the role developer')
    return answer(this.find(request.list), request, now)
  }

  // tap returns the next calls of a tap.
  tap(request: Record<string, unknown>, now: number): unknown[] {
    const list = String(request['list'] ?? '')
    const tap = (request['tap'] ?? {}) as { failed?: boolean }
    const e = this.all.find((x) => x.row.list === list) ?? this.all[0]
    if (!e) return []
    return e.methods.slice(0, 2).map((method, i) => ({
      instance: e.instances[i % e.instances.length]?.id ?? '', trace: traceOf(this.all, (Math.floor(now / 200) * 2 + i) % 60, this.began)[0]?.trace ?? '', span: (now + i).toString(16), method, peer: `10.20.3.${now % 200}:51200`, protocol: 'tandem', began: new Date(now).toISOString(), took: e.row.p99 * ((now % 97) / 97) * 0.5,
      code: now % 11 === 0 ? 'unavailable' : 'ok', ...(now % 11 === 0 ? { error: 'overloaded' } : {}), kind: 'unary', metadata: { region: 'hz' },
    })).filter((c) => tap.failed !== true || c.code !== 'ok')
  }
}

function changed(i: InstanceRow, request: EditRequest): InstanceRow {
  let out = i
  if (request.clear?.includes(i.id)) {
    const { why: _, ...rest } = i
    out = { ...rest, state: i.state === 'disabled' || i.state === 'draining' ? 'enabled' : i.state, set: i.weight || 100 }
  }
  for (const o of request.set) {
    if (o.instance !== i.id) continue
    if (o.state === 'enabled') {
      const { why: _, ...rest } = out
      out = { ...rest, state: out.state === 'disabled' || out.state === 'draining' ? 'enabled' : out.state }
    } else if (o.state) out = { ...out, state: o.state, why: 'ann: ' + request.why }
    if (o.weight) out = { ...out, set: o.weight }
    if (o.tags) out = { ...out, tags: merged(out.tags ?? {}, o.tags) }
  }
  return out
}
