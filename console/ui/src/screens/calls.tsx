import { useEffect, useMemo, useRef, useState } from 'react'
import { aborted, lines, type Failure } from '../api/client.ts'
import type { TapEvent, TapRequest } from '../api/types.ts'
import { duration, time } from '../format.ts'
import { useT } from '../i18n/index.tsx'
import { Link, setParams, useRoute } from '../route.tsx'
import { may, useSession } from '../session.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { Problem } from '../ui/parts.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Picker } from './list-picker.tsx'

const most = 1000 // calls that are kept

interface Kept {
  event: TapEvent
  n: number
}

export default function CallsScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const session = useSession()
  const [on, setOn] = useState(false)
  const list = params['list'] ?? ''
  const tap = useTap(on, { list, method: params['q'] ?? '', failed: params['failed'] === '1', atLeast: Number(params['atLeast'] ?? 0) * 1e6 }, () => setOn(false))
  const columns = useCallColumns(list)
  const allowed = session === undefined || may(session, 'developer')
  return (
    <>
      <div className="title-row"><h1>{t('nav.calls')}</h1><Picker label={t('policies.list')} name="list" of="list" /></div>
      <div className="bar">
        <FilterField label={t('calls.method')} hint="" />
        <label className="field-inline">{t('calls.atLeast')} <input type="number" min="0" value={params['atLeast'] ?? ''} onChange={(event) => setParams({ atLeast: event.target.value })} /></label>
        <label className="field-inline"><input type="checkbox" checked={params['failed'] === '1'} onChange={(event) => setParams({ failed: event.target.checked ? '1' : '' })} /> {t('calls.failed')}</label>
        <button type="button" className={'button' + (on ? '' : ' primary')} disabled={list === '' || !allowed} onClick={() => setOn(!on)}>{t(on ? 'calls.stop' : 'calls.start')}</button>
        <span role="status" className="faint">{on ? t('calls.runs') : tap.rows.length > 0 ? t('calls.stopped') : ''}{tap.missed > 0 ? ' ' + t('calls.missed', { n: tap.missed }) : ''}</span>
      </div>
      {allowed ? null : <p className="faint">{t('calls.role')}</p>}
      {tap.error ? <Problem error={tap.error} /> : null}
      <Table label={t('nav.calls')} rows={tap.rows} columns={columns} rowKey={(k) => String(k.n)} fill empty={t('calls.empty')} minWidth={1160} />
    </>
  )
}

function useCallColumns(list: string) {
  const { t } = useT()
  return useMemo<Column<Kept>[]>(() => [
    { key: 'time', head: t('calls.time'), width: '90px', cell: ({ event }) => <span className="num">{time(event.began)}</span> },
    { key: 'method', head: t('method'), width: 'minmax(160px,1.4fr)', cell: ({ event }) => event.method },
    { key: 'took', head: t('calls.took'), width: '90px', end: true, cell: ({ event }) => <span className="num">{duration(event.took)}</span> },
    { key: 'code', head: t('calls.code'), width: '130px', cell: ({ event }) => (isOK(event.code) ? event.code : <b className="bad">{event.code}</b>) },
    { key: 'error', head: t('calls.error'), width: 'minmax(120px,1.4fr)', cell: ({ event }) => <span className="faint" title={event.error}>{event.error}</span> },
    { key: 'instance', head: t('instance'), width: 'minmax(130px,1fr)', cell: ({ event }) => event.instance },
    { key: 'peer', head: t('calls.peer'), width: 'minmax(150px,1fr)', cell: ({ event }) => event.peer },
    { key: 'protocol', head: t('protocol'), width: '90px', cell: ({ event }) => event.protocol },
    { key: 'trace', head: t('calls.trace'), width: 'minmax(150px,1fr)', cell: ({ event }, tab) => (event.trace ? <Link tabIndex={tab} view="traces" params={{ list, trace: event.trace }}><code>{event.trace}</code></Link> : '–') },
  ], [t, list])
}

function isOK(code: string): boolean {
  return code === '' || code.toLowerCase() === 'ok'
}

interface Request {
  list: string
  method: string
  failed: boolean
  atLeast: number
}

// useTap shows calls while it is on. Calls that come within a fifth of a second are shown together.
function useTap(on: boolean, request: Request, ended: () => void) {
  const [state, setState] = useState<{ rows: readonly Kept[]; missed: number; error?: Failure }>({ rows: [], missed: 0 })
  const key = JSON.stringify(request)
  const end = useRef(ended)
  end.current = ended

  useEffect(() => {
    if (!on) return
    const controller = new AbortController()
    let n = 0
    let fresh: Kept[] = []
    let missed = 0
    setState({ rows: [], missed: 0 })
    const show = setInterval(() => {
      if (fresh.length === 0) return
      const next = fresh.reverse()
      fresh = []
      setState((old) => ({ ...old, rows: [...next, ...old.rows].slice(0, most), missed }))
    }, 200)
    // What is not asked for is left out: 0 and "" mean any.
    const { list, ...rest } = JSON.parse(key) as Request
    const tap = Object.fromEntries(Object.entries(rest).filter(([, v]) => v !== '' && v !== 0 && v !== false))
    const asked: TapRequest = { list, tap }
    void lines<TapEvent>('Tap', asked, controller.signal, (event) => {
      if (event.failure) setState((old) => ({ ...old, error: { code: event.instance, message: event.failure ?? '' } }))
      else fresh.push({ event, n: n++ })
      missed += event.missed ?? 0
    }).then((result) => {
      if (controller.signal.aborted) return
      if (!result.ok && result.error.code !== aborted) setState((old) => ({ ...old, error: result.error }))
      end.current()
    })
    return () => {
      clearInterval(show)
      controller.abort()
    }
  }, [on, key])
  return state
}
