import { useEffect, useMemo, useState } from 'react'
import { Dialog, Heading, Input, Label, Modal, ModalOverlay, NumberField, TextField } from 'react-aria-components'
import { call, type Failure } from '../api/client.ts'
import type { Edit, EditRequest, InstanceRow, Override } from '../api/types.ts'
import { count, share } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { useToast, type Toast } from '../toast.tsx'
import { inverse } from '../undo.ts'
import { Problem } from '../ui/parts.tsx'
import { StateMark } from '../ui/state.tsx'

export type Action = 'weight' | 'disable' | 'drain' | 'enable'

interface Props {
  action: Action
  list: string
  service: string
  rows: readonly InstanceRow[] // the instances, by their IDs; never a filter
  before?: readonly Override[] // what is set now; it is read if it is not given
  close: (done: boolean) => void
  again: () => void
}

interface Form {
  weight: number
  ramp: string
  until: string // hours
}

// editOf returns what an action sets for instances. To enable sets the state, which an Editor only
// writes where something else, such as an override by labels, withholds the instance.
export function editOf(action: Action, ids: readonly string[], form: Form, now = new Date()): Override[] {
  const until = form.until === '' ? {} : { until: new Date(now.getTime() + Number(form.until) * 3600_000).toISOString() }
  return ids.map((instance): Override => {
    switch (action) {
      case 'weight':
        return { instance, weight: form.weight, ...(form.ramp === '' ? {} : { ramp: form.ramp }), ...until }
      case 'disable':
        return { instance, state: 'disabled', ...until }
      case 'drain':
        return { instance, state: 'draining', ...until }
      case 'enable':
        return { instance, state: 'enabled' }
    }
  })
}

