import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { Agent, createServer, request as httpRequest } from 'node:http'
import { type AddressInfo, createConnection, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import type { Test } from 'tap'
import { takeOverPlace } from '../../../src/capabilities/take-over/protocol.js'
import { selfSigned } from '../../../src/lib/self-signed.js'
import { asker } from '../../api/asking.js'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { freePort } from '../../proxy/free-port.js'

export const KEY = 'a-key-of-the-administrator'

export const POLICY = `on_http_request:
  - expressions: ["req.url.path == '/limited'"]
    actions:
      - type: rate-limit
        config: { name: few, algorithm: sliding_window, capacity: 5, rate: 60s, bucket_key: ["conn.client_ip"] }
`

/** An upstream that answers, and echoes what comes after an upgrade. */
async function upstreamOf(t: Test): Promise<string> {
  const server = createServer((request, response) => request.resume().on('end', () => response.end('ok')))
  server.on('upgrade', (request, socket) => {
    const accept = createHash('sha1')
      .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`
    )
    socket.on('error', () => undefined)
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Who loops over a place: what went wrong, and how often it went well. */
export class Looping {
  readonly wrong: string[] = []
  well = 0
  #going = true
  readonly #done: Promise<void>

  constructor(port: number, agent: Agent, path = '/') {
    this.#done = this.#loop(port, agent, path)
  }

  async end(): Promise<void> {
    this.#going = false
    await this.#done
  }

  async #loop(port: number, agent: Agent, path: string): Promise<void> {
    while (this.#going) {
      try {
        const status = await statusOf(port, path, agent)
        if (status === 200) this.well++
        else this.wrong.push(String(status))
      } catch (error) {
        this.wrong.push(String(error))
      }
    }
    agent.destroy()
  }
}

export function statusOf(port: number, path: string, agent = new Agent()): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port, path, agent }, (response) => {
      response
        .resume()
        .on('end', () => resolve(response.statusCode ?? 0))
        .on('error', reject)
    })
    request.setTimeout(15_000, () => request.destroy(new Error('no answer')))
    request.on('error', (error) => {
      // RFC 9112 9.3.1: a client sends a request again when a connection that it had kept was closed before any answer.
      if (request.reusedSocket && 'code' in error && error.code === 'ECONNRESET')
        statusOf(port, path).then(resolve, reject)
      else reject(error)
    })
    request.end()
  })
}

export class Stand {
  readonly ask: ReturnType<typeof asker>

  private constructor(
    readonly t: Test,
    readonly folder: string,
    readonly ports: { readonly traffic: number; readonly api: number; readonly tls: number },
    readonly env: Record<string, string>
  ) {
    this.ask = asker('127.0.0.1', ports.api)
  }

  static async open(t: Test, more: Record<string, string> = {}): Promise<Stand> {
    const folder = t.testdir({ 'policy.yaml': POLICY })
    const free = new Set<number>()
    while (free.size < 3) free.add(await freePort())
    const [traffic, api, tls] = [...free] as [number, number, number]
    const ports = { traffic, api, tls }
    const env = {
      SLUICE_API_KEY: KEY,
      SLUICE_UPSTREAM: await upstreamOf(t),
      SLUICE_LISTENERS: `https://127.0.0.1:${ports.tls}`,
      SLUICE_LISTEN: `127.0.0.1:${ports.traffic}`,
      SLUICE_API_LISTEN: `127.0.0.1:${ports.api}`,
      SLUICE_POLICY: join(folder, 'policy.yaml'),
      SLUICE_TIMEOUTS_DRAIN: '4s',
      SLUICE_LIMITER_BUDGET: '64MiB',
      SLUICE_ACCESS_LOG: 'off',
      ...more
    }
    return new Stand(t, folder, ports, env)
  }

  start(...words: string[]): SluiceProcess {
    return this.startWith({}, ...words)
  }

  /** `more`: further variables of its environment. */
  startWith(more: Record<string, string>, ...words: string[]): SluiceProcess {
    const env = { ...this.env, ...more }
    return new SluiceProcess(this.t as never, ['start', ...words], { cwd: this.folder, env })
  }

  /** A process that ends with the test. */
  kills(pid: number): void {
    // It is no child of the test, and has the output of one: it ends before that is waited for.
    this.t.teardown(() => {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    })
  }

  /** Asks for a take-over, and answers its process and the one that is to serve. */
  async takeOver(more: Record<string, string> = {}): Promise<{ asking: SluiceProcess; pid: number }> {
    const asking = this.startWith(more, '--take-over')
    const line = await asking.told('reads its options')
    const pid = Number(/process (\d+)/.exec(line)?.[1])
    this.kills(pid)
    return { asking, pid }
  }

  /** A certificate of its own for a.test: tickets count for one certificate, and the one for development is another in each process. */
  async certify(): Promise<void> {
    const { chain, privateKey } = await selfSigned('a.test', ['a.test'], Date.now())
    const made = await this.ask('/tls_certificates', {
      key: KEY,
      method: 'POST',
      body: { certificate_pem: chain, private_key_pem: privateKey }
    })
    const { id } = made.json
    const domain = { domain: 'a.test', certificate_id: id }
    const { status } = await this.ask('/reserved_domains', { key: KEY, method: 'POST', body: domain })
    this.t.equal(status, 201)
  }

  async apiAnswers(): Promise<boolean> {
    return await this.ask('/vaults', { key: KEY }).then(
      ({ status }) => status === 200,
      () => false
    )
  }

  limited(): Promise<number> {
    return statusOf(this.ports.traffic, '/limited')
  }

  looping(): Looping[] {
    const { traffic, api } = this.ports
    return [
      new Looping(traffic, new Agent({ keepAlive: false })),
      new Looping(traffic, new Agent({ keepAlive: true, maxSockets: 1 })),
      new Looping(api, new Agent({ keepAlive: false }), '/healthz'),
      new Looping(api, new Agent({ keepAlive: true, maxSockets: 1 }), '/healthz')
    ]
  }
}

export async function endWithout(t: Test, loops: readonly Looping[]): Promise<void> {
  await Promise.all(loops.map((loop) => loop.end()))
  for (const { wrong, well } of loops) {
    t.same(wrong.slice(0, 5), [], 'no request was refused or broken')
    t.ok(well > 20, `${well} requests`)
  }
}

/** The exit code. Its output stays open: the process that serves writes there. */
export async function exitOf({ child }: SluiceProcess): Promise<number | null> {
  if (child.exitCode === null) await once(child, 'exit')
  return child.exitCode
}

/** A connection to the process on a folder, as soon as it can be asked. */
export async function connected(folder: string): Promise<Socket> {
  let found: Socket | undefined
  await until(async () => {
    const { path, close } = takeOverPlace(folder)
    const socket = createConnection(path)
    found = await once(socket, 'connect').then(
      () => socket,
      () => undefined
    )
    close()
    return found !== undefined
  })
  return found as unknown as Socket
}

/** A WebSocket's way: what is sent comes back. */
export async function upgraded(port: number) {
  const socket = createConnection(port, '127.0.0.1')
  socket.write(
    'GET /echo HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  )
  const [head] = (await once(socket, 'data')) as [Buffer]
  return {
    head: head.toString(),
    port: (socket.address() as AddressInfo).port,
    closed: once(socket, 'close'),
    async echo(text: string) {
      socket.write(text)
      const [back] = (await once(socket, 'data')) as [Buffer]
      return back.toString()
    }
  }
}

/** How many descriptors a process has of connections with this port at the other end. */
export async function connectionsOf(pid: number | undefined, port: number): Promise<number> {
  const table = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/))
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const inodes = table.filter(([, , remote = '']) => remote.endsWith(suffix)).map((fields) => `socket:[${fields[9]}]`)
  const links = (await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''))
  return (await Promise.all(links)).filter((link) => inodes.includes(link)).length
}

/** An exchange over TLS, with the ticket of an earlier one when there is one. */
export async function overTls(port: number, session?: Buffer) {
  const socket = connectTls({
    host: '127.0.0.1',
    port,
    servername: 'a.test',
    rejectUnauthorized: false,
    ...(session === undefined ? {} : { session })
  })
  const ticket = once(socket, 'session') as Promise<[Buffer]>
  await once(socket, 'secureConnect')
  socket.write('GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n')
  socket.resume()
  await once(socket, 'end')
  const resumed = socket.isSessionReused()
  socket.destroy()
  return { resumed, session: resumed ? undefined : (await ticket)[0] }
}
