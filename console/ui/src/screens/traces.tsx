import { useMemo, useState } from 'react'
import type { Gathered, TracedSpan, TracesRequest } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { duration, time } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { Link, setParams, useRoute, type Params } from '../route.tsx'
import { may, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { ticks, traceLink, waterfall, type Line, type Waterfall } from '../waterfall.ts'
import { Picker } from './list-picker.tsx'
import '../styles/traces.css'

const codes = [
  'ok', 'canceled', 'unknown', 'invalid argument', 'deadline exceeded', 'not found', 'already exists', 'permission denied', 'resource exhausted', 'failed precondition', 'aborted',
  'out of range', 'unimplemented', 'internal', 'unavailable', 'data loss', 'unauthenticated',
]

export default function TracesScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const session = useSession()
  const trace = params['trace'] ?? ''
  if (session && !may(session, 'developer')) return <><h1>{t('nav.traces')}</h1><p className="empty">{t('traces.role')}</p></>
  if (trace !== '') return <OneTrace key={trace} trace={trace} list={params['list'] ?? ''} />
  return (
    <>
      <div className="title-row"><h1>{t('nav.traces')}</h1><Picker label={t('policies.list')} name="list" of="list" /></div>
      <Search key={['list', 'all', ...asked].map((name) => params[name] ?? '').join('\n')} params={params} />
    </>
  )
}

const asked = ['service', 'q', 'code', 'atLeast'] as const

// requestOf returns the search that an address asks for; undefined if it asks for none.
function requestOf(params: Params): TracesRequest | undefined {
  const of = (name: string) => params[name] ?? ''
  if (of('list') === '' && of('all') === '') return undefined
  const request = { list: of('list'), service: of('service'), method: of('q'), code: of('code'), atLeast: Math.max(0, Math.round(Number(of('atLeast') || 0) * 1e6)) || 0 }
  return Object.fromEntries(Object.entries(request).filter(([, v]) => v !== '' && v !== 0)) as TracesRequest
}

// Search has the fields of a search. They are in the address once it is begun, as each search asks
// many processes.
function Search({ params }: { params: Params }) {
  const { t } = useT()
  const [fields, setFields] = useState<Record<string, string>>(() => Object.fromEntries(asked.map((name) => [name, params[name] ?? ''])))
  const [id, setID] = useState('')
  const [round, setRound] = useState(0)
  const request = requestOf(params)
  const field = (name: (typeof asked)[number]) => ({ value: fields[name] ?? '', onChange: (event: { target: { value: string } }) => setFields({ ...fields, [name]: event.target.value }) })
  const begin = () => {
    setParams({ ...fields, all: (params['list'] ?? '') === '' ? '1' : '' })
    setRound(round + 1)
  }
  return (
    <>
      <div className="bar">
        <form className="trace-search" role="search" onSubmit={(event) => { event.preventDefault(); begin() }}>
          <label className="field-inline"><span>{t('service')}</span> <input {...field('service')} spellCheck={false} autoComplete="off" /></label>
          <label className="field-inline"><span>{t('calls.method')}</span> <input {...field('q')} spellCheck={false} autoComplete="off" /></label>
          <label className="field-inline"><span>{t('calls.code')}</span>{' '}
            <select {...field('code')}>
              <option value="">{t('traces.anyCode')}</option>
              <option value="error">{t('traces.anyError')}</option>
              {codes.map((c) => <option key={c}>{c}</option>)}
            </select>
          </label>
          <label className="field-inline"><span>{t('calls.atLeast')}</span> <input type="number" min="0" step="any" {...field('atLeast')} /></label>
          <button type="submit" className="button primary">{t('traces.search')}</button>
        </form>
        <form className="trace-search" onSubmit={(event) => { event.preventDefault(); setParams({ trace: id.trim().toLowerCase() }) }}>
          <label className="field-inline"><span>{t('traces.id')}</span> <input className="trace-id" value={id} onChange={(event) => setID(event.target.value)} pattern="\s*[0-9a-fA-F]{32}\s*" title={t('traces.idForm')} required spellCheck={false} autoComplete="off" /></label>
          <button type="submit" className="button">{t('policies.open')}</button>
        </form>
      </div>
      {request ? <Results key={round} request={request} /> : <p className="empty">{t('traces.choose')}</p>}
    </>
  )
}