export default function EditDialog({ action, list, service, rows, before, close, again }: Props) {
  const { t } = useT()
  const toast = useToast()
  // The IDs are fixed when the dialog opens, whatever becomes of the list meanwhile.
  const [chosen] = useState(rows)
  const [form, setForm] = useState<Form>({ weight: chosen[0]?.set || chosen[0]?.weight || 100, ramp: '', until: '' })
  const [why, setWhy] = useState('')
  const [typed, setTyped] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Failure>()
  const set = useMemo(() => editOf(action, chosen.map((r) => r.id), form), [action, chosen, form])
  const preview = usePreview(list, set)
  const effect = preview.effect
  const ready = effect !== undefined && why.trim() !== '' && (!effect.empties || typed === list) && (effect.rows ?? []).length > 0

  const apply = async () => {
    setBusy(true)
    const prior = before ?? (await priorOf(list, service))
    const result = await call('Edit', request(list, set, why, effect?.empties === true ? typed : ''))
    setBusy(false)
    if (!result.ok) {
      setError(result.error)
      return
    }
    const text = t(`done.${action}`, { n: chosen.length, service: service || list })
    const weights = new Map(chosen.map((r) => [r.id, r.weight || 100]))
    toast({ text, ...(prior ? { undo: () => undo(t, list, inverse(set, prior, weights), text, again) } : {}) })
    close(true)
  }

  return (
    <ModalOverlay className="overlay" isOpen isDismissable={!busy} onOpenChange={(open) => { if (!open) close(false) }}>
      <Modal className="modal">
        <Dialog className="dialog">
          <Heading slot="title">{t(`edit.${action}`, { n: chosen.length })}</Heading>
          <form onSubmit={(event) => { event.preventDefault(); if (ready && !busy) void apply() }}>
            <p className="faint ids">{chosen.slice(0, 6).map((r) => r.id).join(', ')}{chosen.length > 6 ? ` +${chosen.length - 6}` : ''}</p>
            <Fields action={action} form={form} change={setForm} />
            <Effect effect={effect} error={preview.error} waiting={preview.waiting} chosen={chosen} />
            <TextField className="field" value={why} onChange={setWhy} isRequired autoFocus={action !== 'weight'}>
              <Label>{t('edit.why')}</Label><Input autoComplete="off" />
            </TextField>
            {effect?.empties ? (
              <TextField className="field" value={typed} onChange={setTyped}>
                <Label>{t('edit.confirm')} <code>{list}</code></Label><Input autoComplete="off" spellCheck={false} />
              </TextField>
            ) : null}
            {error ? <Problem error={error} /> : null}
            <div className="dialog-actions">
              <button type="button" className="button" onClick={() => close(false)}>{t('cancel')}</button>
              <button type="submit" className={'button primary' + (effect?.empties ? ' danger' : '')} disabled={!ready || busy}>{t(`action.${action}`)}</button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}

function request(list: string, set: readonly Override[], why: string, confirm: string): EditRequest {
  return { list, set, why: why.trim(), ...(confirm ? { confirm } : {}) }
}

async function priorOf(list: string, service: string): Promise<readonly Override[] | undefined> {
  const result = await call('Service', { list, service })
  return result.ok ? (result.value.set ?? []) : undefined
}

async function undo(t: T, list: string, inverted: ReturnType<typeof inverse>, text: string, again: () => void): Promise<Toast> {
  const result = await call('Edit', { list, ...inverted, why: t('undo.why', { text }) })
  again()
  return result.ok ? { text: t('undo.done', { text }) } : { bad: true, text: t('undo.failed', { error: result.error.message }) }
}

// usePreview asks what a change would do, shortly after it was last altered.
function usePreview(list: string, set: readonly Override[]) {
  const [state, setState] = useState<{ of?: readonly Override[]; effect?: Edit; error?: Failure }>({})
  useEffect(() => {
    const controller = new AbortController()
    const timer = setTimeout(() => {
      void call('Edit', { list, set, why: '', dryRun: true }, controller.signal).then((result) => {
        if (!controller.signal.aborted) setState(result.ok ? { of: set, effect: result.value } : { of: set, error: result.error })
      })
    }, 150)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [list, set])
  const waiting = state.of !== set
  return { waiting, effect: waiting ? undefined : state.effect, error: waiting ? undefined : state.error }
}

function Fields({ action, form, change }: { action: Action; form: Form; change: (form: Form) => void }) {
  const { t } = useT()
  if (action === 'enable') return null
  return (
    <div className="field-row">
      {action === 'weight' ? (
        <>
          <NumberField className="field" value={form.weight} onChange={(weight) => change({ ...form, weight: Number.isNaN(weight) ? 1 : weight })} minValue={1} maxValue={10_000} autoFocus formatOptions={{ useGrouping: false }}>
            <Label>{t('weight')} (1–10000)</Label><Input />
          </NumberField>
          <label className="field"><span>{t('edit.ramp')}</span>
            <select value={form.ramp} onChange={(event) => change({ ...form, ramp: event.target.value })}>
              <option value="">{t('edit.atOnce')}</option>
              {['30s', '1m', '5m', '15m', '1h'].map((r) => <option key={r} value={r}>{r}</option>)}
            </select>
          </label>
        </>
      ) : null}
      <label className="field"><span>{t('edit.until')}</span>
        <select value={form.until} onChange={(event) => change({ ...form, until: event.target.value })}>
          <option value="">{t('edit.open')}</option>
          {['1', '4', '24', '168'].map((h) => <option key={h} value={h}>{t('edit.hours', { n: Number(h) })}</option>)}
        </select>
      </label>
    </div>
  )
}

interface EffectProps {
  effect: Edit | undefined
  error: Failure | undefined
  waiting: boolean
  chosen: readonly InstanceRow[]
}

// Effect is what the change would do, as the console has worked it out.
function Effect({ effect, error, waiting, chosen }: EffectProps) {
  const { t } = useT()
  if (error) return <Problem error={error} />
  if (!effect) return <p className="effect faint" role="status" aria-busy={waiting}>{t('edit.working')}</p>
  const rows = effect.rows ?? []
  const old = new Map(chosen.map((r) => [r.id, r]))
  return (
    <div className="effect">
      <p role="status">
        {rows.length === 0 ? t('edit.nothing') : (
          <>{t('edit.share', { share: share(effect.share) })} · {t('edit.left', { n: effect.left })}</>
        )}
      </p>
      {effect.empties ? <p className="bad" role="alert"><b>{t('edit.empties')}</b></p> : null}
      {rows.length > 0 ? (
        <div className="figures effect-rows" tabIndex={0} role="group" aria-label={t('edit.effect')}>
          <table>
            <thead><tr><th scope="col">{t('instance')}</th><th scope="col">{t('edit.before')}</th><th scope="col">{t('edit.after')}</th></tr></thead>
            <tbody>{rows.map((r) => <tr key={r.id}><th scope="row">{r.id}</th><td><StateAndWeight row={old.get(r.id)} /></td><td><StateAndWeight row={r} /></td></tr>)}</tbody>
          </table>
        </div>
      ) : null}
    </div>
  )
}

function StateAndWeight({ row }: { row: InstanceRow | undefined }) {
  if (!row) return <>–</>
  return <span className="state-weight"><StateMark state={row.state} /><span className="num">{count(row.set)}</span></span>
}
