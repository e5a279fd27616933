import { lazy, Suspense, useMemo, useState, type ReactNode } from 'react'
import type { DocumentView, Entry, ListView, Reader, RegistryView } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { bytes, count, isTime, rate, shortList, span, target, time } from '../format.ts'
import { useT, type Key, type T } from '../i18n/index.tsx'
import { Link, setParams, useRoute } from '../route.tsx'
import { mayEdit, useSession } from '../session.tsx'
import { tagText } from '../tags.ts'
import { Facts, Figure, Loading, Panel, Problem, Waiting } from '../ui/parts.tsx'
import { StateIcon, StateMark } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Picker } from './list-picker.tsx'
import { Rollouts } from './overview.tsx'
import { Asked } from './resilience.tsx'

const TagsDialog = lazy(() => import('./tags.tsx'))

export default function RegistryScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const list = params['list'] ?? ''
  const { value, error, again } = usePolled('Registry', list === '' ? {} : { list }, 4000)
  return (
    <>
      <div className="title-row">
        <h1>{t('nav.registry')}</h1>
        <Picker label={t('boards.list')} name="list" of="list" />
        {list === '' ? null : <Link view="registry">{t('boards.all')}</Link>}
        {value?.list ? <Asked of={value.list} /> : null}
      </div>
      {error && value ? <Problem error={error} again={again} /> : null}
      {!value ? <Waiting error={error} again={again} /> : value.list ? <OfList key={list} view={value.list} again={again} /> : <Sources rows={value.sources ?? []} />}
    </>
  )
}

function Sources({ rows }: { rows: readonly RegistryView[] }) {
  const { t } = useT()
  return <>{rows.map((s) => <Panel key={s.name} title={s.name}><SourceOf s={s} /></Panel>)}{rows.length === 0 ? <p className="empty">{t('registry.nothing')}</p> : null}</>
}

function SourceOf({ s }: { s: RegistryView }) {
  const { t } = useT()
  const can = [s.directory ? t('registry.directory') : '', s.documents ? t('registry.documents') : '', s.writable ? t('registry.history') : '', s.inspects ? t('registry.inspects') : ''].filter(Boolean)
  const items: [string, ReactNode][] = [
    [t('registry.kind'), s.kind],
    [t('registry.address'), s.address || '–'],
    [t('registry.path'), s.path || '/'],
    [t('registry.options'), tagText(s.options) || '–'],
    [t('registry.can'), can.length > 0 ? can.join(' · ') : t('registry.nothing')],
    [t('instances'), count(s.instances)],
    [t('state'), s.error ? <span className="bad">{t('source.error', { error: s.error })}</span> : s.failing > 0 ? <span className="bad">{t('registry.failing', { n: s.failing })}</span> : t('source.read', { at: time(s.at) })],
  ]
  const names = useMemo(() => (s.names ?? []).map((name) => ({ name })), [s.names])
  const columns = useMemo<Column<{ name: string }>[]>(() => [
    { key: 'name', head: t('registry.lists'), width: 'minmax(220px,1fr)', cell: (r, tab) => <Link tabIndex={tab} view="registry" params={{ list: r.name }} title={r.name}>{target(r.name).path}</Link> },
  ], [t])
  return (
    <div className="columns two">
      <Facts items={items} />
      <Table label={t('registry.lists') + ' ' + s.name} rows={names} columns={columns} rowKey={(r) => r.name} empty={t('registry.noLists')} />
    </div>
  )
}

// Listed says whether an entry is in the registry.
function Listed({ of }: { of: Entry }) {
  const { t } = useT()
  return of.listed
    ? <span className="state enabled"><StateIcon state="enabled" />{t('registry.is.listed')}</span>
    : <span className="state unhealthy"><StateIcon state="unhealthy" />{t('registry.is.gone')}</span>
}

export function known(e: Entry): number {
  return Object.values(e.seen ?? {}).reduce((sum, n) => sum + n, 0)
}

// differs says how an entry and what clients see differ; "" if they don't.
export function differs(t: T, e: Entry): string {
  if (!e.listed) return t('registry.onlyClients', { n: known(e) })
  return e.missing > 0 ? t('registry.missing', { n: e.missing }) : ''
}

function Differs({ of }: { of: Entry }) {
  const { t } = useT()
  const text = differs(t, of)
  if (text === '') return <span className="faint">{t('registry.same')}</span>
  return <span className="bad" title={[text, ...(of.unseen ?? [])].join('\n')}>{text}</span>
}

