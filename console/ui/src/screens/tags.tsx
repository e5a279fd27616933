import { useEffect, useMemo, useState } from 'react'
import { Dialog, Heading, Input, Label, Modal, ModalOverlay, TextField } from 'react-aria-components'
import { call, type Failure } from '../api/client.ts'
import type { ChangeRef, Edit, Entry, Override } from '../api/types.ts'
import { share } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { overrideOf, rowsOfTags, sameTags, tagsOfRows, tagText, type TagRow } from '../tags.ts'
import { useToast, type Toast } from '../toast.tsx'
import { Problem } from '../ui/parts.tsx'

interface Props {
  list: string
  entry: Entry
  set: readonly Override[] // what is set for the list now
  close: (done: boolean) => void
  again: () => void
}

export default function TagsDialog({ list, entry, set, close, again }: Props) {
  const { t } = useT()
  const toast = useToast()
  const registered = useMemo(() => entry.tags ?? {}, [entry])
  const [rows, setRows] = useState<readonly TagRow[]>(() => rowsOfTags(entry.effective ?? registered))
  const [hours, setHours] = useState('')
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Failure>()
  const { tags, twice } = useMemo(() => tagsOfRows(rows), [rows])
  const overrides = useMemo<Override[]>(() => {
    const before = set.find((o) => o.instance === entry.id && o.tags)?.tags ?? {}
    const changed = overrideOf(registered, tags, before)
    if (Object.keys(changed).length === 0) return []
    return [{ instance: entry.id, tags: changed, ...(hours === '' ? {} : { until: new Date(Date.now() + Number(hours) * 3600_000).toISOString() }) }]
  }, [entry.id, registered, tags, set, hours])
  const preview = usePreview(list, twice === undefined ? overrides : [])
  const after = preview.effect?.rows?.find((r) => r.id === entry.id)
  const unchanged = sameTags(tags, entry.effective ?? registered)
  const ready = !unchanged && twice === undefined && after !== undefined && why.trim() !== ''

  const apply = async () => {
    setBusy(true)
    const result = await call('Edit', { list, set: overrides, why: why.trim() })
    setBusy(false)
    if (!result.ok) {
      setError(result.error)
      return
    }
    const text = t('tags.done', { id: entry.id })
    const made: ChangeRef = { list, kind: 'overrides', revision: result.value.revision ?? '' }
    toast({ text, undo: () => undo(t, made, text, again) })
    close(true)
  }
  const change = (i: number, next: Partial<TagRow>) => setRows(rows.map((r, n) => (n === i ? { ...r, ...next } : r)))

  return (
    <ModalOverlay className="overlay" isOpen isDismissable={!busy} onOpenChange={(open) => { if (!open) close(false) }}>
      <Modal className="modal">
        <Dialog className="dialog">
          <Heading slot="title">{t('tags.title', { id: entry.id })}</Heading>
          <form onSubmit={(event) => { event.preventDefault(); if (ready && !busy) void apply() }}>
            <p className="faint">{t('tags.hint')}</p>
            <div className="tag-rows">
              {rows.map((r, i) => (
                <div key={i} className="tag-row">
                  <input aria-label={t('tags.nameOf', { n: i + 1 })} placeholder={t('tags.name')} value={r.name} maxLength={256} autoComplete="off" spellCheck={false} onChange={(event) => change(i, { name: event.target.value })} />
                  <input aria-label={t('tags.valueOf', { n: i + 1 })} placeholder={t('tags.value')} value={r.value} maxLength={256} autoComplete="off" spellCheck={false} onChange={(event) => change(i, { value: event.target.value })} />
                  <button type="button" className="plain" aria-label={t('tags.remove', { name: r.name || String(i + 1) })} onClick={() => setRows(rows.filter((_, n) => n !== i))}>×</button>
                </div>
              ))}
              <button type="button" className="button" disabled={rows.length >= 16} onClick={() => setRows([...rows, { name: '', value: '' }])}>{t('tags.add')}</button>
            </div>
            {twice === undefined ? null : <p className="bad" role="alert">{t('tags.twice', { name: twice })}</p>}
            <label className="field"><span>{t('edit.until')}</span>
              <select value={hours} onChange={(event) => setHours(event.target.value)}>
                <option value="">{t('edit.open')}</option>
                {['1', '4', '24', '168'].map((h) => <option key={h} value={h}>{t('edit.hours', { n: Number(h) })}</option>)}
              </select>
            </label>
            {preview.error ? <Problem error={preview.error} /> : (
              <div className="effect" role="status">
                {unchanged ? <p className="faint">{t('edit.nothing')}</p> : after === undefined ? <p className="faint" aria-busy="true">{t('edit.working')}</p> : (
                  <>
                    <p>{t('edit.share', { share: share(preview.effect?.share) })}</p>
                    <p><span className="faint">{t('edit.before')}</span> <code>{tagText(entry.effective ?? registered) || '–'}</code></p>
                    <p><span className="faint">{t('edit.after')}</span> <code>{tagText(after.tags) || '–'}</code></p>
                  </>
                )}
              </div>
            )}
            <TextField className="field" value={why} onChange={setWhy} isRequired><Label>{t('edit.why')}</Label><Input autoComplete="off" /></TextField>
            {error ? <Problem error={error} /> : null}
            <div className="dialog-actions">
              <button type="button" className="button" onClick={() => close(false)}>{t('cancel')}</button>
              <button type="submit" className="button primary" disabled={!ready || busy}>{t('tags.save')}</button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}

async function undo(t: T, made: ChangeRef, text: string, again: () => void): Promise<Toast> {
  const result = await call('Undo', { changes: [made], why: t('undo.why', { text }) })
  again()
  return result.ok ? { text: t('undo.done', { text }) } : { bad: true, text: t('undo.failed', { error: result.error.message }) }
}

// usePreview asks what a change would do, shortly after it was last altered.
function usePreview(list: string, set: readonly Override[]): { effect: Edit | undefined; error: Failure | undefined } {
  const [state, setState] = useState<{ of?: readonly Override[]; effect?: Edit; error?: Failure }>({})
  useEffect(() => {
    if (set.length === 0) return
    const controller = new AbortController()
    const timer = setTimeout(() => {
      void call('Edit', { list, set, why: '', dryRun: true }, controller.signal).then((result) => {
        if (!controller.signal.aborted) setState(result.ok ? { of: set, effect: result.value } : { of: set, error: result.error })
      })
    }, 200)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [list, set])
  const mine = state.of === set && set.length > 0
  return { effect: mine ? state.effect : undefined, error: mine ? state.error : undefined }
}
