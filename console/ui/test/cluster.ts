import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Cluster is real: servers in etcd, calls to them, and two consoles.
export interface Cluster {
  list: string
  console: string // where an operator may write, with the token
  readOnly: string // another console, where nobody may
  calls: () => Promise<number[]> // that each server has answered
  files: string // with tills: a list in a registry of files
  said: () => Promise<number[]> // calls of the till that each server has answered
  stop: () => Promise<void>
}

export const binary = process.env['TANDEM'] ?? 'tandem'
const till = process.env['TILL'] ?? 'till'

function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => done(port))
    })
  })
}

// begin starts a process, and waits for a line of its output.
export function begin(command: string, args: string[], until: RegExp, started: ChildProcess[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  started.push(child)
  return new Promise((done, fail) => {
    let text = ''
    const timer = setTimeout(() => fail(new Error(`${command} ${args.join(' ')} says only: ${text}`)), 20_000)
    const take = (part: Buffer) => {
      text += part.toString()
      const found = until.exec(text)
      if (!found) return
      clearTimeout(timer)
      done(found[1] ?? '')
    }
    child.stdout?.on('data', take)
    child.stderr?.on('data', take)
    child.on('error', fail)
    child.on('exit', (code) => fail(new Error(`${command} ended with ${code}: ${text}`)))
  })
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const over = new Promise<void>((done) => child.once('exit', () => done()))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000)
  await over
  clearTimeout(timer)
}

async function callsOf(address: string, method: string): Promise<number> {
  const response = await fetch(`http://${address}/tandem.Admin/Methods`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })
  const { methods } = (await response.json()) as { methods: { method: string; calls: number }[] }
  return methods.find((m) => m.method === method)?.calls ?? 0
}

// startCluster starts servers and consoles; with tills also a process whose clients an operator may
// change, and a second registry, of files.
export async function startCluster(tills = false): Promise<Cluster> {
  const started: ChildProcess[] = []
  const data = mkdtempSync(join(tmpdir(), 'tandem-console-'))
  const stop = async () => {
    for (const child of started.reverse()) await end(child)
    rmSync(data, { recursive: true, force: true })
  }
  try {
    const [port, peer] = [await freePort(), await freePort()]
    const url = `http://127.0.0.1:${port}`
    await begin('etcd', [
      '--data-dir', data, '--listen-client-urls', url, '--advertise-client-urls', url,
      '--listen-peer-urls', `http://127.0.0.1:${peer}`, '--initial-advertise-peer-urls', `http://127.0.0.1:${peer}`, '--initial-cluster', `default=http://127.0.0.1:${peer}`,
    ], /ready to serve client requests/, started)
    const base = `etcd://127.0.0.1:${port}/shop`
    const list = base + '/Cart'
    const servers: string[] = []
    for (const i of [1, 2, 3]) {
      servers.push(await begin(binary, ['serve', '--listen', 'tcp://127.0.0.1:0', '--registry', list, '--id', `cart-${i}`, '--zone', `z${i}`], /serving tcp:\/\/(\S+):/, started))
    }
    await begin(binary, ['bench', list, 'Arith.Mul', '{"A":7,"B":8}', '--rate', '300', '--duration', '10m'], /300\/s/, started)
    const files = 'file://' + join(data, 'files')
    const bases = [base]
    if (tills) {
      bases.push(files)
      await begin(binary, ['serve', '--listen', 'tcp://127.0.0.1:0', '--registry', files + '/Books', '--id', 'book-1'], /serving tcp:\/\/(\S+):/, started)
      await begin(till, ['till-1', base + '/Till', list, files + '/Books'], /till runs: (\S+)/, started)
    }
    const [console, readOnly] = [
      await begin(binary, ['console', '--as', 'ann', ...bases], /(http:\S+)/, started),
      await begin(binary, ['console', ...bases], /(http:\S+)/, started),
    ]
    const of = (method: string) => () => Promise.all(servers.map((s) => callsOf(s.replace(/:$/, ''), method)))
    return { list, console, readOnly, files: files + '/Books', calls: of('Arith.Mul'), said: of('Hello.Say'), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

// share returns which share of the calls each server gets within some time.
export async function share(cluster: Cluster, ms: number): Promise<number[]> {
  const before = await cluster.calls()
  await new Promise((done) => setTimeout(done, ms))
  const made = (await cluster.calls()).map((n, i) => n - (before[i] ?? 0))
  const all = made.reduce((a, b) => a + b, 0)
  return made.map((n) => n / all)
}