function seenText(t: T, e: Entry): string {
  const names = ['ready', 'ejected', 'suspect', 'unconnected', 'unused', 'withheld']
  return Object.entries(e.seen ?? {}).map(([word, n]) => `${names.includes(word) ? t(('registry.seen.' + word) as Key) : word} ${count(n)}`).join(', ')
}

function OfList({ view, again }: { view: ListView; again: () => void }) {
  const { t } = useT()
  const entries = view.entries ?? []
  const listed = entries.filter((e) => e.listed)
  const unseen = listed.filter((e) => e.missing > 0).length
  const documents = view.documents ?? []
  return (
    <>
      <p className="crumbs"><Link view="registry">{t('nav.registry')}</Link> / <span className="faint">{view.list}</span></p>
      {view.error ? <Problem error={{ code: 'registry', message: view.error }} again={again} /> : null}
      <div className="figures-row">
        <Figure name={t('registry.listed')} value={count(listed.length)} note={view.kind} />
        <Figure name={t('registry.gone')} value={count(entries.length - listed.length)} />
        <Figure name={t('registry.unseen')} value={count(unseen)} />
        <Figure name={t('registry.readers')} value={count(view.readers?.length ?? 0)} />
        <Figure name={t('overrides')} value={count(view.set?.length ?? 0)} note={documents.filter((d) => d.kind === 'overrides' && d.revision > 0).map((d) => t('policies.revision', { n: d.revision })).join('')} />
        <Figure name={t('registry.readAt')} value={time(view.at)} />
      </div>
      <Tabs
        label={t('nav.registry')}
        tabs={[
          { id: 'entries', title: t('registry.entries'), n: entries.length, body: () => <Entries view={view} entries={entries} again={again} /> },
          { id: 'readers', title: t('registry.readers'), n: view.readers?.length ?? 0, body: () => <Readers rows={view.readers ?? []} /> },
          { id: 'documents', title: t('registry.docs'), n: documents.filter((d) => d.revision > 0).length, body: () => <Documents view={view} documents={documents} /> },
        ]}
      />
    </>
  )
}

function entryColumns(t: T, picked: string): Column<Entry>[] {
  return [
    { key: 'id', head: t('instance'), width: 'minmax(150px,1.3fr)', sort: (e) => e.id, cell: (e, tab) => <button type="button" tabIndex={tab} className="row-button" aria-pressed={e.id === picked} onClick={() => setParams({ entry: e.id === picked ? '' : e.id })}>{e.id}</button> },
    { key: 'listed', head: t('registry.listed'), width: '110px', sort: (e) => Number(e.listed), cell: (e) => <Listed of={e} /> },
    { key: 'differs', head: t('registry.differs'), width: 'minmax(150px,1.4fr)', sort: (e) => (e.listed ? -e.missing : -1e9), cell: (e) => <Differs of={e} /> },
    { key: 'seen', head: t('registry.seen'), width: 'minmax(130px,1.1fr)', sort: known, cell: (e) => <span className="faint" title={seenText(t, e)}>{seenText(t, e) || '–'}</span> },
    { key: 'state', head: t('state'), width: '104px', sort: (e) => e.state, cell: (e) => (e.listed ? <span title={e.why}><StateMark state={e.state} /></span> : <span className="faint">–</span>) },
    { key: 'weight', head: t('weight'), width: '84px', end: true, sort: (e) => e.set, cell: (e) => <span className="num" title={t('weight.registered', { n: e.weight || 100 })}>{!e.listed ? '–' : e.set === (e.weight || 100) || e.set === 0 ? e.weight || 100 : <b>{`${e.weight || 100} → ${e.set}`}</b>}</span> },
    { key: 'version', head: t('version'), width: '84px', sort: (e) => e.version ?? '', cell: (e) => e.version || '–' },
    { key: 'zone', head: t('zone'), width: '70px', sort: (e) => e.zone ?? '', cell: (e) => e.zone || '–' },
    { key: 'tags', head: t('tags'), width: 'minmax(130px,1.3fr)', sort: (e) => tagText(e.effective ?? e.tags), cell: (e) => (e.effective ? <b title={t('registry.effective')}>{tagText(e.effective) || '–'}</b> : <span className="faint" title={tagText(e.tags)}>{tagText(e.tags) || '–'}</span>) },
    { key: 'address', head: t('address'), width: 'minmax(150px,1.2fr)', cell: (e) => <span className="faint" title={(e.endpoints ?? []).map((x) => `${x.transport}://${x.address} ${x.protocol || 'tandem'}`).join('\n')}>{(e.endpoints ?? []).map((x) => x.address).join(', ') || '–'}</span> },
  ]
}

