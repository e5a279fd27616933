import type { InstanceRow, MethodFigure, Override, Second, Service, ServiceRow } from '../api/types.ts'
import { random } from './random.ts'

// A cluster of 2,000 services and 20,000 instances, the same in each run but for the traffic, which
// moves with the time.

const domains = ['shop', 'pay', 'user', 'search', 'media', 'risk', 'stock', 'ship', 'ads', 'chat']
const nouns = ['Cart', 'Order', 'Price', 'Item', 'Coupon', 'Invoice', 'Ledger', 'Account', 'Login', 'Session', 'Index', 'Query', 'Image', 'Video', 'Score', 'Rule', 'Depot', 'Route', 'Bid', 'Room']
const verbs = ['Get', 'List', 'Add', 'Remove', 'Update', 'Watch']
const zones = ['hz-a', 'hz-b', 'sh-a']
const source = 'etcd://10.0.0.5:2379'

export interface Entry {
  row: ServiceRow
  instances: InstanceRow[]
  set: Override[]
  methods: string[]
}

export const began = Date.parse('2026-11-20T08:00:00Z')

// cluster makes services. Overrides are set for a few, and a few instances fail or are silent.
export function cluster(services = 2000, instances = 20_000): Entry[] {
  const r = random(7)
  const out: Entry[] = []
  const each = Math.floor(instances / services)
  for (let n = 0; n < services; n++) {
    const domain = domains[n % domains.length] ?? ''
    const noun = nouns[Math.floor(n / domains.length) % nouns.length] ?? ''
    const round = Math.floor(n / (domains.length * nouns.length))
    const name = noun + (round === 0 ? '' : ['Admin', 'Query', 'Sync', 'Job', 'Cache', 'Audit', 'Store', 'Feed', 'Proxy'][round - 1] ?? round)
    // One service has many instances, so that long lists of them are seen too.
    const size = n === 1 ? each * 40 : Math.max(1, Math.round(each * (0.4 + 1.2 * r())))
    out.push(entry({ domain, name, n, size }, r))
  }
  return out
}

function entry(of: { domain: string; name: string; n: number; size: number }, r: () => number): Entry {
  const list = `${source}/${of.domain}/${of.name}`
  const rate = r() < 0.1 && of.n > 20 ? 0 : Math.exp((of.n < 2 ? 7.5 : 0) + r() * (of.n < 2 ? 1 : 9))
  const protocols = [['tandem'], ['tandem', 'grpc'], ['tandem', 'connect', 'grpc']][Math.floor(r() * 3)] ?? []
  const version = `v${1 + Math.floor(r() * 3)}.${Math.floor(r() * 20)}.${Math.floor(r() * 5)}`
  const p99 = Math.exp(r() * 6) * 0.6e6
  const set: Override[] = []
  const instances: InstanceRow[] = []
  for (let i = 0; i < of.size; i++) {
    const id = `${of.name.toLowerCase()}-${(0x5a1 + of.n * 37 + i * 7).toString(16)}-${i}`
    const row = instance({ id, list, i, n: of.n, rate: rate / of.size, version, p99, protocols, service: of.name }, r)
    if (row.state === 'disabled' || row.state === 'draining') set.push({ instance: id, state: row.state, by: 'bob', why: row.why ?? '', at: '2026-11-26T09:12:44Z' })
    else if (row.set !== 100) set.push({ instance: id, weight: row.set, by: 'canary', why: 'canary at a fifth', at: '2026-11-26T10:02:10Z' })
    instances.push(row)
  }
  const errorRate = r() < 0.85 ? r() * 0.0008 : r() * 0.06
  for (const i of instances) i.errorRate = i.rate * (i.state === 'unhealthy' ? 0.62 : errorRate * (0.5 + r()))
  return {
    row: {
      source, list, service: of.name, instances: {}, versions: [...new Set(instances.map((i) => i.version ?? ''))], zones: [...new Set(instances.map((i) => i.zone ?? ''))].sort(),
      protocols, rate, errorRate: errorRate * rate, p99, ...(of.n % 3 === 0 ? { policy: 'p' + (1 + (of.n % 40)) } : {}), overrides: 0,
    },
    instances, set, methods: verbs.slice(0, 3 + (of.n % 4)).map((v) => `${of.name}.${v}`),
  }
}

interface Seed {
  id: string
  list: string
  i: number
  n: number
  rate: number
  version: string
  p99: number
  protocols: string[]
  service: string
}

function stateOf(n: number, i: number, luck: number): string {
  if (n % 40 === 0 && i === 0) return 'disabled'
  if (n % 55 === 1 && i === 1) return 'draining'
  if (n % 70 === 2 && i === 2) return 'ejected'
  if (n % 90 === 3 && i === 1) return 'unhealthy'
  return luck < 0.004 ? 'silent' : 'enabled'
}

