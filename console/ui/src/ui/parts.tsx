import type { ReactNode } from 'react'
import type { Failure } from '../api/client.ts'
import { failedShare, share } from '../format.ts'
import { useT } from '../i18n/index.tsx'

// Panel is a part of a screen with a heading.
export function Panel({ title, actions, children, className = '' }: { title: string; actions?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={'panel ' + className} aria-label={title}>
      <div className="panel-head"><h2>{title}</h2>{actions}</div>
      {children}
    </section>
  )
}

// Problem is why something could not be read.
export function Problem({ error, again }: { error: Failure; again?: () => void }) {
  const { t } = useT()
  return (
    <div className="problem" role="alert">
      <b>{error.code === 'unreachable' ? t('error.unreachable') : t('error.failed')}</b>
      <span>{error.message} <code>{error.code}</code></span>
      {again ? <button type="button" className="plain" onClick={again}>{t('error.again')}</button> : null}
    </div>
  )
}

export function Loading() {
  const { t } = useT()
  return <p className="empty" role="status">{t('loading')}</p>
}

// Waiting is what a screen shows until its first answer.
export function Waiting({ error, again }: { error: Failure | undefined; again: () => void }) {
  return error ? <Problem error={error} again={again} /> : <Loading />
}

// Facts are names with values.
export function Facts({ items }: { items: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {items.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  )
}

// Figure is one large number.
export function Figure({ name, value, unit, note }: { name: string; value: string; unit?: string; note?: ReactNode }) {
  return (
    <div className="figure">
      <span className="name">{name}</span>
      <span className="value num">{value}{unit ? <small> {unit}</small> : null}</span>
      {note ? <span className="note">{note}</span> : null}
    </div>
  )
}

// ErrorShare is a share of failed calls. One that needs a look has an icon too.
export function ErrorShare({ of }: { of: { rate: number; errorRate: number } }) {
  const value = failedShare(of)
  const text = share(value)
  if (value < 0.01) return <span className={value > 0 ? 'num' : 'num faint'}>{text}</span>
  return (
    <span className="num bad">
      <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path d="M5 .8 9.6 9.2H.4z" /></svg>
      {text}
    </span>
  )
}
