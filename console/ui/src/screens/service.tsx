import { lazy, Suspense, useMemo, useState } from 'react'
import type { Consumer, InstanceRow, MethodFigure, Override, Service } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { filterInstances } from '../filter.ts'
import { count, duration, failedShare, isTime, rate, share, shortList, target, time } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { print } from '../play/json.ts'
import { exact } from '../play/schema.ts'
import { Link, setParams, useRoute } from '../route.tsx'
import { mayEdit, sourceOf, useSession } from '../session.tsx'
import { Chart } from '../ui/chart.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { Heat } from '../ui/heat.tsx'
import { ErrorShare, Figure, Loading, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { StateCounts, StateMark } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import type { Action } from './edit.tsx'

const EditDialog = lazy(() => import('./edit.tsx'))

export default function ServiceScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const { value, error, again } = usePolled('Service', { list: params['list'] ?? '', service: params['service'] ?? '' }, 2000)
  if (!value) return <><h1>{params['service']}</h1><Waiting error={error} again={again} /></>
  const rows = value.rows ?? []
  const running = rows.reduce((sum, r) => sum + r.running, 0)
  return (
    <>
      <p className="crumbs"><Link view="services">{t('nav.services')}</Link> / <span className="faint">{value.list}</span></p>
      <div className="title-row"><h1>{value.service}</h1><StateCounts counts={value.instances} /></div>
      {error ? <Problem error={error} again={again} /> : null}
      <div className="figures-row">
        <Figure name={t('instances')} value={count(rows.length)} note={shortList(value.zones ?? [], 4)} />
        <Figure name={t('rate')} value={rate(value.rate)} unit={t('perSecond')} />
        <Figure name={t('errors')} value={share(failedShare(value))} />
        <Figure name="p99" value={duration(value.p99)} note={t('service.slowest')} />
        <Figure name={t('running')} value={count(running)} />
        <Figure name={t('version')} value={shortList(value.versions ?? [])} note={shortList(value.protocols ?? [], 4)} />
      </div>
      <Tabs
        label={value.service}
        tabs={[
          { id: 'methods', title: t('methods'), n: value.methods?.length ?? 0, body: () => <Methods methods={value.methods ?? []} list={value.list} /> },
          { id: 'instances', title: t('instances'), n: rows.length, body: () => <Instances service={value} rows={rows} again={again} /> },
          { id: 'consumers', title: t('consumers'), n: value.consumers?.length ?? 0, body: () => <Consumers rows={value.consumers ?? []} /> },
          { id: 'policies', title: t('nav.policies'), n: value.set?.length ?? 0, body: () => <Policies service={value} /> },
          { id: 'schema', title: t('schema'), body: () => <Schema list={value.list} service={value.service} /> },
        ]}
      />
    </>
  )
}

export function methodColumns(t: T, pick?: (m: MethodFigure) => { picked: boolean; pick: () => void }): Column<MethodFigure>[] {
  return [
    {
      key: 'method', head: t('method'), width: 'minmax(170px,2fr)', sort: (m) => m.method,
      cell: (m) => {
        const p = pick?.(m)
        return p ? <button type="button" className="row-button" aria-pressed={p.picked} onClick={p.pick}>{m.method}</button> : m.method
      },
    },
    { key: 'kind', head: t('kind'), width: '80px', sort: (m) => m.kind ?? '', cell: (m) => <span className="faint">{m.kind}</span> },
    { key: 'rate', head: t('rate.s'), width: '84px', end: true, sort: (m) => m.rate, cell: (m) => <span className="num">{rate(m.rate)}</span> },
    { key: 'errors', head: t('errors'), width: '84px', end: true, sort: (m) => failedShare(m), cell: (m) => <ErrorShare of={m} /> },
    ...(['p50', 'p90', 'p99', 'p999'] as const).map((p): Column<MethodFigure> => ({
      key: p, head: p === 'p999' ? 'p99.9' : p, width: '80px', end: true, sort: (m) => m[p], cell: (m) => <span className="num">{duration(m[p])}</span>,
    })),
    { key: 'running', head: t('running'), width: '80px', end: true, sort: (m) => m.running, cell: (m) => <span className="num">{count(m.running)}</span> },
    { key: 'calls', head: t('calls'), width: '104px', end: true, sort: (m) => m.calls, cell: (m) => <span className="num">{count(m.calls)}</span> },
    { key: 'codes', head: t('codes'), width: 'minmax(140px,1fr)', cell: (m) => <span className="faint">{Object.entries(m.errors ?? {}).map(([code, n]) => `${code} ${count(n)}`).join(', ')}</span> },
  ]
}

