import { useEffect, useRef, useState } from 'react'
import { aborted, call, lines, type Failure } from '../api/client.ts'
import type { CallAnswer, CallRequest, StreamEvent } from '../api/types.ts'
import { compact } from './json.ts'

const most = 1000 // messages that are shown

export interface Line {
  n: number
  sent: boolean
  failed?: boolean // it was not sent
  text: string
  at: number // ms
}

export interface Running {
  phase: 'none' | 'running' | 'done'
  request?: CallRequest
  stream?: boolean
  id?: string // of an open stream
  closed?: boolean // no more messages are sent
  lines: readonly Line[]
  all: number // messages so far
  answer?: CallAnswer
  error?: Failure // of the console, or of a message that was not sent
}

const nothing: Running = { phase: 'none', lines: [], all: 0 }

// useRun makes one call at a time.
export function useRun(ended: (request: CallRequest, answer: CallAnswer) => void) {
  const [state, setState] = useState<Running>(nothing)
  const controller = useRef<AbortController>(undefined)
  const fresh = useRef<Line[]>([])
  const count = useRef(0)
  const done = useRef(ended)
  done.current = ended
  useEffect(() => () => controller.current?.abort(), [])

  const flush = () => {
    if (fresh.current.length === 0) return
    const more = fresh.current
    fresh.current = []
    setState((old) => ({ ...old, lines: [...old.lines, ...more].slice(-most), all: count.current }))
  }
  const add = (sent: boolean, text: string) => fresh.current.push({ n: count.current++, sent, text: compact(text), at: Date.now() })

  const finish = (request: CallRequest, change: Partial<Running>) => {
    flush()
    setState(({ id: _, ...old }) => ({ ...old, ...change, phase: 'done' }))
    if (change.answer) done.current(request, change.answer)
  }

  const start = async (request: CallRequest, stream: boolean) => {
    controller.current?.abort()
    const own = new AbortController()
    controller.current = own
    fresh.current = []
    count.current = 0
    setState({ ...nothing, phase: 'running', request, stream, closed: request.last === true })
    if (!stream) {
      const result = await call('Call', request, own.signal)
      if (own.signal.aborted) return
      finish(request, result.ok ? { answer: result.value } : { error: result.error })
      return
    }
    if (request.arguments) add(true, request.arguments)
    const timer = setInterval(flush, 100)
    let answer: CallAnswer | undefined
    const result = await lines<StreamEvent>('Stream', request, own.signal, (event) => {
      if (event.id !== undefined) setState((old) => ({ ...old, id: event.id ?? '' }))
      if (event.message !== undefined) add(false, event.message)
      if (event.end) answer = event.end
    })
    clearInterval(timer)
    if (own.signal.aborted) return
    finish(request, answer ? { answer } : result.ok ? { error: { code: 'unreachable', message: 'the console has ended the stream' } } : { error: result.error })
  }

  const cancel = () => {
    const { request } = state
    controller.current?.abort()
    flush()
    if (request) setState(({ id: _, ...old }) => ({ ...old, phase: 'done', error: { code: aborted, message: '' } }))
  }

  // send sends a message of the open stream, or says that no more come. It returns whether it is sent.
  const send = async (message: string, last: boolean): Promise<boolean> => {
    const { id } = state
    if (id === undefined) return false
    const n = count.current
    if (message !== '') add(true, message) // before the server's answer to it
    const result = await call('Send', { id, message, last })
    if (!result.ok) {
      flush()
      setState((old) => ({ ...old, error: result.error, lines: message === '' ? old.lines : old.lines.map((l) => (l.n === n ? { ...l, failed: true } : l)) }))
      return false
    }
    setState(({ error: _, ...old }) => ({ ...old, closed: result.value.closed }))
    return true
  }

  return { state, start, cancel, send }
}
