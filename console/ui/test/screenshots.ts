// Makes pictures of the screens in test-output: npm run screenshots [WORD in the name]
import { mkdirSync } from 'node:fs'
import { cart, large, open, query, start } from './browser.ts'

const trouble = 'etcd://10.0.0.5:2379/user/Cart' // two of its instances are ejected or fail
const wanted = process.argv[2] ?? ''
const out = new URL('../test-output/', import.meta.url).pathname
mkdirSync(out, { recursive: true })

const screens: Readonly<Record<string, string>> = {
  overview: query('overview'),
  services: query('services', { sort: '-rate' }),
  methods: query('service', cart),
  instances: query('service', { ...large, tab: 'instances' }),
  consumers: query('service', { ...cart, tab: 'consumers' }),
  servicePolicies: query('service', { ...cart, tab: 'policies' }),
  schema: query('service', { ...cart, tab: 'schema' }),
  instance: query('instance', { ...cart, instance: 'cart-5af-2' }),
  connections: query('instance', { ...cart, instance: 'cart-5af-2', tab: 'connections' }),
  limits: query('instance', { ...cart, instance: 'cart-5af-2', tab: 'limits' }),
  clients: query('instance', { ...cart, instance: 'cart-5af-2', tab: 'clients' }),
  settings: query('instance', { ...cart, instance: 'cart-5af-2', tab: 'settings' }),
  profiles: query('instance', { ...cart, instance: 'cart-5af-2', tab: 'profiles' }),
  policies: query('policies', { list: cart.list }),
  topology: query('topology', { center: 'Order', hops: '1' }),
  traces: query('traces', { list: cart.list }),
  access: query('access'),
  policyForm: query('policies', { list: cart.list, as: 'form' }),
  calls: query('calls', { list: cart.list }),
  resilience: query('resilience'),
  resilienceBreakers: query('resilience', { list: trouble }),
  resilienceBoard: query('resilience', { list: trouble, tab: 'board' }),
  resilienceClients: query('resilience', { list: trouble, tab: 'clients' }),
  resilienceLimiters: query('resilience', { list: trouble, tab: 'limiters' }),
  registry: query('registry'),
  registryEntries: query('registry', { list: cart.list, entry: 'cart-5af-2' }),
  registryReaders: query('registry', { list: cart.list, tab: 'readers' }),
  registryDocuments: query('registry', { list: cart.list, tab: 'documents' }),
  audit: query('audit'),
  auditChange: query('audit', { row: 'row0' }),
  playground: query('playground', { list: cart.list, method: 'Cart.Add' }),
  playStream: query('playground', { list: 'etcd://10.0.0.5:2379/search/Cart', method: 'Cart.Watch' }),
}

const lab = await start()
for (const look of [{ theme: 'light', language: 'en' }, { theme: 'dark', language: 'zh' }] as const) {
  const { page, context, complaints } = await open(lab, look)
  for (const [name, address] of Object.entries(screens)) {
    if (!name.includes(wanted)) continue
    await page.goto(lab.base + address)
    await page.waitForSelector('.main h1')
    await page.waitForTimeout(1200)
    await page.screenshot({ path: `${out}${name}-${look.theme}-${look.language}.png` })
  }
  if ('dialog'.includes(wanted)) {
    await page.goto(lab.base + screens['instances'])
    await page.locator('.table-body input').nth(2).check()
    await page.locator('.table-body input').nth(4).check()
    await page.locator('.bar .button').nth(1).click()
    await page.waitForSelector('.effect-rows')
    await page.screenshot({ path: `${out}dialog-${look.theme}-${look.language}.png` })
  }
  if ('force'.includes(wanted)) {
    await page.goto(lab.base + screens['resilienceBreakers'])
    await page.locator('.table-body input').nth(0).check()
    await page.locator('.table-body input').nth(9).check()
    await page.locator('.bar .button').first().click()
    await page.waitForSelector('.effect-rows')
    await page.screenshot({ path: `${out}force-${look.theme}-${look.language}.png` })
  }
  if ('tags'.includes(wanted)) {
    await page.goto(lab.base + screens['registryEntries'])
    await page.locator('.panel-head .button').click()
    await page.locator('.tag-row input').nth(1).fill('node-9')
    await page.waitForSelector('.effect code')
    await page.screenshot({ path: `${out}tags-${look.theme}-${look.language}.png` })
  }
  if ('trace'.includes(wanted)) {
    for (const as of ['waterfall', 'table']) {
      await page.goto(lab.base + query('traces', { list: cart.list }))
      await page.locator('.table-body a').nth(2).click()
      await page.locator('.tab').nth(as === 'table' ? 1 : 0).click()
      await page.waitForTimeout(500)
      await page.screenshot({ path: `${out}trace-${as}-${look.theme}-${look.language}.png` })
    }
  }
  if ('level'.includes(wanted)) {
    await page.goto(lab.base + screens['instance'])
    await page.locator('.facts .plain').click()
    await page.locator('.dialog select').selectOption('DEBUG')
    await page.screenshot({ path: `${out}level-${look.theme}-${look.language}.png` })
  }
  for (const c of complaints) console.error(look.theme, c)
  await context.close()
}
await lab.stop()
