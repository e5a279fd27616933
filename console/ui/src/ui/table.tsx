import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { useT } from '../i18n/index.tsx'
import { setParams, useRoute } from '../route.tsx'

export interface Column<R> {
  key: string
  head: string
  width: string // a track of a CSS grid
  cell: (row: R, tabIndex: number) => ReactNode // the row's link, if it has one, takes the tabIndex
  end?: boolean // figures: aligned at the end
  sort?: (row: R) => number | string
  title?: string
}

interface Props<R> {
  label: string
  rows: readonly R[]
  columns: readonly Column<R>[]
  rowKey: (row: R) => string
  fill?: boolean // takes the height that is left, else as much as its rows
  sortName?: string // parameter of the address that keeps the order
  sorted?: string // the order without it, such as "-rate"
  empty?: string
  minWidth?: number
  selected?: ReadonlySet<string>
  onSelect?: (selected: ReadonlySet<string>) => void
}

const rowHeight = 30
const collator = new Intl.Collator('en', { numeric: true }) // x-9 before x-10
const beyond = 10 // rows that are drawn above and below those that can be seen
const step = 5 // rows that may scroll by before rows are drawn anew

// order sorts rows by a column; "-key" is the largest first. Equal rows keep their order.
export function order<R>(rows: readonly R[], columns: readonly Column<R>[], by: string): readonly R[] {
  const down = by.startsWith('-')
  const value = columns.find((c) => c.key === (down ? by.slice(1) : by))?.sort
  if (!value) return rows
  const keyed = rows.map((row) => ({ row, v: value(row) }))
  keyed.sort((a, b) => {
    const c = typeof a.v === 'number' && typeof b.v === 'number' ? a.v - b.v : collator.compare(String(a.v), String(b.v))
    return down ? -c : c
  })
  return keyed.map((k) => k.row)
}

// Table draws only the rows that can be seen, so that thousands of rows scroll smoothly. Arrow
// keys move between the links of rows, of which only one is in the order of the Tab key.
export function Table<R>(props: Props<R>) {
  const { rows, columns, rowKey, selected, onSelect, sortName } = props
  const { t } = useT()
  const { params } = useRoute()
  const by = (sortName ? params[sortName] : undefined) ?? props.sorted ?? ''
  const sorted = useMemo(() => order(rows, columns, by), [rows, columns, by])
  const box = useRef<HTMLDivElement>(null)
  const range = useRange(box, sorted.length)
  const { active, onKeyDown, onFocus } = useArrows(box, sorted.length)

  const toggle = useCallback((key: string) => {
    if (!onSelect || !selected) return
    const next = new Set(selected)
    if (!next.delete(key)) next.add(key)
    onSelect(next)
  }, [selected, onSelect])

  if (rows.length === 0) return <p className="empty">{props.empty ?? t('table.empty')}</p>

  const tracks = (onSelect ? '28px ' : '') + columns.map((c) => c.width).join(' ')
  const allSelected = selected !== undefined && sorted.every((r) => selected.has(rowKey(r)))
  const visible = sorted.slice(range.from, range.to)
  // The Tab key reaches a row that can be seen, also after the active one has scrolled away.
  const tabbed = active >= range.from && active < range.to ? active : Math.min(range.from + beyond, sorted.length - 1)
  return (
    <div
      className={'table-box' + (props.fill ? ' fill' : '')} ref={box} tabIndex={0} role="group" aria-label={props.label}
      onKeyDown={onKeyDown} onFocus={onFocus}
    >
      <div role="table" aria-label={props.label} aria-rowcount={sorted.length + 1} className="table" style={{ '--tracks': tracks, minWidth: props.minWidth ?? 0 } as object}>
        <div role="rowgroup" className="table-head">
          <div role="row" className="tr" aria-rowindex={1}>
            {onSelect && selected ? (
              <span role="columnheader" className="td pick">
                <input
                  type="checkbox" aria-label={t('table.all')} checked={allSelected}
                  ref={(el) => { if (el) el.indeterminate = !allSelected && selected.size > 0 }}
                  onChange={() => onSelect(allSelected ? new Set() : new Set(sorted.map(rowKey)))}
                />
              </span>
            ) : null}
            {columns.map((c) => <Head key={c.key} column={c} by={by} name={sortName} />)}
          </div>
        </div>
        <div role="rowgroup" className="table-body" style={{ height: sorted.length * rowHeight }}>
          {visible.map((row, i) => {
            const key = rowKey(row)
            return (
              <MemoRow
                key={key} row={row} id={key} index={range.from + i} columns={columns as readonly Column<unknown>[]}
                active={range.from + i === tabbed} picked={selected?.has(key)} toggle={onSelect ? toggle : undefined}
              />
            )
          })}
        </div>
      </div>
    </div>
  )
}