export function Methods({ methods, list, instance = '' }: { methods: readonly MethodFigure[]; list: string; instance?: string }) {
  const { t } = useT()
  const { params } = useRoute()
  const busiest = useMemo(() => methods.reduce<MethodFigure | undefined>((a, m) => (!a || m.rate > a.rate ? m : a), undefined), [methods])
  const chosen = methods.find((m) => m.method === params['method']) ?? busiest
  const name = chosen?.method
  const columns = useMemo(() => methodColumns(t, (m) => ({ picked: m.method === name, pick: () => setParams({ method: m.method }) })), [t, name])
  return (
    <>
      <Table label={t('methods')} rows={methods} columns={columns} rowKey={(m) => m.method} sortName="sort" sorted="-rate" empty={t('methods.empty')} minWidth={1066} />
      {chosen ? <MethodCharts m={chosen} list={list} instance={instance} /> : null}
    </>
  )
}

function MethodCharts({ m, list, instance }: { m: MethodFigure; list: string; instance: string }) {
  const { t } = useT()
  const seconds = m.perSecond
  const x = useMemo(() => (seconds ?? []).map((_, i, all) => i - all.length + 1), [seconds])
  const series = useMemo(() => [
    { label: t('overview.calls'), values: (seconds ?? []).map((s) => s.calls), color: '--series-1' },
    { label: t('overview.failed'), values: (seconds ?? []).map((s) => s.failed), color: '--series-2', dash: [5, 3] },
  ], [seconds, t])
  return (
    <Panel title={m.method} className="method-charts" actions={<Link view="playground" params={{ list, at: instance, method: m.method }}>{t('play.try')}</Link>}>
      <div className="columns two">
        {x.length > 1 ? <Chart title={t('overview.lastMinute')} x={x} series={series} format={rate} height={190} /> : null}
        <Heat title={t('heat')} heat={m.heat} window={m.heatWindow ?? 1e9} />
      </div>
    </Panel>
  )
}

function instanceColumns(t: T, service: string): Column<InstanceRow>[] {
  return [
    { key: 'id', head: t('instance'), width: 'minmax(150px,1.6fr)', sort: (r) => r.id, cell: (r, tab) => <Link tabIndex={tab} view="instance" params={{ list: r.list, instance: r.id, service }}>{r.id}</Link> },
    { key: 'state', head: t('state'), width: '116px', sort: (r) => r.state, cell: (r) => <StateMark state={r.state} /> },
    { key: 'why', head: t('why'), width: 'minmax(100px,1.4fr)', cell: (r) => <span className="faint" title={r.why || r.error}>{r.why || r.error}</span> },
    { key: 'weight', head: t('weight'), width: '70px', end: true, sort: (r) => r.set, cell: (r) => <Weight row={r} /> },
    { key: 'rate', head: t('rate.s'), width: '76px', end: true, sort: (r) => r.rate, cell: (r) => <span className="num">{rate(r.rate)}</span> },
    { key: 'errors', head: t('errors'), width: '76px', end: true, sort: (r) => failedShare(r), cell: (r) => <ErrorShare of={r} /> },
    { key: 'p99', head: 'p99', width: '80px', end: true, sort: (r) => r.p99, cell: (r) => <span className="num">{duration(r.p99)}</span> },
    { key: 'running', head: t('running'), width: '70px', end: true, sort: (r) => r.running, cell: (r) => <span className="num">{count(r.running)}</span> },
    { key: 'version', head: t('version'), width: '80px', sort: (r) => r.version ?? '', cell: (r) => r.version ?? '' },
    { key: 'zone', head: t('zone'), width: '70px', sort: (r) => r.zone ?? '', cell: (r) => r.zone ?? '' },
    { key: 'address', head: t('address'), width: 'minmax(140px,1.2fr)', cell: (r) => <span className="faint" title={(r.endpoints ?? []).map((e) => `${e.transport}://${e.address}`).join('\n')}>{(r.endpoints ?? []).map((e) => e.address).join(', ')}</span> },
  ]
}

