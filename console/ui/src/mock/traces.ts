import type { Gathered, SpanAttempt, TracedSpan, TracesRequest } from '../api/types.ts'
import type { Entry } from './data.ts'
import { random } from './random.ts'

const hex = (n: number, digits: number) => Math.floor(n).toString(16).padStart(digits, '0').slice(-digits)

// traceOf makes up a trace: a call of Cart.Add with a retry, and below it a hedged call. The clock
// of one process is 3 ms ahead.
export function traceOf(all: readonly Entry[], n: number, now: number): TracedSpan[] {
  const r = random(n)
  const [front, cart, pay] = [all[10] ?? all[4], all[0], all[20] ?? all[1]]
  if (!front || !cart || !pay) return []
  const trace = hex(n + 0x5eed, 8) + hex(r() * 2 ** 32, 8) + hex(n * 7919, 16)
  const start = now - n * 1700
  const at = (ms: number) => {
    const ns = Math.round(ms * 1e6)
    return new Date(start + Math.floor(ns / 1e6)).toISOString().replace('Z', String(ns % 1_000_000).padStart(6, '0') + 'Z')
  }
  const id = (i: number) => hex(n * 100 + i + 1, 16)
  const span = (e: Entry, i: number, of: number, began: number, took: number, more: Partial<TracedSpan>): TracedSpan => ({
    list: e.row.list, instance: e.instances[of]?.id ?? '', trace, span: id(i), method: e.methods[0] ?? '', peer: '10.20.3.7:51200', protocol: 'tandem', began: at(began), took: Math.round(took * 1e6), code: 'ok', ...more,
  })
  const attempt = (e: Entry, of: number, began: number, took: number, error?: string): SpanAttempt => ({ instance: e.instances[of]?.id ?? '', began: at(began), took: Math.round(took * 1e6), ...(error ? { error } : {}) })
  const slow = 1 + r() * 3
  const failed = n % 5 === 3
  const lost = { code: 'unavailable', error: 'unavailable: no stock in hz-b' }
  const spans = [
    span(front, 0, 0, 0, 24 * slow, failed ? lost : {}),
    span(cart, 1, 0, 0.8, 22 * slow, { client: cart.row.list, list: front.row.list, instance: front.instances[0]?.id ?? '', parent: id(0), attempts: [attempt(cart, 0, 0.9, 4.1, 'unavailable: shutting down'), attempt(cart, 2, 9.2, 22 * slow - 8.6, failed ? lost.error : undefined)], ...(failed ? lost : {}) }),
    span(cart, 2, 0, 1.4, 3.1, { parent: id(1), code: 'unavailable', error: 'unavailable: shutting down' }),
    span(cart, 3, 2, 9.8, 22 * slow - 9.9, { parent: id(1), ...(failed ? lost : {}) }),
  ]
  if (n % 2 === 0) {
    spans.push(
      span(pay, 4, 0, 11, 9 * slow, { client: pay.row.list, list: cart.row.list, instance: cart.instances[2]?.id ?? '', parent: id(3), attempts: [attempt(pay, 3, 11.1, 9 * slow), attempt(pay, 7, 15.5, 9 * slow - 4.6)] }),
      span(pay, 5, 3, 11.6 + 3, 8.6 * slow, { parent: id(4) }),
      span(pay, 6, 7, 15.9, 9 * slow - 5.6, { parent: id(4), protocol: 'grpc' }),
      span(all[30] ?? all[6] ?? pay, 7, 0, 12.4, 1.2, { parent: hex(0xfade, 16) }),
    )
  }
  return spans
}

// traces are those of the last minutes.
function traces(all: readonly Entry[], now: number): TracedSpan[][] {
  return Array.from({ length: 60 }, (_, n) => traceOf(all, n, now))
}

const around = { asked: 42, left: 0, without: 0, full: 0, cut: 0, silent: 0, missing: [] }

export function search(all: readonly Entry[], request: TracesRequest, now: number): Gathered {
  const spans = traces(all, now).flat().filter((s) => s.client !== undefined || s.parent === undefined)
    .filter((s) => !request.service || s.method.startsWith(request.service + '.'))
    .filter((s) => !request.method || new RegExp('^' + request.method.split('*').map((p) => p.replaceAll('.', '\\.')).join('.*') + '$').test(s.method))
    .filter((s) => !request.code || (request.code === 'error' ? s.code !== 'ok' : s.code === request.code))
    .filter((s) => s.took >= (request.atLeast ?? 0))
  return { ...around, silent: 1, full: 2, missing: [{ list: 'etcd://10.0.0.5:2379/pay/Ledger', instance: 'ledger-2', error: 'deadline exceeded: no answer within 2 s' }], spans }
}

export function one(all: readonly Entry[], trace: string, now: number): Gathered {
  const spans = traces(all, now).find((list) => list[0]?.trace === trace) ?? []
  return { ...around, asked: 300, left: 12, without: 3, spans }
}
