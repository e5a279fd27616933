// Makes the picture of the console in README.md from the cluster of tandem demo --console, after the
// five minutes that its charts show: make console-picture
import { chromium } from 'playwright-core'
import type { ChildProcess } from 'node:child_process'
import { begin, binary, end } from './cluster.ts'

const started: ChildProcess[] = []
const address = await begin(binary, ['demo', '--console'], /console is at (\S+)/, started)
await new Promise((done) => setTimeout(done, Number(process.argv[2] ?? 305) * 1000))
const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: 'light', locale: 'en-GB' })
await page.goto(address)
await page.waitForSelector('.figures-row')
await page.getByRole('link', { name: 'Services' }).click()
await page.locator('.table-body .tr a').first().click()
await page.waitForSelector('.tabs, [role=tablist]')
await page.waitForTimeout(2000) // until the charts are drawn
await page.screenshot({ path: new URL('../../../docs/console.png', import.meta.url).pathname })
await browser.close()
await Promise.all(started.map(end))
