import dagre from '@dagrejs/dagre'

// Placed is the line of an edge, and where its text is.
export interface Placed {
  path: string
  x: number
  y: number
}

export interface Layout {
  width: number
  height: number
  nodes: Map<string, { x: number; y: number; width: number; height: number }>
  paths: Map<string, Placed> // by "FROM\nTO"
}

const box = { width: 190, height: 44 }

// layout places nodes in layers from the left, callers before what they call.
export function layout(ids: readonly string[], edges: readonly (readonly [string, string])[]): Layout {
  const g = new dagre.graphlib.Graph()
  g.setGraph({ rankdir: 'LR', nodesep: 22, ranksep: 130, marginx: 16, marginy: 16 })
  g.setDefaultEdgeLabel(() => ({}))
  for (const id of ids) g.setNode(id, { ...box })
  for (const [from, to] of edges) if (g.hasNode(from) && g.hasNode(to)) g.setEdge(from, to, {})
  dagre.layout(g)
  const size = g.graph() as { width?: number; height?: number }
  const out: Layout = { width: Math.max(1, Math.ceil(size.width ?? 1)), height: Math.max(1, Math.ceil(size.height ?? 1)), nodes: new Map(), paths: new Map() }
  for (const id of ids) {
    const n = g.node(id) as { x: number; y: number }
    out.nodes.set(id, { ...box, x: n.x, y: n.y })
  }
  for (const [from, to] of edges) {
    if (!g.hasEdge(from, to)) continue
    const { points } = g.edge(from, to) as { points: { x: number; y: number }[] }
    const middle = points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 }
    out.paths.set(from + '\n' + to, { path: points.map((p, i) => `${i === 0 ? 'M' : 'L'}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join(''), x: middle.x, y: middle.y })
  }
  return out
}
