import type { ReactNode } from 'react'
import { count } from '../format.ts'
import { useT } from '../i18n/index.tsx'
import type { Key } from '../i18n/index.tsx'

export const states = ['enabled', 'draining', 'disabled', 'ejected', 'unhealthy', 'silent'] as const
export type StateName = (typeof states)[number]

// stateName returns the state that a word of the server stands for; one that is not known is
// "silent".
export function stateName(word: string): StateName {
  return states.find((s) => s === word) ?? 'silent'
}

// Each state has a shape of its own, so that colour is not needed to tell them apart.
const shapes: Record<StateName, ReactNode> = {
  enabled: <path d="M3 6.5 5.2 9 9 3.5" />,
  disabled: <path d="M4.5 3v6M7.5 3v6" />,
  draining: <path d="M6 2.5v6.5M3 6.3 6 9.3l3-3" />,
  ejected: <path d="M6 2.5 9.5 7h-7zM2.5 9.5h7" />,
  unhealthy: <path d="m3.2 3.2 5.6 5.6m0-5.6L3.2 8.8" />,
  silent: <path d="M1.5 7.5 7.5 1.5M2.5 10.5l8-8M5 11.5 11.5 5" />,
}

export function StateIcon({ state }: { state: StateName }) {
  return (
    <svg className={'state-icon ' + state} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {state === 'silent' ? <circle cx="6" cy="6" r="5.2" strokeDasharray="2 1.5" /> : null}
      {shapes[state]}
    </svg>
  )
}

// StateMark is a state as icon and word.
export function StateMark({ state, n }: { state: string; n?: number }) {
  const { t } = useT()
  const name = stateName(state)
  return (
    <span className={'state ' + name}>
      <StateIcon state={name} />
      {n === undefined ? null : <span className="num">{count(n)}</span>}
      <span>{t(('state.' + name) as Key)}</span>
    </span>
  )
}

// StateCounts is how many instances are enabled, and each other state that occurs.
export function StateCounts({ counts }: { counts: Readonly<Record<string, number>> | null }) {
  const entries = Object.entries(counts ?? {}).filter(([, n]) => n > 0)
  const all = entries.reduce((sum, [, n]) => sum + n, 0)
  const enabled = counts?.['enabled'] ?? 0
  const others = entries.filter(([state]) => state !== 'enabled')
  return (
    <span className="state-counts">
      <span className="num total">{others.length === 0 ? all : `${enabled}/${all}`}</span>
      {others.slice(0, 2).map(([state, n]) => <StateMark key={state} state={state} n={n} />)}
    </span>
  )
}
