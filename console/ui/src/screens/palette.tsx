import { useMemo, useState, type KeyboardEvent } from 'react'
import { Dialog, Modal, ModalOverlay } from 'react-aria-components'
import { usePolled } from '../api/use.ts'
import { target } from '../format.ts'
import { useT, type Key } from '../i18n/index.tsx'
import { go, useRoute, views, type Params, type View } from '../route.tsx'

export interface Hit {
  kind: 'screen' | 'service' | 'instance'
  name: string
  note: string
  view: View
  params: Params
}

const most = 50

// find returns the entries that contain all words, those whose name begins with the text first.
export function find(hits: readonly Hit[], text: string): Hit[] {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean)
  const first = parts[0] ?? ''
  const good: Hit[] = []
  const others: Hit[] = []
  for (const hit of hits) {
    const all = (hit.name + ' ' + hit.note).toLowerCase()
    if (!parts.every((p) => all.includes(p))) continue
    if (hit.name.toLowerCase().startsWith(first)) good.push(hit)
    else others.push(hit)
    if (good.length >= most) break
  }
  return [...good, ...others].slice(0, most)
}

// Palette goes to a screen, a service, or an instance of the service that is open.
export default function Palette({ close }: { close: () => void }) {
  const { t } = useT()
  const { params } = useRoute()
  const services = usePolled('Services', {}, 0)
  const list = params['list'] ?? ''
  const service = params['service'] ?? ''
  const open = usePolled('Service', { list, service }, 0)
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)

  const hits = useMemo<Hit[]>(() => [
    ...views.filter((v) => v !== 'service' && v !== 'instance').map((view): Hit => ({ kind: 'screen', name: t(('nav.' + view) as Key), note: '', view, params: {} })),
    ...(service === '' ? [] : (open.value?.rows ?? [])).map((r): Hit => ({ kind: 'instance', name: r.id, note: [r.zone, r.version, ...(r.endpoints ?? []).map((e) => e.address)].filter(Boolean).join(' '), view: 'instance', params: { list: r.list, instance: r.id, service } })),
    ...(services.value?.services ?? []).map((s): Hit => ({ kind: 'service', name: s.service, note: target(s.list).path, view: 'service', params: { list: s.list, service: s.service } })),
  ], [t, services.value, open.value, service])
  const found = useMemo(() => find(hits, text), [hits, text])
  const active = Math.min(at, found.length - 1)

  const choose = (hit: Hit | undefined) => {
    if (!hit) return
    close()
    go(hit.view, hit.params)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return // Enter ends a Chinese word
    if (event.key === 'ArrowDown') setAt(Math.min(found.length - 1, active + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, active - 1))
    else if (event.key === 'Enter') choose(found[active])
    else return
    event.preventDefault()
    document.getElementById('hit-' + (event.key === 'ArrowDown' ? active + 1 : active - 1))?.scrollIntoView({ block: 'nearest' })
  }

  return (
    <ModalOverlay className="overlay top" isOpen isDismissable onOpenChange={(isOpen) => { if (!isOpen) close() }}>
      <Modal className="modal palette">
        <Dialog className="dialog" aria-label={t('search')}>
          <input
            autoFocus type="text" role="combobox" aria-label={t('search.hint')} aria-expanded="true" aria-controls="hits" aria-autocomplete="list"
            {...(found.length > 0 ? { 'aria-activedescendant': 'hit-' + active } : {})}
            placeholder={t('search.hint')} value={text} spellCheck={false} autoComplete="off"
            onChange={(event) => { setText(event.target.value); setAt(0) }} onKeyDown={onKeyDown}
          />
          <ul id="hits" role="listbox" aria-label={t('search')} tabIndex={-1}>
            {found.map((hit, i) => (
              <li key={hit.view + hit.name + hit.note} id={'hit-' + i} role="option" aria-selected={i === active} onPointerMove={() => setAt(i)} onClick={() => choose(hit)}>
                <b>{hit.name}</b><span className="faint">{hit.note}</span><span className="kind faint">{t(`search.${hit.kind}`)}</span>
              </li>
            ))}
          </ul>
          {found.length === 0 ? <p className="empty" role="status">{services.value || services.error ? t('services.none') : t('loading')}</p> : null}
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}
