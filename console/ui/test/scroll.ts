// Measures scrolling of 2,000 services: node scripts/run.mjs test/scroll.ts
import { open, query, start } from './browser.ts'

const lab = await start()
const { page, context } = await open(lab)
await page.goto(lab.base + query('services'))
await page.waitForSelector('.table-body .tr')
await page.waitForTimeout(1500)
const cdp = await context.newCDPSession(page)
await cdp.send('Performance.enable', { timeDomain: 'threadTicks' }) // CPU time: other programs don't count

async function metrics(): Promise<Record<string, number>> {
  const { metrics } = await cdp.send('Performance.getMetrics')
  return Object.fromEntries(metrics.map((m) => [m.name, m.value]))
}

// run scrolls by so many pixels in each of 240 frames, and says what a frame cost.
async function run(by: number) {
  const before = await metrics()
  const times = await page.evaluate(async (by) => {
    const box = document.querySelector('.table-box') as HTMLElement
    box.scrollTop = 0
    const times: number[] = []
    let last = await new Promise<number>((done) => requestAnimationFrame(done))
    for (let i = 0; i < 240; i++) {
      box.scrollTop += by
      const now = await new Promise<number>((done) => requestAnimationFrame(done))
      times.push(now - last)
      last = now
    }
    return times.sort((a, b) => a - b)
  }, by)
  const after = await metrics()
  const of = (name: string) => ((((after[name] ?? 0) - (before[name] ?? 0)) * 1000) / 240).toFixed(2)
  console.log(`${String(by).padStart(4)} px a frame: median ${times[120]?.toFixed(1)} ms, 95 % under ${times[228]?.toFixed(1)} ms, longest ${times[239]?.toFixed(1)} ms;`,
    `main thread, ms of CPU a frame: all ${of('TaskDuration')}, script ${of('ScriptDuration')}, style ${of('RecalcStyleDuration')}, layout ${of('LayoutDuration')}`)
}

for (const by of [0, 10, 60, 180]) await run(by)
await lab.stop()
