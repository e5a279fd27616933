import type { Topology } from '../api/types.ts'
import type { Entry } from './data.ts'

// topology makes up who calls whom: each service calls a few with larger numbers.
export function topology(all: readonly Entry[], center: string, hops: number): Topology {
  const start = all.findIndex((e) => e.row.service === center)
  const at = start < 0 ? 0 : start
  const ids = new Set([at])
  const edges = new Map<string, [number, number]>()
  let edge = [at]
  for (let h = 0; h < Math.min(3, hops); h++) {
    const next: number[] = []
    for (const i of edge) {
      for (const [from, to] of [[i, i + 3], [i, i + 17], [i - 5, i]] as const) {
        if (from < 0 || to >= all.length) continue
        edges.set(from + '>' + to, [from, to])
        for (const j of [from, to]) {
          if (!ids.has(j)) next.push(j)
          ids.add(j)
        }
      }
    }
    edge = next
  }
  const of = (i: number) => all[i] as Entry
  return {
    nodes: [...ids].map((i) => ({ id: of(i).row.list, name: of(i).row.service, rate: of(i).row.rate, errorRate: of(i).row.errorRate, instances: of(i).instances.length })),
    edges: [...edges.values()].map(([a, b]) => ({ from: of(a).row.list, to: of(b).row.list, rate: of(b).row.rate / 3, errorRate: of(b).row.errorRate, p99: of(b).row.p99, protocols: of(b).row.protocols })),
    cut: 0,
  }
}
