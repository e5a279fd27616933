import { useEffect, useMemo, useState } from 'react'
import { call, type Failure } from '../api/client.ts'
import type { Access, Action, ListRoles, Refusal, RefusedUser, SessionRow } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { count, isTime, time } from '../format.ts'
import { en } from '../i18n/en.ts'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { Link } from '../route.tsx'
import { may, roleName, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { Facts, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { WhyDialog } from '../ui/why-dialog.tsx'
import '../styles/access.css'

export default function AccessScreen() {
  const { t } = useT()
  const session = useSession()
  const { value, error, again } = usePolled('Access', {}, 5000)
  if (!value) return <><h1>{t('nav.access')}</h1><Waiting error={error} again={again} /></>
  return (
    <>
      <div className="title-row"><h1>{t('nav.access')}</h1></div>
      {error ? <Problem error={error} again={again} /> : null}
      <div className="columns access">
        <Panel title={t('access.you')}><You value={value} /></Panel>
        <Panel title={t('access.roles')}><Matrix value={value} own={session?.role ?? ''} /></Panel>
      </div>
      {may(session, 'administrator') ? (
        <>
          <Panel title={t('access.sessions')}><Sessions rows={value.sessions ?? []} again={again} /></Panel>
          {(value.refused ?? []).length > 0 ? <Panel title={t('access.refused')}><Refused rows={value.refused ?? []} again={again} /></Panel> : null}
        </>
      ) : null}
      <Panel title={t('access.lists')}><Lists rows={value.lists ?? []} /></Panel>
    </>
  )
}

function You({ value }: { value: Access }) {
  const { t } = useT()
  const session = useSession()
  const [leaving, setLeaving] = useState(false)
  const own = value.own
  const token = value.by === 'token'
  return (
    <>
      <Facts items={[
        [t('access.name'), session?.name || t('access.noName')],
        [t('access.role'), <>{roleName(t, session?.role ?? '')}{session?.readOnly ? <span className="tag after">{t('readOnly')}</span> : null}</>],
        [t('access.by'), token ? t('access.token') : t('access.authorizer')],
        ...(own ? [
          [t('since'), time(own.since)] as const,
          [t('until'), isTime(own.until) ? time(own.until) : t('access.noEnd')] as const,
          [t('address'), addressOf(own)] as const,
        ] : []),
      ]} />
      <div className="pad">
        {token ? <button type="button" className="button" onClick={() => setLeaving(true)}>{t('access.logout')}</button>
          : value.logoutURL ? <a className="button linked" href={value.logoutURL}>{t('access.logout')}</a> : <p className="faint">{t('access.logoutElsewhere')}</p>}
      </div>
      {leaving ? <Leave close={() => setLeaving(false)} /> : null}
    </>
  )
}

function addressOf(s: SessionRow): string {
  return s.forwarded ? `${s.forwarded} (${s.address})` : s.address
}

function Leave({ close }: { close: () => void }) {
  const { t } = useT()
  const apply = async () => {
    const result = await call('Logout', {})
    if (!result.ok) return result.error
    location.assign(location.pathname) // the page says how to get in
    return undefined
  }
  return (
    <WhyDialog title={t('access.logout')} action={t('access.logout')} reason={false} danger apply={apply} close={close}>
      <p className="effect" role="status">{t('access.leaving')}</p>
    </WhyDialog>
  )
}

// What an action is called; the API's own name for one that this page does not know.
function actionName(t: T, a: Action): string {
  const key = 'access.do.' + a.name
  return key in en ? t(key as Key) : a.name
}

function Matrix({ value, own }: { value: Access; own: string }) {
  const { t } = useT()
  const roles = value.roles ?? []
  const rank = new Map(roles.map((r, i) => [r, i]))
  const actions = [...(value.actions ?? [])].sort((a, b) => (rank.get(a.role) ?? 0) - (rank.get(b.role) ?? 0) || actionName(t, a).localeCompare(actionName(t, b)))
  if (actions.length === 0) return <p className="empty">{t('table.empty')}</p>
  return (
    <div className="figures matrix" tabIndex={0} role="group" aria-label={t('access.roles')}>
      <table>
        <thead><tr><th scope="col">{t('access.action')}</th>{roles.map((r) => <th key={r} scope="col" className={r === own ? 'own' : ''}>{roleName(t, r)}{r === own ? <span className="hidden"> {t('access.yours')}</span> : null}</th>)}</tr></thead>
        <tbody>
          {actions.map((a) => (
            <tr key={a.name}>
              <th scope="row" title={a.name}>{actionName(t, a)}{a.instance ? <span className="faint"> {t('access.instance')}</span> : null}</th>
              {roles.map((r) => <td key={r} className={r === own ? 'own' : ''}><Allowed allowed={(rank.get(r) ?? 0) >= (rank.get(a.role) ?? 0)} preview={a.preview} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Allowed({ allowed, preview }: { allowed: boolean; preview: boolean }) {
  const { t } = useT()
  if (allowed) return <><svg className="state-icon allowed" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path d="M3 6.5 5.2 9 9 3.5" /></svg><span className="hidden">{t('access.yes')}</span></>
  if (preview) return <span className="faint">{t('access.preview')}</span>
  return <><span className="faint" aria-hidden="true">–</span><span className="hidden">{t('access.no')}</span></>
}

function Sessions({ rows, again }: { rows: readonly SessionRow[]; again: () => void }) {
  const { t } = useT()
  const [chosen, setChosen] = useState<string>()
  const columns = useMemo<Column<SessionRow>[]>(() => [
    { key: 'name', head: t('access.name'), width: 'minmax(140px,1.4fr)', sort: (s) => s.name, cell: (s) => <>{s.name || t('access.noName')}{s.own ? <span className="tag after">{t('access.own')}</span> : null}</> },
    { key: 'role', head: t('access.role'), width: '130px', sort: (s) => s.role, cell: (s) => roleName(t, s.role) },
    { key: 'since', head: t('since'), width: '160px', sort: (s) => s.since, cell: (s) => <span className="num">{time(s.since)}</span> },
    { key: 'seen', head: t('access.seen'), width: '160px', sort: (s) => s.seen, cell: (s) => <span className="num">{time(s.seen)}</span> },
    { key: 'address', head: t('address'), width: 'minmax(160px,1.4fr)', sort: addressOf, cell: (s) => addressOf(s) },
    { key: 'end', head: t('access.action'), width: '130px', cell: (s, tab) => (s.own || s.name === '' ? null : <button type="button" tabIndex={tab} className="row-button" aria-label={t('access.endOf', { name: s.name })} onClick={() => setChosen(s.name)}>{t('access.end')}</button>) },
  ], [t])
  return (
    <>
      <Table label={t('access.sessions')} rows={rows} columns={columns} rowKey={(s) => s.id} sortName="sort" sorted="-seen" minWidth={860} />
      {chosen === undefined ? null : <EndSession name={chosen} close={() => setChosen(undefined)} again={again} />}
    </>
  )
}

function EndSession({ name, close, again }: { name: string; close: () => void; again: () => void }) {
  const { t } = useT()
  const toast = useToast()
  const [effect, setEffect] = useState<RefusedUser>()
  const [error, setError] = useState<Failure>()
  useEffect(() => {
    const controller = new AbortController()
    void call('RefuseUser', { name, why: '', dryRun: true }, controller.signal).then((result) => {
      if (controller.signal.aborted) return
      if (result.ok) setEffect(result.value)
      else setError(result.error)
    })
    return () => controller.abort()
  }, [name])
  const apply = async (why: string) => {
    const result = await call('RefuseUser', { name, why })
    if (!result.ok) return result.error
    const text = t('access.ended', { name, n: result.value.ended, until: time(result.value.until) })
    toast({ text, undo: async () => admit(t, name, again) })
    again()
    close()
    return undefined
  }
  return (
    <WhyDialog title={t('access.endOf', { name })} action={t('access.end')} label={t('access.why')} danger ready={effect !== undefined} apply={apply} close={close}>
      {error ? <Problem error={error} /> : null}
      <p className="effect" role="status">{effect ? t('access.endEffect', { name, n: effect.ended, until: time(effect.until) }) : t('edit.working')}</p>
    </WhyDialog>
  )
}

async function admit(t: T, name: string, again: () => void) {
  const result = await call('AdmitUser', { name })
  again()
  return result.ok ? { text: t('access.admitted', { name }) } : { bad: true, text: result.error.message }
}

function Refused({ rows, again }: { rows: readonly Refusal[]; again: () => void }) {
  const { t } = useT()
  const toast = useToast()
  return (
    <ul className="lines">
      {rows.map((r) => (
        <li key={r.name}>
          <span className="line-head"><b>{r.name}</b> <span>{t('access.refusedUntil', { until: time(r.until), by: r.by })}</span>
            <button type="button" className="plain" aria-label={t('access.admitOf', { name: r.name })} onClick={() => void admit(t, r.name, again).then(toast)}>{t('access.admit')}</button>
          </span>
          <span className="faint">{r.why}</span>
        </li>
      ))}
    </ul>
  )
}

// Lists say what the instances allow the console, which is what its users can do there at most.
function Lists({ rows }: { rows: readonly ListRoles[] }) {
  const { t } = useT()
  const session = useSession()
  const columns = useMemo<Column<ListRoles>[]>(() => [
    { key: 'list', head: t('list'), width: 'minmax(240px,2fr)', sort: (r) => r.list, cell: (r, tab) => <Link tabIndex={tab} view="services" params={{ q: r.list }}>{r.list}</Link> },
    ...(['viewer', 'developer', 'operator', 'administrator'] as const).map((role): Column<ListRoles> => ({
      key: role, head: roleName(t, role), width: '110px', end: true, sort: (r) => r.roles?.[role] ?? 0, cell: (r) => <N n={r.roles?.[role] ?? 0} />,
    })),
    { key: 'refused', head: t('access.none'), width: '100px', end: true, sort: (r) => r.refused, cell: (r) => <N n={r.refused} bad title={r.error} /> },
    { key: 'silent', head: t('state.silent'), width: '90px', end: true, sort: (r) => r.silent, cell: (r) => <N n={r.silent} bad /> },
    { key: 'unknown', head: t('access.unasked'), width: '120px', end: true, sort: (r) => r.unknown, cell: (r) => <N n={r.unknown} /> },
    { key: 'without', head: t('access.without'), width: '130px', end: true, sort: (r) => r.without, cell: (r) => <N n={r.without} /> },
  ], [t])
  const short = session && rows.some((r) => Object.entries(r.roles ?? {}).some(([role, n]) => n > 0 && !enough(role, session.role)))
  return (
    <>
      <p className="pad faint">{t('access.listsText')}{short ? <> <b className="bad">{t('access.short', { role: roleName(t, session.role) })}</b></> : null}</p>
      <Table label={t('access.lists')} rows={rows} columns={columns} rowKey={(r) => r.list} sortName="by" sorted="list" minWidth={1100} empty={t('services.empty')} />
    </>
  )
}

function enough(has: string, wants: string): boolean {
  const order = ['viewer', 'developer', 'operator', 'administrator']
  return order.indexOf(has) >= order.indexOf(wants)
}

function N({ n, bad, title }: { n: number; bad?: boolean; title?: string | undefined }) {
  if (n === 0) return <span className="num faint">0</span>
  return <span className={'num' + (bad ? ' bad' : '')} title={title}>{count(n)}</span>
}
