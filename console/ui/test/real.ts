// What the tests with a real cluster do in Chromium.
import axe from 'axe-core'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
}

// enter exchanges the token of a console's address for a session.
export async function enter(browser: Browser, address: string, permissions: string[] = []): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: 'en-GB', permissions })
  const page = await context.newPage()
  await page.goto(address)
  await page.waitForSelector('.main h1')
  await page.close()
  return context
}

// open opens a page, and collects what it complains about.
export async function open(context: BrowserContext, address: string): Promise<{ page: Page; complaints: string[] }> {
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => { if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text()) })
  await page.goto(address)
  return { page, complaints }
}

// violations returns what axe finds that is serious.
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }
    const { violations } = await axe.run()
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes[0]?.html}`)
  })
}

// soon waits until a condition holds, and returns how long that took.
export async function soon(what: string, holds: () => Promise<boolean>): Promise<number> {
  const began = Date.now()
  while (!(await holds())) {
    if (Date.now() - began > 20_000) throw new Error('in vain: ' + what)
  }
  return Date.now() - began
}
