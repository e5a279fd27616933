import type { InstanceRow, List, ServiceRow } from './api/types.ts'

// A filter is words that must all match. A word "key:value" matches one field, "-word" excludes.

interface Word {
  not: boolean
  key: string
  text: string
}

// words parses a filter.
export function words(filter: string): Word[] {
  return filter.toLowerCase().split(/\s+/).filter((w) => w !== '' && w !== '-').map((w) => {
    const not = w.startsWith('-')
    const rest = not ? w.slice(1) : w
    const colon = rest.indexOf(':')
    const key = colon > 0 ? rest.slice(0, colon) : ''
    return keys.has(key) ? { not, key, text: rest.slice(colon + 1) } : { not, key: '', text: rest }
  })
}

const keys = new Set(['state', 'zone', 'version', 'protocol', 'source', 'policy', 'id', 'name', 'tag'])

type Fields = Readonly<Record<string, readonly string[]>>

function matches(word: Word, fields: Fields): boolean {
  const of = word.key === '' ? Object.values(fields).flat() : (fields[word.key] ?? [])
  return of.some((v) => v.toLowerCase().includes(word.text)) !== word.not
}

function all<T>(list: List<T> | undefined): readonly T[] {
  return list ?? []
}

function fieldsOfService(s: ServiceRow): Fields {
  return {
    name: [s.service, s.list],
    source: [s.source],
    zone: all(s.zones),
    version: all(s.versions),
    protocol: all(s.protocols),
    policy: s.policy ? [s.policy] : [],
    state: Object.entries(s.instances ?? {}).filter(([, n]) => n > 0).map(([state]) => state),
  }
}

function fieldsOfInstance(i: InstanceRow): Fields {
  return {
    id: [i.id],
    name: all(i.endpoints).map((e) => e.address),
    zone: i.zone ? [i.zone] : [],
    version: i.version ? [i.version] : [],
    protocol: all(i.endpoints).flatMap((e) => [e.transport, e.protocol || 'tandem']),
    state: [i.state],
    tag: Object.entries(i.tags ?? {}).map(([k, v]) => `${k}=${v}`),
  }
}

// Words without a key don't look at states: "disabled" may be part of a name.
function accept(filter: string, fields: (w: Word) => Fields): boolean {
  return words(filter).every((w) => matches(w, fields(w)))
}

function withoutState(word: Word, fields: Fields): Fields {
  if (word.key !== '') return fields
  const { state: _, ...rest } = fields
  return rest
}

// filterServices returns the services that a filter accepts.
export function filterServices(list: readonly ServiceRow[], filter: string): readonly ServiceRow[] {
  if (filter.trim() === '') return list
  return list.filter((s) => accept(filter, (w) => withoutState(w, fieldsOfService(s))))
}

// filterInstances returns the instances that a filter accepts.
export function filterInstances(list: readonly InstanceRow[], filter: string): readonly InstanceRow[] {
  if (filter.trim() === '') return list
  return list.filter((i) => accept(filter, (w) => withoutState(w, fieldsOfInstance(i))))
}