function Results({ request }: { request: TracesRequest }) {
  const { t } = useT()
  const { value, error, at, again } = usePolled('Traces', request, 0)
  const columns = useMemo(() => callColumns(t, request.list ?? ''), [t, request.list])
  if (!value) return <Waiting error={error} again={again} />
  return (
    <>
      {error ? <Problem error={error} again={again} /> : null}
      <p className="faint" role="status">{t('traces.found', { n: value.spans?.length ?? 0 })} {t('traces.asked', { n: value.asked })} {time(new Date(at).toISOString())} <button type="button" className="plain" onClick={again}>{t('error.again')}</button></p>
      <WhatIsMissing value={value} />
      <Table label={t('nav.traces')} rows={value.spans ?? []} columns={columns} rowKey={(s) => s.list + s.instance + s.span + (s.client ?? '')} sortName="sort" fill empty={t('traces.none')} minWidth={1180} />
    </>
  )
}

function callColumns(t: T, list: string): Column<TracedSpan>[] {
  return [
    { key: 'time', head: t('calls.time'), width: '110px', sort: (s) => s.began, cell: (s) => <span className="num">{time(s.began)}</span> },
    { key: 'method', head: t('method'), width: 'minmax(170px,1.4fr)', sort: (s) => s.method, cell: (s, tab) => <Link tabIndex={tab} view="traces" params={{ list: list || s.list, trace: s.trace }}>{s.method}</Link> },
    { key: 'took', head: t('calls.took'), width: '90px', end: true, sort: (s) => s.took, cell: (s) => <span className="num">{duration(s.took)}</span> },
    { key: 'code', head: t('calls.code'), width: '140px', sort: (s) => s.code, cell: (s) => <Code code={s.code} /> },
    { key: 'attempts', head: t('traces.attempts'), width: '84px', end: true, sort: (s) => s.attempts?.length ?? 0, cell: (s) => <span className="num">{s.client ? (s.attempts?.length ?? 0) : '–'}</span> },
    { key: 'error', head: t('calls.error'), width: 'minmax(120px,1.4fr)', cell: (s) => <span className="faint" title={s.error}>{s.error}</span> },
    { key: 'process', head: t('consumer.process'), width: 'minmax(130px,1fr)', sort: (s) => s.instance, cell: (s) => s.instance },
    { key: 'side', head: t('traces.side'), width: '90px', sort: (s) => s.client ?? '', cell: (s) => t(s.client ? 'traces.called' : 'traces.served') },
    { key: 'protocol', head: t('protocol'), width: '90px', cell: (s) => s.protocol },
    { key: 'trace', head: t('calls.trace'), width: '120px', cell: (s) => <code title={s.trace}>{s.trace.slice(0, 12)}…</code> },
  ]
}

function Code({ code }: { code: string }) {
  return code === 'ok' || code === '' ? <>{code}</> : <b className="bad">{code}</b>
}

// WhatIsMissing says which processes have told nothing, and what they may have more.
function WhatIsMissing({ value }: { value: Gathered }) {
  const { t } = useT()
  const missing = value.missing ?? []
  const notes = [
    value.silent > 0 ? t('traces.silent', { n: value.silent }) : '',
    value.without > 0 ? t('traces.without', { n: value.without }) : '',
    value.left > 0 ? t('traces.left', { n: value.left }) : '',
    value.full > 0 ? t('traces.full', { n: value.full }) : '',
    value.cut > 0 ? t('traces.cut', { n: value.cut }) : '',
  ].filter(Boolean)
  if (notes.length === 0) return null
  return (
    <details className="missing">
      <summary>{notes.join(' ')}</summary>
      {missing.length > 0 ? <ul className="lines">{missing.map((m) => <li key={m.list + m.instance}><span className="line-head"><b>{m.instance}</b> <span className="faint">{m.list}</span></span><span>{m.error}</span></li>)}</ul> : null}
    </details>
  )
}

