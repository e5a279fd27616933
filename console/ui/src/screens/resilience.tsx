import { lazy, Suspense, useMemo, useState, type ReactNode } from 'react'
import type { Circuit, Limiter, Resilience, ResilienceRow, ResilientClient } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { count, duration, failedShare, isTime, rate, share, target, time } from '../format.ts'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { Link, useRoute } from '../route.tsx'
import { may, useSession } from '../session.tsx'
import { ErrorShare, Figure, Loading, Problem, Waiting } from '../ui/parts.tsx'
import { StateIcon, type StateName } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Picker } from './list-picker.tsx'

const ForceDialog = lazy(() => import('./force.tsx'))

export default function ResilienceScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const list = params['list'] ?? ''
  const { value, error, again } = usePolled('Resilience', list === '' ? {} : { list }, 2000)
  return (
    <>
      <div className="title-row">
        <h1>{t('nav.resilience')}</h1>
        <Picker label={t('boards.list')} name="list" of="list" />
        {list === '' ? null : <Link view="resilience">{t('boards.all')}</Link>}
        {value ? <Asked of={value} /> : null}
      </div>
      {error && value ? <Problem error={error} again={again} /> : null}
      {!value ? <Waiting error={error} again={again} /> : list === '' ? <Lists rows={value.lists ?? []} /> : <OfList key={list} list={list} value={value} again={again} />}
    </>
  )
}

// Asked says how many processes the figures are of.
export function Asked({ of }: { of: { asked: number; processes: number; silent: number } }) {
  const { t } = useT()
  return (
    <span className="faint" role="status">
      {t('boards.asked', { n: of.asked })}
      {of.processes > of.asked ? ' ' + t('boards.ofAll', { all: count(of.processes) }) : ''}
      {of.silent > 0 ? <b className="bad"> · {t('boards.silent', { n: of.silent })}</b> : null}
    </span>
  )
}

// N is a count that stands out unless it is 0.
function N({ n, bad = true }: { n: number; bad?: boolean }) {
  return <span className={'num' + (n === 0 ? ' faint' : bad ? ' bad' : '')}>{count(n)}</span>
}

// troubles names what is wrong with a list.
export function troubles(r: ResilienceRow): [Key, number][] {
  const all: [Key, number][] = [
    ['resilience.panicking', r.panicking], ['resilience.open', r.open], ['resilience.forced', r.forced], ['resilience.halfOpen', r.halfOpen], ['resilience.methods', r.methods],
    ['resilience.guarding', r.guarding], ['resilience.suspect', r.suspect], ['resilience.spent', r.spent],
  ]
  return all.filter(([, n]) => n > 0)
}

function Lists({ rows }: { rows: readonly ResilienceRow[] }) {
  const { t } = useT()
  const columns = useMemo<Column<ResilienceRow>[]>(() => {
    const n = (key: 'open' | 'halfOpen' | 'forced' | 'methods' | 'suspect' | 'panicking' | 'spent' | 'guarding', width: string): Column<ResilienceRow> => ({
      key, head: t(`resilience.${key}`), width, end: true, sort: (r) => r[key], cell: (r) => <N n={r[key]} />,
    })
    return [
      { key: 'list', head: t('list'), width: 'minmax(130px,2fr)', sort: (r) => r.list, cell: (r, tab) => <Link tabIndex={tab} view="resilience" params={{ list: r.list }} title={r.list}>{target(r.list).path}</Link> },
      { key: 'trouble', head: t('resilience.trouble'), width: '128px', sort: (r) => r.trouble, cell: (r) => <Trouble row={r} /> },
      { key: 'clients', head: t('resilience.clients'), width: '70px', end: true, sort: (r) => r.clients, cell: (r) => <N n={r.clients} bad={false} /> },
      { key: 'instances', head: t('instances'), width: '80px', end: true, sort: (r) => r.instances, cell: (r) => <N n={r.instances} bad={false} /> },
      n('open', '56px'), n('halfOpen', '82px'), n('forced', '64px'), n('methods', '96px'), n('suspect', '70px'), n('panicking', '80px'), n('spent', '90px'), n('guarding', '94px'),
      { key: 'retries', head: t('resilience.retriesRefused'), width: '118px', end: true, sort: (r) => r.retriesRefused, cell: (r) => <N n={r.retriesRefused} bad={false} /> },
      { key: 'refused', head: t('resilience.refused'), width: '72px', end: true, sort: (r) => r.refused, cell: (r) => <N n={r.refused} bad={false} /> },
    ]
  }, [t])
  return <Table label={t('resilience.lists')} rows={rows} columns={columns} rowKey={(r) => r.list} sortName="sort" sorted="-trouble" empty={t('resilience.noLists')} minWidth={1180} fill />
}

