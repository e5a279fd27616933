import type { Access, Action, Refusal, RefusedUser, SessionRow } from '../api/types.ts'
import type { Entry } from './data.ts'

const roles = ['viewer', 'developer', 'operator', 'administrator']

const needs: Readonly<Record<string, string>> = {
  Overview: 'viewer', Services: 'viewer', Service: 'viewer', Instance: 'viewer', Topology: 'viewer', Policy: 'viewer', Changes: 'viewer', Session: 'viewer', Access: 'viewer', Logout: 'viewer', Explain: 'viewer',
  Traces: 'developer', Trace: 'developer', Profile: 'developer', Spans: 'developer', Tap: 'developer',
  Edit: 'operator', PutPolicy: 'operator', Restore: 'operator', SetLogLevel: 'operator', ForceBreaker: 'operator', Undo: 'operator',
  TapPayload: 'administrator', RefuseUser: 'administrator', AdmitUser: 'administrator',
}
const previews = new Set(['Edit', 'PutPolicy', 'RefuseUser'])
const asksInstances = new Set(['Explain', 'Spans', 'SetLogLevel', 'ForceBreaker', 'Undo', 'Tap', 'TapPayload'])

// Users are those of a console with an Authorizer.
export class Users {
  private refused: Refusal[] = []

  private rows(now: number, role: string): SessionRow[] {
    const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString()
    const all: SessionRow[] = [
      { id: 'a1', name: 'ann', role, since: ago(95), seen: ago(0), address: '10.0.0.9', forwarded: '10.4.1.20', own: true },
      { id: 'b2', name: 'bob', role: 'operator', since: ago(260), seen: ago(2), address: '10.0.0.9', forwarded: '10.4.1.31', own: false },
      { id: 'c3', name: 'bob', role: 'operator', since: ago(31), seen: ago(14), address: '10.0.0.9', forwarded: '10.4.7.2', own: false },
      { id: 'd4', name: 'wang.fang', role: 'viewer', since: ago(12), seen: ago(1), address: '10.0.0.9', own: false },
    ]
    return all.filter((s) => !this.refused.some((r) => r.name === s.name))
  }

  access(all: readonly Entry[], role: string, now: number): Access {
    const rows = this.rows(now, role)
    const actions = Object.entries(needs).map(([name, need]): Action => ({ name, role: need, preview: previews.has(name), instance: asksInstances.has(name) }))
    return {
      by: 'authorizer', own: rows[0] ?? null, logoutURL: 'https://login.example.com/logout', roles, actions,
      ...(role === 'administrator' ? { sessions: rows, refused: this.refused } : {}),
      lists: all.slice(0, 200).map((e, i) => {
        const silent = e.instances.filter((x) => x.state === 'silent').length
        const refused = i % 23 === 4 ? 1 : 0
        const n = e.instances.length - silent - refused
        return { list: e.row.list, roles: { [i % 11 === 3 ? 'viewer' : 'operator']: n }, refused, silent, unknown: 0, without: i % 31 === 9 ? 2 : 0, ...(refused > 0 ? { error: 'permission denied: only callers on the same machine may use this' } : {}) }
      }),
    }
  }

  refuse(name: string, why: string, dryRun: boolean, now: number): RefusedUser {
    const refusal: Refusal = { name, by: 'ann', why, at: new Date(now).toISOString(), until: new Date(now + 3_600_000).toISOString() }
    const ended = this.rows(now, '').filter((s) => s.name === name).length
    if (!dryRun) this.refused = [refusal, ...this.refused]
    return { ...refusal, ended }
  }

  admit(name: string) {
    this.refused = this.refused.filter((r) => r.name !== name)
    return {}
  }
}
