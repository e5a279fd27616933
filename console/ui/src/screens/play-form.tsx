import { useId, useState, type ReactNode } from 'react'
import { useT } from '../i18n/index.tsx'
import { isFields, isList, Num, parse, print, type Fields, type Json } from '../play/json.ts'
import { choices, fits, isBase64, problem, resolve, shapeOf, zero, type Definitions, type Schema } from '../play/schema.ts'

interface Props {
  schema: Schema | undefined
  definitions: Definitions
  value: Json
  name: string // for people and screen readers
  change: (value: Json) => void
}

// Form edits a value with a field for each part of its schema.
export function Form(props: Props) {
  return <div className="play-form"><Field {...props} /></div>
}

function Field(props: Props) {
  const { t } = useT()
  const { definitions, value, name, change } = props
  const schema = resolve(props.schema, definitions)
  const shape = shapeOf(schema)
  if (shape === 'nothing') return <p className="faint">{t('play.noArguments')}</p>
  if (shape !== 'any' && value === null) {
    return <p className="play-null"><code>null</code> <button type="button" className="plain" onClick={() => change(zero(schema, definitions, 1))}>{t('play.enter', { name })}</button></p>
  }
  if (!fits(value, schema)) return <AnyField name={name} value={value} change={change} />
  switch (shape) {
    case 'boolean':
      return <select aria-label={name} value={String(value)} onChange={(e) => change(e.target.value === 'true')}><option value="false">false</option><option value="true">true</option></select>
    case 'choice':
      return <Choice name={name} schema={schema} value={String(value)} change={change} />
    case 'integer': case 'number': case 'long':
      return <NumberText name={name} schema={schema} value={value} change={change} />
    case 'base64':
      return <Text name={name} value={String(value)} change={change} hint={isBase64(String(value)) ? 'base64' : t('play.notBase64')} bad={!isBase64(String(value))} />
    case 'time':
      return <Text name={name} value={String(value)} change={change} hint={Number.isNaN(Date.parse(String(value))) ? t('play.notTime') : 'RFC 3339'} bad={Number.isNaN(Date.parse(String(value)))} />
    case 'list': case 'tuple':
      return <List {...props} schema={schema} value={isList(value) ? value : []} />
    case 'map':
      return <MapFields {...props} schema={schema} value={isFields(value) ? value : new Map()} />
    case 'object':
      return <ObjectFields {...props} schema={schema} value={isFields(value) ? value : new Map()} />
    default:
      return <Text name={name} value={String(value)} change={change} />
  }
}

function Text({ name, value, change, hint, bad = false }: { name: string; value: string; change: (value: Json) => void; hint?: string; bad?: boolean }) {
  const id = useId()
  return (
    <span className="play-value">
      <input aria-label={name} value={value} aria-invalid={bad} {...(hint ? { 'aria-describedby': id } : {})} onChange={(e) => change(e.target.value)} spellCheck={false} autoComplete="off" />
      {hint ? <span id={id} className={bad ? 'bad' : 'faint'}>{hint}</span> : null}
    </span>
  )
}

function Choice({ name, schema, value, change }: { name: string; schema: Schema; value: string; change: (value: Json) => void }) {
  const names = choices(schema)
  return (
    <select aria-label={name} value={value} onChange={(e) => change(e.target.value)}>
      {names.includes(value) ? null : <option value={value}>{value}</option>}
      {names.map((n) => <option key={n} value={n}>{n}</option>)}
    </select>
  )
}

// NumberText keeps what is typed until it is a number: its digits are never rounded.
function NumberText({ name, schema, value, change }: { name: string; schema: Schema; value: Json; change: (value: Json) => void }) {
  const { t } = useT()
  const id = useId()
  const known = value instanceof Num ? value.text : String(value)
  const [draft, setDraft] = useState({ of: known, text: known })
  const text = draft.of === known ? draft.text : known
  const wrong = problem(text, schema)
  const set = (next: string) => {
    const trimmed = next.trim()
    const good = problem(trimmed, schema) !== 'number'
    setDraft({ of: good ? trimmed : known, text: next })
    if (good) change(value instanceof Num ? new Num(trimmed) : trimmed)
  }
  return (
    <span className="play-value">
      <input aria-label={name} className="num" inputMode="numeric" value={text} aria-invalid={wrong !== undefined} {...(wrong ? { 'aria-describedby': id } : {})} onChange={(e) => set(e.target.value)} spellCheck={false} autoComplete="off" />
      {wrong ? <span id={id} className="bad">{t(wrong === 'range' ? 'play.range' : 'play.notNumber')}</span> : null}
    </span>
  )
}

