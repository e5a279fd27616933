// Tags of an instance as an operator edits them.

export type Tags = Readonly<Record<string, string>>
export interface TagRow { name: string; value: string }

// overrideOf returns the tags to be set so that an instance has those that are wanted: what differs
// from the registered ones, "" for a tag that is removed, and what is set now, so that it can end.
export function overrideOf(registered: Tags, wanted: Tags, set: Tags): Record<string, string> {
  const out: Record<string, string> = {}
  for (const name of new Set([...Object.keys(registered), ...Object.keys(wanted), ...Object.keys(set)])) {
    const value = wanted[name] ?? ''
    if (value !== (registered[name] ?? '') || name in set) out[name] = value
  }
  return out
}

// rowsOfTags are tags as rows to edit, sorted by name.
export function rowsOfTags(tags: Tags): TagRow[] {
  return Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => ({ name, value }))
}

// tagsOfRows is the inverse; the name of a tag that is there twice is an error. Rows without a name
// don't count.
export function tagsOfRows(rows: readonly TagRow[]): { tags: Tags; twice?: string } {
  const tags: Record<string, string> = {}
  for (const { name, value } of rows) {
    const n = name.trim()
    if (n === '') continue
    if (n in tags) return { tags, twice: n }
    tags[n] = value.trim()
  }
  return { tags }
}

// sameTags tells whether two sets of tags are the same.
export function sameTags(a: Tags, b: Tags): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((n) => a[n] === b[n])
}

export function tagText(tags: Tags | null | undefined): string {
  return rowsOfTags(tags ?? {}).map(({ name, value }) => `${name}=${value}`).join(' ')
}