// Weight is the weight in force; one that differs from the registered one shows both.
function Weight({ row }: { row: InstanceRow }) {
  const { t } = useT()
  const registered = row.weight || 100
  if (row.set === registered) return <span className="num">{row.set}</span>
  return <span className="num" title={t('weight.registered', { n: registered })}><b>{row.set}</b></span>
}

function Instances({ service, rows, again }: { service: Service; rows: readonly InstanceRow[]; again: () => void }) {
  const { t } = useT()
  const { params } = useRoute()
  const session = useSession()
  const filter = params['q'] ?? ''
  const shown = useMemo(() => filterInstances(rows, filter), [rows, filter])
  const columns = useMemo(() => instanceColumns(t, service.service), [t, service.service])
  // Actions go to these IDs, also when the filter or the list changes meanwhile.
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [action, setAction] = useState<Action>()
  const editable = mayEdit(session, service.list)
  const chosen = rows.filter((r) => selected.has(r.id))
  const hidden = chosen.length - shown.filter((r) => selected.has(r.id)).length
  return (
    <>
      <div className="bar">
        <FilterField label={t('instances.filter')} hint="zone:a state:draining" />
        <span className="faint num" role="status">
          {chosen.length > 0 ? t('instances.selected', { n: chosen.length }) + (hidden > 0 ? t('instances.hidden', { n: hidden }) : '') : t('services.shown', { shown: count(shown.length), all: count(rows.length) })}
        </span>
        {editable ? (
          <span className="actions">
            {(['weight', 'disable', 'drain', 'enable'] as const).map((a) => (
              <button key={a} type="button" className="button" disabled={chosen.length === 0} onClick={() => setAction(a)}>{t(`action.${a}`)}</button>
            ))}
          </span>
        ) : <span className="faint">{session ? (session.readOnly ? t('edit.readOnly') : sourceOf(session, service.list)?.documents === false ? t('source.noDocuments') : t('edit.role')) : null}</span>}
      </div>
      <Table
        label={t('instances')} rows={shown} columns={columns} rowKey={(r) => r.id} fill sortName="sort" sorted="id" minWidth={1066}
        empty={filter ? t('services.none') : t('instances.empty')}
        {...(editable ? { selected, onSelect: setSelected } : {})}
      />
      {action ? (
        <Suspense fallback={<Loading />}>
          <EditDialog
            action={action} list={service.list} service={service.service} rows={chosen} before={service.set ?? []}
            close={(done) => {
              setAction(undefined)
              if (done) {
                setSelected(new Set())
                again()
              }
            }} again={again}
          />
        </Suspense>
      ) : null}
    </>
  )
}

function consumerColumns(t: T): Column<Consumer>[] {
  return [
    { key: 'instance', head: t('consumer.process'), width: 'minmax(200px,1.5fr)', sort: (c) => c.instance, cell: (c, tab) => <Link tabIndex={tab} view="instance" params={{ list: c.list, instance: c.instance, tab: 'clients', client: c.client }}>{c.instance}</Link> },
    { key: 'list', head: t('list'), width: 'minmax(160px,1.5fr)', sort: (c) => c.list, cell: (c) => <span className="faint" title={c.list}>{target(c.list).path}</span> },
    { key: 'rate', head: t('rate.s'), width: '84px', end: true, sort: (c) => c.rate, cell: (c) => <span className="num">{rate(c.rate)}</span> },
    { key: 'errors', head: t('errors'), width: '84px', end: true, sort: failedShare, cell: (c) => <ErrorShare of={c} /> },
    { key: 'p99', head: 'p99', width: '84px', end: true, sort: (c) => c.p99, cell: (c) => <span className="num">{duration(c.p99)}</span> },
    { key: 'methods', head: t('methods'), width: 'minmax(160px,2fr)', cell: (c) => <span className="faint">{shortList((c.methods ?? []).map((m) => m.method), 4)}</span> },
  ]
}

