import { useDeferredValue, useMemo } from 'react'
import type { List, ServiceRow } from '../api/types.ts'
import { usePolled } from '../api/use.ts'
import { filterServices } from '../filter.ts'
import { count, duration, failedShare, rate, shortList, target } from '../format.ts'
import { useT, type T } from '../i18n/index.tsx'
import { Link, useRoute } from '../route.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { ErrorShare, Problem, Waiting } from '../ui/parts.tsx'
import { Spark } from '../ui/spark.tsx'
import { StateCounts } from '../ui/state.tsx'
import { Table, type Column } from '../ui/table.tsx'

export default function ServicesScreen() {
  const { t } = useT()
  const { params } = useRoute()
  const filter = useDeferredValue(params['q'] ?? '')
  // The page filters by itself: typing must not wait for the console.
  const { value, error, again } = usePolled('Services', {}, 5000)
  const rows = useMemo(() => filterServices(value?.services ?? [], filter), [value, filter])
  const columns = useMemo(() => serviceColumns(t), [t])
  return (
    <>
      <div className="title-row">
        <h1>{t('nav.services')}</h1>
        <FilterField label={t('services.filter')} hint="state:disabled zone:a" />
        {value ? <span className="faint num" role="status">{t('services.shown', { shown: count(rows.length), all: count(value.services?.length ?? 0) })}</span> : null}
      </div>
      {error && value ? <Problem error={error} again={again} /> : null}
      {value ? (
        <Table
          label={t('nav.services')} rows={rows} columns={columns} rowKey={keyOf} fill sortName="sort" sorted="service" minWidth={1164}
          empty={filter ? t('services.none') : t('services.empty')}
        />
      ) : <Waiting error={error} again={again} />}
    </>
  )
}

function keyOf(r: ServiceRow): string {
  return r.list + ' ' + r.service
}

function instancesOf(r: ServiceRow): number {
  return Object.values(r.instances ?? {}).reduce((sum, n) => sum + n, 0)
}

// Several is the first of some values, and how many more there are.
function Several({ values }: { values: List<string> }) {
  const all = values ?? []
  return <span title={all.length > 1 ? all.join(', ') : undefined}>{shortList(all, 1)}</span>
}

export function serviceColumns(t: T): Column<ServiceRow>[] {
  return [
    { key: 'service', head: t('service'), width: 'minmax(160px,2.2fr)', sort: (r) => r.service, cell: (r, tab) => <Link tabIndex={tab} view="service" params={{ list: r.list, service: r.service }} title={r.list}>{r.service}</Link> },
    { key: 'list', head: t('list'), width: 'minmax(110px,1.6fr)', sort: (r) => r.list, cell: (r) => <span className="faint" title={r.list}>{target(r.list).path}</span> },
    { key: 'instances', head: t('instances'), width: 'minmax(164px,1.2fr)', sort: instancesOf, cell: (r) => <StateCounts counts={r.instances} /> },
    { key: 'rate', head: t('rate.s'), width: '78px', end: true, sort: (r) => r.rate, cell: (r) => <span className="num">{rate(r.rate)}</span> },
    { key: 'spark', head: t('lastMinute'), width: '112px', cell: (r) => <Spark values={r.perSecond} /> },
    { key: 'errors', head: t('errors'), width: '84px', end: true, sort: (r) => failedShare(r), cell: (r) => <ErrorShare of={r} /> },
    { key: 'p99', head: 'p99', width: '84px', end: true, sort: (r) => r.p99, cell: (r) => <span className="num">{duration(r.p99)}</span> },
    { key: 'version', head: t('version'), width: 'minmax(90px,.8fr)', sort: (r) => r.versions?.[0] ?? '', cell: (r) => <Several values={r.versions} /> },
    { key: 'zone', head: t('zone'), width: 'minmax(80px,.8fr)', sort: (r) => r.zones?.[0] ?? '', cell: (r) => <Several values={r.zones} /> },
    { key: 'protocol', head: t('protocol'), width: 'minmax(84px,.7fr)', sort: (r) => r.protocols?.[0] ?? '', cell: (r) => <Several values={r.protocols} /> },
    { key: 'policy', head: t('policy'), width: '60px', sort: (r) => r.policy ?? '', cell: (r) => r.policy ?? <span className="faint">–</span> },
    { key: 'overrides', head: t('overrides'), width: '84px', end: true, sort: (r) => r.overrides, cell: (r) => <span className={r.overrides > 0 ? 'num' : 'num faint'}>{r.overrides}</span> },
  ]
}