function Head<R>({ column, by, name }: { column: Column<R>; by: string; name: string | undefined }) {
  const dir = by === column.key ? 'ascending' : by === '-' + column.key ? 'descending' : undefined
  const className = 'td' + (column.end ? ' end' : '')
  if (!column.sort || !name) return <span role="columnheader" className={className} title={column.title}>{column.head}</span>
  // Figures are sorted from the largest first, words from A.
  const first = column.end ? '-' + column.key : column.key
  const other = column.end ? column.key : '-' + column.key
  return (
    <span role="columnheader" className={className} aria-sort={dir ?? 'none'} title={column.title}>
      <button type="button" className="sort" onClick={() => setParams({ [name]: by === first ? other : first })}>
        {column.head}
        <span aria-hidden="true" className="arrow">{dir === 'ascending' ? '▲' : dir === 'descending' ? '▼' : ''}</span>
      </button>
    </span>
  )
}

interface RowProps {
  row: unknown
  id: string
  index: number
  columns: readonly Column<unknown>[]
  active: boolean
  picked: boolean | undefined
  toggle: ((id: string) => void) | undefined
}

const MemoRow = memo(function Row({ row, id, index, columns, active, picked, toggle }: RowProps) {
  const { t } = useT()
  return (
    <div role="row" aria-rowindex={index + 2} data-index={index} className={'tr' + (picked ? ' picked' : '')} style={{ transform: `translateY(${index * rowHeight}px)` }}>
      {toggle ? (
        <span role="cell" className="td pick">
          <input type="checkbox" tabIndex={active ? 0 : -1} aria-label={t('table.pick', { name: id })} checked={picked === true} onChange={() => toggle(id)} />
        </span>
      ) : null}
      {columns.map((c, i) => (
        <span key={c.key} role={i === 0 ? 'rowheader' : 'cell'} className={'td' + (c.end ? ' end' : '')}>{c.cell(row, active ? 0 : -1)}</span>
      ))}
    </div>
  )
})

// useRange returns the rows that must be drawn.
function useRange(box: React.RefObject<HTMLDivElement | null>, n: number): { from: number; to: number } {
  const [range, setRange] = useState({ from: 0, to: Math.min(n, 60) })
  useLayoutEffect(() => {
    const el = box.current
    if (!el) return
    const measure = () => {
      const first = Math.floor(el.scrollTop / rowHeight / step) * step
      const from = Math.max(0, first - beyond)
      const to = Math.min(n, first + Math.ceil(el.clientHeight / rowHeight) + step + beyond)
      setRange((old) => (old.from === from && old.to === to ? old : { from, to }))
    }
    measure()
    el.addEventListener('scroll', measure, { passive: true })
    const watch = new ResizeObserver(measure)
    watch.observe(el)
    return () => {
      el.removeEventListener('scroll', measure)
      watch.disconnect()
    }
  }, [box, n])
  return range
}

// useArrows moves the focus between rows.
function useArrows(box: React.RefObject<HTMLDivElement | null>, n: number) {
  const [active, setActive] = useState(0)
  const wanted = useRef<number>(undefined)

  useEffect(() => {
    if (wanted.current === undefined) return
    const link = box.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"] :is(a, .row-button)`)
    if (!link) return
    wanted.current = undefined
    link.focus({ preventScroll: true })
  })

  const onFocus = (event: React.FocusEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    if (row) setActive(Number(row.dataset['index']))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    const el = box.current
    if (!row || !el) return
    const at = Number(row.dataset['index'])
    const page = Math.max(1, Math.floor(el.clientHeight / rowHeight) - 2)
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: n - 1 }
    const next = moves[event.key]
    if (next === undefined) return
    event.preventDefault()
    const to = Math.max(0, Math.min(n - 1, next))
    wanted.current = to
    setActive(to)
    const top = to * rowHeight
    const seen = el.clientHeight - 2 * rowHeight
    if (top < el.scrollTop) el.scrollTop = top
    else if (top > el.scrollTop + seen) el.scrollTop = top - seen
    const link = el.querySelector<HTMLElement>(`[data-index="${to}"] :is(a, .row-button)`)
    if (link) {
      wanted.current = undefined
      link.focus({ preventScroll: true })
    }
  }
  return { active: Math.min(active, Math.max(0, n - 1)), onKeyDown, onFocus }
}
