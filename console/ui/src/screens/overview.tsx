import { useMemo } from 'react'
import type { ChangeRow, Overview, Rollout, ServiceRow } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { count, duration, failedShare, rate, share, target, time } from '../format.ts'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { Link } from '../route.tsx'
import { Chart } from '../ui/chart.tsx'
import { ErrorShare, Figure, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Spark } from '../ui/spark.tsx'
import { StateMark, states } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'

export default function OverviewScreen() {
  const { t } = useT()
  const { value, error, again } = usePolled('Overview', {}, 2000)
  if (!value) return <Waiting error={error} again={again} />
  return (
    <>
      <h1>{t('nav.overview')}</h1>
      {error ? <Problem error={error} again={again} /> : null}
      <Figures o={value} />
      <Panel title={t('overview.traffic')}><Traffic o={value} /></Panel>
      <Panel title={t('overview.top')}><Top rows={value.top ?? []} /></Panel>
      <div className="columns">
        <Panel title={t('overview.rollouts')}><Rollouts rows={value.rollouts ?? []} /></Panel>
        <Panel title={t('overview.changes')}><Changes rows={value.changes ?? []} /></Panel>
        <Panel title={t('overview.sources')}><Sources o={value} /></Panel>
        <Panel title={t('overview.versions')}><Versions o={value} /></Panel>
      </div>
    </>
  )
}

function Figures({ o }: { o: Overview }) {
  const { t } = useT()
  const counts = Object.entries(o.instances ?? {})
  const all = counts.reduce((sum, [, n]) => sum + n, 0)
  const known = [...states.filter((s) => (o.instances?.[s] ?? 0) > 0), ...counts.map(([s]) => s).filter((s) => !(states as readonly string[]).includes(s))]
  return (
    <div className="figures-row">
      <Figure name={t('services')} value={count(o.services)} />
      <Figure
        name={t('instances')} value={count(all)}
        note={<span className="marks">{known.map((s) => <Link key={s} view="services" params={{ q: 'state:' + s }}><StateMark state={s} n={o.instances?.[s] ?? 0} /></Link>)}</span>}
      />
      <Figure name={t('rate')} value={rate(o.rate)} unit={t('perSecond')} />
      <Figure name={t('errors')} value={share(failedShare(o))} note={t('overview.failing', { rate: rate(o.errorRate) })} />
      <Figure name={t('overview.answering')} value={count(o.answering)} note={t('overview.silent', { n: o.silent })} />
    </div>
  )
}

function Traffic({ o }: { o: Overview }) {
  const { t } = useT()
  const seconds = o.perSecond
  const x = useMemo(() => (seconds ?? []).map((_, i, all) => i - all.length + 1), [seconds])
  const series = useMemo(() => [
    { label: t('overview.calls'), values: (seconds ?? []).map((s) => s.calls), color: '--series-1' },
    { label: t('overview.failed'), values: (seconds ?? []).map((s) => s.failed), color: '--series-2', dash: [5, 3] },
  ], [seconds, t])
  if (x.length < 2) return <p className="empty">{t('overview.noTraffic')}</p>
  return <Chart title={t('overview.lastMinute')} x={x} series={series} format={rate} />
}

function topColumns(t: T): Column<ServiceRow>[] {
  return [
    { key: 'service', head: t('service'), width: 'minmax(200px,2fr)', cell: (r, tab) => <Link tabIndex={tab} view="service" params={{ list: r.list, service: r.service }}>{r.service}</Link> },
    { key: 'rate', head: t('rate.s'), width: '88px', end: true, cell: (r) => <span className="num">{rate(r.rate)}</span> },
    { key: 'spark', head: t('lastMinute'), width: '112px', cell: (r) => <Spark values={r.perSecond} /> },
    { key: 'errors', head: t('errors'), width: '88px', end: true, cell: (r) => <ErrorShare of={r} /> },
    { key: 'p99', head: 'p99', width: '88px', end: true, cell: (r) => <span className="num">{duration(r.p99)}</span> },
    { key: 'list', head: t('list'), width: 'minmax(160px,1fr)', cell: (r) => <span className="faint">{r.list}</span> },
  ]
}

function Top({ rows }: { rows: readonly ServiceRow[] }) {
  const { t } = useT()
  const columns = useMemo(() => topColumns(t), [t])
  return <Table label={t('overview.top')} rows={rows} columns={columns} rowKey={(r) => r.list + ' ' + r.service} minWidth={760} />
}

export function Rollouts({ rows }: { rows: readonly Rollout[] }) {
  const { t } = useT()
  if (rows.length === 0) return <p className="empty">{t('overview.noRollouts')}</p>
  return (
    <ul className="lines">
      {rows.map((r) => {
        const all = r.applied + r.pending + r.refused
        return (
          <li key={r.list + r.kind + r.version}>
            <span className="line-head"><b>{t(r.kind === 'policy' ? 'kind.policy' : 'kind.overrides')} {r.version}</b> <span className="faint">{target(r.list).path}</span></span>
            <meter min={0} max={all} value={r.applied} aria-label={t('rollout.applied', { applied: r.applied, all })} />
            <span>
              {t('rollout.applied', { applied: r.applied, all })}
              {r.pending > 0 ? ' · ' + t('rollout.pending', { n: r.pending }) : ''}
              {r.refused > 0 ? <b className="bad"> · {t('rollout.refused', { n: r.refused })}</b> : null}
            </span>
            {r.text && r.refused > 0 ? <span className="faint">{r.text}</span> : null}
          </li>
        )
      })}
    </ul>
  )
}

export function Changes({ rows }: { rows: readonly ChangeRow[] }) {
  const { t } = useT()
  if (rows.length === 0) return <p className="empty">{t('overview.noChanges')}</p>
  return (
    <ul className="lines changes">
      {rows.map((c) => (
        <li key={c.list + c.kind + c.revision + c.at}>
          <span className="line-head"><time dateTime={c.at}>{time(c.at)}</time> <b>{c.by}</b> <span className="faint">{kindName(t, c.kind)} {c.revision}</span></span>
          <span>{c.what}{c.undone ? ' (' + t('undone') + ')' : ''}</span>
          <span className="faint">{target(c.list).path}{c.why ? ' · ' + c.why : ''}</span>
        </li>
      ))}
    </ul>
  )
}

function kindName(t: T, kind: string): string {
  return ['policy', 'overrides', 'process'].includes(kind) ? t(('kind.' + kind) as Key) : kind
}

function Sources({ o }: { o: Overview }) {
  const { t } = useT()
  return (
    <ul className="lines">
      {(o.sources ?? []).map((s) => (
        <li key={s.name}>
          <span className="line-head"><b>{s.name}</b> <span className="faint">{t('source.lists', { n: s.lists })}</span></span>
          {s.error ? <span className="bad">{t('source.error', { error: s.error })}</span> : <span className="faint">{t('source.read', { at: time(s.at) })}</span>}
          {s.documents ? null : <span className="faint">{t('source.noDocuments')}</span>}
        </li>
      ))}
    </ul>
  )
}

function Versions({ o }: { o: Overview }) {
  const { t } = useT()
  const rows = Object.entries(o.versions ?? {}).sort((a, b) => b[1] - a[1])
  const all = rows.reduce((sum, [, n]) => sum + n, 0)
  if (rows.length === 0) return <p className="empty">{t('overview.noVersions')}</p>
  return (
    <ul className="lines">
      {rows.map(([version, n]) => (
        <li key={version} className="bar-line">
          <span>{version}</span><meter min={0} max={all} value={n} aria-label={version} /><span className="num">{count(n)}</span>
        </li>
      ))}
    </ul>
  )
}
