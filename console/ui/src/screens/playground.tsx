import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import type { CallAnswer, CallRequest, MethodSchema, Pair, Playground } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { count, duration, time } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { asCommand, asCurl, asGo, isStream, own } from '../play/copy.ts'
import { forget, readHistory, remember, type Entry } from '../play/history.ts'
import { parse, pretty, print, type Json } from '../play/json.ts'
import { useRun, type Running } from '../play/run.ts'
import { resolve, shapeOf, zero, type Definitions, type Schema } from '../play/schema.ts'
import { setParams, useRoute } from '../route.tsx'
import { may, useSession } from '../session.tsx'
import { useToast } from '../toast.tsx'
import { Facts, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Form } from './play-form.tsx'
import { Picker } from './list-picker.tsx'

const longest = 1500 // characters of arguments in the address

// Draft is what a request begins with.
interface Draft {
  n: number
  arguments: string
  metadata: readonly Pair[]
}

// handed is a draft for the screen of another list, which is drawn anew.
let handed: { list: string; draft: Draft } | undefined

export default function PlaygroundScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const list = params['list'] ?? ''
  const method = params['method'] ?? ''
  const [draft, setDraft] = useState<Draft>(() => (handed?.list === list ? handed.draft : { n: 0, arguments: params['args'] ?? '', metadata: [] }))
  useEffect(() => { handed = undefined }, [])
  const [history, setHistory] = useState<Entry[]>(() => readHistory())
  const replay = ({ request }: Entry) => {
    const next = { n: draft.n + 1, arguments: request.arguments ?? '', metadata: request.metadata ?? [] }
    if (request.list !== list) handed = { list: request.list, draft: next }
    setParams({ list: request.list, method: request.method, at: request.instance ?? '', protocol: request.protocol ?? '', timeout: request.timeout ? String(request.timeout / 1e9) : '', args: '' })
    setDraft(next)
  }
  return (
    <>
      <div className="title-row"><h1>{t('nav.playground')}</h1><Picker label={t('policies.list')} name="list" of="list" /></div>
      {list === '' ? <p className="empty">{t('play.choose')}</p> : (
        <List key={list} list={list} method={method} draft={draft} choose={(m) => { setParams({ method: m, args: '' }); setDraft({ n: draft.n + 1, arguments: '', metadata: draft.metadata }) }} remember={(e) => setHistory(remember(e))} />
      )}
      <History entries={history} replay={replay} clear={() => { forget(); setHistory([]) }} />
    </>
  )
}

interface ListProps {
  list: string
  method: string
  draft: Draft
  choose: (method: string) => void
  remember: (entry: Entry) => void
}

function List({ list, method, draft, choose, remember }: ListProps) {
  const { t } = useT()
  const { params } = useRoute()
  const { value, error, again } = usePolled('Playground', { list, instance: params['at'] ?? '' }, 0)
  const last = useRef(value) // while another instance is asked, what is entered must stay
  if (value) last.current = value
  const place = value ?? last.current
  if (!place) return <Waiting error={error} again={again} />
  const methods = (place.schema?.methods ?? []).filter((m) => !m.method.startsWith('grpc.'))
  const chosen = methods.find((m) => m.method === method)
  return (
    <>
      <MethodPicker key={method} methods={methods} method={method} choose={choose} />
      {error ? <Problem error={error} again={again} /> : null}
      {place.error ? <p className="faint" role="status">{t('play.noSchema', { error: place.error })}</p> : null}
      {method === '' ? <p className="empty">{t('play.chooseMethod')}</p> : <Request key={`${method} ${draft.n}`} list={list} method={method} schema={chosen} place={place} draft={draft} remember={remember} />}
    </>
  )
}

