import { useState } from 'react'
import { call } from '../api/client.ts'
import type { Change, Instance } from '../api/types.ts'
import { useT, type T } from '../i18n/index.tsx'
import { useToast, type Toast } from '../toast.tsx'
import { WhyDialog } from '../ui/why-dialog.tsx'

const levels = ['DEBUG', 'INFO', 'WARN', 'ERROR'] as const

interface Props {
  value: Instance
  list: string
  close: () => void
  again: () => void
}

// LogLevel sets the level of a process's log.
export default function LogLevel({ value, list, close, again }: Props) {
  const { t } = useT()
  const toast = useToast()
  const now = value.info?.logLevel ?? ''
  const [level, setLevel] = useState<string>(levels.find((l) => l === now) ?? 'INFO')
  const apply = async (why: string) => {
    const result = await call('Ask', { list, instance: value.id, method: 'SetLogLevel', request: { level, why } })
    if (!result.ok) return result.error
    const made = result.value as Change
    const text = t('level.done', { id: value.id, before: made.before, after: made.after })
    toast({ text, undo: () => undo(t, list, value.id, made, again) })
    again()
    close()
    return undefined
  }
  return (
    <WhyDialog title={t('level.title', { id: value.id })} action={t('level.set')} ready={level !== now} apply={apply} close={close}>
      <label className="field"><span>{t('logLevel')}</span>
        <select value={level} onChange={(event) => setLevel(event.target.value)}>{levels.map((l) => <option key={l}>{l}</option>)}</select>
      </label>
      <p className="effect" role="status">{level === now ? t('edit.nothing') : t('level.effect', { before: now, after: level, host: value.info?.host ?? '', pid: value.info?.pid ?? 0 })}</p>
    </WhyDialog>
  )
}

async function undo(t: T, list: string, instance: string, made: Change, again: () => void): Promise<Toast> {
  const text = `${made.before} → ${made.after}`
  const result = await call('Ask', { list, instance, method: 'Undo', request: { id: made.id, why: t('undo.why', { text }) } })
  again()
  return result.ok ? { text: t('undo.done', { text }) } : { bad: true, text: t('undo.failed', { error: result.error.message }) }
}
