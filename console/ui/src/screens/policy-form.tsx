import { useId, useMemo, useState } from 'react'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { en } from '../i18n/en.ts'
import { at, groupOf, inherited, isSchema, mapOf, routesOf, set, sourceOf, valueOf, write, type Field, type Group, type Path, type Schema } from '../policy-form.ts'
import '../styles/policy-form.css'

interface Props {
  schema: unknown
  text: string
  json: string | undefined // the text as JSON, if it is valid and the console has read it
  waiting: boolean // the console still reads the text
  readOnly: boolean
  change: (text: string) => void
}

// PolicyForm has the fields of a policy, made from its schema. It changes the text, which stays what
// is saved.
export default function PolicyForm({ schema, text, json, waiting, readOnly, change }: Props) {
  const { t } = useT()
  const [last, setLast] = useState<Record<string, unknown>>({})
  const source = useMemo(() => sourceOf(text, json), [text, json])
  const [shown, setShown] = useState(source)
  if (shown !== source) {
    setShown(source)
    if (source.how !== 'broken') setLast(source.value)
  }
  if (!isSchema(schema)) return <p className="empty">{t('form.noSchema')}</p>
  const broken = source.how === 'broken'
  const value = broken ? last : source.value
  const locked = readOnly || source.how !== 'direct'
  const edit = (path: Path, to: unknown) => change(write(set(value, path, to), text === '' ? '\n' : text))
  return (
    <div className="policy-form stack">
      {broken && !waiting ? <p className="bad" role="status">{t('form.broken')}</p> : null}
      {source.how === 'rewrite' && !readOnly ? (
        <p className="form-ask" role="status">
          <span>{source.comments > 0 ? t('form.comments', { n: source.comments }) : t('form.rewriteWhy')}</span>
          <button type="button" className="button" onClick={() => change(write(source.value, text))}>{t('form.rewrite')}</button>
        </p>
      ) : null}
      <Fields schema={schema} value={value} locked={locked} edit={edit} />
    </div>
  )
}

interface FieldsProps {
  schema: Schema
  value: Record<string, unknown>
  locked: boolean
  edit: (path: Path, to: unknown) => void
}

function Fields({ schema, value, locked, edit }: FieldsProps) {
  const { t } = useT()
  const top = useMemo(() => groupOf('', schema), [schema])
  const methods = useMemo(() => mapOf(schema, 'methods'), [schema])
  const [added, setAdded] = useState('')
  return (
    <>
      <GroupFields group={{ ...top, groups: top.groups.slice(0, 1) }} path={[]} value={value} locked={locked} edit={edit} />
      {methods ? (
        <fieldset className="form-group">
          <legend>{label(t, 'methods')}</legend>
          {Object.keys((value['methods'] ?? {}) as object).sort().map((name) => (
            <details key={name} className="form-method" open={name === added}>
              <summary><code>{name}</code> <span className="faint">{summary(value, name)}</span></summary>
              <GroupFields group={methods.group} path={['methods', name]} value={value} locked={locked} edit={edit} method={name} />
              {locked ? null : <button type="button" className="button" onClick={() => edit(['methods', name], undefined)}>{t('form.remove', { name })}</button>}
            </details>
          ))}
          {locked ? null : <AddMethod pattern={methods.pattern} taken={Object.keys((value['methods'] ?? {}) as object)} add={(name) => { setAdded(name); edit(['methods', name], {}) }} />}
        </fieldset>
      ) : null}
      <Routes value={value} />
      <GroupFields group={{ ...top, fields: [], groups: top.groups.slice(1) }} path={[]} value={value} locked={locked} edit={edit} />
    </>
  )
}

// Routes shows the routes of a policy, which are edited in its text.
function Routes({ value }: { value: unknown }) {
  const { t } = useT()
  const routes = useMemo(() => routesOf(value), [value])
  if (routes.length === 0) return null
  return (
    <fieldset className="form-group">
      <legend>{label(t, 'routes')}</legend>
      <p className="faint">{t('form.routes')}</p>
      <ol className="form-routes">
        {routes.map((r) => (
          <li key={r.name}>
            <b>{r.name}</b>
            <div>{t('form.route.match')}: <code>{r.match || t('form.route.all')}</code></div>
            <div>{t('form.route.to')}: <code>{r.to}</code></div>
            {r.fallback ? <div>{t('form.route.fallback')}: <code>{r.fallback}</code></div> : null}
          </li>
        ))}
      </ol>
    </fieldset>
  )
}

// summary lists what a method's settings say, for its closed line.
function summary(value: unknown, name: string): string {
  const m = at(value, ['methods', name])
  if (typeof m !== 'object' || m === null) return ''
  return Object.entries(m).map(([k, v]) => (typeof v === 'object' ? k : `${k} ${String(v)}`)).join(', ')
}

