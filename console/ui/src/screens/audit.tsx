import { useEffect, useMemo, useState, type ReactNode } from 'react'
import { call, type Failure } from '../api/client.ts'
import type { Audit, AuditRequest, AuditRow, Detail } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { diff } from '../diff.ts'
import { count, target, time } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { Link, setParams, useRoute, type Params } from '../route.tsx'
import { may, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { Facts, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { StateIcon, type StateName } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Picker } from './list-picker.tsx'

const page = 100
const kinds = ['overrides', 'policy', 'process', 'console'] as const

// requestOf makes a request of the parameters of the address. Times there are of the browser's zone.
export function requestOf(params: Params): AuditRequest {
  const at = (name: string) => {
    const ms = Date.parse(params[name] ?? '')
    return Number.isNaN(ms) ? {} : { [name]: new Date(ms).toISOString() }
  }
  const word = (name: string, of: string) => (params[of] ? { [name]: params[of] } : {})
  return { ...word('list', 'list'), ...word('who', 'who'), ...word('kind', 'kind'), ...word('text', 'q'), ...at('from'), ...at('to'), offset: pageOf(params) * page, max: page }
}

function pageOf(params: Params): number {
  return Math.max(0, Math.trunc(Number(params['page'] ?? '0')) || 0)
}

export default function AuditScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const request = useMemo(() => requestOf(params), [params])
  const { value, error, again } = usePolled('Audit', request, 5000)
  const row = value?.rows?.find((r) => r.key === params['row'])
  return (
    <>
      <div className="title-row"><h1>{t('nav.audit')}</h1><Picker label={t('boards.list')} name="list" of="list" /></div>
      <Filters who={value?.who ?? []} />
      {error && value ? <Problem error={error} again={again} /> : null}
      {value ? (
        <>
          <Notes of={value} />
          <Rows value={value} picked={params['row'] ?? ''} short={row !== undefined} />
          <Pager value={value} />
          {row ? <RowOf key={row.key} row={row} again={again} /> : null}
        </>
      ) : <Waiting error={error} again={again} />}
    </>
  )
}

function Filters({ who }: { who: readonly string[] }) {
  const { t } = useT()
  const { params } = useRoute()
  const set = (name: string, value: string) => setParams({ [name]: value, page: '', row: '' })
  const any = ['q', 'who', 'kind', 'from', 'to', 'list'].some((n) => params[n])
  return (
    <div className="bar filters">
      <FilterField label={t('audit.filter')} hint="" />
      <label className="field-inline"><span>{t('audit.who')}</span>
        <input list="audit-who" value={params['who'] ?? ''} onChange={(event) => set('who', event.target.value)} autoComplete="off" spellCheck={false} />
      </label>
      <datalist id="audit-who">{who.map((w) => <option key={w} value={w} />)}</datalist>
      <label className="field-inline"><span>{t('audit.kind')}</span>
        <select value={params['kind'] ?? ''} onChange={(event) => set('kind', event.target.value)}>
          <option value="">{t('audit.anyKind')}</option>
          {kinds.map((k) => <option key={k} value={k}>{t(`audit.kind.${k}`)}</option>)}
        </select>
      </label>
      {(['from', 'to'] as const).map((n) => (
        <label key={n} className="field-inline"><span>{t(`audit.${n}`)}</span><input type="datetime-local" value={params[n] ?? ''} onChange={(event) => set(n, event.target.value)} /></label>
      ))}
      {any ? <button type="button" className="plain" onClick={() => setParams({ q: '', who: '', kind: '', from: '', to: '', list: '', page: '', row: '' })}>{t('audit.clear')}</button> : null}
    </div>
  )
}

function Notes({ of }: { of: Audit }) {
  const { t } = useT()
  const unread = of.unread ?? []
  return (
    <>
      {of.skipped > 0 ? <p className="faint" role="status">{t('audit.skipped', { n: of.skipped })}</p> : null}
      {unread.length > 0 ? <p className="bad" role="status">{t('audit.unread', { text: unread.slice(0, 3).join('; ') + (unread.length > 3 ? ` +${unread.length - 3}` : '') })}</p> : null}
      {of.own ? null : <p className="faint">{t('audit.own')}</p>}
    </>
  )
}