// MethodPicker is a field with the methods as suggestions: others may exist that no instance describes.
function MethodPicker({ methods, method, choose }: { methods: readonly MethodSchema[]; method: string; choose: (method: string) => void }) {
  const { t } = useT()
  const [text, setText] = useState(method)
  const some = useMemo(() => methods.filter((m) => m.method.toLowerCase().includes(text.toLowerCase())).slice(0, 40), [methods, text])
  const set = (next: string) => {
    setText(next)
    if (next !== method && methods.some((m) => m.method === next)) choose(next)
  }
  return (
    <form className="picker" onSubmit={(event) => { event.preventDefault(); if (text.trim() !== method) choose(text.trim()) }}>
      <label className="filter"><span className="hidden">{t('method')}</span>
        <input list="play-methods" placeholder={t('play.method')} value={text} onChange={(event) => set(event.target.value)} spellCheck={false} autoComplete="off" />
      </label>
      <datalist id="play-methods">{(text === method ? methods.slice(0, 40) : some).map((m) => <option key={m.method} value={m.method}>{m.kind}</option>)}</datalist>
      <button type="submit" className="button">{t('policies.open')}</button>
    </form>
  )
}

interface RequestProps {
  list: string
  method: string
  schema: MethodSchema | undefined
  place: Playground
  draft: Draft
  remember: (entry: Entry) => void
}

function useArguments(schema: MethodSchema | undefined, definitions: Definitions, draft: Draft) {
  const [text, setText] = useState(() => draft.arguments || initial(schema, definitions))
  useEffect(() => {
    const timer = setTimeout(() => setParams({ args: text.length <= longest && text !== initial(schema, definitions) ? text : '' }), 400)
    return () => clearTimeout(timer)
  }, [text, schema, definitions])
  return [text, setText] as const
}

function initial(schema: MethodSchema | undefined, definitions: Definitions): string {
  if (!schema) return ''
  const request = resolve(schema.request as Schema, definitions)
  return shapeOf(request) === 'nothing' ? '' : print(zero(request, definitions))
}

function Request({ list, method, schema, place, draft, remember }: RequestProps) {
  const { t } = useT()
  const { params } = useRoute()
  const session = useSession()
  const definitions = (place.schema?.definitions ?? {}) as Definitions
  const [text, setText] = useArguments(schema, definitions, draft)
  const [metadata, setMetadata] = useState<readonly Pair[]>(draft.metadata)
  const [asStream, setAsStream] = useState(false)
  const stream = schema ? isStream(schema) : asStream
  const run = useRun((request, answer) => remember({ at: Date.now(), request, code: answer.code, took: answer.took }))
  const protocol = params['protocol'] ?? ''
  const timeout = Number(params['timeout'] ?? '') || 0
  const request: CallRequest = {
    list, method, arguments: text.trim(), several: schema ? schema.arguments !== 1 && !stream : false, last: stream && schema?.kind === 'server stream',
    metadata: metadata.filter((p) => p.key !== ''), timeout: Math.round(timeout * 1e9), instance: params['at'] ?? '', protocol,
  }
  const busy = run.state.phase === 'running'
  const allowed = !session || (may(session, 'developer') && !session.readOnly)
  const proto = schema?.requestMessage !== undefined && schema.requestMessage !== '' && (protocol === '' || protocol === own)
  const go = () => { if (allowed && !busy) void run.start(request, stream) }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    go()
  }
  return (
    <div className="columns play" onKeyDown={onKeyDown}>
      <div className="stack">
        <Panel title={stream ? t('play.firstMessage') : t('play.arguments')} actions={<span className="faint">{[schema?.kind ?? '', schema?.safe ? t('play.safe') : '', schema?.requestMessage ?? ''].filter(Boolean).join(' · ')}</span>}>
          <div className="pad"><Arguments schema={schema?.request as Schema | undefined} definitions={definitions} text={text} change={setText} /></div>
        </Panel>
        <Panel title={t('play.options')}>
          <div className="pad stack">
            <Options place={place} stream={stream} />
            {schema ? null : <label className="field-inline"><input type="checkbox" checked={asStream} onChange={(e) => setAsStream(e.target.checked)} /> {t('play.isStream')}</label>}
            <Metadata pairs={metadata} change={setMetadata} />
            {proto ? <p className="bad" role="status">{t('play.proto')}</p> : null}
            <p className="bar">
              <button type="button" className="button primary" disabled={busy || !allowed} onClick={go} aria-keyshortcuts="Control+Enter">{t(stream ? 'play.open' : 'play.run')}</button>
              <button type="button" className="button" disabled={!busy} onClick={run.cancel}>{t('cancel')}</button>
              <span className="faint">{allowed ? t('play.keys') : session?.readOnly ? t('play.readOnly') : t('play.role')}</span>
            </p>
            <Copies request={request} schema={schema} place={place} />
          </div>
        </Panel>
      </div>
      <div className="stack">
        <Answer state={run.state} schema={schema} />
        {run.state.stream ? <Conversation run={run} schema={schema} definitions={definitions} /> : null}
      </div>
    </div>
  )
}

