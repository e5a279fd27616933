// json returns a text as JSON: JSON as it is, or the YAML that tests write, of maps and scalars.
export function json(text: string): string {
  if (/^\s*[{]/.test(text)) {
    JSON.parse(text)
    return text
  }
  const root: Record<string, unknown> = {}
  const open: { indent: number; at: Record<string, unknown> }[] = [{ indent: -1, at: root }]
  for (const line of text.split('\n')) {
    const bare = line.replace(/(^|\s)#.*$/, '').trimEnd()
    if (bare === '') continue
    const m = /^( *)([^:\s]+):(?: (.+))?$/.exec(bare)
    if (!m) throw new Error(`policy: yaml: could not find expected ':' in "${line}"`)
    const indent = m[1]?.length ?? 0
    while ((open.at(-1)?.indent ?? -1) >= indent) open.pop()
    const parent = open.at(-1)?.at ?? root
    const key = m[2] ?? ''
    if (m[3] === undefined) {
      const at = {}
      parent[key] = at
      open.push({ indent, at })
    } else parent[key] = /^(true|false|[\d.]+)$/.test(m[3]) ? JSON.parse(m[3]) : m[3].replace(/^["']|["']$/g, '')
  }
  return JSON.stringify(root)
}
