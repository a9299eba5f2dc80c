import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { formatAuthority } from '../lib/host.js'
import { type LoadInput, loadOptions } from '../options/load.js'
import { IN_MEMORY } from '../options/values.js'

/** Address for agents of the demo. */
export const DEMO_AGENTS = { host: '127.0.0.1', port: 4443 } as const

interface DemoInput {
  readonly input: LoadInput
  /** The port belongs to another process: the demo runs without agents. */
  readonly agentsTaken: boolean
}

/**
 * Adds a port for agents to the demo's options, unless the options set one, nothing is stored on disk (agents would have no
 * authority to trust), or the port is in use: two demos on one machine must both start.
 */
export async function withDemoAgents(input: LoadInput): Promise<DemoInput> {
  const without = { input, agentsTaken: false }
  const loaded = await loadOptions(input)
  if (!loaded.ok || loaded.options.agents !== undefined || loaded.options.data === IN_MEMORY) return without
  const flag = { flag: '--demo', option: 'agents', text: formatAuthority(DEMO_AGENTS.host, DEMO_AGENTS.port) }
  const further = { ...input, flags: [...input.flags, flag] }
  // Another option may have the port.
  if (!(await loadOptions(further)).ok) return without
  return (await isFree(DEMO_AGENTS)) ? { input: further, agentsTaken: false } : { input, agentsTaken: true }
}

async function isFree(at: { readonly host: string; readonly port: number }): Promise<boolean> {
  const server = createTcpServer()
  const bound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(at, () => resolve(true))
  })
  if (bound) await new Promise((resolve) => server.close(resolve))
  return bound
}

/** The port of the demo's upstream, which config/demo.yaml names. */
const DEMO_UPSTREAM = { host: '127.0.0.1', port: 8081 } as const

export interface DemoUpstream {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  /** Is it where config/demo.yaml says? Another process may have the port. */
  readonly usual: boolean
  close(): Promise<void>
}

const EVENT_EVERY = 1_000
const SLOW = 2_000

/** A small service on a loopback port, the usual one if that is free, so that a first start has something to forward to. */
export async function startDemoUpstream(): Promise<DemoUpstream> {
  const server = createServer(answer)
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, DEMO_UPSTREAM.host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  await listen(DEMO_UPSTREAM.port).catch(() => listen(0))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${DEMO_UPSTREAM.host}:${port}`,
    usual: port === DEMO_UPSTREAM.port,
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

/** Responds with the received request, to show the changes by the proxy. */
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
