import type { AnswerOf, Name, RequestOf } from './types.ts'

// Failure is why a call has no answer. The code is one of tandem's, such as "not_found", or
// "unreachable" if the console did not answer.
export interface Failure {
  code: string
  message: string
}

export type Result<T> = { ok: true; value: T } | { ok: false; error: Failure }

// Aborted is the code of a call that the page itself has given up.
export const aborted = 'aborted'

function failed(code: string, message: string): { ok: false; error: Failure } {
  return { ok: false, error: { code, message } }
}

async function failureOf(response: Response): Promise<{ ok: false; error: Failure }> {
  try {
    const body = (await response.json()) as Partial<Failure>
    return failed(body.code ?? String(response.status), body.message ?? response.statusText)
  } catch {
    return failed(String(response.status), response.statusText || 'the console answers no JSON')
  }
}

// The path is relative to the page, which may be served below any path.
async function post(name: string, request: unknown, signal?: AbortSignal): Promise<Result<Response>> {
  try {
    const response = await fetch('api/' + name, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(request),
      ...(signal ? { signal } : {}),
    })
    return response.ok ? { ok: true, value: response } : failureOf(response)
  } catch (error) {
    if (signal?.aborted) return failed(aborted, '')
    return failed('unreachable', error instanceof Error ? error.message : String(error))
  }
}

// call makes one call. It never throws.
export async function call<N extends Name>(name: N, request: RequestOf<N>, signal?: AbortSignal): Promise<Result<AnswerOf<N>>> {
  const response = await post(name, request, signal)
  if (!response.ok) return response
  try {
    return { ok: true, value: (await response.value.json()) as AnswerOf<N> }
  } catch (error) {
    if (signal?.aborted) return failed(aborted, '')
    return failed('internal', 'the answer is no JSON: ' + String(error))
  }
}

// lines makes a call whose answer is lines of JSON, and passes each to take.
export async function lines<T>(name: string, request: unknown, signal: AbortSignal, take: (value: T) => void): Promise<Result<null>> {
  const response = await post(name, request, signal)
  if (!response.ok) return response
  const reader = response.value.body?.pipeThrough(new TextDecoderStream()).getReader()
  if (!reader) return failed('internal', 'the answer has no body')
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return { ok: true, value: null }
      const parts = (rest + value).split('\n')
      rest = parts.pop() ?? ''
      for (const line of parts) if (line !== '') take(JSON.parse(line) as T)
    }
  } catch (error) {
    return failed(signal.aborted ? aborted : 'unreachable', String(error))
  }
}