function Trouble({ row }: { row: ResilienceRow }) {
  const { t } = useT()
  const all = troubles(row)
  if (all.length === 0) return <span className="state enabled"><StateIcon state="enabled" />{t('resilience.calm')}</span>
  const text = all.map(([key, n]) => `${t(key)} ${n}`).join(', ')
  const worst = all[0]
  return <span className="state unhealthy" title={text}><StateIcon state="unhealthy" />{worst ? t(worst[0]) : ''}{all.length > 1 ? ` +${all.length - 1}` : ''}</span>
}

// stateOf returns how a circuit is shown: a state with an icon, and a word.
export function stateOf(t: T, c: Circuit): { icon: StateName; text: string } {
  const known = ['closed', 'open', 'half-open'].includes(c.breaker)
  const word = known ? t(('breaker.' + c.breaker) as Key) : c.breaker
  const icon: StateName = c.breaker === 'open' ? 'unhealthy' : c.breaker === 'half-open' ? 'ejected' : 'enabled'
  if (isTime(c.forced)) return { icon, text: t('breaker.forced', { state: word }) }
  if (c.breaker !== 'closed') return { icon, text: word }
  if (c.suspect) return { icon: 'draining', text: t('breaker.suspect') }
  if (c.unusable) return { icon: 'disabled', text: t('breaker.unusable') }
  return { icon, text: word }
}

export function CircuitMark({ of }: { of: Circuit }) {
  const { t } = useT()
  const s = stateOf(t, of)
  return <span className={'state ' + s.icon}><StateIcon state={s.icon} />{s.text}</span>
}

// whyOf is the reason for the state of a circuit.
export function whyOf(c: Circuit): string {
  if (isTime(c.forced)) return c.reason || c.forcedBy || ''
  return [c.breakerWhy, c.suspect, c.unusable].filter((x) => x !== undefined && x !== '').join(' · ')
}

export function circuitKey(c: Circuit): string {
  return [c.id, c.process, c.client, c.list].join(' · ')
}

function OfList({ list, value, again }: { list: string; value: Resilience; again: () => void }) {
  const { t } = useT()
  const circuits = value.circuits ?? []
  const clients = value.clients ?? []
  const limiters = value.limiters ?? []
  const n = (is: (c: Circuit) => boolean) => circuits.filter(is).length
  const lowest = clients.reduce<number | undefined>((min, c) => (min === undefined ? c.state.retryBudget : Math.min(min, c.state.retryBudget)), undefined)
  const board = useMemo(() => boardOf(circuits), [circuits])
  return (
    <>
      <p className="crumbs"><Link view="resilience">{t('nav.resilience')}</Link> / <span className="faint">{list}</span></p>
      <div className="figures-row">
        <Figure name={t('resilience.open')} value={count(n((c) => c.breaker === 'open'))} note={t('resilience.forced') + ' ' + count(n((c) => isTime(c.forced)))} />
        <Figure name={t('resilience.halfOpen')} value={count(n((c) => c.breaker === 'half-open'))} />
        <Figure name={t('resilience.suspect')} value={count(n((c) => !!c.suspect))} />
        <Figure name={t('resilience.clients')} value={count(clients.length)} note={t('resilience.panicking') + ' ' + count(clients.filter((c) => c.state.panicking).length)} />
        <Figure name={t('resilience.budget')} value={lowest === undefined ? '–' : lowest.toFixed(1)} note={t('resilience.lowest')} />
        <Figure name={t('resilience.retriesRefused')} value={count(clients.reduce((sum, c) => sum + c.state.retriesRefused, 0))} />
        <Figure name={t('resilience.refused')} value={count(limiters.reduce((sum, l) => sum + l.refused, 0))} note={t('resilience.guarding') + ' ' + count(limiters.filter((l) => l.guarding).length)} />
      </div>
      {value.cut > 0 ? <p className="faint" role="status">{t('resilience.cut', { n: value.cut })}</p> : null}
      <Tabs
        label={t('nav.resilience')}
        tabs={[
          { id: 'breakers', title: t('resilience.breakers'), n: circuits.length, body: () => <Circuits list={list} rows={circuits} again={again} /> },
          ...(board ? [{ id: 'board', title: t('resilience.board'), body: () => <Grid board={board} list={list} /> }] : []),
          { id: 'clients', title: t('resilience.clients'), n: clients.length, body: () => <Clients rows={clients} /> },
          { id: 'limiters', title: t('resilience.limiters'), n: limiters.length, body: () => <Limiters list={list} rows={limiters} /> },
        ]}
      />
    </>
  )
}