function instance(s: Seed, r: () => number): InstanceRow {
  const state = stateOf(s.n, s.i, r())
  const idle = state === 'disabled' || state === 'draining' || state === 'ejected'
  const canary = s.n % 12 === 0 && s.i === 2
  const why: Record<string, string> = {
    disabled: 'bob: disk replaced', draining: 'ann: moves to hz-b', ejected: '7 failures in a row; back in 24 s', unhealthy: 'no answer to pings for 9 s',
  }
  return {
    id: s.id, list: s.list, services: [s.service],
    endpoints: s.protocols.includes('grpc') ? [{ transport: 'tcp', address: address(s) }, { transport: 'tls', address: address(s).replace(':90', ':94'), protocol: 'grpc' }] : [{ transport: 'tcp', address: address(s) }],
    weight: 100, version: canary ? 'v9.0.0-rc.1' : s.version, zone: zones[s.i % zones.length] ?? '', group: 'main',
    tags: { team: s.list.split('/')[3] ?? '', host: `node-${(s.n * 7 + s.i) % 400}` }, started: new Date(began + s.i * 61_000).toISOString(),
    state, ...(why[state] ? { why: why[state] } : {}), set: canary ? 20 : 100, running: idle ? 0 : Math.round(s.rate * s.p99 / 1e9), rate: idle ? 0 : s.rate * (0.9 + 0.2 * r()),
    errorRate: 0, p99: s.p99 * (0.6 + 0.4 * r()), admin: state !== 'silent', ...(state === 'silent' ? { error: 'admin API: no answer within 2 s' } : {}),
  }
}

function address(s: Seed): string {
  return `10.${20 + (s.n % 40)}.${(s.n * 3 + s.i) % 250}.${1 + (s.i % 250)}:90${String(s.n % 100).padStart(2, '0')}`
}

// seconds is the traffic of the last minute. It moves, so that the page is seen to follow.
export function seconds(rate: number, seed: number, now: number, errorRate = 0.002): Second[] {
  const last = Math.floor(now / 1000)
  return Array.from({ length: 60 }, (_, i) => {
    const s = last - 59 + i
    const r = random(seed * 1000 + s)
    const calls = Math.max(0, Math.round(rate * (1 + 0.15 * Math.sin(s / 9 + seed) + 0.08 * (r() - 0.5))))
    return { calls, failed: Math.round(calls * errorRate * 2 * r()) }
  })
}

// figures are the methods of a service with a share of its rate each.
export function figures(e: Entry, now: number): MethodFigure[] {
  const shares = [0.55, 0.25, 0.1, 0.05, 0.03, 0.02]
  return e.methods.map((method, i) => {
    const rate = e.row.rate * (shares[i] ?? 0.01)
    const p99 = e.row.p99 * (1 - i * 0.1)
    const stream = method.endsWith('Watch')
    const failing = e.row.rate > 0 ? e.row.errorRate / e.row.rate : 0
    const failed = Math.round(rate * 60 * failing)
    return {
      method, kind: stream ? 'stream' : 'unary', safe: method.includes('.Get') || method.includes('.List'), calls: Math.round(rate * 86_400), running: Math.round(rate * p99 / 2e9) + (stream ? 12 : 0), rate,
      errorRate: rate * failing, ...(failed > 0 ? { errors: { unavailable: Math.ceil(failed * 0.7), 'deadline exceeded': Math.floor(failed * 0.3) } } : {}),
      p50: p99 * 0.18, p90: p99 * 0.52, p99, p999: p99 * 2.3, perSecond: seconds(rate, i + 3, now, failing), heatWindow: 5e9, heat: heat(rate, p99, now),
    }
  })
}

function heat(rate: number, p99: number, now: number) {
  const last = Math.floor(now / 5000)
  const middle = Math.log2(p99 * 0.18)
  return Array.from({ length: 60 }, (_, i) => {
    const r = random(last - 59 + i)
    const shift = Math.sin((last - 59 + i) / 11) * 0.7
    return Array.from({ length: 9 }, (_, k) => {
      const d = k - 3 - shift
      return { took: 2 ** Math.round(middle + k - 3), calls: Math.round(rate * 5 * Math.exp(-d * d / (d > 0 ? 3.2 : 0.9)) * (0.6 + 0.4 * r()) * 0.4) }
    }).filter((c) => c.calls > 0)
  })
}

// counts are the instances of a service by their state.
export function counts(instances: readonly InstanceRow[]): Record<string, number> {
  const out: Record<string, number> = {}
  for (const i of instances) out[i.state] = (out[i.state] ?? 0) + 1
  return out
}

// detail is a service with all that its screen shows.
export function detail(e: Entry, all: readonly Entry[], now: number): Service {
  const at = all.indexOf(e)
  const callers = [1, 2, 3, 5].map((d) => all[(at + d * 13) % all.length]).filter((c): c is Entry => c !== undefined)
  return {
    ...row(e, now, at), methods: figures(e, now), rows: e.instances, set: e.set,
    consumers: callers.map((c, i) => ({
      list: c.row.list, instance: c.instances[0]?.id ?? '', client: e.row.list, rate: e.row.rate / callers.length, errorRate: e.row.errorRate / callers.length, p99: e.row.p99 * (1 + i / 10), methods: figures(e, now),
    })),
  }
}

export function row(e: Entry, now: number, seed: number): ServiceRow {
  return { ...e.row, instances: counts(e.instances), overrides: e.set.length, perSecond: e.row.rate > 0 ? seconds(e.row.rate, seed, now).map((s) => s.calls) : [] }
}
