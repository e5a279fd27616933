import { useMemo } from 'react'
import type { Edge, Node, Topology } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { duration, failedShare, rate, share, shortList } from '../format.ts'
import { layout, type Placed } from '../graph.ts'
import { useT } from '../i18n/index.tsx'
import { go, Link, setParams, useRoute } from '../route.tsx'
import { ErrorShare, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Picker } from './list-picker.tsx'

export default function TopologyScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const center = params['center'] ?? ''
  const hops = ['1', '2', '3'].includes(params['hops'] ?? '') ? Number(params['hops']) : 1
  return (
    <>
      <div className="title-row">
        <h1>{t('nav.topology')}</h1>
        <Picker label={t('topology.center')} name="center" of="service" />
        <label>{t('topology.hops')}{' '}
          <select value={hops} onChange={(event) => setParams({ hops: event.target.value })}>{[1, 2, 3].map((n) => <option key={n}>{n}</option>)}</select>
        </label>
      </div>
      {center === '' ? <p className="empty">{t('topology.choose')}</p> : <Loaded center={center} hops={hops} />}
    </>
  )
}

function Loaded({ center, hops }: { center: string; hops: number }) {
  const { t } = useT()
  const { value, error, again } = usePolled('Topology', { center, hops }, 5000)
  if (!value) return <Waiting error={error} again={again} />
  if ((value.nodes ?? []).length === 0) return <p className="empty">{t('topology.empty')}</p>
  return (
    <>
      {error ? <Problem error={error} again={again} /> : null}
      {value.cut > 0 ? <p className="faint">{t('topology.cut', { n: value.cut })}</p> : null}
      <Tabs
        label={t('topology.label')} name="as"
        tabs={[
          { id: 'graph', title: t('topology.graph'), body: () => <Graph value={value} center={center} /> },
          { id: 'table', title: t('topology.table'), n: value.edges?.length ?? 0, body: () => <Edges value={value} /> },
        ]}
      />
    </>
  )
}

// Figures change with each poll; the graph is laid out anew only when its nodes or edges do.
function Graph({ value, center }: { value: Topology; center: string }) {
  const { t } = useT()
  const nodes = value.nodes ?? []
  const edges = value.edges ?? []
  const shape = JSON.stringify([nodes.map((n) => n.id), edges.map((e) => [e.from, e.to])])
  const placed = useMemo(() => {
    const [ids, pairs] = JSON.parse(shape) as [string[], [string, string][]]
    return layout(ids, pairs)
  }, [shape])
  const most = Math.max(1, ...edges.map((e) => e.rate))
  return (
    <Panel title={t('topology.label')}>
      <div className="graph" tabIndex={0} role="group" aria-label={t('topology.label')}>
        <svg width={placed.width} height={placed.height} viewBox={`0 0 ${placed.width} ${placed.height}`}>
          <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
          {edges.map((e) => <EdgeLine key={e.from + e.to} edge={e} path={placed.paths.get(e.from + '\n' + e.to)} most={most} />)}
          {edges.map((e) => <EdgeText key={e.from + e.to} edge={e} path={placed.paths.get(e.from + '\n' + e.to)} />)}
          {nodes.map((n) => <NodeBox key={n.id} node={n} at={placed.nodes.get(n.id)} center={n.name === center} />)}
        </svg>
      </div>
    </Panel>
  )
}

function EdgeLine({ edge, path, most }: { edge: Edge; path: Placed | undefined; most: number }) {
  if (!path) return null
  const failing = failedShare(edge) >= 0.01
  return (
    <g className={'edge' + (failing ? ' failing' : '')} aria-hidden="true">
      <path d={path.path} strokeWidth={1 + 3 * Math.sqrt(edge.rate / most)} strokeDasharray={failing ? '6 4' : undefined} markerEnd="url(#arrow)" />
    </g>
  )
}

// EdgeText is drawn above all lines.
function EdgeText({ edge, path }: { edge: Edge; path: Placed | undefined }) {
  if (!path) return null
  // One string: the outline of a second one would cover the first.
  const text = `${rate(edge.rate)}/s · ${duration(edge.p99)}` + (failedShare(edge) >= 0.01 ? ' · ' + share(failedShare(edge)) : '')
  return <text className="edge-text" x={path.x} y={path.y + 4} aria-hidden="true">{text}</text>
}

function NodeBox({ node, at, center }: { node: Node; at: { x: number; y: number; width: number; height: number } | undefined; center: boolean }) {
  const { t } = useT()
  if (!at) return null
  const open = () => go('topology', { center: node.name, hops: '1' })
  return (
    <g
      className={'node' + (center ? ' center' : '') + (failedShare(node) >= 0.01 ? ' failing' : '')} transform={`translate(${at.x - at.width / 2} ${at.y - at.height / 2})`}
      tabIndex={0} role="link"
      onClick={open} onKeyDown={(event) => { if (event.key === 'Enter') open() }}
    >
      <rect width={at.width} height={at.height} rx="4" />
      <text className="name" x="10" y="18">{node.name}</text>
      <text x="10" y="34">{rate(node.rate)}/s · {share(failedShare(node))} · {t('topology.instances', { n: node.instances })}</text>
    </g>
  )
}

function Edges({ value }: { value: Topology }) {
  const { t } = useT()
  const names = useMemo(() => new Map((value.nodes ?? []).map((n) => [n.id, n.name])), [value.nodes])
  const columns = useMemo<Column<Edge>[]>(() => {
    const name = (id: string, tab: number) => <Link tabIndex={tab} view="topology" params={{ center: names.get(id) ?? id, hops: '1' }} title={id}>{names.get(id) ?? id}</Link>
    return [
      { key: 'from', head: t('topology.from'), width: 'minmax(160px,1.5fr)', sort: (e) => names.get(e.from) ?? e.from, cell: (e, tab) => name(e.from, tab) },
      { key: 'to', head: t('topology.to'), width: 'minmax(160px,1.5fr)', sort: (e) => names.get(e.to) ?? e.to, cell: (e, tab) => name(e.to, tab) },
      { key: 'rate', head: t('rate.s'), width: '90px', end: true, sort: (e) => e.rate, cell: (e) => <span className="num">{rate(e.rate)}</span> },
      { key: 'errors', head: t('errors'), width: '90px', end: true, sort: (e) => failedShare(e), cell: (e) => <ErrorShare of={e} /> },
      { key: 'p99', head: 'p99', width: '90px', end: true, sort: (e) => e.p99, cell: (e) => <span className="num">{duration(e.p99)}</span> },
      { key: 'protocol', head: t('protocol'), width: 'minmax(110px,1fr)', cell: (e) => shortList(e.protocols ?? [], 3) },
    ]
  }, [t, names])
  return <Table label={t('topology.label')} rows={value.edges ?? []} columns={columns} rowKey={(e) => e.from + '\n' + e.to} sortName="sort" sorted="-rate" empty={t('topology.empty')} minWidth={760} fill />
}