function Entries({ view, entries, again }: { view: ListView; entries: readonly Entry[]; again: () => void }) {
  const { t } = useT()
  const { params } = useRoute()
  const picked = params['entry'] ?? ''
  const columns = useMemo(() => entryColumns(t, picked), [t, picked])
  const entry = entries.find((e) => e.id === picked)
  return (
    <>
      <Table label={t('registry.entries')} rows={entries} columns={columns} rowKey={(e) => e.id} sortName="sort" sorted="id" empty={t('registry.noEntries')} minWidth={1200} {...(entry ? {} : { fill: true })} />
      {entry ? <EntryOf key={entry.id} view={view} entry={entry} again={again} /> : null}
    </>
  )
}

function EntryOf({ view, entry, again }: { view: ListView; entry: Entry; again: () => void }) {
  const { t } = useT()
  const session = useSession()
  const [editing, setEditing] = useState(false)
  const raw = useMemo(() => JSON.stringify(registered(entry), null, 2), [entry])
  const items: [string, ReactNode][] = [
    [t('address'), (entry.endpoints ?? []).map((e) => <div key={e.transport + e.address}>{e.transport}://{e.address} <span className="faint">{e.protocol || 'tandem'}</span></div>)],
    [t('services'), (entry.services ?? []).join(', ') || t('instance.allServices')],
    [t('group'), entry.group || '–'],
    [t('started'), time(entry.started)],
    [t('registry.incarnation'), entry.incarnation || '–'],
    ...(entry.held ? [
      [t('registry.key'), <code key="k">{entry.held.key}</code>] as [string, ReactNode],
      [t('registry.lease'), entry.held.lease ? t('registry.leaseOf', { id: entry.held.lease, ttl: span((entry.held.ttl ?? 0) / 1e9), left: span((entry.held.left ?? 0) / 1e9) }) : t('boards.none')] as [string, ReactNode],
      [t('registry.writtenAt'), String(entry.held.revision ?? '–')] as [string, ReactNode],
    ] : []),
    [t('registry.load'), entry.load ? `${time(entry.load.at)} · ${rate(entry.load.rate)} ${t('perSecond')} · ${t('running')} ${count(entry.load.inFlight)}` : '–'],
    [t('registry.effective'), tagText(entry.effective ?? entry.tags) || '–'],
    [t('registry.unseen'), (entry.unseen ?? []).length > 0 ? shortList(entry.unseen ?? [], 10) : '–'],
  ]
  return (
    <Panel
      title={t('registry.entry', { id: entry.id })}
      actions={(
        <span className="actions">
          {entry.listed ? <Link view="instance" params={{ list: view.list, instance: entry.id }}>{t('instance')}</Link> : null}
          {entry.listed && mayEdit(session, view.list) ? <button type="button" className="button" onClick={() => setEditing(true)}>{t('tags.edit')}</button> : null}
          {entry.listed && session && !mayEdit(session, view.list) ? <span className="faint">{session.readOnly ? t('edit.readOnly') : t('edit.role')}</span> : null}
        </span>
      )}
    >
      <div className="columns two">
        <Facts items={items} />
        <figure className="chart"><figcaption><h3>{t('registry.raw')}</h3></figcaption><pre className="code" tabIndex={0}>{entry.listed ? raw : t('registry.is.gone')}</pre></figure>
      </div>
      {editing ? (
        <Suspense fallback={<Loading />}>
          <TagsDialog list={view.list} entry={entry} set={view.set ?? []} close={(done) => { setEditing(false); if (done) again() }} again={again} />
        </Suspense>
      ) : null}
    </Panel>
  )
}

// registered is an entry without what the console adds.
export function registered(e: Entry): object {
  const { listed: _a, state: _b, why: _c, set: _d, effective: _e, seen: _f, unseen: _g, missing: _h, held: _i, ...rest } = e
  return rest
}

function Readers({ rows }: { rows: readonly Reader[] }) {
  const { t } = useT()
  const columns = useMemo<Column<Reader>[]>(() => [
    { key: 'process', head: t('consumer.process'), width: 'minmax(120px,1.2fr)', sort: (r) => r.process, cell: (r, tab) => <Link tabIndex={tab} view="instance" params={{ list: r.list, instance: r.process, tab: 'clients', client: r.client }} title={r.client}>{r.process}</Link> },
    { key: 'list', head: t('list'), width: 'minmax(90px,1fr)', sort: (r) => r.list, cell: (r) => <span className="faint" title={r.list}>{target(r.list).path}</span> },
    { key: 'known', head: t('registry.known'), width: '72px', end: true, sort: (r) => r.known, cell: (r) => <span className="num">{count(r.known)}</span> },
    { key: 'lacks', head: t('registry.lacks'), width: 'minmax(110px,1fr)', sort: (r) => (r.missing ?? []).length, cell: (r) => <Ids ids={r.missing ?? []} /> },
    { key: 'extra', head: t('registry.extra'), width: 'minmax(110px,1fr)', sort: (r) => (r.extra ?? []).length, cell: (r) => <Ids ids={r.extra ?? []} /> },
    ...(['ready', 'ejected', 'suspect', 'unconnected', 'withheld'] as const).map((k): Column<Reader> => ({
      key: k, head: t(`registry.seen.${k}`), width: k === 'unconnected' ? '120px' : '72px', end: true, sort: (r) => r.counts[k], cell: (r) => <span className={r.counts[k] === 0 ? 'num faint' : 'num'}>{count(r.counts[k])}</span>,
    })),
    { key: 'listed', head: t('registry.readAt'), width: '90px', sort: (r) => r.listed ?? '', cell: (r) => <span className="num">{isTime(r.listed) ? time(r.listed) : '–'}</span> },
    { key: 'error', head: t('registry.error'), width: 'minmax(90px,.9fr)', cell: (r) => (r.error ? <span className="bad" title={r.error}>{r.error}</span> : <span className="faint">{t('boards.none')}</span>) },
    { key: 'override', head: t('registry.follows'), width: '100px', sort: (r) => Number(r.override), cell: (r) => (r.override ? t('registry.followed') : <span className="bad">{t('registry.notFollowed')}</span>) },
    { key: 'policy', head: t('policy'), width: '84px', cell: (r) => r.policy || '–' },
  ], [t])
  return <Table label={t('registry.readers')} rows={rows} columns={columns} rowKey={(r) => r.list + r.process + r.client} sortName="by" sorted="process" empty={t('registry.noReaders')} minWidth={1210} fill />
}

function Ids({ ids }: { ids: readonly string[] }) {
  if (ids.length === 0) return <span className="faint">–</span>
  return <span className="bad" title={ids.join(', ')}>{shortList(ids, 2)}</span>
}

function Documents({ view, documents }: { view: ListView; documents: readonly DocumentView[] }) {
  const { t } = useT()
  if (documents.length === 0) return <p className="empty">{t('registry.noDocs')}</p>
  return <div className="columns">{documents.map((d) => <DocumentOf key={d.kind} d={d} list={view.list} />)}</div>
}

function DocumentOf({ d, list }: { d: DocumentView; list: string }) {
  const { t } = useT()
  const title = t('registry.doc', { kind: t(d.kind === 'policy' ? 'kind.policy' : 'kind.overrides'), n: d.revision })
  return (
    <Panel
      title={title}
      actions={<span className="actions">{d.kind === 'policy' ? <Link view="policies" params={{ list }}>{t('policies.open')}</Link> : null}<Link view="audit" params={{ list, kind: d.kind }}>{t('policies.history')}</Link></span>}
    >
      {d.error ? <p className="pad bad">{d.error}</p> : null}
      <Facts items={[
        [t('registry.path'), <code key="k">{d.key}</code>],
        ...(d.revision > 0 ? [
          [t('since'), time(d.at)] as const, [t('by'), d.by || '–'] as const, [t('why'), d.why || '–'] as const, [t('registry.bytes'), bytes(d.bytes)] as const, [t('registry.versions'), count(d.versions)] as const,
        ] : []),
      ]} />
      {d.rollout ? <Rollouts rows={[d.rollout]} /> : null}
      {d.text === '' ? <p className="empty">{t('registry.noDoc')}</p> : <pre className="code" tabIndex={0} aria-label={title}>{d.text}</pre>}
      {d.cut ? <p className="pad faint">{t('registry.cut')}</p> : null}
    </Panel>
  )
}
