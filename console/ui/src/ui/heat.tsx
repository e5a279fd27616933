import { useEffect, useRef, useState } from 'react'
import type { HeatCell, List } from '../api/types.ts'
import { count, duration } from '../format.ts'
import { useT } from '../i18n/index.tsx'
import { cssColor, onTheme } from '../theme.ts'

export interface Grid {
  rows: number[] // durations in ns, the longest first
  cells: number[][] // calls, by row, then by window
  max: number
  windows: number
}

// grid arranges the cells of a heat map. Every power of two between the shortest and the longest
// is a row, also where no call took so long.
export function grid(heat: List<List<HeatCell>> | undefined): Grid {
  const windows = heat ?? []
  const took = windows.flatMap((w) => (w ?? []).map((c) => Math.round(Math.log2(c.took))))
  if (took.length === 0) return { rows: [], cells: [], max: 0, windows: windows.length }
  const low = Math.min(...took)
  const high = Math.max(...took)
  const cells = Array.from({ length: high - low + 1 }, () => new Array<number>(windows.length).fill(0))
  let max = 0
  windows.forEach((w, x) => (w ?? []).forEach((c) => {
    const row = cells[high - Math.round(Math.log2(c.took))]
    if (!row) return
    row[x] = (row[x] ?? 0) + c.calls
    max = Math.max(max, row[x] ?? 0)
  }))
  return { rows: cells.map((_, i) => 2 ** (high - i)), cells, max, windows: windows.length }
}

const rowHeight = 14

// Heat shows how long calls took, over time: darker cells are more calls.
export function Heat({ title, heat, window }: { title: string; heat: List<List<HeatCell>> | undefined; window: number }) {
  const { t } = useT()
  const [table, setTable] = useState(false)
  const g = grid(heat)
  return (
    <figure className="chart heat">
      <figcaption>
        <h3>{title}</h3>
        <span className="legend"><span>{t('heat.legend', { n: count(g.max) })}</span></span>
        <button type="button" className="plain" aria-pressed={table} onClick={() => setTable(!table)}>{t('chart.table')}</button>
      </figcaption>
      {g.rows.length === 0 ? <p className="empty">{t('heat.empty')}</p> : table ? <HeatTable title={title} g={g} window={window} /> : <HeatCanvas title={title} g={g} window={window} />}
    </figure>
  )
}

function HeatTable({ title, g, window }: { title: string; g: Grid; window: number }) {
  const { t } = useT()
  return (
    <div className="figures" style={{ maxHeight: 260 }} tabIndex={0} role="group" aria-label={title}>
      <table>
        <thead><tr><th scope="col">{t('heat.took')}</th>{Array.from({ length: g.windows }, (_, x) => <th scope="col" key={x}>{'−' + duration((g.windows - x) * window)}</th>)}</tr></thead>
        <tbody>{g.rows.map((ns, y) => <tr key={ns}><th scope="row">{duration(ns)}</th>{g.cells[y]?.map((n, x) => <td key={x}>{n === 0 ? '' : count(n)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  )
}

function HeatCanvas({ title, g, window }: { title: string; g: Grid; window: number }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const height = g.rows.length * rowHeight
  useEffect(() => {
    const el = canvas.current
    if (!el) return
    const draw = () => paint(el, g)
    draw()
    const watch = new ResizeObserver(draw)
    watch.observe(el)
    const stop = onTheme(draw)
    return () => {
      stop()
      watch.disconnect()
    }
  })
  const labels = Math.max(1, Math.ceil(g.rows.length / 7))
  return (
    <div className="heat-box">
      <div className="heat-axis" style={{ height }} aria-hidden="true">
        {g.rows.map((ns, i) => (i % labels === 0 ? <span key={ns} style={{ top: i * rowHeight }}>{duration(ns)}</span> : null))}
      </div>
      <canvas ref={canvas} style={{ height }} role="img" aria-label={title} />
      <div className="heat-times" aria-hidden="true"><span>{'−' + duration(g.windows * window)}</span><span>0 s</span></div>
    </div>
  )
}

function paint(el: HTMLCanvasElement, g: Grid) {
  const ratio = devicePixelRatio || 1
  el.width = Math.round(el.clientWidth * ratio)
  el.height = Math.round(el.clientHeight * ratio)
  const c = el.getContext('2d')
  if (!c) return
  c.scale(ratio, ratio)
  c.fillStyle = cssColor('--heat')
  const w = el.clientWidth / g.windows
  g.cells.forEach((row, y) => row.forEach((n, x) => {
    if (n === 0) return
    c.globalAlpha = 0.12 + 0.88 * Math.sqrt(n / g.max)
    c.fillRect(x * w, y * rowHeight, Math.max(1, w - 1), rowHeight - 1)
  }))
}
