import { createContext, use, useMemo, useState, type ReactNode } from 'react'
import { en } from './en.ts'

export type Key = keyof typeof en
export type Messages = Readonly<Record<Key, string>>
export type Language = 'en' | 'zh'

export type T = (key: Key, values?: Readonly<Record<string, string | number>>) => string

// translate fills a message in. A message of two forms, "one|other", is chosen by the value n.
export function translate(messages: Messages, key: Key, values?: Readonly<Record<string, string | number>>): string {
  const forms = messages[key].split('|')
  const form = (forms.length > 1 && values?.['n'] !== 1 ? forms[1] : forms[0]) ?? key
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => String(values?.[name] ?? whole))
}

interface Context {
  language: Language
  t: T
  setLanguage: (language: Language) => void
}

const LanguageContext = createContext<Context>({ language: 'en', t: (key, values) => translate(en, key, values), setLanguage: () => undefined })

const stored = 'tandem.language'

// firstLanguage is the language that was chosen before, or else the browser's.
export function firstLanguage(): Language {
  const chosen = localStorage.getItem(stored)
  if (chosen === 'en' || chosen === 'zh') return chosen
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
}

// load returns the messages of a language. Chinese is loaded when it is needed.
export async function load(language: Language): Promise<Messages> {
  return language === 'zh' ? (await import('./zh.ts')).zh : en
}

export function LanguageProvider({ first, messages, children }: { first: Language; messages: Messages; children: ReactNode }) {
  const [state, setState] = useState({ language: first, messages })
  const value = useMemo<Context>(() => ({
    language: state.language,
    t: (key, values) => translate(state.messages, key, values),
    setLanguage: (language) => {
      localStorage.setItem(stored, language)
      void load(language).then((loaded) => {
        document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
        setState({ language, messages: loaded })
      })
    },
  }), [state])
  return <LanguageContext value={value}>{children}</LanguageContext>
}

export function useT(): Context {
  return use(LanguageContext)
}
