import axe from 'axe-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import { cart, large, open, query, start, type Lab } from './browser.ts'

let lab: Lab
beforeAll(async () => { lab = await start() })
afterAll(async () => { await lab.stop() })

const instance = { ...cart, instance: 'cart-5af-2' }

// Screens with a text that is there when the screen has its data.
const screens: Readonly<Record<string, [address: string, ready: string]>> = {
  overview: [query('overview'), '.plot canvas'],
  services: [query('services'), '.table-body .tr'],
  methods: [query('service', cart), '.heat-box canvas'],
  instances: [query('service', { ...cart, tab: 'instances' }), '.table-body .tr'],
  consumers: [query('service', { ...cart, tab: 'consumers' }), '.table-body .tr'],
  'policies of a service': [query('service', { ...cart, tab: 'policies' }), '.table-body .tr'],
  schema: [query('service', { ...cart, tab: 'schema' }), 'pre'],
  instance: [query('instance', instance), '.facts'],
  'methods of an instance': [query('instance', { ...instance, tab: 'methods' }), '.table-body .tr'],
  connections: [query('instance', { ...instance, tab: 'connections' }), '.table-body .tr'],
  'running calls': [query('instance', { ...instance, tab: 'running' }), '.table-body .tr'],
  limits: [query('instance', { ...instance, tab: 'limits' }), '.table-body .tr'],
  configuration: [query('instance', { ...instance, tab: 'settings' }), '.table-body .tr'],
  'calls to others': [query('instance', { ...instance, tab: 'clients' }), '.table-body .tr'],
  profiles: [query('instance', { ...instance, tab: 'profiles' }), '.profile-line'],
  policies: [query('policies', { list: cart.list }), 'textarea'],
  topology: [query('topology', { center: 'Order', hops: '2' }), '.graph .node'],
  'topology as a table': [query('topology', { center: 'Order', hops: '2', as: 'table' }), '.table-body .tr'],
  resilience: [query('resilience'), '.table-body .tr'],
  'breakers of a list': [query('resilience', { list: cart.list }), '.table-body .tr'],
  'board of a list': [query('resilience', { list: cart.list, tab: 'board' }), '.board td'],
  'clients of a list': [query('resilience', { list: cart.list, tab: 'clients' }), '.table-body .tr'],
  limiters: [query('resilience', { list: cart.list, tab: 'limiters' }), '.table-body .tr'],
  registries: [query('registry'), '.facts'],
  entries: [query('registry', { list: cart.list, entry: 'cart-5af-2' }), '.facts'],
  readers: [query('registry', { list: cart.list, tab: 'readers' }), '.table-body .tr'],
  documents: [query('registry', { list: cart.list, tab: 'documents' }), 'pre'],
  audit: [query('audit'), '.table-body .tr'],
  'a change': [query('audit', { row: 'row0' }), '.diff'],
  playground: [query('playground', { list: cart.list, method: 'Cart.Add' }), '.play-form'],
  'playground of a stream': [query('playground', { list: 'etcd://10.0.0.5:2379/search/Cart', method: 'Cart.Watch', as: 'json' }), '.play-json'],
  traces: [query('traces', { list: cart.list }), '.table-body .tr'],
  access: [query('access'), '.matrix tbody tr'],
  'the form of a policy': [query('policies', { list: cart.list, as: 'form' }), '.policy-form .form-group'],
  'live calls': [query('calls', { list: cart.list }), '.bar .button'],
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }
    const { violations } = await axe.run()
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes[0]?.html}`)
  })
}

describe.each([
  { theme: 'light', language: 'en' }, { theme: 'dark', language: 'en' }, { theme: 'light', language: 'zh' }, { theme: 'dark', language: 'zh' },
] as const)('$theme $language', (look) => {
  it('each screen loads without complaints, and axe finds nothing serious', async () => {
    const { page, context, complaints } = await open(lab, look)
    for (const [name, [address, ready]] of Object.entries(screens)) {
      await page.goto(lab.base + address)
      await page.waitForSelector(ready)
      expect(await violations(page), name).toEqual([])
    }
    expect(complaints).toEqual([])
    await context.close()
  }, 120_000)

  it('the dialogs too', async () => {
    const { page, context, complaints } = await open(lab, look)
    await page.goto(lab.base + query('service', { ...cart, tab: 'instances' }))
    await page.locator('.table-body input').first().check()
    await page.locator('.bar .button').first().click()
    await page.waitForSelector('.effect')
    expect(await violations(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.keyboard.press('/')
    await page.waitForSelector('#hit-0')
    expect(await violations(page)).toEqual([])
    expect(complaints).toEqual([])
    await context.close()
  })
})

it('the content security policy is in force, and the page works below a path', async () => {
  const { page, context, complaints } = await open(lab)
  // What is below /tools/console/ comes from the root of the preview.
  await context.route('**/tools/console/**', async (route) => {
    await route.fulfill({ response: await route.fetch({ url: route.request().url().replace('/tools/console/', '/') }) })
  })
  const response = await page.goto(lab.base + 'tools/console/' + query('services'))
  expect(response?.headers()['content-security-policy']).toContain("style-src 'self'")
  await page.locator('.table-body .tr a').first().click()
  await page.waitForSelector('.tab-list')
  expect(page.url()).toContain('/tools/console/?view=service')
  expect(complaints).toEqual([])
  await context.close()
})

// Lists and maps that are empty in Go are null.
const nothing: Readonly<Record<string, unknown>> = {
  Session: { name: '', role: 'viewer', readOnly: true, sources: null, version: '' },
  Overview: { services: 0, instances: null, rate: 0, errorRate: 0, answering: 0, silent: 0, versions: null, sources: null, top: null, rollouts: null, changes: null, perSecond: null },
  Services: { services: null, at: '0001-01-01T00:00:00Z' },
  Service: { source: '', list: 'l', service: 's', instances: null, versions: null, zones: null, protocols: null, rate: 0, errorRate: 0, p99: 0, overrides: 0, methods: null, rows: null, consumers: null, set: null },
  Instance: { id: 'i', endpoints: null, list: 'l', state: 'silent', set: 0, running: 0, rate: 0, errorRate: 0, p99: 0, admin: false },
  Policy: { key: 'k', text: '', revision: '', history: null, schema: null },
  Topology: { nodes: null, edges: null, cut: 0 },
  Resilience: { at: '', processes: 0, asked: 0, silent: 0, lists: null, circuits: null, cut: 0, clients: null, limiters: null },
  Registry: { sources: null, list: { list: 'l', source: '', kind: '', at: '', entries: null, readers: null, asked: 0, processes: 0, silent: 0, documents: null, set: null } },
  Audit: { rows: null, total: 0, who: null, unread: null, skipped: 0, own: false },
  Playground: { services: null, protocols: null, instances: null, error: 'no instance has the admin API' },
  Traces: { spans: null, asked: 0, left: 0, without: 0, full: 0, cut: 0, silent: 0, missing: null },
  Trace: { spans: null, asked: 0, left: 0, without: 0, full: 0, cut: 0, silent: 0, missing: null },
  Access: { by: 'token', roles: null, actions: null, lists: null },
}

it('empty answers are shown', async () => {
  const { page, context, complaints } = await open(lab)
  await context.route('**/api/*', (route) => route.fulfill({ json: nothing[new URL(route.request().url()).pathname.split('/').pop() ?? ''] ?? {} }))
  for (const address of [...Object.values(screens).map(([a]) => a), query('topology'), query('policies'), query('calls'), query('traces'), query('traces', { trace: '0'.repeat(32) }), query('playground'), query('playground', { list: 'l' })]) {
    await page.goto(lab.base + address)
    await page.waitForSelector('.main h1')
    await page.waitForTimeout(100)
    expect(await page.locator('.problem').count(), address).toBe(0)
  }
  expect(complaints).toEqual([])
  await context.close()
})

it('failures are shown, with the last answer', async () => {
  const { page, context } = await open(lab)
  await page.goto(lab.base + query('overview'))
  await page.waitForSelector('.plot canvas')
  await context.route('**/api/Overview', (route) => route.fulfill({ status: 503, json: { code: 'unavailable', message: 'etcd: no leader' } }))
  await page.locator('.problem').waitFor()
  expect(await page.locator('.problem').textContent()).toContain('etcd: no leader unavailable')
  expect(await page.locator('.plot canvas').count()).toBe(1)
  await context.unroute('**/api/Overview')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.locator('.problem').waitFor({ state: 'detached' })
  await context.close()
})

it('a policy is checked, saved with its difference shown, and restored', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('policies', { list: 'etcd://10.0.0.5:2379/risk/Cart' }))
  const text = page.getByLabel('Text of the policy')
  const before = await text.inputValue()
  await text.fill(before.replace('"2s"', '"3s"') + ',')
  await page.getByText(/^Not valid:/).waitFor()
  await text.fill(before.replace('"2s"', '"3s"'))
  await page.getByText('The policy is valid.').waitFor()
  expect(await page.locator('.diff .removed').textContent()).toContain('- ' + '    "timeout": "2s"')
  expect(await page.locator('.diff .added').textContent()).toContain('+ ' + '    "timeout": "3s"')
  expect(await violations(page)).toEqual([])
  const save = page.getByRole('button', { name: 'Save' })
  expect(await save.isDisabled()).toBe(true)
  await page.getByLabel(/Reason/).fill('slower disks')
  await save.click()
  await page.getByText('Policy saved as revision 4').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Revision 3 restored').waitFor()
  await page.waitForFunction((want) => document.querySelector('textarea')?.value === want, before)
  expect(complaints).toEqual([])
  await context.close()
})

it('live calls are shown until they are stopped', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('calls', { list: cart.list }))
  await page.getByRole('button', { name: 'Start' }).click()
  await page.waitForSelector('.table-body .tr:nth-child(4)')
  expect(await violations(page)).toEqual([])
  await page.getByRole('button', { name: 'Stop' }).click()
  const rows = await page.locator('[role=table]').getAttribute('aria-rowcount')
  await page.waitForTimeout(700)
  expect(await page.locator('[role=table]').getAttribute('aria-rowcount')).toBe(rows)
  expect(complaints).toEqual([])
  await context.close()
})

it('only what a screen needs is loaded, and all of it from the console', async () => {
  const { page, context } = await open(lab)
  const urls: string[] = []
  page.on('request', (request) => urls.push(request.url()))
  await page.goto(lab.base + query('services'))
  await page.waitForSelector('.table-body .tr')
  expect(urls.filter((u) => !u.startsWith(lab.base))).toEqual([])
  expect(urls.filter((u) => /chart|overview|edit|topology/.test(u))).toEqual([])
  await context.close()
})

it('instances are disabled and enabled again by the keyboard alone', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('service', { ...large, tab: 'instances', q: 'zone:hz' }))
  await page.waitForSelector('.table-body .tr')
  const press = async (...keys: string[]) => { for (const k of keys) await page.keyboard.press(k) }
  const focus = () => page.evaluate(() => (document.activeElement?.getAttribute('aria-label') ?? '') + (document.activeElement?.textContent ?? ''))
  const tabTo = async (text: RegExp) => {
    for (let i = 0; i < 60; i++) {
      await press('Tab')
      if (text.test(await focus())) return
    }
    throw new Error(`the Tab key does not reach ${text}`)
  }
  await tabTo(/Skip/)
  await press('Enter')
  await tabTo(/^Select cart-.*/)
  await press('Space', 'Tab', 'ArrowDown', 'ArrowDown', 'Shift+Tab', 'Space')
  expect(await page.locator('.bar [role=status]').textContent()).toBe('2 selected')
  for (let i = 0; i < 30 && (await focus()) !== 'Disable'; i++) await press('Shift+Tab')
  await press('Enter')
  await page.waitForSelector('.effect-rows')
  expect(await page.locator('.effect-rows tbody tr').count()).toBe(2)
  expect(await page.locator('.effect').textContent()).toMatch(/They get .*% of the traffic now · \d+ instances will get calls/)
  expect(await page.locator('.dialog .primary').isDisabled()).toBe(true) // it needs a reason
  await page.keyboard.type('maintenance')
  await press('Enter')
  await page.waitForSelector('.toast')
  expect(await page.locator('.toast').textContent()).toContain('2 instances of Cart disabled')
  await page.waitForFunction(() => document.querySelectorAll('.table-body .state.disabled').length === 2)
  await tabTo(/^Undo$/)
  await press('Enter')
  await page.waitForFunction(() => document.querySelector('.toast')?.textContent?.startsWith('Undone'))
  await page.waitForFunction(() => document.querySelectorAll('.table-body .state.disabled').length === 0)
  expect(complaints).toEqual([])
  await context.close()
})

it('a list is emptied only after its name is typed', async () => {
  const { page, context } = await open(lab)
  await page.goto(lab.base + query('service', { list: 'etcd://10.0.0.5:2379/user/Cart', service: 'Cart', tab: 'instances' }))
  await page.locator('.table-head input').check()
  await page.getByRole('button', { name: 'Drain' }).click()
  await page.getByText('No instance would be left to call.').waitFor()
  await page.getByLabel(/Reason/).fill('test')
  const apply = page.locator('.dialog .primary')
  expect(await apply.isDisabled()).toBe(true)
  await page.getByLabel(/type the name of the list/).fill('etcd://10.0.0.5:2379/user/Cart')
  expect(await apply.isDisabled()).toBe(false)
  await page.keyboard.press('Escape')
  await context.close()
})

it('viewers are offered no actions', async () => {
  const { page, context } = await open(lab, { role: 'viewer' })
  await page.goto(lab.base + query('service', { ...cart, tab: 'instances' }))
  await page.waitForSelector('.table-body .tr')
  await page.getByText('Changes need the role operator.').waitFor()
  expect(await page.locator('.bar .button, .table input').count()).toBe(0)
  await context.close()
})

it('filter, order, tab and language are kept when the page loads again', async () => {
  const { page, context } = await open(lab)
  await page.goto(lab.base + query('services'))
  await page.getByRole('searchbox').fill('state:disabled')
  await page.getByRole('button', { name: 'Calls/s' }).click()
  // The filter is applied after the text is drawn.
  await page.waitForFunction(() => [...document.querySelectorAll('.table-body .tr')].every((row) => row.textContent?.includes('disabled')))
  await page.waitForSelector('[aria-sort=descending]')
  const before = await page.locator('.table-body .tr').first().locator('a').textContent()
  expect(page.url()).toContain('q=state%3Adisabled')
  expect(page.url()).toContain('sort=-rate')
  await page.getByLabel(/Language/).selectOption('zh')
  await page.reload()
  await page.waitForSelector('.table-body .tr')
  expect(await page.locator('h1').textContent()).toBe('服务')
  expect(await page.locator('.table-body .tr').first().locator('a').textContent()).toBe(before)
  await page.locator('.table-body .tr a').first().click()
  await page.getByRole('tab', { name: /实例/ }).click()
  expect(page.url()).toContain('tab=instances')
  await page.goBack()
  expect(page.url()).toContain('view=services')
  await context.close()
})

it('the search finds screens, services, and instances of the service that is open', async () => {
  const { page, context } = await open(lab)
  await page.goto(lab.base + query('service', cart))
  await page.waitForSelector('h1')
  await page.keyboard.press('/')
  await page.getByRole('combobox', { name: /Service, instance/ }).fill('cart-5af')
  await page.waitForSelector('#hit-0')
  await page.keyboard.press('Enter')
  await page.waitForSelector('.facts')
  expect(await page.locator('h1').textContent()).toBe('cart-5af-2')
  await context.close()
})

it('a tab that is hidden asks for nothing', async () => {
  const { page, context } = await open(lab)
  await page.goto(lab.base + query('overview'))
  await page.waitForSelector('.plot canvas')
  let calls = 0
  page.on('request', (request) => { if (request.url().includes('/api/')) calls++ })
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  })
  await page.waitForTimeout(300) // an answer may be on its way
  calls = 0
  await page.waitForTimeout(4500)
  expect(calls).toBe(0)
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => false, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  })
  await page.waitForTimeout(500)
  expect(calls).toBeGreaterThan(0)
  await context.close()
})

// Frames are missed on a machine that does other things too, so what counts is the CPU time that
// the page's main thread takes for a frame: 60 a second leave it 16.7 ms.
it('2,000 rows scroll at 60 frames a second', async () => {
  const { page, context } = await open(lab)
  const begun = Date.now()
  await page.goto(lab.base + query('services'))
  await page.waitForSelector('.table-body .tr')
  const first = Date.now() - begun
  const cdp = await context.newCDPSession(page)
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const busy = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration')?.value ?? 0
  const before = await busy()
  const frames = await page.evaluate(async () => {
    const box = document.querySelector('.table-box') as HTMLElement
    const times: number[] = []
    let most = 0
    let last = await new Promise<number>((done) => requestAnimationFrame(done))
    for (let i = 0; i < 240; i++) {
      box.scrollTop += 180
      const now = await new Promise<number>((done) => requestAnimationFrame(done))
      times.push(now - last)
      last = now
      most = Math.max(most, box.querySelectorAll('.table-body .tr').length)
    }
    times.sort((a, b) => a - b)
    return { median: times[120] ?? 0, most, seen: document.querySelector('.table-body .tr:last-child')?.getAttribute('aria-rowindex') }
  })
  const cpu = ((await busy()) - before) * 1000 / 240
  const heap = await page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize)
  console.log(`first rows after ${first} ms; ${cpu.toFixed(1)} ms of CPU a frame, median frame ${frames.median.toFixed(1)} ms; at most ${frames.most} rows drawn; heap ${(heap / 2 ** 20).toFixed(0)} MiB`)
  expect(Number(frames.seen)).toBeGreaterThan(1400)
  expect(frames.most).toBeLessThan(80)
  expect(cpu).toBeLessThan(16.7)
  await context.close()
})
