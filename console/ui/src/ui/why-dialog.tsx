import { useState, type ReactNode } from 'react'
import { Dialog, Heading, Input, Label, Modal, ModalOverlay, TextField } from 'react-aria-components'
import type { Failure } from '../api/client.ts'
import { useT } from '../i18n/index.tsx'
import { Problem } from './parts.tsx'

interface Props {
  title: string
  action: string // text of the button
  danger?: boolean
  reason?: boolean // a reason must be given
  label?: string // of the reason
  ready?: boolean // the effect is known, and there is one
  children: ReactNode // fields, and the effect
  apply: (why: string) => Promise<Failure | undefined> // closes the dialog if it does not fail
  close: () => void
}

// WhyDialog asks for a reason, shows what will happen, and makes a change.
export function WhyDialog({ title, action, danger, reason = true, label, ready = true, children, apply, close }: Props) {
  const { t } = useT()
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Failure>()
  const may = ready && !busy && (!reason || why.trim() !== '')
  const submit = async () => {
    setBusy(true)
    setError(await apply(why.trim()))
    setBusy(false)
  }
  return (
    <ModalOverlay className="overlay" isOpen isDismissable={!busy} onOpenChange={(open) => { if (!open) close() }}>
      <Modal className="modal">
        <Dialog className="dialog">
          <Heading slot="title">{title}</Heading>
          <form onSubmit={(event) => { event.preventDefault(); if (may) void submit() }}>
            {children}
            {reason ? <TextField className="field" value={why} onChange={setWhy} isRequired><Label>{label ?? t('edit.why')}</Label><Input autoComplete="off" /></TextField> : null}
            {error ? <Problem error={error} /> : null}
            <div className="dialog-actions">
              <button type="button" className="button" onClick={close} disabled={busy}>{t('cancel')}</button>
              <button type="submit" className={'button primary' + (danger ? ' danger' : '')} disabled={!may}>{action}</button>
            </div>
          </form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}
