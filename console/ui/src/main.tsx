import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { firstLanguage, LanguageProvider, load } from './i18n/index.tsx'
import { applyTheme } from './theme.ts'
import './styles/base.css'
import './styles/parts.css'
import './styles/screens.css'

applyTheme()
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme)

const language = firstLanguage()
document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'

void load(language).then((messages) => {
  const root = document.getElementById('root')
  if (!root) return
  createRoot(root).render(<LanguageProvider first={language} messages={messages}><App /></LanguageProvider>)
})
