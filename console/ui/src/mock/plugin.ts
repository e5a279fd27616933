import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Plugin } from 'vite'
import { reply } from './playground.ts'
import { Mock, MockError } from './server.ts'

// The policy that the console's server sends.
export const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const statuses: Readonly<Record<string, number>> = { 'not found': 404, 'permission denied': 403, 'invalid argument': 400, 'failed precondition': 409, aborted: 409, unimplemented: 404 }

async function read(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = ''
  for await (const part of request) text += String(part)
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
}

function send(response: ServerResponse, status: number, body: unknown) {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(body))
}

function stream(mock: Mock, body: Record<string, unknown>, response: ServerResponse) {
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
  const timer = setInterval(() => {
    for (const event of mock.tap(body, Date.now())) response.write(JSON.stringify(event) + '\n')
  }, 200)
  response.on('close', () => clearInterval(timer))
}

// streams are those of the playground that are open: what is sent is answered at once.
class Streams {
  private readonly open = new Map<string, { response: ServerResponse; sent: number; bytes: number; closed: boolean }>()

  start(mock: Mock, body: Record<string, unknown>, response: ServerResponse) {
    const id = 's' + (this.open.size + 1) + Date.now()
    mock.play(body as never, Date.now()) // or it is refused
    response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
    response.write(JSON.stringify({ id }) + '\n')
    const stream = { response, sent: 0, bytes: 0, closed: false }
    this.open.set(id, stream)
    response.on('close', () => this.open.delete(id))
    if (body['arguments']) this.send({ id, message: body['arguments'], last: body['last'] })
  }

  send(body: Record<string, unknown>): unknown {
    const stream = this.open.get(String(body['id']))
    if (!stream) throw new MockError('not found', 'the stream is over')
    const message = String(body['message'] ?? '')
    if (message !== '') {
      stream.sent++
      stream.bytes += message.length
      stream.response.write(JSON.stringify({ message: reply(message) }) + '\n')
    }
    stream.closed = body['last'] === true
    if (stream.closed) stream.response.end(JSON.stringify({ end: { code: 'ok', began: new Date().toISOString(), took: 2.1e9, instance: 'cart-5a1-1', sent: stream.bytes, received: stream.bytes + 9 * stream.sent } }) + '\n')
    return { messages: stream.sent, closed: stream.closed }
  }
}

// handler answers /api/NAME. A header chooses the role, for tests.
export function handler(mock: Mock) {
  const streams = new Streams()
  return (request: IncomingMessage, response: ServerResponse, next: () => void) => {
    const name = /\/api\/(\w+)$/.exec(request.url ?? '')?.[1]
    if (name === undefined) return next()
    if (request.method !== 'POST') return send(response, 405, { code: 'invalid argument', message: 'want POST' })
    void read(request).then((body) => {
      if (name === 'Tap') return stream(mock, body, response)
      mock.role = String(request.headers['x-mock-role'] ?? 'operator')
      if (name === 'Stream') return streams.start(mock, body, response)
      if (name === 'Send') return send(response, 200, streams.send(body))
      send(response, 200, mock.answer(name, body))
    }).catch((error: unknown) => {
      const code = error instanceof MockError ? error.code : 'internal'
      send(response, statuses[code] ?? 500, { code, message: error instanceof Error ? error.message : String(error) })
    })
  }
}

// mockServer answers the API in the development server and the preview.
export function mockServer(): Plugin {
  const mock = new Mock()
  return {
    name: 'mock-console',
    configureServer: (server) => void server.middlewares.use(handler(mock)),
    configurePreviewServer: (server) => void server.middlewares.use(handler(mock)),
  }
}