function resultOf(r: AuditRow): { icon: StateName; key: 'audit.refused' | 'audit.undone' | 'audit.done' } {
  if (r.error) return { icon: 'unhealthy', key: 'audit.refused' }
  return r.undone ? { icon: 'disabled', key: 'audit.undone' } : { icon: 'enabled', key: 'audit.done' }
}

function Result({ of }: { of: AuditRow }) {
  const { t } = useT()
  const r = resultOf(of)
  const times = (of.count ?? 0) > 1 ? ' · ' + t('audit.times', { n: of.count ?? 0 }) : ''
  return <span className={'state ' + r.icon} title={of.error}><StateIcon state={r.icon} />{t(r.key) + times}</span>
}

function kindOf(t: T, r: AuditRow): string {
  const known = kinds.find((k) => k === r.kind)
  return (known ? t(`audit.kind.${known}`) : r.kind) + (r.revision ? ' ' + r.revision : '')
}

function Rows({ value, picked, short }: { value: Audit; picked: string; short: boolean }) {
  const { t } = useT()
  const columns = useMemo<Column<AuditRow>[]>(() => [
    { key: 'at', head: t('audit.when'), width: '150px', cell: (r) => <span className="num">{time(r.at)}</span> },
    { key: 'by', head: t('audit.by'), width: 'minmax(110px,.8fr)', cell: (r) => <span title={r.by}>{r.by || <span className="faint">{t('audit.notLoggedIn')}</span>}</span> },
    { key: 'kind', head: t('audit.kind'), width: '120px', cell: (r) => <span className="faint">{kindOf(t, r)}</span> },
    { key: 'list', head: t('list'), width: 'minmax(130px,1fr)', cell: (r) => <span className="faint" title={r.list}>{r.list ? target(r.list).path : '–'}{r.instance ? ` · ${r.instance}` : ''}</span> },
    { key: 'what', head: t('audit.what'), width: 'minmax(200px,2.2fr)', cell: (r, tab) => <button type="button" tabIndex={tab} className="row-button" aria-pressed={r.key === picked} title={`${r.what}${r.after ? `: ${r.before} → ${r.after}` : ''}`} onClick={() => setParams({ row: r.key === picked ? '' : r.key })}>{whatOf(r)}</button> },
    { key: 'why', head: t('why'), width: 'minmax(120px,1.2fr)', cell: (r) => <span className="faint" title={r.why}>{r.why || '–'}</span> },
    { key: 'result', head: t('audit.result'), width: '172px', cell: (r) => <Result of={r} /> },
  ], [t, picked])
  return <Table label={t('nav.audit')} rows={value.rows ?? []} columns={columns} rowKey={(r) => r.key} empty={t('audit.none')} minWidth={1080} {...(short ? {} : { fill: true })} />
}

// whatOf is what was changed, of a process with what it was and is. Targets are shortened.
export function whatOf(r: AuditRow): string {
  const what = r.what.replace(/[a-z0-9+.-]+:\/\/[^/\s]*\/(\S+)/gi, '$1')
  return r.before || r.after ? `${what}: ${r.before} → ${r.after}` : what
}

function Pager({ value }: { value: Audit }) {
  const { t } = useT()
  const { params } = useRoute()
  const n = pageOf(params)
  const rows = value.rows?.length ?? 0
  const open = (to: number) => setParams({ page: to === 0 ? '' : String(to), row: '' })
  if (rows === 0 && n === 0) return null
  return (
    <div className="bar">
      <span className="faint num" role="status">{t('audit.total', { from: count(rows === 0 ? 0 : n * page + 1), to: count(n * page + rows), n: count(value.total) })}</span>
      <span className="actions">
        <button type="button" className="button" disabled={n === 0} onClick={() => open(n - 1)}>{t('audit.before')}</button>
        <button type="button" className="button" disabled={n * page + rows >= value.total} onClick={() => open(n + 1)}>{t('audit.next')}</button>
      </span>
    </div>
  )
}

