import { request } from 'node:http'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { query } from './browser.ts'
import { share, startCluster, type Cluster } from './cluster.ts'
import { enter, launch, open, soon, violations } from './real.ts'

let cluster: Cluster
let browser: Browser
let operator: BrowserContext
let base: string

beforeAll(async () => {
  cluster = await startCluster()
  browser = await launch()
  base = new URL(cluster.console).origin + '/'
  operator = await enter(browser, cluster.console)
})
afterAll(async () => {
  await browser?.close()
  await cluster?.stop()
})

const instance = 'cart-1'

it('each screen has live data', async () => {
  const cart = { list: cluster.list, service: 'Arith' }
  const screens: Readonly<Record<string, [address: string, ready: string]>> = {
    overview: [query('overview'), '.plot canvas'],
    services: [query('services'), '.table-body .tr'],
    methods: [query('service', cart), '.heat-box canvas'],
    instances: [query('service', { ...cart, tab: 'instances' }), '.table-body .tr'],
    instance: [query('instance', { list: cluster.list, instance }), '.facts'],
    connections: [query('instance', { list: cluster.list, instance, tab: 'connections' }), '.table-body .tr'],
    configuration: [query('instance', { list: cluster.list, instance, tab: 'settings' }), '.table-body .tr'],
    policies: [query('policies', { list: cluster.list }), 'textarea'],
  }
  await soon('the rate', async () => {
    const { page } = await open(operator, base + query('overview'))
    await page.waitForSelector('.main h1')
    await page.waitForTimeout(1000)
    const text = (await page.locator('.main').textContent()) ?? ''
    await page.close()
    return /Rate\s*(2[0-9]{2}|3[0-9]{2})/.test(text)
  })
  for (const [name, [address, ready]] of Object.entries(screens)) {
    const { page, complaints } = await open(operator, base + address)
    await page.waitForSelector(ready)
    expect(await violations(page), name).toEqual([])
    expect(complaints, name).toEqual([])
    await page.screenshot({ path: `test-output/cluster-${name}.png` })
    await page.close()
  }
})

it('calls are shown while they are made', async () => {
  const { page } = await open(operator, base + query('calls', { list: cluster.list }))
  await page.getByRole('button', { name: 'Start' }).click()
  await page.getByText('Arith.Mul').first().waitFor()
  await page.close()
})

async function act(page: Page, button: string, fill: () => Promise<void>): Promise<void> {
  await page.goto(base + query('instance', { list: cluster.list, instance }))
  await page.getByRole('button', { name: button, exact: true }).click()
  await fill()
  await page.waitForSelector('.effect-rows')
  await page.getByLabel(/Reason/).fill('a test')
  await page.locator('.dialog .primary').click()
  await page.waitForSelector('.toast')
}

it('an instance that is disabled gets no calls, and gets them again', async () => {
  const { page, complaints } = await open(operator, base)
  await act(page, 'Disable', async () => {})
  const took = await soon('no calls', async () => (await share(cluster, 300))[0] === 0)
  expect(took).toBeLessThan(2000 + 300)
  await page.getByRole('button', { name: 'Undo' }).click()
  expect(await soon('calls', async () => ((await share(cluster, 300))[0] ?? 0) > 0.2)).toBeLessThan(4000)
  await act(page, 'Drain', async () => {})
  await soon('no calls', async () => (await share(cluster, 300))[0] === 0)
  await act(page, 'Enable', async () => {})
  await soon('calls', async () => ((await share(cluster, 300))[0] ?? 0) > 0.2)
  expect(complaints).toEqual([])
  await page.close()
})

it('a weight moves traffic', async () => {
  const { page } = await open(operator, base)
  await act(page, 'Set weight', async () => {
    await page.getByLabel(/^Weight/).fill('10')
    await page.getByLabel(/^Weight/).press('Tab')
  })
  await soon('few calls', async () => { const s = (await share(cluster, 1000))[0] ?? 0; return s > 0 && s < 0.12 })
  await page.getByRole('button', { name: 'Undo' }).click()
  await soon('as many as the others', async () => ((await share(cluster, 1000))[0] ?? 0) > 0.25)
  await page.close()
})

it('a policy is written, and an earlier one restored', async () => {
  const { page } = await open(operator, base + query('policies', { list: cluster.list }))
  const text = page.getByLabel('Text of the policy')
  for (const timeout of ['1s', '2s']) {
    await text.fill(`{"methods": {"Arith.Mul": {"timeout": "${timeout}"}}}`)
    await page.getByText('The policy is valid.').waitFor()
    await page.getByLabel(/Reason/).fill('a test')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/Policy saved as revision/).first().waitFor()
  }
  await page.getByRole('button', { name: 'Undo' }).last().click()
  await page.waitForFunction(() => document.querySelector('textarea')?.value.includes('"1s"'))
  await page.close()
})

it('who may only look is offered no changes, and can make none', async () => {
  const context = await enter(browser, cluster.readOnly)
  const origin = new URL(cluster.readOnly).origin
  const { page } = await open(context, origin + '/' + query('instance', { list: cluster.list, instance }))
  await page.waitForSelector('.facts')
  expect(await page.getByRole('button', { name: 'Disable', exact: true }).count()).toBe(0)
  const status = await page.evaluate(async (list) => {
    const set = [{ instance: 'cart-1', state: 'disabled' }]
    return (await fetch('/api/Edit', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ list, set, why: 'x' }) })).status
  }, cluster.list)
  expect(status).toBe(403)
  await context.close()
})

it('requests of other sites, and for other hosts, are refused', async () => {
  const cookies = (await operator.cookies()).map((c) => `${c.name}=${c.value}`).join('; ')
  const post = (headers: Record<string, string>) => new Promise<number>((done, fail) => {
    const sent = request(base + 'api/Overview', { method: 'POST', headers: { cookie: cookies, 'content-type': 'application/json', ...headers } }, (r) => { r.resume(); done(r.statusCode ?? 0) })
    sent.on('error', fail)
    sent.end('{}')
  })
  expect(await post({})).toBe(200)
  expect(await post({ origin: 'http://evil.example' })).toBe(403)
  expect(await post({ 'sec-fetch-site': 'cross-site' })).toBe(403)
  expect(await post({ host: 'evil.example' })).toBe(421)
  expect(await post({ cookie: '' })).toBe(401)
})
