import { lazy, Suspense, useMemo, useState, type ReactNode } from 'react'
import { call } from '../api/client.ts'
import type { Instance, InstanceRow, Setting } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { bytes, count, duration, failedShare, isTime, rate, share, span, time } from '../format.ts'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { rowsOf, type Cell } from '../loose.ts'
import { Link, useRoute } from '../route.tsx'
import { may, mayEdit, roleName, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { Facts, Figure, Loading, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { StateMark } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import type { Action } from './edit.tsx'
import { Clients } from './clients.tsx'
import { Methods } from './service.tsx'

const EditDialog = lazy(() => import('./edit.tsx'))
const LogLevel = lazy(() => import('./log-level.tsx'))

export default function InstanceScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const list = params['list'] ?? ''
  const { value, error, again } = usePolled('Instance', { list, instance: params['instance'] ?? '' }, 2000)
  if (!value) return <><h1>{params['instance']}</h1><Waiting error={error} again={again} /></>
  const service = params['service'] ?? value.services?.[0] ?? ''
  return (
    <>
      <p className="crumbs">
        <Link view="services">{t('nav.services')}</Link> / {service ? <Link view="service" params={{ list, service, tab: 'instances' }}>{service}</Link> : null} / <span className="faint">{list}</span>
      </p>
      <div className="title-row">
        <h1>{value.id}</h1><StateMark state={value.state} />
        <Actions value={value} service={service} again={again} />
      </div>
      {error ? <Problem error={error} again={again} /> : null}
      {value.error ? <Problem error={{ code: 'admin', message: value.error }} /> : null}
      {value.why ? <p className="why">{value.why}{isTime(value.until) ? ' · ' + t('until') + ' ' + time(value.until) : ''}</p> : null}
      <div className="figures-row">
        <Figure name={t('weight')} value={count(value.set)} note={value.set !== (value.weight || 100) ? t('weight.registered', { n: value.weight || 100 }) : undefined} />
        <Figure name={t('rate')} value={rate(value.rate)} unit={t('perSecond')} />
        <Figure name={t('errors')} value={share(failedShare(value))} />
        <Figure name="p99" value={duration(value.p99)} />
        <Figure name={t('running')} value={count(value.running)} />
        <Figure name={t('uptime')} value={uptime(value)} />
      </div>
      <Tabs
        label={value.id}
        tabs={[
          { id: 'about', title: t('instance.about'), body: () => <About value={value} list={list} again={again} /> },
          { id: 'methods', title: t('methods'), n: value.methods?.length ?? 0, body: () => <Methods methods={value.methods ?? []} list={value.list} instance={value.id} /> },
          { id: 'connections', title: t('connections'), n: value.connections?.total ?? 0, body: () => <Loose label={t('connections')} value={value.connections?.connections} empty={t('connections.empty')} /> },
          { id: 'running', title: t('runningCalls'), n: value.runningCalls?.calls?.length ?? 0, body: () => <Loose label={t('runningCalls')} value={value.runningCalls?.calls} empty={t('runningCalls.empty')} /> },
          { id: 'limits', title: t('limits'), body: () => <Limits value={value} /> },
          { id: 'settings', title: t('settings'), n: value.settings?.length ?? 0, body: () => <Settings value={value} /> },
          { id: 'clients', title: t('instance.calls'), n: value.clients?.length ?? 0, body: () => <Clients clients={value.clients ?? []} /> },
          { id: 'profiles', title: t('profiles'), body: () => <Profiles value={value} list={list} /> },
        ]}
      />
    </>
  )
}

function uptime(value: Instance): string {
  const began = value.info?.began ?? value.started
  return isTime(began) ? span((Date.now() - Date.parse(began)) / 1000) : '–'
}

function Actions({ value, service, again }: { value: Instance; service: string; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const [action, setAction] = useState<Action>()
  if (!mayEdit(session, value.list)) return <span className="actions faint">{session?.readOnly ? t('edit.readOnly') : t('edit.role')}</span>
  const row: InstanceRow = value
  const offered: Action[] = value.state === 'disabled' || value.state === 'draining' ? ['enable', 'weight'] : ['weight', 'disable', 'drain']
  return (
    <span className="actions">
      {offered.map((a) => <button key={a} type="button" className="button" onClick={() => setAction(a)}>{t(`action.${a}`)}</button>)}
      {action ? (
        <Suspense fallback={null}>
          <EditDialog action={action} list={value.list} service={service} rows={[row]} close={(done) => { setAction(undefined); if (done) again() }} again={again} />
        </Suspense>
      ) : null}
    </span>
  )
}

function About({ value, list, again }: { value: Instance; list: string; again: () => void }) {
  const { t } = useT()
  const info = value.info
  const tags = Object.entries(value.tags ?? {})
  const items: [string, ReactNode][] = [
    [t('address'), (value.endpoints ?? []).map((e) => <div key={e.transport + e.address}>{e.transport}://{e.address} <span className="faint">{e.protocol || 'tandem'}</span></div>)],
    [t('services'), (value.services ?? []).join(', ') || t('instance.allServices')],
    [t('version'), value.version || '–'],
    [t('zone'), value.zone || '–'],
    [t('group'), value.group || '–'],
    [t('started'), time(value.started)],
    [t('tags'), tags.length > 0 ? tags.map(([k, v]) => <span className="tag" key={k}>{k}={v}</span>) : '–'],
  ]
  const process: [string, ReactNode][] = info ? [
    [t('host'), `${info.host} · PID ${info.pid}`],
    [t('command'), info.command],
    [t('build'), [info.module, info.version, info.revision?.slice(0, 12)].filter(Boolean).join(' ')],
    ['tandem', info.tandem || '–'],
    ['Go', `${info.go} · GOMAXPROCS ${info.gomaxprocs}`],
    [t('goroutines'), count(info.goroutines)],
    [t('heap'), bytes(info.heapBytes)],
    [t('logLevel'), <Level key="level" value={value} list={list} again={again} />],
    [t('instance.role'), roleName(t, info.role)],
  ] : []
  return (
    <div className="columns">
      <Panel title={t('instance.listed')}><Facts items={items} /></Panel>
      <Panel title={t('instance.process')}>{info ? <Facts items={process} /> : <p className="empty">{t('instance.noAdmin')}</p>}</Panel>
    </div>
  )
}

// Level is the level of the log, and a button that changes it where that is possible.
function Level({ value, list, again }: { value: Instance; list: string; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const [open, setOpen] = useState(false)
  const level = value.info?.logLevel
  if (!level) return <>– <span className="faint">{t('level.unknown')}</span></>
  if (!may(session, 'operator')) return <>{level}</>
  if (value.info?.role !== 'operator' && value.info?.role !== 'administrator') return <>{level} <span className="faint">{t('level.refused', { role: roleName(t, value.info?.role ?? '') })}</span></>
  return (
    <>
      {level} <button type="button" className="plain" onClick={() => setOpen(true)}>{t('level.change')}</button>
      {open ? <Suspense fallback={null}><LogLevel value={value} list={list} close={() => setOpen(false)} again={again} /></Suspense> : null}
    </>
  )
}

// Loose is a table of what an instance says about itself, whatever its columns are.
function Loose({ label, value, empty }: { label: string; value: unknown; empty: string }) {
  const { t } = useT()
  const rows = useMemo(() => rowsOf(value), [value])
  const columns = useMemo<Column<Cell[]>[]>(() => (rows[0] ?? []).map((first, i) => ({
    key: first.name, head: fieldName(t, first.name), width: 'minmax(84px,1fr)', end: first.end,
    sort: (r) => r[i]?.sort ?? '', cell: (r) => <span className={first.end ? 'num' : ''} title={r[i]?.text}>{r[i]?.text}</span>,
  })), [rows, t])
  return <Table label={label} rows={rows} columns={columns} rowKey={(r) => r.map((c) => c.sort).join('|')} sortName="sort" empty={empty} minWidth={columns.length * 106} fill />
}

const fields: Readonly<Record<string, Key>> = {
  protocol: 'protocol', peer: 'calls.peer', 'peer.address': 'calls.peer', since: 'since', running: 'running', calls: 'calls', rtt: 'field.rtt', draining: 'state.draining', method: 'method', kind: 'kind', connection: 'field.connection', deadline: 'field.deadline', waits: 'field.waits',
}

// fieldName is the text for a field that is known, or else its name.
function fieldName(t: T, name: string): string {
  const key = fields[name.toLowerCase()]
  return key ? t(key) : name
}

function Limits({ value }: { value: Instance }) {
  const { t } = useT()
  return (
    <>
      <Panel title={t('limits.calls')}><Loose label={t('limits.calls')} value={value.limits?.limits} empty={t('limits.none')} /></Panel>
      <Panel title={t('limits.overload')}><Loose label={t('limits.overload')} value={value.limits?.overload} empty={t('limits.none')} /></Panel>
    </>
  )
}

function Settings({ value }: { value: Instance }) {
  const { t } = useT()
  const rows = value.settings ?? []
  const columns = useMemo<Column<Setting>[]>(() => [
    { key: 'name', head: t('setting'), width: 'minmax(180px,1fr)', sort: (s) => s.name, cell: (s) => <code>{s.name}</code> },
    { key: 'value', head: t('value'), width: 'minmax(180px,1.4fr)', sort: (s) => s.value, cell: (s) => <span title={s.value}>{s.value}</span> },
    { key: 'from', head: t('setting.from'), width: 'minmax(120px,.8fr)', sort: (s) => s.from, cell: (s) => (s.from === 'default' ? <span className="faint">{t('setting.default')}</span> : s.from) },
  ], [t])
  return <Table label={t('settings')} rows={rows} columns={columns} rowKey={(s) => s.name + s.value} sortName="sort" sorted="name" empty={t('settings.empty')} fill />
}

const kinds = ['cpu', 'heap', 'goroutine', 'allocs', 'block', 'mutex', 'trace'] as const

function Profiles({ value, list }: { value: Instance; list: string }) {
  const { t } = useT()
  const session = useSession()
  const toast = useToast()
  const [busy, setBusy] = useState<string>()
  if (!value.admin) return <p className="empty">{t('instance.noAdmin')}</p>
  if (!may(session, 'developer')) return <p className="empty">{t('profiles.role')}</p>
  const get = async (kind: string) => {
    setBusy(kind)
    const result = await call('Profile', { list, instance: value.id, kind, ...(kind === 'cpu' || kind === 'trace' ? { for: 5e9 } : {}) })
    setBusy(undefined)
    if (result.ok) save(result.value.name, result.value.data)
    else toast({ bad: true, text: result.error.message })
  }
  return (
    <ul className="lines">
      {kinds.map((kind) => (
        <li key={kind} className="profile-line">
          <code>{kind}</code><span className="faint">{profileText(t, kind)}</span>
          <button type="button" className="button" disabled={busy !== undefined} onClick={() => void get(kind)}>{busy === kind ? t('profiles.busy') : t('profiles.get')}</button>
        </li>
      ))}
      {busy ? <li role="status"><Loading /></li> : null}
    </ul>
  )
}

function profileText(t: T, kind: (typeof kinds)[number]): string {
  return t(`profile.${kind}`)
}

// save offers base64 data as a file.
function save(name: string, data: string) {
  const url = URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
