import { useEffect, useState } from 'react'
import { aborted, call, type Failure } from './client.ts'
import type { AnswerOf, Name, RequestOf } from './types.ts'

export interface Polled<T> {
  value: T | undefined // the last answer; it stays while a later call fails
  error: Failure | undefined
  at: number // when the value came, in ms
  again: () => void
}

// usePolled calls at once, and again every so many ms while the tab is visible; 0 for once.
// Another request forgets the earlier answer.
export function usePolled<N extends Name>(name: N, request: RequestOf<N>, every: number): Polled<AnswerOf<N>> {
  const key = name + JSON.stringify(request)
  const [state, setState] = useState<{ key: string; value?: AnswerOf<N>; error?: Failure; at: number }>({ key, at: 0 })
  const [round, setRound] = useState(0)

  useEffect(() => {
    const controller = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let running = false

    const run = async () => {
      if (running || document.hidden) return
      running = true
      clearTimeout(timer)
      const result = await call(name, JSON.parse(key.slice(name.length)) as RequestOf<N>, controller.signal)
      running = false
      if (controller.signal.aborted) return
      if (result.ok) {
        setState({ key, value: result.value, at: Date.now() })
      } else if (result.error.code !== aborted) {
        setState((old) => ({ ...(old.key === key && old.value !== undefined ? { value: old.value } : {}), key, error: result.error, at: old.at }))
      }
      if (every > 0) timer = setTimeout(run, every)
    }
    const onVisible = () => void (document.hidden ? clearTimeout(timer) : run())

    void run()
    document.addEventListener('visibilitychange', onVisible)
    return () => {
      controller.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onVisible)
    }
  }, [name, key, every, round])

  const mine = state.key === key
  return {
    value: mine ? state.value : undefined,
    error: mine ? state.error : undefined,
    at: state.at,
    again: () => setRound((n) => n + 1),
  }
}
