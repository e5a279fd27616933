export type Theme = 'system' | 'light' | 'dark'

const stored = 'tandem.theme'
const listeners = new Set<() => void>()

export function theme(): Theme {
  const t = localStorage.getItem(stored)
  return t === 'light' || t === 'dark' ? t : 'system'
}

// applyTheme sets the attribute that the style sheet goes by.
export function applyTheme() {
  const t = theme()
  const dark = t === 'dark' || (t === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.dataset['theme'] = dark ? 'dark' : 'light'
  for (const l of listeners) l()
}

export function setTheme(t: Theme) {
  if (t === 'system') localStorage.removeItem(stored)
  else localStorage.setItem(stored, t)
  applyTheme()
}

// onTheme calls listener when colours have changed: charts draw them on a canvas.
export function onTheme(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

// cssColor returns a colour of the style sheet.
export function cssColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
