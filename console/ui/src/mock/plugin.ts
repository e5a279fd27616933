import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Plugin } from 'vite'
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

// handler answers /api/NAME. A header chooses the role, for tests.
export function handler(mock: Mock) {
  return (request: IncomingMessage, response: ServerResponse, next: () => void) => {
    const name = /\/api\/(\w+)$/.exec(request.url ?? '')?.[1]
    if (name === undefined) return next()
    if (request.method !== 'POST') return send(response, 405, { code: 'invalid argument', message: 'want POST' })
    void read(request).then((body) => {
      if (name === 'Tap') return stream(mock, body, response)
      mock.role = String(request.headers['x-mock-role'] ?? 'operator')
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
