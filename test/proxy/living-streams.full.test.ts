import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { rawClient } from '../helpers/raw-client.js'
import { type Engine, engines, startSluice } from '../helpers/sluice.js'

/** Silence after which an upload is late, and one that is more than twice as long. Milliseconds. */
const LATE = 300
const LONG = 900
const LARGE = 12_000_000

interface Client {
  /** Sends the head of a request and a part of its body; answers what the client has, however that ends. */
  begin(path: string, contentType?: string): Upload
}

interface Upload {
  send(text: string): void
  end(): void
  /** The client reads nothing for so long. */
  pause(milliseconds: number): Promise<void>
  /** Status and number of bytes of the body; 0 where the answer breaks. */
  readonly answer: Promise<readonly [number, number]>
}

/** What the upstream does at each path. */
const UPSTREAM: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => Promise<void>>> = {
  /** Answers at once and speaks for long, whether the client does or not. */
  async '/speaks'(request, response) {
    request.resume()
    response.flushHeaders()
    for (let i = 0; i < 9; i++) {
      response.write('x')
      await wait(LONG / 9)
    }
    response.end('x')
  },
  /** Answers at once and ends after the request. */
  async '/echo-later'(request, response) {
    response.flushHeaders()
    request.resume()
    await once(request, 'end')
    response.end('x'.repeat(10))
  },
  /** Answers when the request has ended. */
  async '/upload'(request, response) {
    request.resume()
    await once(request, 'end')
    response.end('x'.repeat(10))
  },
  async '/download'(_request, response) {
    response.end(Buffer.alloc(LARGE))
  }
}

async function stand(t: Test, engine: Engine) {
  const upstream = createServer((request, response) => {
    request.on('error', () => undefined)
    UPSTREAM[request.url ?? '']?.(request, response).catch(() => undefined)
  }).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => {
    upstream.closeAllConnections()
    upstream.close()
  })
  const { port } = upstream.address() as { port: number }
  const options = { TIMEOUTS_REQUEST_BODY: `${LATE}ms` }
  const sluice = await startSluice(t, { engine, upstream: { port }, options })
  const session = connect(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => session.destroy())
  const clients: readonly (readonly [string, Client])[] = [
    ['HTTP/1.1', await http1(sluice.port)],
    ['HTTP/2', http2(session)]
  ]
  return clients
}

async function http1(port: number): Promise<Client> {
  const free = await Promise.all(Array.from({ length: 6 }, () => rawClient(port)))
  return {
    begin(path, contentType = 'text/plain') {
      const client = free.pop() as Awaited<ReturnType<typeof rawClient>>
      client.send(
        `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: ${contentType}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`
      )
      return {
        send: (text) => client.send(`${text.length.toString(16)}\r\n${text}\r\n`),
        end: () => client.send('0\r\n\r\n'),
        async pause(milliseconds) {
          client.socket.pause()
          await wait(milliseconds)
          client.socket.resume()
        },
        answer: client.answer('POST').then(
          ({ status, body }) => [status, body.length] as const,
          () => [0, 0] as const
        )
      }
    }
  }
}

function http2(session: ClientHttp2Session): Client {
  return {
    begin(path, contentType = 'text/plain') {
      const stream = session.request(
        { ':method': 'POST', ':path': path, 'content-type': contentType },
        { endStream: false }
      )
      stream.write('x')
      let status = 0
      let bytes = 0
      stream.on('response', (fields) => {
        status = fields[':status'] ?? 0
      })
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      stream.on('error', () => undefined)
      return {
        send: (text) => stream.write(text),
        end: () => stream.end(),
        async pause(milliseconds) {
          stream.pause()
          await wait(milliseconds)
          stream.resume()
        },
        answer: once(stream, 'close').then(() => {
          const broken = stream.rstCode !== 0 && status !== 408
          return broken ? ([0, 0] as const) : ([status, bytes] as const)
        })
      }
    }
  }
}

for (const engine of engines)
  t.test(`${engine}: an exchange is late only while nothing moves in either direction`, async (t) => {
    for (const [name, client] of await stand(t, engine)) {
      await t.test(name, async (t) => {
        const speaks = client.begin('/speaks')
        const waits = client.begin('/echo-later')
        const grpc = client.begin('/upload', 'application/grpc')
        const silent = client.begin('/upload')
        const download = client.begin('/download')
        download.end()
        const trickling = client.begin('/upload')
        const paused = download.pause(LONG)
        for (let i = 0; i < 9; i++) {
          trickling.send('x')
          await wait(LONG / 9)
        }
        for (const upload of [waits, grpc, trickling]) upload.end()
        t.same((await silent.answer)[0], 408, 'an upload that stands still')
        t.same(await speaks.answer, [200, 10], 'the client is silent and the server speaks')
        t.same(await waits.answer, [200, 10], 'an answered stream that waits')
        t.same(await grpc.answer, [200, 10], 'gRPC that waits before it is answered')
        t.same(await trickling.answer, [200, 10])
        await paused
        t.same(await download.answer, [200, LARGE], 'a download that the client pauses')
      })
    }
  })