// Arguments is a form and the same as JSON; which is open is in the address.
function Arguments({ schema, definitions, text, change }: { schema: Schema | undefined; definitions: Definitions; text: string; change: (text: string) => void }) {
  const { t } = useT()
  const read = useMemo<{ value?: Json; error?: string }>(() => {
    if (text.trim() === '') return {}
    try {
      return { value: parse(text) }
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) }
    }
  }, [text])
  const shape = shapeOf(resolve(schema, definitions))
  const json = (
    <>
      <textarea className="play-json" aria-label={t('play.json')} value={text} aria-invalid={read.error !== undefined} onChange={(event) => change(event.target.value)} spellCheck={false} />
      <p className="bar">
        <button type="button" className="plain" disabled={read.value === undefined} onClick={() => change(pretty(text))}>{t('play.format')}</button>
        {read.error ? <span className="bad" role="status">{t('play.notJSON', { error: read.error })}</span> : null}
      </p>
    </>
  )
  if (!schema || shape === 'any') return json
  return (
    <Tabs
      label={t('play.arguments')} name="as"
      tabs={[
        {
          id: 'form', title: t('play.form'), body: () => (
            read.error ? <p className="bad" role="status">{t('play.repair', { error: read.error })}</p>
              : read.value === undefined && shape !== 'nothing' ? <p><button type="button" className="plain" onClick={() => change(print(zero(schema, definitions)))}>{t('play.enter', { name: t('play.arguments') })}</button></p>
                : <Form schema={schema} definitions={definitions} value={read.value ?? null} name={t('play.arguments')} change={(value) => change(print(value))} />
          ),
        },
        { id: 'json', title: 'JSON', body: () => json },
      ]}
    />
  )
}

function Options({ place, stream }: { place: Playground; stream: boolean }) {
  const { t } = useT()
  const { params } = useRoute()
  const instances = place.instances ?? []
  const instance = params['at'] ?? ''
  const protocol = params['protocol'] || own
  const of = instances.find((i) => i.id === instance)?.protocols ?? place.protocols ?? []
  return (
    <div className="field-row">
      <label className="field"><span>{t('instance')}</span>
        <select value={instance} onChange={(event) => setParams({ at: event.target.value })}>
          <option value="">{t('play.balancer')}</option>
          {instance !== '' && !instances.some((i) => i.id === instance) ? <option value={instance}>{instance}</option> : null}
          {instances.map((i) => <option key={i.id} value={i.id}>{i.state === 'enabled' ? i.id : `${i.id} (${i.state})`}</option>)}
        </select>
      </label>
      <label className="field"><span>{t('play.protocol')}</span>
        <select value={protocol} onChange={(event) => setParams({ protocol: event.target.value === own ? '' : event.target.value })}>
          {[...new Set([own, ...of, protocol])].map((p) => <option key={p} value={p}>{p}</option>)}
        </select>
      </label>
      <label className="field"><span>{t('play.timeout')}</span>
        <input type="number" min="0" max={stream ? 600 : 60} step="any" placeholder={stream ? '600' : '10'} value={params['timeout'] ?? ''} onChange={(event) => setParams({ timeout: event.target.value })} />
      </label>
    </div>
  )
}

