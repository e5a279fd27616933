// Line is a line of a comparison: in both texts, only in the earlier, or only in the later one.
export interface Line {
  kind: 'same' | 'removed' | 'added'
  text: string
}

// Texts with more lines than this differ as a whole: the table of the comparison is lines × lines.
const most = 2000

// diff compares two texts line by line, by their longest common subsequence.
export function diff(before: string, after: string): Line[] {
  const a = before === '' ? [] : before.replace(/\n$/, '').split('\n')
  const b = after === '' ? [] : after.replace(/\n$/, '').split('\n')
  if (a.length > most || b.length > most) {
    return before === after ? lines('same', a) : [...lines('removed', a), ...lines('added', b)]
  }
  const width = b.length + 1
  const common = new Uint16Array((a.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const out: Line[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: 'same', text: a[i] ?? '' })
      i++
      j++
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) {
      out.push({ kind: 'removed', text: a[i++] ?? '' })
    } else {
      out.push({ kind: 'added', text: b[j++] ?? '' })
    }
  }
  return out
}

function lines(kind: Line['kind'], texts: string[]): Line[] {
  return texts.map((text) => ({ kind, text }))
}
