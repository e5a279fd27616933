import { execFileSync } from 'node:child_process'
import { dirname } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { CallAnswer, Playground } from '../src/api/types.ts'
import { query } from './browser.ts'
import { startCluster, type Cluster } from './cluster.ts'
import { enter, launch, open } from './real.ts'

let cluster: Cluster
let browser: Browser
let context: BrowserContext
let base: string

beforeAll(async () => {
  cluster = await startCluster()
  browser = await launch()
  base = new URL(cluster.console).origin + '/'
  context = await enter(browser, cluster.console, ['clipboard-read', 'clipboard-write'])
})
afterAll(async () => {
  await browser?.close()
  await cluster?.stop()
})

async function openMethod(method: string, params: Readonly<Record<string, string>> = {}): Promise<{ page: Page; complaints: string[] }> {
  const { page, complaints } = await open(context, base + query('playground', { list: cluster.list, method, ...params }))
  await page.getByRole('region', { name: 'Answer' }).waitFor()
  return { page, complaints }
}

function post<T>(page: Page, name: string, body: unknown): Promise<{ status: number; value: T }> {
  return page.evaluate(async ([name, body]) => {
    const response = await fetch('/api/' + name, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
    return { status: response.status, value: await response.json() }
  }, [name, JSON.stringify(body)] as const) as Promise<{ status: number; value: T }>
}

// addresses returns where the servers listen, by instance.
async function addresses(page: Page): Promise<Record<string, string>> {
  const { value } = await post<Playground>(page, 'Playground', { list: cluster.list })
  return Object.fromEntries((value.instances ?? []).map((i) => [i.id, (i.targets?.['tandem'] ?? '').replace('tcp://', '')]))
}

// callsOf is how many calls of a method each server has answered.
async function callsOf(page: Page, method: string): Promise<Record<string, number>> {
  const out: Record<string, number> = {}
  for (const [id, address] of Object.entries(await addresses(page))) {
    const response = await fetch(`http://${address}/tandem.Admin/Methods`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })
    const { methods } = (await response.json()) as { methods: { method: string; calls: number }[] }
    out[id] = methods.find((m) => m.method === method)?.calls ?? 0
  }
  return out
}

const say = '{"Name":"Ann","Answer":"","Letter":""}'

it('a method is called at the instance that is chosen', async () => {
  const { page, complaints } = await openMethod('Hello.Say', { at: 'cart-2' })
  const before = await callsOf(page, 'Hello.Say')
  await page.locator('.play-form').getByLabel('Name', { exact: true }).fill('Ann')
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByLabel('Result').waitFor()
  expect(await page.getByLabel('Result').textContent()).toContain('"Answer": "Hello, Ann"')
  expect(await page.locator('.columns.play .facts').textContent()).toContain('cart-2')
  const after = await callsOf(page, 'Hello.Say')
  expect(Object.keys(after).map((id) => [id, (after[id] ?? 0) - (before[id] ?? 0)])).toEqual([['cart-1', 0], ['cart-2', 1], ['cart-3', 0]])
  await page.screenshot({ path: 'test-output/cluster-playground.png' })
  expect(complaints).toEqual([])
  await page.close()
})

it('every protocol gives the same answer', async () => {
  const { page } = await openMethod('Arith.Div')
  const { value } = await post<Playground>(page, 'Playground', { list: cluster.list })
  expect(value.protocols).toEqual(expect.arrayContaining(['tandem', 'grpc', 'connect', 'jsonrpc', 'rpcx']))
  for (const protocol of value.protocols ?? []) {
    const hello = await post<CallAnswer>(page, 'Call', { list: cluster.list, method: 'Hello.Say', arguments: say, protocol, instance: 'cart-3' })
    expect([protocol, hello.value.code.toLowerCase(), hello.value.result, hello.value.instance], hello.value.message).toEqual([protocol, 'ok', '{"Name":"Ann","Answer":"Hello, Ann","Letter":""}', 'cart-3'])
    if (protocol === 'rpcx') continue // it has one argument
    const div = await post<CallAnswer>(page, 'Call', { list: cluster.list, method: 'Arith.Div', arguments: '[17,5]', several: true, protocol })
    expect([protocol, div.value.result?.replace(/\s/g, '')], div.value.message).toEqual([protocol, '[3,2]'])
  }
  await page.close()
})