function Metadata({ pairs, change }: { pairs: readonly Pair[]; change: (pairs: readonly Pair[]) => void }) {
  const { t } = useT()
  const set = (i: number, pair: Partial<Pair>) => change(pairs.map((p, n) => (n === i ? { ...p, ...pair } : p)))
  return (
    <div className="play-pairs" role="group" aria-label={t('play.metadata')}>
      {pairs.map((p, i) => (
        <div key={i} className="play-pair">
          <input aria-label={t('play.metadataKey', { n: i + 1 })} placeholder={t('play.key')} value={p.key} onChange={(e) => set(i, { key: e.target.value })} spellCheck={false} autoComplete="off" />
          <input aria-label={t('play.metadataValue', { n: i + 1 })} placeholder={t('value')} value={p.value} onChange={(e) => set(i, { value: e.target.value })} spellCheck={false} autoComplete="off" />
          <button type="button" className="icon-button" aria-label={t('play.remove', { name: p.key || String(i + 1) })} onClick={() => change(pairs.filter((_, n) => n !== i))}>×</button>
        </div>
      ))}
      <button type="button" className="plain" onClick={() => change([...pairs, { key: '', value: '' }])}>+ {t('play.metadata')}</button>
    </div>
  )
}

function Copies({ request, schema, place }: { request: CallRequest; schema: MethodSchema | undefined; place: Playground }) {
  const { t } = useT()
  const toast = useToast()
  const make = { command: asCommand, curl: asCurl, go: asGo } as const
  const copy = (what: keyof typeof make) => {
    let text: string | undefined
    try {
      text = make[what](request, schema, place.instances ?? [])
    } catch {
      toast({ bad: true, text: t('play.notCopied') }) // the arguments are no JSON
      return
    }
    if (text === undefined) return
    void navigator.clipboard.writeText(text).then(() => toast({ text: t('play.copied') }), () => toast({ bad: true, text: t('play.notCopied') }))
  }
  const known = (what: keyof typeof make) => {
    try {
      return make[what](request, schema, place.instances ?? []) !== undefined
    } catch {
      return true
    }
  }
  return (
    <p className="bar"><span className="faint">{t('play.copy')}</span>
      {(['command', 'curl', 'go'] as const).filter(known).map((what) => <button key={what} type="button" className="plain" onClick={() => copy(what)}>{t(`play.copy.${what}`)}</button>)}
    </p>
  )
}

function Answer({ state, schema }: { state: Running; schema: MethodSchema | undefined }) {
  const { t } = useT()
  const { answer, error } = state
  const ok = answer?.code.toLowerCase() === 'ok'
  return (
    <Panel title={t('play.answer')} actions={schema?.responseMessage ? <span className="faint">{schema.responseMessage}</span> : undefined}>
      <div aria-live="polite" aria-busy={state.phase === 'running'}>
        {state.phase === 'none' ? <p className="empty">{t('play.nothing')}</p> : null}
        {state.phase === 'running' ? <p className="empty" role="status">{state.stream ? t('play.streaming') : t('play.running')}</p> : null}
        {error ? (error.code === 'aborted' ? <p className="empty">{t('play.cancelled')}</p> : <div className="pad"><Problem error={error} /></div>) : null}
        {answer ? (
          <>
            <Facts items={facts(t, answer, ok)} />
            {ok && !state.stream ? answer.result ? <pre className="code" tabIndex={0} aria-label={t('play.result')}>{pretty(answer.result)}</pre> : <p className="empty">{t('play.noResult')}</p> : null}
          </>
        ) : null}
      </div>
    </Panel>
  )
}

