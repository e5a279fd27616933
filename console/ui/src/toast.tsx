import { createContext, use, useCallback, useMemo, useState, type ReactNode } from 'react'
import { useT } from './i18n/index.tsx'

export interface Toast {
  text: string
  bad?: boolean
  undo?: () => Promise<Toast>
}

type Show = (toast: Toast) => void

const ToastContext = createContext<Show>(() => undefined)

export function useToast(): Show {
  return use(ToastContext)
}

// ToastProvider shows the result of the last action until it is dismissed or the next one: an
// undo that goes away by itself would be a race.
export function ToastProvider({ children }: { children: ReactNode }) {
  const { t } = useT()
  const [toast, setToast] = useState<Toast>()
  const [busy, setBusy] = useState(false)
  const show = useCallback((next: Toast) => setToast(next), [])
  const undo = useMemo(() => toast?.undo, [toast])
  return (
    <ToastContext value={show}>
      {children}
      <div role="status" aria-live="polite" className="toasts">
        {toast ? (
          <div className={'toast' + (toast.bad ? ' bad' : '')}>
            <span>{toast.text}</span>
            {undo ? (
              <button
                type="button" className="button" disabled={busy}
                onClick={() => {
                  setBusy(true)
                  void undo().then((next) => {
                    setBusy(false)
                    setToast(next)
                  })
                }}
              >{t('undo')}</button>
            ) : null}
            <button type="button" className="plain" onClick={() => setToast(undefined)}>{t('dismiss')}</button>
          </div>
        ) : null}
      </div>
    </ToastContext>
  )
}
