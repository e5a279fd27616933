// Measures the first view of 2,000 services and 20,000 instances, each time in a new window without a
// cache: node scripts/run.mjs test/firstview.ts
import { open, query, start } from './browser.ts'

const lab = await start()
for (const view of ['overview', 'services']) {
  const times: number[] = []
  let heap = 0
  for (let i = 0; i < 11; i++) {
    const { page, context } = await open(lab)
    const began = performance.now()
    await page.goto(lab.base + query(view), { waitUntil: 'commit' })
    await page.waitForSelector(view === 'overview' ? '.figures-row' : '.table-body .tr')
    times.push(performance.now() - began)
    const cdp = await context.newCDPSession(page)
    await cdp.send('HeapProfiler.collectGarbage')
    heap = (await page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize)) / 2 ** 20
    await context.close()
  }
  times.sort((a, b) => a - b)
  console.log(`${view}: first view after ${times[5]?.toFixed(0)} ms (median of 11; ${times[0]?.toFixed(0)} to ${times[10]?.toFixed(0)}), ${heap.toFixed(0)} MiB of heap`)
}
await lab.stop()
