import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { freePort } from '../proxy/free-port.js'
import { comes, Stage } from './fault.js'
import { KEY, Product } from './product.js'

/**
 * Clients of every kind at a low rate, for `SOAK_SECONDS` (60) with one thread and, on Node 24, with two; `SOAK_WORKERS` chooses one
 * of both (0 or 2). What the process holds is compared with what it held after a tenth of that time.
 */
const SECONDS = Number(process.env.SOAK_SECONDS ?? '60')
const ABLE = Number(process.versions.node.split('.')[0]) >= 24
const WORKERS = process.env.SOAK_WORKERS === undefined ? (ABLE ? [0, 2] : [0]) : [Number(process.env.SOAK_WORKERS)]
const HOST = 'soak.test'
const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`
const LARGE = Buffer.alloc(4 * 2 ** 20, 'l')
const PIECE = Buffer.alloc(256 * 1024, 'p')
/** Of RFC 6455 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const UPGRADE = `GET /pipe HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
const FOLLOWED = ['/exchanges/stream', '/traffic/stream']

/** A client that waits for longer is left alone. Milliseconds. */
const LONGEST = 10_000

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/** Collects in each thread when `file` is written. */
function collectingAt(file: string): string {
  const code = `import { statSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
let last = 0
setInterval(() => { let at = 0; try { at = statSync(${JSON.stringify(file)}).mtimeMs } catch {} if (at !== last) { last = at; gc() } }, 200).unref()`
  return `--import=data:text/javascript,${encodeURIComponent(code)}`
}

/** What a process holds. */
interface Held {
  readonly descriptors: number
  /** MiB, of all threads. */
  readonly heap: number
  /** MiB. */
  readonly resident: number
}

class Soak {
  readonly product: Product
  readonly visits: Record<string, number> = {}
  readonly #tlsPort: number
  readonly #site: string
  readonly #upstream: number
  readonly #collect: string
  readonly #ends = new Set<{ destroy(): unknown }>()
  #running = false
  #saved = 0

  constructor(product: Product, at: { tlsPort: number; site: string; upstream: number; collect: string }) {
    this.product = product
    this.#tlsPort = at.tlsPort
    this.#site = at.site
    this.#upstream = at.upstream
    this.#collect = at.collect
  }

  save(): void {
    const marker = ++this.#saved
    const answer = `{ on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${marker}" } }] }] }`
    const site = `{ routes: { /: up, /saved: { policy: ${answer} } } }`
    writeFileSync(
      this.#site,
      `sites: { ${HOST}: ${site} }\nbackends: { up: { servers: ["http://127.0.0.1:${this.#upstream}"] } }\n`
    )
  }

  /** Everything at once for so long. */
  async run(milliseconds: number): Promise<void> {
    this.#running = true
    const loads: Record<string, () => Promise<unknown>> = {
      'HTTP/1.1': () => this.#ask('/'),
      'HTTP/2': () => this.#http2(`http://127.0.0.1:${this.product.ports.traffic}`),
      'HTTP/2 over TLS': () => this.#http2(`https://127.0.0.1:${this.#tlsPort}`),
      TLS: async () =>
        this.#untilClosed(await this.#open(true, GET('/').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))),
      WebSockets: () => this.#pipe(false),
      'WebSockets over TLS': () => this.#pipe(true),
      'aborted uploads': () => this.#abort(),
      'slow readers': () => this.#readSlowly(),
      followers: () => this.#follow(),
      saves: async () => {
        this.save()
        await pause(900)
      }
    }
    const chained = Object.entries(loads).map(async ([name, load]) => {
      while (this.#running) {
        const done = await Promise.race([
          load().then(
            () => true,
            () => false
          ),
          pause(LONGEST).then(() => false)
        ])
        if (done) this.visits[name] = (this.visits[name] ?? 0) + 1
        await pause(100)
      }
    })
    await pause(milliseconds)
    this.#running = false
    for (const end of this.#ends) end.destroy()
    await Promise.all(chained)
    for (const end of this.#ends) end.destroy()
  }

  /** The last save is what clients get. */
  async served(): Promise<boolean> {
    return (await this.product.visit('/saved', { headers: { host: HOST } })).text === String(this.#saved)
  }

  async held(): Promise<Held> {
    const { pid } = this.product.child
    for (let collections = 0; collections < 3; collections++) {
      writeFileSync(this.#collect, String(collections))
      await pause(1000)
    }
    const heap = (await this.product.ask('/metrics')).text.matchAll(/^nodejs_heap_size_used_bytes(?:\{.*\})? (\S+)/gm)
    const resident = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return {
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      heap: Math.round([...heap].reduce((sum, [, bytes]) => sum + Number(bytes), 0) / 2 ** 20),
      resident: Math.round(Number(resident) / 1024)
    }
  }

  async #ask(path: string): Promise<void> {
    const { status } = await this.product.visit(path, { headers: { host: HOST } })
    if (status !== 200) throw new Error(String(status))
  }

  async #open(tls: boolean, text: string): Promise<Duplex> {
    const below = connect({
      port: tls ? this.#tlsPort : this.product.ports.traffic,
      host: '127.0.0.1',
      allowHalfOpen: true
    })
    const socket = tls ? connectTls({ socket: below, servername: HOST, rejectUnauthorized: false }) : below
    for (const end of [below, socket]) end.on('error', () => undefined)
    this.#ends.add(socket)
    socket.once('close', () => this.#ends.delete(socket))
    await once(socket, tls ? 'secureConnect' : 'connect')
    socket.write(text)
    return socket
  }

  async #untilClosed(end: Duplex): Promise<void> {
    end.on('end', () => end.end()).resume()
    if (!end.destroyed) await once(end, 'close')
  }

  async #http2(authority: string): Promise<void> {
    const session = connectHttp2(authority, { rejectUnauthorized: false, servername: HOST })
    session.on('error', () => undefined)
    this.#ends.add(session)
    session.once('close', () => this.#ends.delete(session))
    const streams = Array.from({ length: 10 }, (_, n) => {
      const stream = session.request({ ':path': n === 9 ? '/large' : '/', ':authority': HOST })
      stream.on('error', () => undefined)
      return stream
    })
    // The last one is reset in the middle of its answer.
    const last = streams.pop()
    await Promise.all(streams.map(async (stream) => await once(stream.resume(), 'close')))
    last?.close(8)
    if (Math.random() < 0.5) session.close()
    else session.destroy()
  }

  async #pipe(tls: boolean): Promise<void> {
    const pipe = await this.#open(tls, UPGRADE)
    await once(pipe, 'data')
    pipe.write('a word')
    await once(pipe, 'data')
    const way = Math.floor(Math.random() * 5)
    pipe.resume()
    if (way === 0) pipe.end()
    else if (way === 1) pipe.destroy()
    else if (way === 2) (pipe as Socket).resetAndDestroy?.()
    else if (way === 3) {
      pipe.end()
      await pause(20)
      pipe.destroy()
    }
    // Else it stays open and silent.
  }

  async #abort(): Promise<void> {
    const end = await this.#open(false, `POST /upload HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 10000000\r\n\r\n`)
    end.write(PIECE)
    await pause(50)
    if (Math.random() < 0.5) (end as Socket).resetAndDestroy()
    else end.destroy()
  }