function AddMethod({ pattern, taken, add }: { pattern: string; taken: readonly string[]; add: (name: string) => void }) {
  const { t } = useT()
  const [name, setName] = useState('')
  const trimmed = name.trim()
  let valid = trimmed !== ''
  try {
    valid &&= new RegExp(pattern, 'u').test(trimmed)
  } catch {
    // A pattern that this browser does not take: the console checks the name.
  }
  const add1 = () => {
    if (!valid || taken.includes(trimmed)) return
    add(trimmed)
    setName('')
  }
  return (
    <div className="form-add">
      <label className="field"><span>{t('form.method')}</span><input value={name} placeholder="Cart.*" onChange={(event) => setName(event.target.value)} onKeyDown={(event) => { if (event.key === 'Enter') { event.preventDefault(); add1() } }} spellCheck={false} autoComplete="off" /></label>
      <button type="button" className="button" disabled={!valid || taken.includes(trimmed)} onClick={add1}>{t('form.add')}</button>
    </div>
  )
}

interface GroupProps {
  group: Group
  path: Path
  value: unknown
  locked: boolean
  edit: (path: Path, to: unknown) => void
  method?: string
}

function GroupFields({ group, path, value, locked, edit, method }: GroupProps) {
  const { t } = useT()
  return (
    <>
      {group.fields.length > 0 ? (
        <div className="form-fields">
          {group.fields.map((f) => {
            const own = method === undefined ? undefined : inherited(value, method, [...path.slice(2), f.name])
            const inside = path.length > (method === undefined ? 0 : 2) ? at(value, path) !== undefined : true
            return <FieldInput key={f.name} field={f} value={at(value, [...path, f.name])} inherits={own} needed={f.required && inside} locked={locked} put={(v) => edit([...path, f.name], v)} />
          })}
        </div>
      ) : null}
      {group.groups.map((g) => (
        <fieldset key={g.name} className="form-group">
          <legend>{label(t, g.name)}</legend>
          <GroupFields group={g} path={[...path, g.name]} value={value} locked={locked} edit={edit} {...(method === undefined ? {} : { method })} />
        </fieldset>
      ))}
    </>
  )
}

// label is the text for a name of the schema, or the name itself for one that the page does not know.
function label(t: T, name: string): string {
  const key = 'form.f.' + name
  return key in en ? t(key as Key) : name
}

interface InputProps {
  field: Field
  value: unknown
  inherits: { value: unknown; from: string } | undefined
  needed: boolean
  locked: boolean
  put: (value: unknown) => void
}

function FieldInput({ field, value, inherits, needed, locked, put }: InputProps) {
  const { t } = useT()
  const id = useId()
  const outside = value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  const [text, setText] = useState(outside)
  const [seen, setSeen] = useState(outside)
  if (seen !== outside) {
    setSeen(outside)
    // What is typed, such as "0.", stays while it means what the policy says.
    if (String(valueOf(field, text) ?? '') !== outside) setText(outside)
  }
  const type = (next: string) => {
    setText(next)
    put(valueOf(field, next))
  }
  const unset = inherits ? t('form.inherited', { value: String(inherits.value), from: inherits.from }) : t('form.unset')
  const range = field.max === undefined || field.max > 1000 ? '' : ` (${field.min ?? 0}–${field.max})`
  const name = <>{label(t, field.name)}{range}{needed ? <span aria-hidden="true"> *</span> : null} <code className="faint">{field.name}</code></>
  if (field.kind === 'choice' || field.kind === 'truth') {
    const choices = field.kind === 'truth' ? ['true', 'false'] : field.choices
    return (
      <label className="field" htmlFor={id}><span>{name}</span>
        <select id={id} value={text} disabled={locked} required={needed} onChange={(event) => type(event.target.value)}>
          <option value="">{unset}</option>
          {choices.map((c) => <option key={c} value={c}>{field.kind === 'truth' ? t(c === 'true' ? 'form.yes' : 'form.no') : c}</option>)}
          {text !== '' && !choices.includes(text) ? <option value={text}>{text}</option> : null}
        </select>
      </label>
    )
  }
  const numeric = field.kind === 'whole' || field.kind === 'number'
  return (
    <label className="field" htmlFor={id}><span>{name}</span>
      <input
        id={id} value={text} readOnly={locked} required={needed} inputMode={numeric ? 'decimal' : 'text'} spellCheck={false} autoComplete="off"
        placeholder={inherits ? unset : field.kind === 'duration' && field.example ? t('form.such', { example: field.example }) : unset}
        aria-invalid={numeric && text.trim() !== '' && typeof valueOf(field, text) !== 'number'}
        onChange={(event) => type(event.target.value)}
      />
    </label>
  )
}