function circuitColumns(t: T, list: string): Column<Circuit>[] {
  return [
    { key: 'id', head: t('instance'), width: 'minmax(130px,1.2fr)', sort: (c) => c.id, cell: (c, tab) => <Link tabIndex={tab} view="instance" params={{ list, instance: c.id }}>{c.id}</Link> },
    { key: 'process', head: t('consumer.process'), width: 'minmax(130px,1.2fr)', sort: (c) => c.process, cell: (c) => <Link tabIndex={-1} view="instance" params={{ list: c.list, instance: c.process, tab: 'clients', client: c.client }} title={`${c.list} · ${c.client}`}>{c.process}</Link> },
    { key: 'breaker', head: t('resilience.state'), width: '124px', sort: (c) => stateOf(t, c).text, cell: (c) => <CircuitMark of={c} /> },
    { key: 'since', head: t('since'), width: '92px', sort: (c) => c.breakerSince ?? '', cell: (c) => <span className="num" title={time(c.breakerSince)}>{time(c.breakerSince)}</span> },
    { key: 'until', head: t('until'), width: '92px', sort: (c) => c.forced ?? '', cell: (c) => <span className="num" title={time(c.forced)}>{time(c.forced)}</span> },
    { key: 'why', head: t('resilience.reason'), width: 'minmax(160px,2fr)', sort: whyOf, cell: (c) => <span className="faint" title={whyOf(c)}>{whyOf(c)}</span> },
    { key: 'share', head: t('resilience.share'), width: '78px', end: true, sort: (c) => c.share, cell: (c) => <span className="num">{share(c.share)}</span> },
    { key: 'failed', head: t('resilience.failed'), width: '78px', end: true, sort: (c) => (c.calls > 0 ? c.failed / c.calls : 0), cell: (c) => <ErrorShare of={{ rate: c.calls, errorRate: c.failed }} /> },
    { key: 'throttle', head: t('resilience.throttle'), width: '86px', end: true, sort: (c) => c.throttle ?? 0, cell: (c) => <span className={c.throttle ? 'num bad' : 'num faint'}>{share(c.throttle ?? 0)}</span> },
    { key: 'flight', head: t('running'), width: '76px', end: true, sort: (c) => c.inFlight, cell: (c) => <span className="num">{count(c.inFlight)}</span> },
    { key: 'latency', head: t('resilience.latency'), width: '82px', end: true, sort: (c) => c.latency, cell: (c) => <span className="num">{duration(c.latency)}</span> },
  ]
}

export type Forcing = 'open' | 'closed' | 'auto'

