import { useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from 'react'

// The whole state of a screen is in the query of the page's address, so that the path, and with it
// the addresses of assets and of the API, stay the same below any path.

export const views = ['overview', 'services', 'service', 'instance', 'topology', 'policies', 'resilience', 'calls', 'traces', 'playground', 'registry', 'audit', 'access'] as const
export type View = (typeof views)[number]
export type Params = Readonly<Record<string, string>>

export interface Route {
  view: View
  params: Params
}

// parse reads a query, such as "?view=service&service=Cart".
export function parse(query: string): Route {
  const params: Record<string, string> = {}
  for (const [name, value] of new URLSearchParams(query)) params[name] = value
  const { view, ...rest } = params
  return { view: views.find((v) => v === view) ?? 'overview', params: rest }
}

// address is the inverse of parse. Empty parameters are left out.
export function address(view: View, params: Params = {}): string {
  const query = new URLSearchParams({ view })
  for (const [name, value] of Object.entries(params)) if (value !== '') query.set(name, value)
  return '?' + query.toString()
}

const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('popstate', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('popstate', listener)
  }
}

function show(query: string, replace: boolean) {
  if (query === location.search) return
  history[replace ? 'replaceState' : 'pushState'](null, '', query)
  for (const listener of listeners) listener()
}

// go opens another screen.
export function go(view: View, params: Params = {}) {
  show(address(view, params), false)
}

// setParams changes parameters of the screen that is open, in place of the address now.
export function setParams(changes: Params) {
  const { view, params } = parse(location.search)
  show(address(view, { ...params, ...changes }), true)
}

let last: { query: string; route: Route } | undefined

function current(): Route {
  if (last?.query !== location.search) last = { query: location.search, route: parse(location.search) }
  return last.route
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, current)
}

interface LinkProps extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> {
  view: View
  params?: Params
}

// Link is an anchor that opens a screen without loading the page again.
export function Link({ view, params, onClick, ...rest }: LinkProps) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event)
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(view, params)
  }
  return <a href={address(view, params)} onClick={click} {...rest} />
}
