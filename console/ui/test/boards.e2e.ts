import type { Browser, BrowserContext } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { query } from './browser.ts'
import { startCluster, type Cluster } from './cluster.ts'
import { enter, launch, open, soon, violations } from './real.ts'

// Resilience, registry and audit with a real cluster, in etcd and in a registry of files.

let cluster: Cluster
let browser: Browser
let operator: BrowserContext
let base: string

beforeAll(async () => {
  cluster = await startCluster(true)
  browser = await launch()
  base = new URL(cluster.console).origin + '/'
  operator = await enter(browser, cluster.console)
})
afterAll(async () => {
  await browser?.close()
  await cluster?.stop()
})

// share is which share of the till's calls the first server gets within some time.
async function share(ms: number): Promise<number> {
  const before = await cluster.said()
  await new Promise((done) => setTimeout(done, ms))
  const made = (await cluster.said()).map((n, i) => n - (before[i] ?? 0))
  return (made[0] ?? 0) / made.reduce((a, b) => a + b, 0)
}

it('the entries of etcd and of files are shown beside what the till sees', async () => {
  const { page, complaints } = await open(operator, base + query('registry'))
  await page.locator('.panel', { hasText: 'etcd://' }).getByText('keep their history').waitFor()
  await page.locator('.panel', { hasText: 'file://' }).getByText('keep their history').waitFor()
  for (const [list, ids] of [[cluster.list, ['cart-1', 'cart-2', 'cart-3']], [cluster.files, ['book-1']]] as const) {
    await page.goto(base + query('registry', { list, entry: ids[0] ?? '' }))
    await page.waitForSelector('.table-body .tr')
    await soon('the till as a reader', async () => ((await page.locator('.table-body').textContent()) ?? '').includes('ready 1'))
    expect(await page.locator('.table-body .tr').count()).toBe(ids.length)
    const text = (await page.locator('.table-body').textContent()) ?? ''
    for (const id of ids) expect(text).toContain(id)
    expect(text).not.toContain('not listed')
    expect(await page.locator('.code').textContent()).toContain('"incarnation"')
    if (list === cluster.list) expect(await page.locator('.facts').textContent()).toMatch(/\/shop\/Cart\/cart-1.*: \d+ s of 15 s left/)
    expect(await violations(page)).toEqual([])
    await page.screenshot({ path: `test-output/cluster-registry-${list.startsWith('file') ? 'file' : 'etcd'}.png` })
  }
  await page.goto(base + query('registry', { list: cluster.list, tab: 'readers' }))
  await page.locator('.table-body .tr', { hasText: 'till-1' }).waitFor()
  expect(complaints).toEqual([])
  await page.close()
})

it('a breaker that is forced open keeps the till away, and an undo lets it come back', async () => {
  const { page, complaints } = await open(operator, base + query('resilience', { list: cluster.list }))
  const row = page.locator('.table-body .tr', { hasText: 'cart-1' })
  await row.waitFor()
  expect(await violations(page)).toEqual([])
  await soon('calls', async () => (await share(500)) > 0.1)
  await row.locator('input').check()
  await page.getByRole('button', { name: 'Force open' }).click()
  await page.waitForSelector('.effect-rows')
  await page.getByLabel(/Reason/).fill('it answers wrongly')
  await page.locator('.dialog .primary').click()
  await page.locator('.toast', { hasText: '1 breaker is forced open' }).waitFor()
  await soon('no calls', async () => (await share(500)) === 0)
  await page.locator('.table-body .tr', { hasText: 'forced open' }).waitFor()
  expect(await page.locator('.table-body .tr', { hasText: 'forced open' }).textContent()).toContain('it answers wrongly')
  await page.screenshot({ path: 'test-output/cluster-resilience.png' })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator('.toast', { hasText: /^Undone/ }).waitFor()
  await soon('calls again', async () => (await share(500)) > 0.1)
  expect(complaints).toEqual([])
  await page.close()
})

it('tags are set, reach the till, and end again', async () => {
  const { page } = await open(operator, base + query('registry', { list: cluster.list, entry: 'cart-2' }))
  await page.getByRole('button', { name: 'Edit tags' }).click()
  await page.getByRole('button', { name: 'Add a tag' }).click()
  await page.getByLabel('Name of tag 1').fill('lane')
  await page.getByLabel('Value of tag 1').fill('blue')
  await page.locator('.effect code', { hasText: 'lane=blue' }).waitFor()
  await page.getByLabel(/Reason/).fill('a lane')
  await page.locator('.dialog .primary').click()
  await page.locator('.toast', { hasText: 'Tags of cart-2 set' }).waitFor()
  await page.locator('.table-body b', { hasText: 'lane=blue' }).waitFor()
  await page.goto(base + query('registry', { list: cluster.list, tab: 'documents' }))
  await page.locator('pre', { hasText: '"lane": "blue"' }).waitFor()
  await page.goto(base + query('audit', { list: cluster.list, kind: 'overrides', q: 'lane' }))
  await page.locator('.table-body .tr button').first().click()
  await page.locator('.diff .added', { hasText: '"lane": "blue"' }).waitFor()
  await page.getByLabel(/Reason/).fill('the lane is closed')
  await page.getByRole('button', { name: 'Undo this change' }).click()
  await page.locator('.toast', { hasText: /^Undone/ }).waitFor()
  await page.goto(base + query('registry', { list: cluster.list }))
  await page.waitForSelector('.table-body .tr')
  expect(await page.locator('.table-body').textContent()).not.toContain('lane')
  await page.close()
})

it('the audit has who changed what, and the login', async () => {
  const { page, complaints } = await open(operator, base + query('audit'))
  await page.waitForSelector('.table-body .tr')
  const text = async () => (await page.locator('.table-body').textContent()) ?? ''
  await soon('the breaker', async () => (await text()).includes('forced open until'))
  expect(await text()).toMatch(/ann.*breaker of shop\/Cart for cart-1: auto → forced open/)
  expect(await text()).toContain('the one-time token was used')
  expect(await text()).toContain('tags lane=blue')
  expect(await violations(page)).toEqual([])
  await page.screenshot({ path: 'test-output/cluster-audit.png' })
  expect(complaints).toEqual([])
  await page.close()
})

it('who may only look is offered no action on the boards', async () => {
  const context = await enter(browser, cluster.readOnly)
  const origin = new URL(cluster.readOnly).origin
  const { page } = await open(context, origin + '/' + query('resilience', { list: cluster.list }))
  await page.locator('.table-body .tr', { hasText: 'cart-1' }).waitFor()
  expect(await page.getByRole('button', { name: 'Force open' }).count()).toBe(0)
  const status = await page.evaluate(async (list) => {
    const breakers = [{ list: list.replace('/Cart', '/Till'), process: 'till-1', client: list, instance: 'cart-1' }]
    return (await fetch('/api/ForceBreaker', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ list, breakers, state: 'open', for: 60e9, why: 'x' }) })).status
  }, cluster.list)
  expect(status).toBe(403)
  await context.close()
})
