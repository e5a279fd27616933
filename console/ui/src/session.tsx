import { createContext, use } from 'react'
import type { T } from './i18n/index.tsx'
import type { Session, Source } from './api/types.ts'

export const SessionContext = createContext<Session | undefined>(undefined)

export function useSession(): Session | undefined {
  return use(SessionContext)
}

const rank: Readonly<Record<string, number>> = { viewer: 0, developer: 1, operator: 2, administrator: 3 }

// may tells whether a session has a role, or a higher one.
export function may(session: Session | undefined, role: 'developer' | 'operator' | 'administrator'): boolean {
  if (!session || (session.readOnly && role !== 'developer')) return false
  return (rank[session.role] ?? 0) >= (rank[role] ?? 3)
}

// roleName is the text for a role that is known, or else its name.
export function roleName(t: T, role: string): string {
  return role === 'viewer' || role === 'developer' || role === 'operator' || role === 'administrator' ? t(`role.${role}`) : role
}

// sourceOf returns the source that has a list: the one with the longest name that the list's
// target begins with, or the only one.
export function sourceOf(session: Session | undefined, list: string): Source | undefined {
  const sources = session?.sources ?? []
  const named = sources.filter((s) => list.startsWith(s.name)).sort((a, b) => b.name.length - a.name.length)
  return named[0] ?? (sources.length === 1 ? sources[0] : undefined)
}

// mayEdit tells whether the session may change overrides and policies of a list.
export function mayEdit(session: Session | undefined, list: string): boolean {
  return may(session, 'operator') && sourceOf(session, list)?.documents !== false
}