// AnyField edits a value as JSON.
function AnyField({ name, value, change }: { name: string; value: Json; change: (value: Json) => void }) {
  const { t } = useT()
  const known = print(value)
  const [draft, setDraft] = useState({ of: known, text: known })
  const text = draft.of === known ? draft.text : known
  let bad = ''
  try {
    parse(text)
  } catch (error) {
    bad = error instanceof Error ? error.message : String(error)
  }
  const set = (next: string) => {
    try {
      const parsed = parse(next)
      setDraft({ of: print(parsed), text: next })
      change(parsed)
    } catch {
      setDraft({ of: known, text: next })
    }
  }
  return (
    <span className="play-value">
      <textarea className="small" aria-label={t('play.asJSON', { name })} rows={Math.min(8, text.split('\n').length)} value={text} aria-invalid={bad !== ''} onChange={(e) => set(e.target.value)} spellCheck={false} />
      <span className={bad ? 'bad' : 'faint'}>{bad ? t('play.notJSON', { error: bad }) : 'JSON'}</span>
    </span>
  )
}

// Row is a part with its name; one with parts of its own has them below the name.
function Row({ label, value, children, remove }: { label: ReactNode; value: Json; children: ReactNode; remove?: { name: string; run: () => void } }) {
  return (
    <div className={isFields(value) || isList(value) ? 'play-row nested' : 'play-row'}>
      <span className="play-label">{label}</span>
      <div className="play-cell">{children}</div>
      {remove ? <button type="button" className="icon-button" aria-label={remove.name} title={remove.name} onClick={remove.run}>×</button> : <span />}
    </div>
  )
}

function ObjectFields({ schema, definitions, value, name, change }: Props & { value: Fields }) {
  const { t } = useT()
  const properties = schema?.properties ?? {}
  const with_ = (key: string, v: Json) => change(new Map([...value, [key, v]]))
  const absent = Object.keys(properties).filter((k) => !value.has(k))
  return (
    <div className="play-object" role="group" aria-label={name}>
      {[...value].map(([key, v]) => (
        <Row key={key} label={key} value={v} remove={{ name: t('play.leaveOut', { name: key }), run: () => change(new Map([...value].filter(([k]) => k !== key))) }}>
          <Field schema={properties[key]} definitions={definitions} value={v} name={key} change={(next) => with_(key, next)} />
        </Row>
      ))}
      {absent.length > 0 ? (
        <p className="play-add">
          <span className="faint">{t('play.leftOut')}</span>
          {absent.map((k) => <button key={k} type="button" className="plain" onClick={() => with_(k, zero(properties[k], definitions, 1))}>+ {k}</button>)}
        </p>
      ) : null}
      {value.size === 0 && absent.length === 0 ? <p className="faint">{t('play.noFields')}</p> : null}
    </div>
  )
}

function MapFields({ schema, definitions, value, name, change }: Props & { value: Fields }) {
  const { t } = useT()
  const [key, setKey] = useState('')
  const inner = typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : {}
  const add = () => {
    change(new Map([...value, [key, zero(inner, definitions, 1)]]))
    setKey('')
  }
  return (
    <div className="play-object" role="group" aria-label={name}>
      {[...value].map(([k, v]) => (
        <Row key={k} value={v} label={<code>{JSON.stringify(k)}</code>} remove={{ name: t('play.remove', { name: k }), run: () => change(new Map([...value].filter(([x]) => x !== k))) }}>
          <Field schema={inner} definitions={definitions} value={v} name={k} change={(next) => change(new Map([...value].map(([x, w]) => [x, x === k ? next : w])))} />
        </Row>
      ))}
      <p className="play-add">
        <input aria-label={t('play.newKey', { name })} placeholder={t('play.key')} value={key} onChange={(e) => setKey(e.target.value)} spellCheck={false} autoComplete="off" />
        <button type="button" className="plain" disabled={value.has(key)} onClick={add}>+ {t('play.entry')}</button>
      </p>
    </div>
  )
}

function List({ schema, definitions, value, name, change }: Props & { value: readonly Json[] }) {
  const { t } = useT()
  const fixed = schema?.prefixItems
  return (
    <div className="play-object" role="group" aria-label={name}>
      {value.map((v, i) => (
        <Row key={i} value={v} label={fixed ? t('play.argument', { n: i + 1 }) : `[${i}]`} {...(fixed ? {} : { remove: { name: t('play.remove', { name: `${name} ${i}` }), run: () => change(value.filter((_, n) => n !== i)) } })}>
          <Field schema={fixed?.[i] ?? schema?.items} definitions={definitions} value={v} name={fixed ? t('play.argument', { n: i + 1 }) : `${name} ${i}`} change={(next) => change(value.map((w, n) => (n === i ? next : w)))} />
        </Row>
      ))}
      {fixed ? null : <p className="play-add"><button type="button" className="plain" onClick={() => change([...value, zero(schema?.items, definitions, 1)])}>+ {t('play.entry')}</button></p>}
    </div>
  )
}
