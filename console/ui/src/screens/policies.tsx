import { lazy, Suspense, useEffect, useMemo, useState } from 'react'
import { call, type Failure } from '../api/client.ts'
import type { ChangeRow, PolicyView } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { diff } from '../diff.ts'
import { time } from '../format.ts'
import { useT } from '../i18n/index.tsx'
import { useRoute } from '../route.tsx'
import { mayEdit, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { Loading, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Picker } from './list-picker.tsx'
import { Rollouts } from './overview.tsx'

const PolicyForm = lazy(() => import('./policy-form.tsx'))

export default function PoliciesScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const list = params['list'] ?? ''
  return (
    <>
      <div className="title-row"><h1>{t('nav.policies')}</h1><Picker label={t('policies.list')} name="list" of="list" /></div>
      {list === '' ? <p className="empty">{t('policies.choose')}</p> : <Document key={list} list={list} policyKey={params['key'] ?? ''} />}
    </>
  )
}

function Document({ list, policyKey }: { list: string; policyKey: string }) {
  const { value, error, again } = usePolled('Policy', { list, key: policyKey }, 5000)
  if (!value) return <Waiting error={error} again={again} />
  return (
    <>
      {error ? <Problem error={error} again={again} /> : null}
      <Editor list={list} view={value} again={again} />
    </>
  )
}

interface Draft {
  text: string
  base: PolicyView // the revision that the text was made from
}

