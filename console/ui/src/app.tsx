import { lazy, Suspense, useEffect, useRef, useState, type ComponentType } from 'react'
import { usePolled } from './api/use.ts'
import type { Session } from './api/types.ts'
import { time } from './format.ts'
import { useT, type Key } from './i18n/index.tsx'
import { Link, useRoute, type View } from './route.tsx'
import { roleName, SessionContext } from './session.tsx'
import { setTheme, theme, type Theme } from './theme.ts'
import { ToastProvider } from './toast.tsx'
import { Loading, Problem } from './ui/parts.tsx'
import { ScreenBoundary } from './boundary.tsx'

const screens: Record<View, ComponentType> = {
  overview: lazy(() => import('./screens/overview.tsx')),
  services: lazy(() => import('./screens/services.tsx')),
  service: lazy(() => import('./screens/service.tsx')),
  instance: lazy(() => import('./screens/instance.tsx')),
  topology: lazy(() => import('./screens/topology.tsx')),
  policies: lazy(() => import('./screens/policies.tsx')),
  calls: lazy(() => import('./screens/calls.tsx')),
  resilience: lazy(() => import('./screens/resilience.tsx')),
  playground: lazy(() => import('./screens/playground.tsx')),
  registry: lazy(() => import('./screens/registry.tsx')),
  audit: lazy(() => import('./screens/audit.tsx')),
  traces: lazy(() => import('./screens/traces.tsx')),
  access: lazy(() => import('./screens/access.tsx')),
}
const Palette = lazy(() => import('./screens/palette.tsx'))

const entries: readonly View[] = ['overview', 'services', 'topology', 'policies', 'resilience', 'calls', 'traces', 'playground', 'registry', 'audit', 'access']

export function App() {
  const { t } = useT()
  const { view, params } = useRoute()
  const session = usePolled('Session', {}, 30_000)
  const [palette, setPalette] = useState(false)
  const main = useRef<HTMLElement>(null)
  const Screen = screens[view]
  const subject = params['instance'] ?? params['service'] ?? ''

  useEffect(() => {
    document.title = [subject, t(('nav.' + view) as Key), 'tandem'].filter(Boolean).join(' · ')
  }, [view, subject, t])

  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, [contenteditable]')
      const command = (event.metaKey || event.ctrlKey) && event.key === 'k'
      if (!command && (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey)) return
      event.preventDefault()
      setPalette(true)
    }
    addEventListener('keydown', open)
    return () => removeEventListener('keydown', open)
  }, [])

  // After another screen has opened the focus is at its beginning, as after loading a page.
  const place = view + subject + (params['list'] ?? '')
  const opened = useRef(place)
  useEffect(() => {
    if (opened.current === place) return
    opened.current = place
    main.current?.focus({ preventScroll: true })
    scrollTo(0, 0)
  }, [place])

  return (
    <SessionContext value={session.value}>
      <ToastProvider>
        <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus() }}>{t('skip')}</a>
        <div className="shell">
          <Header session={session.value} search={() => setPalette(true)} />
          <nav aria-label={t('nav')} className="nav">
            {entries.map((v) => (
              <Link key={v} view={v} aria-current={v === view || (v === 'services' && (view === 'service' || view === 'instance')) ? 'page' : undefined}>
                {t(('nav.' + v) as Key)}
              </Link>
            ))}
            <span className="version">tandem console {session.value?.version}</span>
          </nav>
          <main id="main" tabIndex={-1} ref={main} className={'main ' + view}>
            {session.error ? <Problem error={session.error} again={session.again} /> : null}
            <ScreenBoundary key={place} title={t('error.screen')}>
              <Suspense fallback={<Loading />}><Screen /></Suspense>
            </ScreenBoundary>
          </main>
        </div>
        {palette ? <Suspense fallback={null}><Palette close={() => setPalette(false)} /></Suspense> : null}
      </ToastProvider>
    </SessionContext>
  )
}

function Header({ session, search }: { session: Session | undefined; search: () => void }) {
  const { t, language, setLanguage } = useT()
  const [chosen, setChosen] = useState<Theme>(theme())
  return (
    <header className="header">
      <Link view="overview" className="brand">tandem</Link>
      <button type="button" className="search" onClick={search} aria-keyshortcuts="/">
        <span>{t('search')}</span><kbd>/</kbd>
      </button>
      <Sources session={session} />
      {session ? (
        <span className="who">
          <Link view="access"><b>{session.name}</b> <span>{roleName(t, session.role)}</span></Link>
          {session.readOnly ? <span className="tag">{t('readOnly')}</span> : null}
        </span>
      ) : null}
      <label className="choice">
        <span className="hidden">{t('theme')}</span>
        <select value={chosen} onChange={(event) => { const v = event.target.value as Theme; setChosen(v); setTheme(v) }}>
          <option value="system">{t('theme.system')}</option>
          <option value="light">{t('theme.light')}</option>
          <option value="dark">{t('theme.dark')}</option>
        </select>
      </label>
      <label className="choice">
        <span className="hidden">Language / 语言</span>
        <select value={language} onChange={(event) => setLanguage(event.target.value === 'zh' ? 'zh' : 'en')}>
          <option value="en" lang="en">English</option>
          <option value="zh" lang="zh-CN">中文</option>
        </select>
      </label>
    </header>
  )
}

// Sources says which registries are read, and whether one of them can't be.
function Sources({ session }: { session: Session | undefined }) {
  const { t } = useT()
  const all = session?.sources ?? []
  const failing = all.filter((s) => s.error)
  const first = failing[0] ?? all[0]
  if (!first) return <span className="sources" />
  return (
    <span className={'sources' + (failing.length > 0 ? ' bad' : '')} title={all.map((s) => `${s.name} ${s.error ?? time(s.at)}`).join('\n')}>
      {failing.length > 0 ? t('source.failing', { name: first.name }) : first.name}
      {all.length > 1 ? ` +${all.length - 1}` : ''}
    </span>
  )
}
