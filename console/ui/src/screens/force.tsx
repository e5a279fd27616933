import { useEffect, useMemo, useState } from 'react'
import { Dialog, Heading, Input, Label, Modal, ModalOverlay, TextField } from 'react-aria-components'
import { call, type Failure } from '../api/client.ts'
import type { ChangeRef, Circuit, Force, ForceRequest } from '../api/types.ts'
import { share, time } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { useToast, type Toast } from '../toast.tsx'
import { Problem } from '../ui/parts.tsx'
import { CircuitMark, circuitKey, type Forcing } from './resilience.tsx'

interface Props {
  state: Forcing
  list: string
  circuits: readonly Circuit[] // the breakers, by name; never a filter
  close: (done: boolean) => void
  again: () => void
}

const times = [5, 15, 60, 240, 1440] as const // minutes

export default function ForceDialog({ state, list, circuits, close, again }: Props) {
  const { t } = useT()
  const toast = useToast()
  const [chosen] = useState(circuits) // fixed when the dialog opens
  const [minutes, setMinutes] = useState(15)
  const [why, setWhy] = useState('')
  const [typed, setTyped] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Failure>()
  const request = useMemo<ForceRequest>(() => ({
    list, state, for: state === 'auto' ? 0 : minutes * 60e9, why: '', breakers: chosen.map((c) => ({ list: c.list, process: c.process, client: c.client, instance: c.id })),
  }), [list, state, minutes, chosen])
  const { effect, problem } = usePreview(request)
  const empties = effect?.empties ?? []
  const ready = effect !== undefined && why.trim() !== '' && (empties.length === 0 || typed === list)

  const apply = async () => {
    setBusy(true)
    const result = await call('ForceBreaker', { ...request, why: why.trim(), ...(empties.length > 0 ? { confirm: typed } : {}) })
    setBusy(false)
    if (!result.ok) {
      setError(result.error)
      return
    }
    const changes = result.value.changes ?? []
    const failures = result.value.failures ?? []
    const text = t(`force.done.${state}`, { n: changes.length })
    toast({
      text: failures.length > 0 ? t('force.failed', { text, failures: failures.join('; ') }) : text, bad: failures.length > 0,
      undo: () => undo(t, changes, text, again),
    })
    close(true)
  }

  return (
    <ModalOverlay className="overlay" isOpen isDismissable={!busy} onOpenChange={(open) => { if (!open) close(false) }}>
      <Modal className="modal">
        <Dialog className="dialog">
          <Heading slot="title">{t(`force.title.${state}`, { n: chosen.length })}</Heading>
          <form onSubmit={(event) => { event.preventDefault(); if (ready && !busy) void apply() }}>
            {state === 'auto' ? null : (
              <label className="field"><span>{t('force.for')}</span>
                <select value={minutes} onChange={(event) => setMinutes(Number(event.target.value))}>
                  {times.map((m) => <option key={m} value={m}>{m < 60 ? t('force.minutes', { n: m }) : t('force.hours', { n: m / 60 })}</option>)}
                </select>
              </label>
            )}
            {problem ? <Problem error={problem} /> : <Effect effect={effect} state={state} minutes={minutes} />}
            <TextField className="field" value={why} onChange={setWhy} isRequired autoFocus>
              <Label>{t('edit.why')}</Label><Input autoComplete="off" />
            </TextField>
            {empties.length > 0 ? (
              <TextField className="field" value={typed} onChange={setTyped}>
                <Label>{t('edit.confirm')} <code>{list}</code></Label><Input autoComplete="off" spellCheck={false} />
              </TextField>
            ) : null}
            {error ? <Problem error={error} /> : null}
            <div className="dialog-actions">
              <button type="button" className="button" onClick={() => close(false)}>{t('cancel')}</button>
              <button type="submit" className={'button primary' + (empties.length > 0 ? ' danger' : '')} disabled={!ready || busy}>{t(`force.${state}`)}</button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}

async function undo(t: T, changes: readonly ChangeRef[], text: string, again: () => void): Promise<Toast> {
  const result = await call('Undo', { changes, why: t('undo.why', { text }) })
  again()
  if (!result.ok) return { bad: true, text: t('undo.failed', { error: result.error.message }) }
  const failures = result.value.failures ?? []
  return failures.length > 0 ? { bad: true, text: t('undo.failed', { error: failures.join('; ') }) } : { text: t('undo.done', { text }) }
}

// usePreview asks what forcing would do.
function usePreview(request: ForceRequest): { effect: Force | undefined; problem: Failure | undefined } {
  const [state, setState] = useState<{ of?: ForceRequest; effect?: Force; problem?: Failure }>({})
  useEffect(() => {
    const controller = new AbortController()
    void call('ForceBreaker', { ...request, dryRun: true }, controller.signal).then((result) => {
      if (!controller.signal.aborted) setState(result.ok ? { of: request, effect: result.value } : { of: request, problem: result.error })
    })
    return () => controller.abort()
  }, [request])
  const mine = state.of === request
  return { effect: mine ? state.effect : undefined, problem: mine ? state.problem : undefined }
}

function Effect({ effect, state, minutes }: { effect: Force | undefined; state: Forcing; minutes: number }) {
  const { t } = useT()
  if (!effect) return <p className="effect faint" role="status" aria-busy="true">{t('edit.working')}</p>
  const empties = effect.empties ?? []
  const until = new Date(Date.now() + minutes * 60_000).toISOString()
  const after = (c: Circuit): Circuit => {
    const { forced: _, ...rest } = c
    return state === 'auto' ? { ...rest, breaker: c.breaker === 'open' ? 'half-open' : c.breaker } : { ...rest, breaker: state, forced: until }
  }
  return (
    <div className="effect">
      <p role="status">{t('force.share', { share: share(effect.share) })}{state === 'open' ? ' · ' + t('force.left', { n: effect.left }) : ''}</p>
      {empties.length > 0 ? <p className="bad" role="alert"><b>{t('force.empties', { clients: empties.slice(0, 5).join(', ') + (empties.length > 5 ? ` +${empties.length - 5}` : '') })}</b></p> : null}
      <div className="figures effect-rows" tabIndex={0} role="group" aria-label={t('edit.effect')}>
        <table>
          <thead><tr><th scope="col">{t('instance')}</th><th scope="col">{t('consumer.process')}</th><th scope="col">{t('edit.before')}</th><th scope="col">{t('edit.after')}</th><th scope="col">{t('until')}</th></tr></thead>
          <tbody>
            {(effect.circuits ?? []).map((c) => (
              <tr key={circuitKey(c)}><th scope="row">{c.id}</th><td>{c.process}</td><td><CircuitMark of={c} /></td><td><CircuitMark of={after(c)} /></td><td>{state === 'auto' ? '–' : time(until)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}