function facts(t: T, answer: CallAnswer, ok: boolean): [string, React.ReactNode][] {
  const metadata = Object.entries(answer.metadata ?? {}).flatMap(([k, all]) => (all ?? []).map((v) => `${k}: ${v}`))
  return [
    [t('calls.code'), ok ? <b className="ok">{answer.code}</b> : <b className="bad">{answer.code}</b>],
    ...(answer.message ? [[t('calls.error'), answer.message] as [string, React.ReactNode]] : []),
    ...(ok ? [] : [[t('play.from'), t(answer.remote ? 'play.fromServer' : answer.notExecuted ? 'play.notExecuted' : 'play.fromConsole')] as [string, React.ReactNode]]),
    ...(answer.details ?? []).map((d): [string, React.ReactNode] => [t('play.detail'), <>{d.type} <code>{d.value}</code></>]),
    [t('calls.took'), <span className="num">{duration(answer.took)} · {time(answer.began)}</span>],
    [t('instance'), answer.instance || '–'],
    [t('play.bytes'), <span className="num">{t('play.sentReceived', { sent: count(answer.sent), received: count(answer.received) })}</span>],
    ...(metadata.length > 0 ? [[t('play.metadata'), <>{metadata.map((m, i) => <div key={i}><code>{m}</code></div>)}</>] as [string, React.ReactNode]] : []),
  ]
}

// Conversation is a stream: its messages, and a field to send one.
function Conversation({ run, schema, definitions }: { run: ReturnType<typeof useRun>; schema: MethodSchema | undefined; definitions: Definitions }) {
  const { t } = useT()
  const { state } = run
  const [text, setText] = useState(() => (schema ? initial(schema, definitions) : ''))
  const [sending, setSending] = useState(false)
  const open = state.phase === 'running' && state.id !== undefined && !state.closed
  const send = async (message: string, last: boolean) => {
    setSending(true)
    await run.send(message, last)
    setSending(false)
  }
  return (
    <Panel title={t('play.messages')} actions={<span className="faint num" role="status">{t('play.count', { n: state.all })}</span>}>
      <ol className="play-lines" tabIndex={0} aria-label={t('play.messages')}>
        {state.lines.map((l) => (
          <li key={l.n} className={l.sent ? 'sent' : 'received'}>
            <span className="faint">{l.failed ? <b className="bad">{t('play.notSent')}</b> : l.sent ? '→ ' + t('play.sent') : '← ' + t('play.received')} <time className="num">{new Date(l.at).toLocaleTimeString()}</time></span>
            <code>{l.text}</code>
          </li>
        ))}
      </ol>
      {open ? (
        <div className="pad stack">
          <Arguments schema={schema?.request as Schema | undefined} definitions={definitions} text={text} change={setText} />
          <p className="bar">
            <button type="button" className="button primary" disabled={sending || text.trim() === ''} onClick={() => void send(text.trim(), false)}>{t('play.send')}</button>
            <button type="button" className="button" disabled={sending} onClick={() => void send('', true)}>{t('play.closeSend')}</button>
          </p>
        </div>
      ) : state.phase === 'running' && state.closed ? <p className="empty">{t('play.closed')}</p> : null}
    </Panel>
  )
}

function History({ entries, replay, clear }: { entries: readonly Entry[]; replay: (entry: Entry) => void; clear: () => void }) {
  const { t } = useT()
  if (entries.length === 0) return null
  return (
    <Panel title={t('play.history')} actions={<button type="button" className="plain" onClick={clear}>{t('play.clear')}</button>}>
      <ul className="lines play-history">
        {entries.map((e, i) => (
          <li key={i}>
            <span className="line-head">
              <button type="button" className="row-button" onClick={() => replay(e)}>{e.request.method}</button>
              <b className={e.code.toLowerCase() === 'ok' ? 'ok' : 'bad'}>{e.code}</b> <span className="num">{duration(e.took)}</span> <time dateTime={new Date(e.at).toISOString()}>{time(new Date(e.at).toISOString())}</time>
              <span className="faint">{[e.request.instance, e.request.protocol].filter(Boolean).join(' · ')}</span>
            </span>
            <code className="faint">{(e.request.arguments ?? '').replace(/\s+/g, ' ').slice(0, 160)}</code>
          </li>
        ))}
      </ul>
    </Panel>
  )
}
