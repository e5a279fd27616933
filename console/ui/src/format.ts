// Figures as text. The decimal point is the same in English and Chinese.

const none = '–'

// duration formats nanoseconds with three digits: "850 µs", "1.23 ms".
export function duration(ns: number | undefined): string {
  if (ns === undefined || !(ns > 0)) return none
  const units: [number, string][] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']]
  if (ns >= 60e9) return span(ns / 1e9)
  const [size, unit] = units.find(([size]) => ns >= size * 0.9995) ?? [1, 'ns']
  return digits(ns / size) + ' ' + unit
}

// span formats seconds coarsely, as for uptimes: "3 d 4 h", "12 min 5 s".
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  const parts: [number, string][] = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'min'], [s % 60, 's']]
  const first = parts.findIndex(([n]) => n > 0)
  if (first < 0) return '0 s'
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(' ')
}

// digits formats a number with three digits.
function digits(n: number): string {
  if (n < 9.995) return n.toFixed(2)
  if (n < 99.95) return n.toFixed(1)
  return n.toFixed(0)
}

// rate formats calls a second: "0", "3.42", "812", "12.3 k".
export function rate(n: number | undefined): string {
  if (n === undefined || Number.isNaN(n)) return none
  if (n <= 0) return '0'
  if (n < 0.005) return '<0.01'
  if (n < 999.5) return digits(n)
  if (n < 999_500) return digits(n / 1e3) + ' k'
  return digits(n / 1e6) + ' M'
}

// share formats a share from 0 to 1 as a percentage: "0 %" is exactly none, "100 %" exactly all.
export function share(n: number | undefined): string {
  if (n === undefined || Number.isNaN(n)) return none
  const percent = n * 100
  if (percent <= 0) return '0%'
  if (percent < 0.01) return '<0.01%'
  if (percent >= 99.95 && percent < 100) return '>99.9%'
  if (percent < 9.995) return percent.toFixed(2) + '%'
  return (percent < 99.95 ? percent.toFixed(1) : percent.toFixed(0)) + '%'
}

// failedShare returns the share of calls that failed, of a rate of calls and a rate of failures.
export function failedShare(of: { rate: number; errorRate: number }): number {
  return of.rate > 0 ? Math.min(1, of.errorRate / of.rate) : 0
}

// count formats a whole number with narrow gaps between thousands.
export function count(n: number | undefined): string {
  if (n === undefined) return none
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f')
}

// bytes formats a size with binary units.
export function bytes(n: number | undefined): string {
  if (n === undefined) return none
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  while (n >= 1023.5 && i < units.length - 1) {
    n /= 1024
    i++
  }
  return (i === 0 ? String(n) : digits(n)) + ' ' + units[i]
}

const zeroTime = '0001-01-01T00:00:00Z'

// isTime tells whether a time of Go is set.
export function isTime(t: string | undefined): t is string {
  return t !== undefined && t !== '' && t !== zeroTime
}

// time formats a time of today as the time of day, another one with its date.
export function time(t: string | undefined, now = new Date()): string {
  if (!isTime(t)) return none
  const d = new Date(t)
  const two = (n: number) => String(n).padStart(2, '0')
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
  if (d.toDateString() === now.toDateString()) return clock
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock}`
}

// shortList names a few values, and how many more there are.
export function shortList(values: readonly string[], most = 2): string {
  if (values.length === 0) return none
  const rest = values.length - most
  return values.slice(0, most).join(', ') + (rest > 0 ? ` +${rest}` : '')
}

// target splits the target of a list into its registry and the rest, for people to read.
export function target(list: string): { registry: string; path: string } {
  const m = /^([a-z0-9+.-]+:\/\/[^/]*)\/?(.*)$/i.exec(list)
  return m ? { registry: m[1] ?? '', path: m[2] || list } : { registry: '', path: list }
}