function Editor({ list, view, again }: { list: string; view: PolicyView; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const toast = useToast()
  const [draft, setDraft] = useState<Draft>()
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const editable = mayEdit(session, list)
  const text = draft?.text ?? view.text
  const changed = draft !== undefined && draft.text !== draft.base.text
  const check = useCheck(list, view, changed ? text : undefined)
  const moved = changed && draft.base.revision !== view.revision

  const change = (next: string) => setDraft({ text: next, base: draft?.base ?? view })
  const save = async () => {
    setBusy(true)
    setFailure(undefined)
    // A text whose difference to the latest revision has been shown is made from that one.
    const result = await call('PutPolicy', { list, key: view.key, text, base: view.revision, why: why.trim() })
    setBusy(false)
    if (!result.ok) {
      setFailure(result.error)
      again()
      return
    }
    const before = view.revision
    setDraft(undefined)
    setWhy('')
    again()
    toast({ text: t('policies.saved', { n: result.value.revision }), undo: () => restore(before, t('undo.why', { text: why.trim() })) })
  }
  const restore = async (revision: string, reason: string) => {
    const result = await call('Restore', { list, kind: 'policy', key: view.key, revision, why: reason })
    again()
    return result.ok ? { text: t('policies.restored', { n: revision }) } : { bad: true, text: result.error.message }
  }

  return (
    <div className="columns policy">
      <Panel title={`${view.key} · ${t('policies.revision', { n: view.revision })}`}>
        <div className="pad stack">
          {view.error ? <p className="bad">{t('policies.invalid', { error: view.error })}</p> : null}
          <Tabs
            label={t('form.as')} name="as"
            tabs={[
              { id: 'text', title: t('policies.text'), body: () => <textarea aria-label={t('policies.edit')} spellCheck={false} value={text} readOnly={!editable || busy} onChange={(event) => change(event.target.value)} /> },
              { id: 'form', title: t('form.title'), body: () => <Suspense fallback={<Loading />}><PolicyForm schema={view.schema} text={text} json={check?.json} waiting={changed && check === undefined} readOnly={!editable || busy} change={change} /></Suspense> },
            ]}
          />
          {changed && check?.yaml ? <p className="faint">{t('policies.yaml')}</p> : null}
          {moved ? <p className="bad" role="status">{t('policies.conflict', { n: view.revision })}</p> : null}
          {changed ? (
            <>
              <p role="status" className={check?.error ? 'bad' : 'faint'}>{check === undefined ? t('edit.working') : check.error ? t('policies.invalid', { error: check.error }) : t('policies.valid')}</p>
              <Difference before={view.text} after={text} revision={view.revision} />
              <label className="field"><span>{t('edit.why')}</span><input value={why} onChange={(event) => setWhy(event.target.value)} autoComplete="off" /></label>
              {failure ? <Problem error={failure} /> : null}
              <div className="dialog-actions">
                <button type="button" className="button" onClick={() => setDraft(undefined)}>{t('policies.discard')}</button>
                <button type="button" className="button primary" disabled={busy || why.trim() === '' || check === undefined || check.error !== undefined} onClick={() => void save()}>{t('policies.save')}</button>
              </div>
            </>
          ) : editable ? null : <p className="faint">{session?.readOnly ? t('edit.readOnly') : t('edit.role')}</p>}
        </div>
      </Panel>
      <div className="stack">
        <Panel title={t('overview.rollouts')}><Rollouts rows={view.rollout ? [view.rollout] : []} /></Panel>
        <Panel title={t('policies.history')}>
          <History
            rows={view.history ?? []} revision={view.revision} editable={editable && !changed}
            restore={async (revision, reason) => toast({ ...(await restore(revision, reason)), undo: () => restore(view.revision, t('undo.why', { text: reason })) })}
          />
        </Panel>
      </div>
    </div>
  )
}

interface Checked {
  text: string
  error?: string
  json?: string // the text as JSON, if it is valid
  yaml?: boolean
}

// useCheck asks whether a text is a valid policy, shortly after it was last altered; undefined
// while the answer is not there.
function useCheck(list: string, view: PolicyView, text: string | undefined) {
  const [state, setState] = useState<Checked>()
  const { key, revision } = view
  useEffect(() => {
    if (text === undefined) return
    const controller = new AbortController()
    const timer = setTimeout(() => {
      void call('PutPolicy', { list, key, text, base: revision, why: '', dryRun: true }, controller.signal).then((result) => {
        if (controller.signal.aborted) return
        const error = result.ok ? result.value.error : result.error.message
        const json = result.ok && !error ? result.value.text : undefined
        setState({ text, ...(error ? { error } : {}), ...(json === undefined ? {} : { json, yaml: json !== text }) })
      })
    }, 300)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [list, key, revision, text])
  return state?.text === text ? state : undefined
}

function Difference({ before, after, revision }: { before: string; after: string; revision: string }) {
  const { t } = useT()
  const lines = useMemo(() => diff(before, after), [before, after])
  if (lines.every((l) => l.kind === 'same')) return <p className="faint">{t('policies.same', { n: revision })}</p>
  return (
    <figure>
      <figcaption><h3>{t('policies.diff', { n: revision })}</h3></figcaption>
      <pre className="diff" tabIndex={0}>
        {lines.map((l, i) => <span key={i} className={l.kind}>{{ same: '  ', removed: '- ', added: '+ ' }[l.kind]}{l.text}{'\n'}</span>)}
      </pre>
    </figure>
  )
}

// Version is what a revision has changed. The history has the text of each.
function Version({ of, before }: { of: ChangeRow; before: ChangeRow | undefined }) {
  const { t } = useT()
  const [open, setOpen] = useState(false)
  if (!of.what.includes('\n') && !of.what.startsWith('{')) return <span>{of.what}</span>
  return (
    <>
      <span><button type="button" className="plain" aria-expanded={open} onClick={() => setOpen(!open)}>{t('policies.changed')}</button></span>
      {open ? <Difference before={before?.what ?? ''} after={of.what} revision={before?.revision ?? '0'} /> : null}
    </>
  )
}

interface HistoryProps {
  rows: readonly ChangeRow[]
  revision: string
  editable: boolean
  restore: (revision: string, why: string) => Promise<void>
}

function History({ rows, revision, editable, restore }: HistoryProps) {
  const { t } = useT()
  const [asked, setAsked] = useState<string>()
  const [why, setWhy] = useState('')
  if (rows.length === 0) return <p className="empty">{t('overview.noChanges')}</p>
  return (
    <ul className="lines">
      {rows.map((c, i) => (
        <li key={c.revision}>
          <span className="line-head">
            <b>{t('policies.revision', { n: c.revision })}</b> <time dateTime={c.at}>{time(c.at)}</time> <span>{c.by}</span>
            {editable && c.revision !== revision && asked !== c.revision ? <button type="button" className="plain" aria-label={t('policies.restoreOf', { n: c.revision })} onClick={() => setAsked(c.revision)}>{t('policies.restore')}</button> : null}
          </span>
          <Version of={c} before={rows[i + 1]} />
          {c.why ? <span className="faint">{c.why}</span> : null}
          {asked === c.revision ? (
            <form className="field-row" onSubmit={(event) => { event.preventDefault(); setAsked(undefined); setWhy(''); void restore(c.revision, why.trim()) }}>
              <label className="field"><span>{t('edit.why')}</span><input autoFocus value={why} onChange={(event) => setWhy(event.target.value)} autoComplete="off" /></label>
              <span className="actions end">
                <button type="button" className="button" onClick={() => setAsked(undefined)}>{t('cancel')}</button>
                <button type="submit" className="button primary" disabled={why.trim() === ''}>{t('policies.restore')}</button>
              </span>
            </form>
          ) : null}
        </li>
      ))}
    </ul>
  )
}
