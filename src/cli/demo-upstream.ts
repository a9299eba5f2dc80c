import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface DemoUpstream {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  close(): Promise<void>
}

const EVENT_EVERY = 1_000
const SLOW = 2_000

/** A small service on a free loopback port, so that a first start has something to forward to. */
export async function startDemoUpstream(): Promise<DemoUpstream> {
  const server = createServer(answer)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const path = (request.url ?? '/').split('?')[0]
  if (path === '/events') sendEvents(response)
  else if (path === '/slow') respondLater(request, response)
  else if (path === '/echo') echo(request, response)
  else greet(response)
}

function greet(response: ServerResponse): void {
  response.setHeader('content-type', 'text/plain; charset=utf-8')
  response.end('Hello from the demo upstream, through Sluice.\nTry also /echo, /events and /slow.\n')
}

/** What arrived here, so that one sees what the proxy changed. */
function echo(request: IncomingMessage, response: ServerResponse): void {
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  request.on('end', () => {
    response.setHeader('content-type', 'application/json')
    const { method, url, headers } = request
    response.end(`${JSON.stringify({ method, url, headers, body_bytes: bytes }, null, 2)}\n`)
  })
}

function sendEvents(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  let count = 0
  const send = () => {
    count += 1
    response.write(`id: ${count}\ndata: event ${count}\n\n`)
  }
  send()
  const timer = setInterval(send, EVENT_EVERY)
  response.once('close', () => clearInterval(timer))
}

function respondLater(request: IncomingMessage, response: ServerResponse): void {
  request.resume()
  const timer = setTimeout(() => response.end('Good things take time.\n'), SLOW)
  response.once('close', () => clearTimeout(timer))
}
