import type { Override } from './api/types.ts'

export interface Inverse {
  set: Override[]
  clear: string[]
}

// inverse returns the edit that takes back a change of instances: what was set for them before is
// set again, and overrides that were not there end. Overrides of other instances stay as they are.
// weights are the weights of the instances as registered.
export function inverse(change: readonly Override[], before: readonly Override[], weights: ReadonlyMap<string, number>): Inverse {
  const out: Inverse = { set: [], clear: [] }
  const ids = [...new Set(change.flatMap((o) => (o.instance ? [o.instance] : [])))]
  for (const id of ids) {
    const prior = before.filter((o) => o.instance === id)
    if (prior.length === 0) {
      out.clear.push(id)
      continue
    }
    if (change.some((o) => o.instance === id && o.state)) out.set.push(priorState(id, prior))
    if (change.some((o) => o.instance === id && o.weight)) out.set.push(priorWeight(id, prior, weights.get(id) ?? 100))
  }
  return out
}

function priorState(id: string, prior: readonly Override[]): Override {
  const old = prior.find((o) => o.state)
  return { instance: id, state: old?.state ?? 'enabled', ...(old?.until ? { until: old.until } : {}) }
}

function priorWeight(id: string, prior: readonly Override[], registered: number): Override {
  const old = prior.find((o) => o.weight)
  return { instance: id, weight: old?.weight ?? registered, ...(old?.until ? { until: old.until } : {}) }
}
