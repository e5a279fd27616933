import type { CallRequest, Nanos, Pair } from '../api/types.ts'

// Entry is a call that was made in this browser.
export interface Entry {
  at: number // ms
  request: CallRequest
  code: string
  took: Nanos
}

const stored = 'tandem.playground'
const most = 50
const longest = 20_000 // characters of arguments that are kept
const secret = /authorization|cookie|token|secret|passw|credential|api-?key/i

// withoutSecrets leaves out metadata whose name says that it is a secret.
export function withoutSecrets(metadata: readonly Pair[]): Pair[] {
  return metadata.filter((p) => !secret.test(p.key))
}

export function readHistory(storage: Pick<Storage, 'getItem'> = localStorage): Entry[] {
  try {
    const list = JSON.parse(storage.getItem(stored) ?? '[]') as unknown
    return Array.isArray(list) ? (list as Entry[]).filter((e) => typeof e?.request?.method === 'string').slice(0, most) : []
  } catch {
    return []
  }
}

// remember adds a call, the latest first. Arguments that are too long are left out.
export function remember(entry: Entry, storage: Pick<Storage, 'getItem' | 'setItem'> = localStorage): Entry[] {
  const { request } = entry
  const kept: Entry = {
    ...entry,
    request: { ...request, metadata: withoutSecrets(request.metadata ?? []), arguments: (request.arguments ?? '').length > longest ? '' : request.arguments ?? '' },
  }
  const list = [kept, ...readHistory(storage)].slice(0, most)
  try {
    storage.setItem(stored, JSON.stringify(list))
  } catch {
    // The browser's storage is full or forbidden: the history is of this page only.
  }
  return list
}

export function forget(storage: Pick<Storage, 'removeItem'> = localStorage) {
  storage.removeItem(stored)
}
