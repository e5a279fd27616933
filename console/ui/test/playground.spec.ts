import axe from 'axe-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import { cart, open, query, start, type Lab } from './browser.ts'

let lab: Lab
beforeAll(async () => { lab = await start() })
afterAll(async () => { await lab.stop() })

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }
    const { violations } = await axe.run()
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes[0]?.html}`)
  })
}

// The list has Get, List and Add; another has streams.
const list = cart.list
const large = 'etcd://10.0.0.5:2379/search/Cart'

it('a call is made from a form, and again from the history', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('service', cart))
  await page.getByRole('button', { name: 'Cart.Add' }).click()
  await page.getByRole('link', { name: 'Try it' }).click()
  const form = page.locator('.play-form')
  await form.waitFor()
  await form.getByLabel('id', { exact: true }).fill('18446744073709551615')
  await form.getByLabel('name', { exact: true }).fill('a "book"')
  await form.getByLabel('kind', { exact: true }).selectOption('TOY')
  await form.getByLabel('gift', { exact: true }).selectOption('true')
  await form.getByLabel('photo', { exact: true }).fill('YQ')
  await form.getByText('not base64').waitFor()
  await form.getByLabel('photo', { exact: true }).fill('YQ==')
  await form.getByLabel('New key of labels').fill('colour')
  await form.getByRole('group', { name: 'labels', exact: true }).getByRole('button', { name: '+ entry' }).click()
  await form.getByLabel('colour', { exact: true }).fill('red')
  await form.getByRole('group', { name: 'parts', exact: true }).getByRole('button', { name: '+ entry' }).click()
  await form.getByRole('button', { name: 'Leave out price' }).first().click()
  await page.getByRole('button', { name: '+ Metadata' }).click()
  await page.getByLabel('Key of metadata 1').fill('authorization')
  await page.getByLabel('Value of metadata 1').fill('Bearer hunter2')
  expect(await violations(page)).toEqual([])
  await page.getByRole('tab', { name: 'JSON' }).click()
  const json = await page.getByLabel('Arguments as JSON').inputValue()
  expect(json).toContain('"id": 18446744073709551615')
  expect(json.replace(/\s+/g, '')).toMatch(/"name":"a\\"book\\"","kind":"TOY","gift":true,"photo":"YQ==","labels":\{"colour":"red"\}/)
  // What is entered stays when another instance is chosen.
  await page.locator('.field', { hasText: 'Instance' }).locator('select').selectOption({ index: 2 })
  const [sent] = await Promise.all([page.waitForRequest((r) => r.url().endsWith('/api/Call')), page.getByRole('button', { name: 'Call', exact: true }).click()])
  expect(sent.postDataJSON()).toMatchObject({ list, method: 'Cart.Add', arguments: json, several: false, instance: 'cart-5a8-1', metadata: [{ key: 'authorization', value: 'Bearer hunter2' }] })
  await page.getByLabel('Result').waitFor()
  expect(await page.getByLabel('Result').textContent()).toContain('18446744073709551615')
  expect(await page.locator('.columns.play .facts').textContent()).toMatch(/ok.*x-cache: miss/)
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain('hunter2')
  await page.waitForFunction(() => location.search.includes('18446744073709551615'))
  // Text that is not JSON is not sent by the form, and said to be none.
  await page.getByLabel('Arguments as JSON').fill('{')
  await page.getByText('Not JSON: line 1, column 2: the end').waitFor()
  await page.getByRole('tab', { name: 'Form' }).click()
  await page.getByText(/^The text in the tab JSON is not JSON/).waitFor()
  // The history brings the call back, in another window of the browser too.
  await page.goto(lab.base + query('playground'))
  await page.locator('.play-history button', { hasText: 'Cart.Add' }).click()
  await form.waitFor()
  expect(await form.getByLabel('id', { exact: true }).first().inputValue()).toBe('18446744073709551615')
  expect(await page.getByLabel('Key of metadata 1').count()).toBe(0)
  await page.getByRole('button', { name: 'Clear' }).click()
  expect(await page.locator('.play-history').count()).toBe(0)
  expect(complaints).toEqual([])
  await context.close()
})

it('errors, several arguments and methods without results are shown', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('playground', { list, method: 'Cart.Get', args: '{"id":404}' }))
  await page.getByLabel('id', { exact: true }).waitFor()
  await page.keyboard.press('Control+Enter') // the focus is not in the form
  await page.getByLabel('id', { exact: true }).press('Control+Enter')
  await page.getByText('no item 404').waitFor()
  expect(await page.locator('.columns.play .facts').textContent()).toMatch(/not found.*the server.*shop\.v1\.Missing/)
  expect(await violations(page)).toEqual([])
  await page.goto(lab.base + query('playground', { list, method: 'Cart.List' }))
  const second = page.getByLabel('argument 2', { exact: true })
  await second.fill('256')
  await page.getByText('out of range').waitFor()
  await second.fill('2x')
  await page.getByText('not a number of this type').waitFor()
  await second.fill('25')
  const [sent] = await Promise.all([page.waitForRequest((r) => r.url().endsWith('/api/Call')), page.getByRole('button', { name: 'Call', exact: true }).click()])
  expect(sent.postDataJSON()).toMatchObject({ several: true, arguments: '[\n  "",\n  25\n]' })
  await page.getByLabel('Result').waitFor()
  expect(await page.getByLabel('Result').textContent()).toContain('9007199254740993')
  expect(complaints).toEqual([])
  await context.close()
})

it('messages of a stream are sent one by one', async () => {
  const { page, context, complaints } = await open(lab)
  await page.goto(lab.base + query('playground', { list: large, method: 'Cart.Watch' }))
  await page.getByRole('button', { name: 'Open stream' }).click()
  const lines = page.locator('.play-lines li')
  await page.waitForFunction(() => document.querySelectorAll('.play-lines li').length === 2)
  const conversation = page.getByRole('region', { name: 'Messages' })
  await conversation.getByLabel('id', { exact: true }).fill('9007199254740993')
  await conversation.getByRole('button', { name: 'Send', exact: true }).click()
  await page.waitForFunction(() => document.querySelectorAll('.play-lines li').length === 4)
  expect(await lines.last().textContent()).toContain('{"seen":{"id":9007199254740993}}')
  expect(await violations(page)).toEqual([])
  await conversation.getByRole('button', { name: 'No more messages' }).click()
  await page.locator('.columns.play .facts').waitFor()
  expect(await page.getByText('4 messages').count()).toBe(1)
  // A stream that is cancelled says so.
  await page.getByRole('button', { name: 'Open stream' }).click()
  await conversation.getByRole('button', { name: 'Send', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText(/^Cancelled/).waitFor()
  expect(await conversation.getByRole('button', { name: 'Send', exact: true }).count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Open stream' }).isEnabled()).toBe(true)
  expect(complaints).toEqual([])
  await context.close()
})

it('a call is copied as a command, for curl and in Go', async () => {
  const { page, context } = await open(lab)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(lab.base + query('playground', { list, method: 'Cart.Get', args: '{"id":7}' }))
  for (const [name, want] of [['tandem call', /^tandem call -- etcd:\S+ Cart\.Get '\{"id":7\}'$/], ['curl', /^curl -sS .*\/Cart\/Get$/], ['Go', /^package main/]] as const) {
    await page.getByRole('button', { name, exact: true }).click()
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText()), { timeout: 10_000 }).toMatch(want)
  }
  await context.close()
})

it('viewers are told why they can\'t call', async () => {
  const { page, context } = await open(lab, { role: 'viewer' })
  await page.goto(lab.base + query('playground', { list, method: 'Cart.Get' }))
  await page.getByText('Calls need the role developer.').waitFor()
  expect(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled()).toBe(true)
  await context.close()
})
