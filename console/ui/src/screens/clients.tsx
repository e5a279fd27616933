import { useMemo } from 'react'
import type { Consumer, Explanation, InstanceState } from '../api/types.ts'
import { count, duration, failedShare, rate, share } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { setParams, useRoute } from '../route.tsx'
import { ErrorShare, Facts, Panel } from '../ui/parts.tsx'
import { StateMark } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'

// Clients are the clients of one process, and for one of them where a call would go now, and why.
export function Clients({ clients }: { clients: readonly Consumer[] }) {
  const { t } = useT()
  const { params } = useRoute()
  const chosen = clients.find((c) => c.client === params['client']) ?? clients[0]
  const name = chosen?.client
  const columns = useMemo(() => clientColumns(t, name), [t, name])
  return (
    <>
      <Table label={t('instance.calls')} rows={clients} columns={columns} rowKey={(c) => c.client} sortName="sort" sorted="-rate" empty={t('instance.noCalls')} minWidth={900} />
      {chosen ? <Client c={chosen} /> : null}
    </>
  )
}

function clientColumns(t: T, name: string | undefined): Column<Consumer>[] {
  return [
    { key: 'client', head: t('consumer.client'), width: 'minmax(220px,2fr)', sort: (c) => c.client, cell: (c) => <button type="button" className="row-button" aria-pressed={c.client === name} onClick={() => setParams({ client: c.client })}>{c.client}</button> },
    { key: 'rate', head: t('rate.s'), width: '84px', end: true, sort: (c) => c.rate, cell: (c) => <span className="num">{rate(c.rate)}</span> },
    { key: 'errors', head: t('errors'), width: '84px', end: true, sort: failedShare, cell: (c) => <ErrorShare of={c} /> },
    { key: 'p99', head: 'p99', width: '84px', end: true, sort: (c) => c.p99, cell: (c) => <span className="num">{duration(c.p99)}</span> },
    { key: 'ready', head: t('consumer.usable'), width: '90px', end: true, cell: (c) => <span className="num">{c.state ? `${c.state.instances.ready}/${listed(c)}` : '–'}</span> },
    { key: 'ejected', head: t('state.ejected'), width: '80px', end: true, cell: (c) => <span className="num">{count(c.state?.instances.ejected)}</span> },
    { key: 'open', head: t('client.open'), width: '110px', end: true, cell: (c) => <span className="num">{count((c.state?.breakers ?? []).reduce((sum, b) => sum + b.open, 0))}</span> },
    { key: 'budget', head: t('budget'), width: '100px', end: true, sort: (c) => c.state?.retryBudget ?? 0, cell: (c) => <span className="num">{c.state?.retryBudget.toFixed(1) ?? '–'}</span> },
    { key: 'policy', head: t('policy'), width: '100px', cell: (c) => c.state?.policy.inForce || '–' },
  ]
}

function listed(c: Consumer): number {
  return Object.values(c.state?.instances ?? {}).reduce((sum, n) => sum + n, 0)
}

function Client({ c }: { c: Consumer }) {
  const { t } = useT()
  const s = c.state
  return (
    <>
      {s ? (
        <Panel title={c.client}>
          <Facts items={[
            [t('connections'), count(s.connections)],
            [t('client.ejections'), count(s.ejections)],
            [t('client.refused'), count(s.retriesRefused)],
            ...(s.panicking ? [[t('client.panicking'), t('client.panickingText')] as const] : []),
            ...(s.registryError ? [[t('client.registry'), <span key="e" className="bad">{s.registryError}</span>] as const] : []),
            ...(s.policy.error ? [[t('policy'), <span key="p" className="bad">{s.policy.error}</span>] as const] : []),
          ]} />
        </Panel>
      ) : null}
      {c.explanation ? <Explained e={c.explanation} /> : null}
    </>
  )
}

function Explained({ e }: { e: Explanation }) {
  const { t } = useT()
  const attempt = e.attempts?.[0]
  const columns = useMemo<Column<InstanceState>[]>(() => [
    { key: 'id', head: t('instance'), width: 'minmax(180px,1.5fr)', sort: (i) => i.id, cell: (i) => i.id },
    { key: 'state', head: t('client.usable'), width: 'minmax(120px,1fr)', cell: (i) => (i.unusable ? <span className="bad" title={i.unusable}>{i.unusable}</span> : i.suspect ? <span title={i.suspect}>{i.suspect}</span> : <StateMark state="enabled" />) },
    { key: 'breaker', head: t('client.breaker'), width: '110px', sort: (i) => i.breaker, cell: (i) => i.breaker },
    { key: 'weight', head: t('weight'), width: '76px', end: true, sort: (i) => i.weight, cell: (i) => <span className="num">{count(i.weight)}</span> },
    { key: 'running', head: t('running'), width: '76px', end: true, sort: (i) => i.inFlight, cell: (i) => <span className="num">{count(i.inFlight)}</span> },
    { key: 'latency', head: t('client.latency'), width: '100px', end: true, sort: (i) => i.latency, cell: (i) => <span className="num">{duration(i.latency)}</span> },
    { key: 'calls', head: t('calls'), width: '100px', end: true, sort: (i) => i.calls, cell: (i) => <span className="num">{count(i.calls)}</span> },
    { key: 'failed', head: t('errors'), width: '84px', end: true, cell: (i) => <span className="num">{share(i.calls > 0 ? i.failed / i.calls : 0)}</span> },
  ], [t])
  if (!attempt) return null
  const steps = attempt.steps ?? []
  return (
    <Panel title={t('explain.title', { policy: e.policy || '–' })}>
      <ul className="lines">
        {e.stale ? <li className="bad">{e.stale}</li> : null}
        {(attempt.route?.chances ?? []).map((c) => (
          <li key={c.subset}><span>{t('explain.route', { name: attempt.route?.route ?? '', percent: String(Math.round(c.percent * 100) / 100), subset: c.subset })}</span>{c.empty ? <span className="bad">{c.empty}</span> : null}</li>
        ))}
        {(attempt.route?.skipped ?? []).slice(0, 8).map((s) => <li key={s.route} className="faint">{t('explain.skipped', { name: s.route, why: s.why })}</li>)}
        {steps.map((s, i) => (
          <li key={i}>
            <span><b>{s.policy}</b> {t('explain.kept', { n: s.kept?.length ?? 0 })}</span>
            {Object.entries(s.dropped ?? {}).slice(0, 8).map(([id, why]) => <span key={id} className="faint">{id}: {why}</span>)}
          </li>
        ))}
        <li>{attempt.chosen ? t('explain.chosen', { id: attempt.chosen }) : (attempt.error ?? '')}</li>
      </ul>
      <Table label={t('instances')} rows={attempt.instances ?? []} columns={columns} rowKey={(i) => i.id} sortName="by" sorted="id" minWidth={860} />
    </Panel>
  )
}