function Consumers({ rows }: { rows: readonly Consumer[] }) {
  const { t } = useT()
  const columns = useMemo(() => consumerColumns(t), [t])
  return <Table label={t('consumers')} rows={rows} columns={columns} rowKey={(c) => c.list + c.instance + c.client} sortName="sort" sorted="-rate" empty={t('consumers.empty')} minWidth={980} fill />
}

function Policies({ service }: { service: Service }) {
  const { t } = useT()
  const columns = useMemo<Column<Override>[]>(() => [
    { key: 'of', head: t('override.of'), width: 'minmax(180px,1.4fr)', cell: (o, tab) => (o.instance ? <Link tabIndex={tab} view="instance" params={{ list: service.list, instance: o.instance, service: service.service }}>{o.instance}</Link> : Object.entries(o.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(' ')) },
    { key: 'what', head: t('override.what'), width: 'minmax(150px,1fr)', cell: (o) => (o.state ? <StateMark state={o.state} /> : <span className="num">{t('override.weight', { n: o.weight ?? 0 })}{o.ramp && o.ramp !== '0s' ? ' ' + t('override.ramp', { from: o.from ?? 0, ramp: o.ramp }) : ''}</span>) },
    { key: 'by', head: t('by'), width: '110px', cell: (o) => o.by },
    { key: 'at', head: t('since'), width: '150px', cell: (o) => <span className="num">{time(o.at)}</span> },
    { key: 'until', head: t('until'), width: '150px', cell: (o) => <span className="num">{isTime(o.until) ? time(o.until) : t('forever')}</span> },
    { key: 'why', head: t('why'), width: 'minmax(160px,2fr)', cell: (o) => <span className="faint">{o.why}</span> },
  ], [t, service.list, service.service])
  return (
    <>
      <Panel title={t('overrides')}>
        <Table label={t('overrides')} rows={service.set ?? []} columns={columns} rowKey={(o) => (o.instance ?? JSON.stringify(o.labels)) + (o.state ? 's' : 'w')} empty={t('overrides.empty')} minWidth={900} />
      </Panel>
      <Panel title={t('policy')}>
        <p className="pad">
          {service.policy ? t('policy.version', { version: service.policy }) : t('policy.none')}{' '}
          <Link view="policies" params={{ list: service.list }}>{t('policy.open')}</Link>
        </p>
      </Panel>
    </>
  )
}

// Schema is what the methods take and return, as an instance describes them.
function Schema({ list, service }: { list: string; service: string }) {
  const { t } = useT()
  const { value, error, again } = usePolled('Playground', { list }, 0)
  if (!value) return <Waiting error={error} again={again} />
  const methods = (value.schema?.methods ?? []).filter((m) => m.method.slice(0, m.method.lastIndexOf('.')) === service)
  if (methods.length === 0) return <p className="empty">{value.error ?? t('schema.empty')}</p>
  return (
    <>
      <Panel title={t('methods')}><ul className="lines">
        {methods.map((m) => (
          <li key={m.method}>
            <span className="line-head"><b>{m.method}</b> <span className="faint">{[m.kind, m.safe ? t('play.safe') : ''].filter(Boolean).join(' · ')}</span> <Link view="playground" params={{ list, method: m.method }}>{t('play.try')}</Link></span>
            <span className="faint">{t('schema.request')} <code>{m.requestMessage || print(exact(m.request), false)}</code></span>
            <span className="faint">{t('schema.response')} <code>{m.responseMessage || print(exact(m.response), false)}</code></span>
          </li>
        ))}
      </ul></Panel>
      <Panel title={t('schema.definitions')}><pre className="code" tabIndex={0}>{print(exact(value.schema?.definitions ?? {}))}</pre></Panel>
    </>
  )
}