function Circuits({ list, rows, again }: { list: string; rows: readonly Circuit[]; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const editable = may(session, 'operator')
  const columns = useMemo(() => circuitColumns(t, list), [t, list])
  // Actions go to these breakers, whatever becomes of the list meanwhile.
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [action, setAction] = useState<Forcing>()
  const chosen = rows.filter((c) => selected.has(circuitKey(c)))
  const forced = chosen.some((c) => isTime(c.forced))
  return (
    <>
      <div className="bar">
        <span className="faint num" role="status">{chosen.length > 0 ? t('instances.selected', { n: chosen.length }) : ''}</span>
        {editable ? (
          <span className="actions">
            {(['open', 'closed', 'auto'] as const).map((a) => (
              <button key={a} type="button" className="button" disabled={chosen.length === 0 || (a === 'auto' && !forced)} onClick={() => setAction(a)}>{t(`force.${a}`)}</button>
            ))}
          </span>
        ) : <span className="faint">{session ? (session.readOnly ? t('edit.readOnly') : t('force.role')) : null}</span>}
      </div>
      <Table
        label={t('resilience.breakers')} rows={rows} columns={columns} rowKey={circuitKey} sortName="sort" empty={t('resilience.noCircuits')} minWidth={1200} fill
        {...(editable ? { selected, onSelect: setSelected } : {})}
      />
      {action ? (
        <Suspense fallback={<Loading />}>
          <ForceDialog
            state={action} list={list} circuits={action === 'auto' ? chosen.filter((c) => isTime(c.forced)) : chosen} again={again}
            close={(done) => { setAction(undefined); if (done) { setSelected(new Set()); again() } }}
          />
        </Suspense>
      ) : null}
    </>
  )
}

interface Board {
  clients: { key: string; process: string; list: string; client: string }[]
  rows: { id: string; cells: (Circuit | undefined)[] }[]
}

const maxBoard = 40

// boardOf arranges circuits as instances by clients; undefined for none, or too many to be seen.
export function boardOf(circuits: readonly Circuit[]): Board | undefined {
  const clients = new Map<string, number>()
  const out: Board = { clients: [], rows: [] }
  for (const c of circuits) {
    const key = [c.list, c.process, c.client].join('\n')
    if (clients.has(key)) continue
    clients.set(key, clients.size)
    out.clients.push({ key, process: c.process, list: c.list, client: c.client })
  }
  const ids = [...new Set(circuits.map((c) => c.id))].sort()
  if (ids.length === 0 || ids.length > maxBoard || clients.size > maxBoard) return undefined
  out.rows = ids.map((id) => ({ id, cells: new Array<Circuit | undefined>(clients.size).fill(undefined) }))
  const at = new Map(ids.map((id, i) => [id, i]))
  for (const c of circuits) {
    const row = out.rows[at.get(c.id) ?? -1]
    if (row) row.cells[clients.get([c.list, c.process, c.client].join('\n')) ?? -1] = c
  }
  return out
}

function Grid({ board, list }: { board: Board; list: string }) {
  const { t } = useT()
  return (
    <div className="board" tabIndex={0} role="group" aria-label={t('resilience.boardLabel')}>
      <table>
        <thead>
          <tr><th scope="col">{t('instance')}</th>{board.clients.map((c) => <th scope="col" key={c.key} title={`${c.list} · ${c.client}`}>{c.process}</th>)}</tr>
        </thead>
        <tbody>
          {board.rows.map((r) => (
            <tr key={r.id}>
              <th scope="row"><Link view="instance" params={{ list, instance: r.id }}>{r.id}</Link></th>
              {r.cells.map((c, i) => <td key={board.clients[i]?.key ?? i} title={c ? whyOf(c) : undefined}>{c ? <CircuitMark of={c} /> : '–'}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Clients({ rows }: { rows: readonly ResilientClient[] }) {
  const { t } = useT()
  const columns = useMemo<Column<ResilientClient>[]>(() => [
    { key: 'process', head: t('consumer.process'), width: 'minmax(150px,1.2fr)', sort: (c) => c.process, cell: (c, tab) => <Link tabIndex={tab} view="instance" params={{ list: c.list, instance: c.process, tab: 'clients', client: c.client }} title={c.client}>{c.process}</Link> },
    { key: 'list', head: t('list'), width: 'minmax(110px,1fr)', sort: (c) => c.list, cell: (c) => <span className="faint" title={c.list}>{target(c.list).path}</span> },
    { key: 'rate', head: t('rate.s'), width: '76px', end: true, sort: (c) => c.rate, cell: (c) => <span className="num">{rate(c.rate)}</span> },
    { key: 'errors', head: t('errors'), width: '76px', end: true, sort: failedShare, cell: (c) => <ErrorShare of={c} /> },
    { key: 'ready', head: t('resilience.usable'), width: '78px', end: true, sort: (c) => c.state.instances.ready, cell: (c) => <span className="num">{`${c.state.instances.ready}/${Object.values(c.state.instances).reduce((a, b) => a + b, 0)}`}</span> },
    { key: 'ejected', head: t('state.ejected'), width: '78px', end: true, sort: (c) => c.state.instances.ejected, cell: (c) => <N n={c.state.instances.ejected} /> },
    { key: 'ejections', head: t('client.ejections'), width: '84px', end: true, sort: (c) => c.state.ejections, cell: (c) => <N n={c.state.ejections} bad={false} /> },
    { key: 'budget', head: t('budget'), width: '112px', end: true, sort: (c) => c.state.retryBudget, cell: (c) => <span className={c.state.retryBudget < 1 ? 'num bad' : 'num'}>{c.state.retryBudget.toFixed(1)}</span> },
    { key: 'retries', head: t('resilience.retriesRefused'), width: '116px', end: true, sort: (c) => c.state.retriesRefused, cell: (c) => <N n={c.state.retriesRefused} /> },
    { key: 'panicking', head: t('resilience.panicking'), width: 'minmax(90px,.6fr)', sort: (c) => Number(c.state.panicking), cell: (c) => (c.state.panicking ? <span className="bad" title={t('client.panickingText')}>{t('client.panickingText')}</span> : <span className="faint">{t('boards.none')}</span>) },
    { key: 'methods', head: t('client.open'), width: 'minmax(140px,1.2fr)', cell: (c) => <MethodBreakers of={c} /> },
    { key: 'registry', head: t('client.registry'), width: 'minmax(90px,1fr)', cell: (c) => (c.state.registryError ? <span className="bad" title={c.state.registryError}>{c.state.registryError}</span> : <span className="faint">{t('boards.none')}</span>) },
  ], [t])
  return <Table label={t('resilience.clients')} rows={rows} columns={columns} rowKey={(c) => c.list + c.process + c.client} sortName="by" sorted="budget" empty={t('resilience.noCircuits')} minWidth={1260} fill />
}

function MethodBreakers({ of }: { of: ResilientClient }): ReactNode {
  const { t } = useT()
  const open = (of.state.breakers ?? []).filter((b) => b.open + b.halfOpen > 0)
  if (open.length === 0) return <span className="faint">{t('boards.none')}</span>
  const text = open.map((b) => `${b.method} ${b.open + b.halfOpen}/${b.open + b.halfOpen + b.closed}`).join(', ')
  return <span className="bad" title={text}>{text}</span>
}

function Limiters({ list, rows }: { list: string; rows: readonly Limiter[] }) {
  const { t } = useT()
  const columns = useMemo<Column<Limiter>[]>(() => [
    { key: 'instance', head: t('instance'), width: 'minmax(150px,1.2fr)', sort: (l) => l.instance, cell: (l, tab) => <Link tabIndex={tab} view="instance" params={{ list, instance: l.instance, tab: 'limits' }}>{l.instance}</Link> },
    { key: 'kind', head: t('resilience.kind'), width: 'minmax(150px,1.2fr)', sort: (l) => kindName(t, l), cell: (l) => kindName(t, l) },
    { key: 'level', head: t('resilience.level'), width: '120px', sort: (l) => levelOf(l), cell: (l) => <Level of={l} /> },
    { key: 'running', head: t('running'), width: '130px', end: true, sort: (l) => (l.limit > 0 ? l.running / l.limit : 0), cell: (l) => <span className="num">{l.limit > 0 ? t('resilience.of', { n: count(l.running), limit: count(l.limit) }) : t('resilience.unlimited', { n: count(l.running) })}</span> },
    { key: 'waiting', head: t('resilience.waiting'), width: '110px', end: true, sort: (l) => l.waiting, cell: (l) => <span className={l.waiting > 0 ? 'num bad' : 'num faint'}>{l.queue ? t('resilience.of', { n: count(l.waiting), limit: count(l.queue) }) : count(l.waiting)}</span> },
    { key: 'refused', head: t('resilience.refused'), width: '90px', end: true, sort: (l) => l.refused, cell: (l) => <N n={l.refused} /> },
    { key: 'reasons', head: t('resilience.reason'), width: 'minmax(200px,1.8fr)', cell: (l) => (l.reasons && l.refused > 0 ? <span className="faint">{t('resilience.reasons', l.reasons)}</span> : <span className="faint">–</span>) },
  ], [t, list])
  return <Table label={t('resilience.limiters')} rows={rows} columns={columns} rowKey={(l) => [l.instance, l.kind, l.method ?? ''].join(' ')} sortName="by" sorted="-refused" empty={t('resilience.noLimiters')} minWidth={980} fill />
}

function kindName(t: T, l: Limiter): string {
  if (l.kind === 'method') return t('resilience.kind.method', { method: l.method ?? '' })
  return l.kind === 'concurrency' || l.kind === 'overload' ? t(`resilience.kind.${l.kind}`) : l.kind
}

function levelOf(l: Limiter): number {
  return l.guarding ? 2 : l.waiting > 0 ? 1 : 0
}

function Level({ of }: { of: Limiter }) {
  const { t } = useT()
  if (of.guarding) return <span className="state ejected"><StateIcon state="ejected" />{t('resilience.guardingNow')}</span>
  if (of.waiting > 0) return <span className="state draining"><StateIcon state="draining" />{t('resilience.waiting')}</span>
  return <span className="state enabled"><StateIcon state="enabled" />{t('resilience.quiet')}</span>
}