function OneTrace({ trace, list }: { trace: string; list: string }) {
  const { t } = useT()
  const session = useSession()
  const toast = useToast()
  const { value, error, again } = usePolled('Trace', { trace, ...(list ? { list } : {}) }, 0)
  const spans = value?.spans ?? []
  const fall = useMemo(() => (value?.spans?.length ? waterfall(value.spans) : undefined), [value])
  const elsewhere = traceLink(session?.traceURL, trace)
  const copy = () => {
    const copied = () => toast({ text: t('traces.copied', { id: trace }) })
    const failed = () => toast({ bad: true, text: t('traces.notCopied', { id: trace }) })
    // There is no clipboard where the page comes by plain HTTP from another machine.
    if (navigator.clipboard) navigator.clipboard.writeText(trace).then(copied, failed)
    else failed()
  }
  return (
    <>
      <p className="crumbs"><button type="button" className="plain" onClick={() => setParams({ trace: '' })}>{t('traces.back')}</button></p>
      <div className="title-row">
        <h1>{t('calls.trace')} <code>{trace}</code></h1>
        <button type="button" className="button" onClick={copy}>{t('traces.copy')}</button>
        {elsewhere ? <a className="button linked" href={elsewhere.url} target="_blank" rel="noopener noreferrer">{t('traces.elsewhere', { host: elsewhere.host })}</a> : null}
        <button type="button" className="button" onClick={again}>{t('traces.again')}</button>
      </div>
      {value ? null : <Waiting error={error} again={again} />}
      {value && error ? <Problem error={error} again={again} /> : null}
      {value ? <p className="faint" role="status">{t('traces.asked', { n: value.asked })} {fall ? t('traces.sum', { took: duration(fall.length), spans: spans.length, processes: fall.processes, at: time(fall.began) }) : null}</p> : null}
      {value ? <WhatIsMissing value={value} /> : null}
      {fall?.lines.some((l) => l.notes.includes('clock')) ? <p className="note-line">{t('traces.clock', { skew: duration(fall.skew) })}</p> : null}
      {fall?.lines.some((l) => l.notes.includes('orphan')) ? <p className="note-line">{t('traces.orphan')}</p> : null}
      {value && !fall ? <p className="empty">{t('traces.gone')}</p> : null}
      {fall ? (
        <Tabs
          label={t('calls.trace')} name="as"
          tabs={[
            { id: 'waterfall', title: t('traces.waterfall'), body: () => <Falls fall={fall} /> },
            { id: 'table', title: t('topology.table'), n: fall.lines.length, body: () => <Lines fall={fall} /> },
          ]}
        />
      ) : null}
    </>
  )
}

const mostDrawn = 500

function kindText(t: T, l: Line): string {
  if (l.kind === 'called' || l.kind === 'served') return t(l.kind === 'called' ? 'traces.called' : 'traces.served')
  return t(`traces.${l.kind}`, { n: l.n })
}

// where is the process that a line tells of.
function where(l: Line): string {
  return l.kind === 'attempt' || l.kind === 'retry' || l.kind === 'hedge' ? l.instance || '–' : l.process
}

function Falls({ fall }: { fall: Waterfall }) {
  const { t } = useT()
  const length = Math.max(1, fall.length)
  return (
    <Panel title={t('traces.waterfall')}>
      <div className="waterfall" role="group" aria-label={t('traces.waterfall')} tabIndex={0}>
        <div className="fall-line fall-head" aria-hidden="true">
          <span>{t('method')}</span>
          <span className="fall-axis">{ticks(length).map((at) => <span key={at} className={at > 0.9 * length ? 'last' : ''} style={{ left: `${at / length * 100}%` }}>{at === 0 ? '0' : duration(at)}</span>)}</span>
          <span className="end">{t('calls.took')}</span>
        </div>
        <ul>
          {fall.lines.slice(0, mostDrawn).map((l) => <FallLine key={l.key} l={l} length={length} />)}
        </ul>
        {fall.lines.length > mostDrawn ? <p className="empty">{t('traces.more', { n: fall.lines.length - mostDrawn })}</p> : null}
      </div>
    </Panel>
  )
}