function RowOf({ row, again }: { row: AuditRow; again: () => void }) {
  const { t } = useT()
  const document = row.kind === 'overrides' || row.kind === 'policy'
  const items: [string, ReactNode][] = [
    [t('audit.when'), <time key="t" dateTime={row.at}>{time(row.at)}</time>],
    [t('audit.by'), row.by || t('audit.notLoggedIn')],
    ...(row.from ? [[t('audit.address'), row.from] as [string, ReactNode]] : []),
    [t('list'), row.list ? <Link key="l" view="registry" params={{ list: row.list }}>{row.list}</Link> : '–'],
    ...(row.instance ? [[t('boards.process'), <Link key="i" view="instance" params={{ list: row.list, instance: row.instance }}>{row.instance}</Link>] as [string, ReactNode]] : []),
    [t('audit.what'), row.what],
    [t('why'), row.why || '–'],
    ...(row.error ? [[t('audit.error'), <span key="e" className="bad">{row.error}</span>] as [string, ReactNode]] : []),
  ]
  return (
    <Panel title={`${t('audit.change')}: ${kindOf(t, row)}`}>
      <div className="columns two">
        <Facts items={items} />
        <div className="pad stack">
          {document ? <DocumentDiff row={row} /> : row.before || row.after ? <Difference before={row.before ?? ''} after={row.after ?? ''} /> : null}
          <Undo row={row} again={again} />
        </div>
      </div>
    </Panel>
  )
}

function DocumentDiff({ row }: { row: AuditRow }) {
  const { list, kind, revision } = row
  const [state, setState] = useState<{ detail?: Detail; error?: Failure }>({})
  useEffect(() => {
    const controller = new AbortController()
    void call('Detail', { list, kind, ...(revision ? { revision } : {}) }, controller.signal).then((result) => {
      if (!controller.signal.aborted) setState(result.ok ? { detail: result.value } : { error: result.error })
    })
    return () => controller.abort()
  }, [list, kind, revision])
  if (state.error) return <Problem error={state.error} />
  if (!state.detail) return <Waiting error={undefined} again={() => undefined} />
  return <Difference before={state.detail.before} after={state.detail.after} />
}

function Difference({ before, after }: { before: string; after: string }) {
  const { t } = useT()
  const lines = useMemo(() => diff(before, after), [before, after])
  if (lines.every((l) => l.kind === 'same')) return <p className="faint">{t('audit.same')}</p>
  return (
    <figure>
      <figcaption><h3>{t('audit.diff')}</h3></figcaption>
      <pre className="diff" tabIndex={0} aria-label={t('audit.diff')}>
        {lines.map((l, i) => <span key={i} className={l.kind}>{{ same: '  ', removed: '- ', added: '+ ' }[l.kind]}{l.text}{'\n'}</span>)}
      </pre>
    </figure>
  )
}

function Undo({ row, again }: { row: AuditRow; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const toast = useToast()
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Failure>()
  if (!row.undo) return row.kind === 'console' ? null : <p className="faint">{t('audit.noUndo')}</p>
  if (!may(session, 'operator')) return <p className="faint">{session?.readOnly ? t('edit.readOnly') : t('edit.role')}</p>
  const undo = async () => {
    setBusy(true)
    const { list, kind, revision, instance, id } = row
    const result = await call('Undo', { changes: [{ list, kind, ...(revision ? { revision } : {}), ...(instance ? { instance } : {}), ...(id ? { id } : {}) }], why: why.trim() })
    setBusy(false)
    if (!result.ok) {
      setError(result.error)
      return
    }
    toast({ text: t('audit.undid', { what: row.what }) })
    setParams({ row: '' })
    again()
  }
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); if (!busy && why.trim() !== '') void undo() }}>
      <p className="faint">{t('audit.undoHint')}</p>
      <label className="field"><span>{t('edit.why')}</span><input value={why} onChange={(event) => setWhy(event.target.value)} autoComplete="off" /></label>
      {error ? <Problem error={error} /> : null}
      <span className="actions"><button type="submit" className="button primary" disabled={busy || why.trim() === ''}>{t('audit.undo')}</button></span>
    </form>
  )
}
