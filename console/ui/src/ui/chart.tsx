import { useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useT } from '../i18n/index.tsx'
import { cssColor, onTheme } from '../theme.ts'

export interface Series {
  label: string
  values: readonly number[]
  color: string // name of a custom property
  dash?: number[] // lines differ by more than colour
}

interface Props {
  title: string
  x: readonly number[] // seconds, such as -59 to 0
  series: readonly Series[]
  format: (value: number) => string
  height?: number
}

// Chart is the one place that uses uPlot. As a canvas says nothing to a screen reader, the same
// figures can be shown as a table.
export function Chart({ title, x, series, format, height = 150 }: Props) {
  const { t } = useT()
  const [table, setTable] = useState(false)
  return (
    <figure className="chart">
      <figcaption>
        <h3>{title}</h3>
        <span className="legend">
          {series.map((s) => (
            <span key={s.label}>
              <svg width="18" height="8" aria-hidden="true">
                <line x1="0" x2="18" y1="4" y2="4" strokeWidth="2" stroke={`var(${s.color})`} strokeDasharray={s.dash?.join(' ')} />
              </svg>
              {s.label} <b className="num">{format(s.values.at(-1) ?? 0)}</b>
            </span>
          ))}
        </span>
        <button type="button" className="plain" aria-pressed={table} onClick={() => setTable(!table)}>{t('chart.table')}</button>
      </figcaption>
      {table ? <Figures title={title} x={x} series={series} format={format} height={height} /> : <Plot x={x} series={series} format={format} height={height} title={title} />}
    </figure>
  )
}

function Figures({ title, x, series, format, height = 150 }: Props) {
  const { t } = useT()
  return (
    <div className="figures" style={{ maxHeight: height }} tabIndex={0} role="group" aria-label={title}>
      <table>
        <thead><tr><th scope="col">{t('chart.seconds')}</th>{series.map((s) => <th scope="col" key={s.label}>{s.label}</th>)}</tr></thead>
        <tbody>
          {x.map((at, i) => (
            <tr key={at}><th scope="row">{at}</th>{series.map((s) => <td key={s.label}>{format(s.values[i] ?? 0)}</td>)}</tr>
          )).reverse()}
        </tbody>
      </table>
    </div>
  )
}

function Plot({ x, series, format, height = 150, title }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const data = [x, ...series.map((s) => s.values)] as unknown as uPlot.AlignedData
  const latest = useRef(data)
  latest.current = data
  const key = series.map((s) => s.label + s.color).join() + height

  useEffect(() => {
    const el = box.current
    if (!el) return
    const make = () => {
      plot.current?.destroy()
      plot.current = new uPlot(options(el.clientWidth, height, series, format), latest.current, el)
    }
    make()
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: el.clientWidth, height }))
    watch.observe(el)
    const stop = onTheme(make)
    return () => {
      stop()
      watch.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
    // The series' values change with each poll, and go in by setData.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key])

  useEffect(() => plot.current?.setData(latest.current), [x, series])
  return <div ref={box} className="plot" style={{ height }} role="img" aria-label={title} />
}

function options(width: number, height: number, series: readonly Series[], format: (v: number) => string): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: cssColor('--muted'),
    font: '11px ' + cssColor('--font'),
    grid: { stroke: cssColor('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 22, values: (_, v) => v.map((n) => n + ' s') },
      { ...axis, size: 56, space: 24, values: (_, v) => v.map(format) },
    ],
    series: [{}, ...series.map((s) => ({ label: s.label, stroke: cssColor(s.color), width: 1.5, points: { show: false }, ...(s.dash ? { dash: s.dash } : {}) }))],
  }
}