function FallLine({ l, length }: { l: Line; length: number }) {
  const { t } = useT()
  const failed = l.code !== 'ok' && l.code !== ''
  const x = (ns: number) => `${ns / length * 100}%`
  const part = l.kind !== 'called' && l.kind !== 'served'
  return (
    <li className={'fall-line ' + l.kind + (failed ? ' failing' : '')}>
      <span className="fall-name" style={{ paddingLeft: `${Math.min(l.depth, 24) * 14}px` }} title={l.error || undefined}>
        <span className="fall-what">{part ? kindText(t, l) : <b>{l.method}</b>}{failed ? <span className="bad"> {l.kind === 'called' || l.kind === 'served' ? l.code : t('traces.failed')}</span> : null}</span>
        <span className="faint fall-where">{part ? '→ ' : kindText(t, l) + ' · '}{where(l)}{part || !l.protocol ? '' : ' · ' + l.protocol}<Notes notes={l.notes} /></span>
      </span>
      <span className="fall-track" aria-hidden="true">
        <span className="fall-bar" style={{ left: x(l.began), width: `max(2px, ${x(l.took)})` }} />
        {l.parts.map(([a, b]) => <span key={a} className="fall-own" style={{ left: x(a), width: x(b - a) }} />)}
      </span>
      <span className="num end">{duration(l.took)}</span>
    </li>
  )
}

function Notes({ notes }: { notes: Line['notes'] }) {
  const { t } = useT()
  return <>{notes.map((n) => <span key={n} className="tag note">{t(`traces.note.${n}`)}</span>)}</>
}

function Lines({ fall }: { fall: Waterfall }) {
  const { t } = useT()
  const columns = useMemo<Column<Line>[]>(() => [
    { key: 'method', head: t('method'), width: 'minmax(200px,1.6fr)', cell: (l) => <span style={{ paddingLeft: `${Math.min(l.depth, 24) * 12}px` }}>{l.method}</span> },
    { key: 'kind', head: t('traces.side'), width: '140px', cell: (l) => kindText(t, l) },
    { key: 'process', head: t('instance'), width: 'minmax(120px,1fr)', cell: (l, tab) => (l.kind === 'served' || l.kind === 'called' ? <Link tabIndex={tab} view="instance" params={{ list: l.list, instance: l.process }}>{l.process}</Link> : l.instance || '–') },
    { key: 'began', head: t('traces.began'), width: '100px', end: true, cell: (l) => <span className="num">{l.began > 0 ? '+' + duration(l.began) : '0'}</span> },
    { key: 'took', head: t('calls.took'), width: '90px', end: true, cell: (l) => <span className="num">{duration(l.took)}</span> },
    { key: 'own', head: t('traces.own'), width: '110px', end: true, title: t('traces.ownTitle'), cell: (l) => <span className="num">{duration(l.own)}</span> },
    { key: 'code', head: t('calls.code'), width: '130px', cell: (l) => (l.code === 'failed' ? <b className="bad">{t('traces.failed')}</b> : <Code code={l.code} />) },
    { key: 'error', head: t('calls.error'), width: 'minmax(140px,1.4fr)', cell: (l) => <span className="faint" title={l.error}>{l.error}</span> },
    { key: 'notes', head: t('traces.notes'), width: 'minmax(110px,.8fr)', cell: (l) => <Notes notes={l.notes} /> },
    { key: 'protocol', head: t('protocol'), width: '80px', cell: (l) => l.protocol },
    { key: 'peer', head: t('calls.peer'), width: 'minmax(130px,1fr)', cell: (l) => l.peer },
  ], [t])
  return <Table label={t('calls.trace')} rows={fall.lines} columns={columns} rowKey={(l) => l.key} fill minWidth={1320} />
}