it('messages of a stream come and go while it is open', async () => {
  const { page, complaints } = await openMethod('Chat.Talk', { at: 'cart-1' })
  const before = await callsOf(page, 'Chat.Talk')
  await page.getByRole('tab', { name: 'JSON' }).first().click()
  await page.getByLabel('Arguments as JSON').fill('{"Text":"one"}')
  await page.getByRole('button', { name: 'Open stream' }).click()
  const conversation = page.getByRole('region', { name: 'Messages' })
  await conversation.locator('.received').first().waitFor()
  await conversation.getByLabel('Arguments as JSON').fill('{"Text":"two"}')
  await conversation.getByRole('button', { name: 'Send', exact: true }).click()
  await conversation.locator('.received').nth(1).waitFor()
  expect(await conversation.locator('.received').nth(1).textContent()).toContain('you said: two')
  await conversation.getByRole('button', { name: 'No more messages' }).click()
  await page.locator('.columns.play .facts').waitFor()
  expect(await page.locator('.columns.play .facts').textContent()).toMatch(/ok.*cart-1/i)
  const after = await callsOf(page, 'Chat.Talk')
  expect((after['cart-1'] ?? 0) - (before['cart-1'] ?? 0)).toBe(1)
  await page.screenshot({ path: 'test-output/cluster-playground-stream.png' })
  expect(complaints).toEqual([])
  await page.close()
})

it('the copies for a shell work', async () => {
  const { page } = await openMethod('Hello.Say', { args: '{"Name":"it\'s \\"$HOME\\" 漢"}' })
  await page.getByRole('button', { name: '+ Metadata' }).click()
  await page.getByLabel('Key of metadata 1').fill('region')
  await page.getByLabel('Value of metadata 1').fill("hz'a")
  const env = { ...process.env, PATH: `${dirname(process.env['TANDEM'] ?? '/usr/bin/tandem')}:${process.env['PATH']}`, no_proxy: '*' }
  for (const name of ['tandem call', 'curl']) {
    await page.getByRole('button', { name, exact: true }).click()
    await page.getByText('Copied').waitFor()
    const text = await page.evaluate(() => navigator.clipboard.readText())
    expect(text.startsWith(name)).toBe(true)
    const out = JSON.parse(execFileSync('sh', ['-c', text], { env, encoding: 'utf8' })) as { Answer: string }
    expect(out.Answer, text).toBe('Hello, it\'s "$HOME" 漢')
    await page.getByRole('button', { name: 'Dismiss' }).click()
  }
  await page.close()
})

it('who may only look can call nothing', async () => {
  const { page: ours } = await openMethod('Hello.Say')
  const before = await callsOf(ours, 'Hello.Say')
  const reader = await enter(browser, cluster.readOnly)
  const page = await reader.newPage()
  await page.goto(new URL(cluster.readOnly).origin + '/' + query('playground', { list: cluster.list, method: 'Hello.Say' }))
  await page.getByText(/^This console is read-only/).waitFor()
  expect(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled()).toBe(true)
  for (const name of ['Call', 'Stream', 'Send']) {
    expect((await post(page, name, { list: cluster.list, method: 'Hello.Say', arguments: say })).status, name).toBe(403)
  }
  // What is not listed, and the servers' admin API, is not called for anybody.
  expect((await post(ours, 'Call', { list: 'tcp://169.254.169.254:80', method: 'A.B' })).status).toBe(404)
  expect((await post(ours, 'Call', { list: cluster.list, method: 'tandem.Admin.Info' })).status).toBe(403)
  expect(await callsOf(ours, 'Hello.Say')).toEqual(before)
  await reader.close()
  await ours.close()
})
