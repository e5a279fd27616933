import { preview, type PreviewServer } from 'vite'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'

// Lab is the built page with the mock, and a browser.
export interface Lab {
  base: string
  browser: Browser
  stop: () => Promise<void>
}

// start needs the built page (npm run build) and Debian's chromium.
export async function start(): Promise<Lab> {
  const server: PreviewServer = await preview({ preview: { port: 0, host: '127.0.0.1', open: false }, logLevel: 'error' })
  const base = server.resolvedUrls?.local[0] ?? ''
  const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
  return {
    base,
    browser,
    stop: async () => {
      await browser.close()
      await new Promise<void>((done) => { server.httpServer.close(() => done()); (server.httpServer as { closeAllConnections?: () => void }).closeAllConnections?.() })
    },
  }
}

export interface Look {
  theme?: 'light' | 'dark'
  language?: 'en' | 'zh'
  role?: string
}

export interface Opened {
  page: Page
  context: BrowserContext
  complaints: string[] // errors of the page, of its console, and of its content security policy
}

// open opens a window as a user with these settings has it.
export async function open(lab: Lab, look: Look = {}): Promise<Opened> {
  const context = await lab.browser.newContext({
    viewport: { width: 1440, height: 900 }, colorScheme: look.theme ?? 'light', locale: look.language === 'zh' ? 'zh-CN' : 'en-GB',
    ...(look.role ? { extraHTTPHeaders: { 'x-mock-role': look.role } } : {}),
  })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => { if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text()) })
  return { page, context, complaints }
}

export const cart = { list: 'etcd://10.0.0.5:2379/shop/Cart', service: 'Cart' }
export const large = { list: 'etcd://10.0.0.5:2379/pay/Cart', service: 'Cart' }

export function query(view: string, params: Readonly<Record<string, string>> = {}): string {
  return '?' + new URLSearchParams({ view, ...params }).toString()
}
