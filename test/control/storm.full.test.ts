import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { type Asked, asker } from '../api/asking.js'
import { API_KEY, engines, type RunningSluice, startSluice } from '../helpers/sluice.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const WRITES = LONG ? 10_000 : 100
/** Milliseconds between the writes of the long form, which is about a rate; the short one hurries. */
const EVERY = LONG ? 5 : 0
/** Through these go requests, the open connections, and nothing that is written. */
const STEADY = 'steady.test'
const CHANGING = 'changing.test'
const CONNECTIONS = 4
const CHUNK = 1024

function answering(marker: string): string {
  const config = { status_code: 200, body: marker }
  return JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] })
}

/** An upstream with short answers, a download that lasts until `finish`, and an echoing WebSocket. */
async function startUpstream(t: Test) {
  const sockets = new WebSocketServer({ noServer: true })
  let finished = false
  let sent = 0
  const server = createServer((incoming, response) => {
    if (incoming.url !== '/slow') {
      response.end('steady')
      return
    }
    const timer = setInterval(() => {
      sent += CHUNK
      response.write(Buffer.alloc(CHUNK, 'd'))
      if (!finished) return
      clearInterval(timer)
      response.end()
    }, 10)
  })
  server.on('upgrade', (incoming, socket, head) => {
    sockets.handleUpgrade(incoming, socket as Socket, head, (echo) => {
      echo.on('message', (data) => echo.send(data))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    for (const client of sockets.clients) client.terminate()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    finish: () => {
      finished = true
    },
    get sent() {
      return sent
    }
  }
}

/** A client with one connection that it keeps; another one would mean that the first was dropped. */
class Keeping {
  readonly #port: number
  readonly #host: string
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #sockets = new Set<Socket>()

  constructor(port: number, host: string) {
    this.#port = port
    this.#host = host
  }

  get connections(): number {
    return this.#sockets.size
  }

  async get(path = '/'): Promise<{ status: number; text: string }> {
    const response = await this.#ask(path)
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk as Buffer)
    return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
  }

  /** As `get`, for a body that is only measured: what it leaves in memory would count as the product's. */
  async measure(path: string): Promise<{ status: number; bytes: number }> {
    const response = await this.#ask(path)
    let bytes = 0
    for await (const chunk of response) bytes += (chunk as Buffer).length
    return { status: response.statusCode ?? 0, bytes }
  }

  close(): void {
    this.#agent.destroy()
  }

  async #ask(path: string): Promise<IncomingMessage> {
    const sent = request({
      port: this.#port,
      host: '127.0.0.1',
      path,
      agent: this.#agent,
      headers: { host: this.#host }
    })
    sent.on('socket', (socket) => this.#sockets.add(socket))
    sent.end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return response
  }
}

/** Traffic that notes everything that is not as it should be, until it is stopped. */
class Traffic {
  readonly failures: string[] = []
  requests = 0
  echoes = 0
  downloaded = 0
  #running = true
  readonly #clients: readonly Keeping[]
  readonly #socket: WebSocket
  readonly #done: Promise<unknown>

  constructor(port: number) {
    this.#clients = Array.from({ length: CONNECTIONS }, () => new Keeping(port, STEADY))
    this.#socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host: STEADY } })
    const echoing = this.#echo().catch((error: unknown) => this.failures.push(`the WebSocket broke: ${error}`))
    this.#done = Promise.all([...this.#clients.map((client) => this.#visit(client)), echoing, this.#download(port)])
  }

  /** Resolves once all of them work, or one of them does not. */
  async works(): Promise<void> {
    while (this.failures.length === 0 && (this.requests < CONNECTIONS || this.echoes === 0)) await sleep(1)
  }

  /** Everything that is under way ends in peace, or is noted. */
  async stop(): Promise<void> {
    this.#running = false
    await this.#done
    for (const client of this.#clients) {
      if (client.connections !== 1) this.failures.push(`a client needed ${client.connections} connections`)
      client.close()
    }
  }

  async #visit(client: Keeping): Promise<void> {
    while (this.#running) {
      try {
        const { status, text } = await client.get()
        if (status !== 200 || text !== 'steady') this.failures.push(`${status} ${text}`)
      } catch (error) {
        this.failures.push(`a request failed: ${error}`)
      }
      this.requests++
      // The writers share this thread.
      await sleep(2)
    }
  }

  async #echo(): Promise<void> {
    const socket = this.#socket
    socket.on('error', (error) => this.failures.push(`the WebSocket failed: ${error}`))
    socket.on('close', () => {
      if (this.#running) this.failures.push('the WebSocket was closed')
    })
    await once(socket, 'open')
    while (this.#running && socket.readyState === WebSocket.OPEN) {
      const text = `message ${this.echoes}`
      const echoed = once(socket, 'message')
      socket.send(text)
      const [data] = (await echoed) as [Buffer]
      if (data.toString() !== text) this.failures.push(`${text} came back as ${data}`)
      this.echoes++
      await sleep(2)
    }
    socket.close()
  }

  async #download(port: number): Promise<void> {
    const client = new Keeping(port, STEADY)
    try {
      const { status, bytes } = await client.measure('/slow')
      if (status !== 200) this.failures.push(`the download was answered ${status}`)
      this.downloaded = bytes
    } catch (error) {
      this.failures.push(`the download broke: ${error}`)
    }
    client.close()
  }
}

type Api = (method: string, path: string, body?: unknown) => Promise<{ readonly id: string }>

function apiOf(sluice: RunningSluice): Api {
  const ask = asker('127.0.0.1', sluice.apiPort)
  return async (method, path, body) => {
    const asked: Asked = { key: API_KEY, method, body }
    const { status, text, json } = await ask(path, asked)
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
    return json
  }
}

/** Answers the path of the route whose policy the storm changes. */
async function configure(api: Api, upstream: number): Promise<{ steady: string; changing: string }> {
  const backend = await api('POST', '/backends/static', { address: `127.0.0.1:${upstream}` })
  const edge = async (host: string, route: object) => {
    const { id } = await api('POST', '/edges/https', { hostports: [`${host}:443`] })
    return `/edges/https/${id}/routes/${(await api('POST', `/edges/https/${id}/routes`, { match: '/', ...route })).id}`
  }
  return {
    steady: await edge(STEADY, { backend: { backend_id: backend.id } }),
    changing: await edge(CHANGING, { traffic_policy: { value: answering('first') } })
  }
}

/** One write of the storm; most change what `CHANGING` answers. */
async function write(api: Api, paths: { steady: string; changing: string }, n: number): Promise<void> {
  if (n % 10 === 3) {
    const { id } = await api('POST', '/backends/static', { address: `127.0.0.1:${1 + (n % 1000)}` })
    await api('DELETE', `/backends/static/${id}`)
  } else if (n % 10 === 6) {
    const { id } = await api('POST', '/edges/https', { hostports: [`other-${n}.test:443`] })
    await api('DELETE', `/edges/https/${id}`)
  } else if (n % 10 === 9) {
    // Also what the open connections came through is written to.
    const traffic_policy = n % 20 === 9 ? { value: '{"on_http_request":[]}' } : null
    await (traffic_policy === null
      ? api('DELETE', `${paths.steady}/traffic_policy`)
      : api('PUT', `${paths.steady}/traffic_policy`, traffic_policy))
  }
  await api('PATCH', paths.changing, { traffic_policy: { value: answering(`write ${n}`) } })
}

/** Bytes of the heap in use after a full collection. */
function heap(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}

for (const engine of engines) {
  t.test(`${WRITES} writes under traffic drop nothing, and each is live when it is answered: ${engine}`, async (t) => {
    const upstream = await startUpstream(t)
    const sluice = await startSluice(t, { engine, options: { ACCESS_LOG: 'off' } })
    const api = apiOf(sluice)
    const paths = await configure(api, upstream.port)
    const traffic = new Traffic(sluice.port)
    await traffic.works()
    const kept = new Keeping(sluice.port, CHANGING)
    const stale: string[] = []
    let before = 0
    for (let n = 0; n < WRITES; n++) {
      const due = EVERY === 0 ? undefined : sleep(EVERY)
      await write(api, paths, n)
      const fresh = new Keeping(sluice.port, CHANGING)
      for (const client of [kept, fresh]) {
        const { status, text } = await client.get()
        if (status !== 200 || text !== `write ${n}`) stale.push(`${status} ${text} after write ${n}`)
      }
      fresh.close()
      if (n === Math.floor(WRITES / 10)) before = heap()
      await due
    }
    const after = heap()
    upstream.finish()
    await traffic.stop()
    t.same(stale, [], 'the first request after an answer meets the new configuration, on every connection')
    t.equal(kept.connections, 1)
    kept.close()
    t.same(traffic.failures, [], `${traffic.requests} requests and ${traffic.echoes} echoes`)
    t.equal(traffic.downloaded, upstream.sent, 'the download is whole')
    t.ok(traffic.downloaded > CHUNK)
    if (LONG) t.ok(after < before * 1.05, `${before} bytes of heap before, ${after} after`)
  })
}