  async #readSlowly(): Promise<void> {
    const end = await this.#open(false, GET('/large'))
    await once(end, 'readable')
    end.read(1000)
    setTimeout(() => end.destroy(), 5000)
  }

  /** Followers that never read; each is left after a while. */
  async #follow(): Promise<void> {
    const followers = FOLLOWED.map((path) => {
      const end = connect(this.product.ports.api, '127.0.0.1')
      end.on('error', () => undefined)
      this.#ends.add(end)
      end.once('close', () => this.#ends.delete(end))
      end.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${KEY}\r\nService-Version: 2\r\n\r\n`)
      return end.pause()
    })
    for (let waited = 0; waited < 8 && this.#running; waited++) await pause(1000)
    for (const end of followers) end.destroy()
  }
}

/** Answers, reads uploads, and echoes what comes on a WebSocket; half of these it never ends by itself. */
async function startUpstream(stage: Stage): Promise<{ port: number; closeIdle(): void }> {
  const server = createServer((request, response) => {
    request.on('error', () => undefined).resume()
    response.end(request.url === '/large' ? LARGE : 'ok')
  })
  const pipes = new Set<Duplex>()
  server.on('upgrade', (request, socket) => {
    pipes.add(socket)
    socket.on('error', () => undefined).on('close', () => pipes.delete(socket))
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${GUID}`).digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
    )
    socket.on('data', (chunk: Buffer) => socket.write(chunk))
    if (Math.random() < 0.5) socket.on('end', () => socket.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const closeIdle = (): void => {
    for (const pipe of pipes) pipe.destroy()
    server.closeAllConnections()
  }
  stage.teardown(() => {
    closeIdle()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, closeIdle }
}

for (const workers of WORKERS)
  t.test(`a soak of ${SECONDS} s${workers > 0 ? `, ${workers} threads` : ''}`, async (t) => {
    const stage = new Stage()
    t.teardown(() => stage.end())
    const folder = await stage.folder()
    const upstream = await startUpstream(stage)
    const [tlsPort, site, collect] = [await freePort(), join(folder, 'site.yaml'), join(folder, 'collect')]
    writeFileSync(site, 'sites: {}\n')
    const product = await Product.start(stage, {
      env: {
        SLUICE_WORKERS: String(workers),
        SLUICE_LISTENERS: `https://127.0.0.1:${tlsPort}`,
        SLUICE_SITE_FILE: site,
        SLUICE_TIMEOUTS_HALF_CLOSED: '2s',
        SLUICE_TIMEOUTS_IDLE: '20s',
        // As in the unit of systemd and the image.
        MALLOC_ARENA_MAX: '2',
        NODE_OPTIONS: `--max-semi-space-size=16 ${collectingAt(collect)}`
      }
    })
    const soak = new Soak(product, { tlsPort, site, upstream: upstream.port, collect })
    soak.save()
    const quiet = async (): Promise<boolean> =>
      await comes(60_000, async () => /^sluice_connections 0$/m.test((await product.ask('/metrics')).text))
    const begin = await soak.held()
    await soak.run(SECONDS * 100)
    upstream.closeIdle()
    t.ok(await quiet(), 'no connection is left')
    const before = await soak.held()
    await soak.run(SECONDS * 900)
    upstream.closeIdle()
    t.ok(await quiet(), 'no connection is left')
    t.ok(await comes(10_000, () => soak.served()), 'the last save is served')
    await pause(5000)
    const after = await soak.held()
    t.comment(JSON.stringify({ workers, begin, before, after, visits: soak.visits }))
    t.ok(after.descriptors <= before.descriptors + 2, `${after.descriptors} descriptors, ${before.descriptors} before`)
    t.ok(after.heap <= 1.25 * before.heap + 4, `heap: ${after.heap} MiB, ${before.heap} before`)
    t.ok(after.resident <= 1.5 * before.resident + 64, `resident: ${after.resident} MiB, ${before.resident} before`)
    for (const name of Object.keys(soak.visits)) t.ok((soak.visits[name] ?? 0) > 0, name)
  })
