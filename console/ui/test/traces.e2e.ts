import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Service } from '../src/api/types.ts'
import { query } from './browser.ts'
import { begin, binary, end } from './cluster.ts'
import { enter, launch, violations } from './real.ts'

// A front that calls two backs, of which one refuses all calls: console/testdata/retries.
const retries = process.env['RETRIES'] ?? 'retries'
const started: ChildProcess[] = []
const dir = mkdtempSync(join(tmpdir(), 'tandem-retries-'))
const back = `file://${dir}/back`
let browser: Browser
let context: BrowserContext
let base: string

beforeAll(async () => {
  await begin(retries, [dir], /running in/, started)
  const address = await begin(binary, ['console', '--as', 'ann', `file://${dir}`], /(http:\S+)/, started)
  base = new URL(address).origin + '/'
  browser = await launch()
  context = await enter(browser, address)
})
afterAll(async () => {
  await browser?.close()
  for (const child of started.reverse()) await end(child)
  rmSync(dir, { recursive: true, force: true })
})

async function open(address: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(base + address)
  return page
}

it('a call with a retry is found, and shown with both attempts and what the servers say', async () => {
  const page = await open(query('traces', { list: back, service: 'Back', sort: '-attempts' }))
  // The process that calls the list is known after the console has asked it once. A call may meet
  // the failing back more than once.
  const twice = page.locator('.table-body .tr', { has: page.locator('.td', { hasText: /^2$/ }) }).filter({ hasText: 'f1' }).first()
  await expect.poll(async () => {
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await page.waitForTimeout(500)
    return twice.count()
  }, { timeout: 20_000 }).toBe(1)
  await twice.locator('a').first().click()
  await page.waitForSelector('.waterfall li')
  const lines = (await page.locator('.waterfall li').allTextContents()).map((l) => l.replace(/\s+/g, ' '))
  expect(lines).toHaveLength(6)
  expect(lines[0]).toMatch(/^Front\.Order.*server · f1/)
  expect(lines[1]).toMatch(/^Back\.Take.*caller · f1/)
  expect(lines[2]).toMatch(/^attempt 1 failed→ b1/)
  expect(lines[3]).toMatch(/^Back\.Take unavailableserver · b1/)
  expect(lines[4]).toMatch(/^attempt 2: retry→ b2/)
  expect(lines[5]).toMatch(/^Back\.Takeserver · b2/)
  expect(await violations(page)).toEqual([])
  await page.screenshot({ path: 'test-output/cluster-trace.png' })
  await page.close()
})

// failing returns how many calls of the front failed in the last seconds.
async function failing(page: Page): Promise<number> {
  const service = (await page.evaluate(async (list) => (await fetch('/api/Service', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ list, service: 'Front' }) })).json(), `file://${dir}/front`)) as Service
  return (service.methods?.[0]?.perSecond ?? []).slice(-3).reduce((sum, s) => sum + s.failed, 0)
}

it('what is changed in the form applies to calls', async () => {
  const page = await open(query('policies', { list: back, as: 'form' }))
  const all = page.getByRole('group', { name: 'All methods', exact: true })
  const save = async () => {
    await page.getByText('The policy is valid.').waitFor()
    await page.getByLabel(/Reason/).fill('a test')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/Policy saved as revision/).first().waitFor()
    await page.getByText('The policy is valid.').waitFor({ state: 'detached' })
  }
  await all.getByLabel(/^Timeout timeout/).fill('3s')
  // Each back gets half of the calls: the usual choice would avoid the one that fails.
  await page.getByLabel(/^Choice of an instance/).selectOption('round-robin')
  await save()
  expect(await failing(page)).toBe(0)
  await all.getByLabel(/^Fail mode/).selectOption('failfast')
  await save()
  await expect.poll(() => failing(page), { timeout: 15_000 }).toBeGreaterThan(2)
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => failing(page), { timeout: 15_000 }).toBe(0)
  await page.waitForFunction(() => document.querySelector<HTMLInputElement>('.policy-form input')?.closest('.policy-form')?.textContent?.includes('failMode'))
  await expect.poll(() => all.getByLabel(/^Fail mode/).inputValue()).toBe('')
  await page.screenshot({ path: 'test-output/cluster-form.png' })
  await page.close()
})

it('the log level of a process that allows it is set, and set back', async () => {
  const page = await open(query('instance', { list: `file://${dir}/front`, instance: 'f1' }))
  await page.getByRole('button', { name: 'Change…' }).click()
  await page.locator('.dialog select').selectOption('DEBUG')
  await page.getByLabel(/Reason/).fill('a test')
  await page.locator('.dialog .primary').click()
  await page.getByText('Log level of f1: INFO → DEBUG').waitFor()
  await page.waitForFunction(() => document.querySelector('.main')?.textContent?.includes('DEBUG Change'))
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.waitForFunction(() => document.querySelector('.main')?.textContent?.includes('INFO Change'))
  await page.close()
})

it('the console\'s roles at the instances are counted, and logging out ends the session', async () => {
  const page = await open(query('access'))
  const row = (list: string) => page.locator('.table-body .tr', { hasText: `${dir}/${list}` })
  await expect.poll(async () => (await row('front').textContent())?.replace(`file://${dir}/front`, '')).toBe('00100000') // one operator
  expect((await row('back').textContent())?.replace(back, '')).toBe('02000000') // two developers
  expect(await page.locator('.main').textContent()).toContain('Some give less than your role, operator.')
  expect(await violations(page)).toEqual([])
  await page.screenshot({ path: 'test-output/cluster-access.png' })
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.locator('.dialog .primary').click()
  await page.getByText('open the address that the console printed when it started; its token works once').first().waitFor()
  const status = await page.evaluate(async () => (await fetch('/api/Overview', { method: 'POST', body: '{}' })).status)
  expect(status).toBe(401)
  await page.close()
})
