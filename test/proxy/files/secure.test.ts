import { once } from 'node:events'
import { connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { secureClient } from '../../helpers/raw-client.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { freePort } from '../free-port.js'
import { folderOf, LAST_MODIFIED, place } from './folder.js'

/** Files over TLS, in HTTP/1.1 and HTTP/2. */

const BIG = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, index) => index % 251))

interface Received {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Buffer
}

/** Sends one request and returns its response. */
type Ask = (path: string, fields?: Readonly<Record<string, string>>, method?: string) => Promise<Received>

async function overHttp1(t: Test, port: number): Promise<Ask> {
  const client = await secureClient(port, 'a.test')
  t.teardown(() => client.socket.destroy())
  return async (path, fields = {}, method = 'GET') => {
    const lines = Object.entries({ host: 'a.test', ...fields }).map(([name, value]) => `${name}: ${value}\r\n`)
    client.send(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
    const { status, headers, body } = await client.answer(method)
    const named = headers.map(([name, value]) => [name.toLowerCase(), value] as const)
    return { status, headers: Object.fromEntries(named), body: Buffer.from(body, 'latin1') }
  }
}

function openHttp2(t: Test, port: number) {
  const session = connect(`https://127.0.0.1:${port}`, { servername: 'a.test', rejectUnauthorized: false })
  t.teardown(() => session.destroy())
  return session
}

async function overHttp2(t: Test, port: number): Promise<Ask> {
  const session = openHttp2(t, port)
  return async (path, fields = {}, method = 'GET') => {
    const head: OutgoingHttpHeaders = { ':authority': 'a.test', ':path': path, ':method': method, ...fields }
    const stream = session.request(head)
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    const ended = once(stream, 'end')
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status': number }]
    await ended
    return { status: headers[':status'], headers, body: Buffer.concat(chunks) }
  }
}

for (const engine of engines) {
  t.test(`${engine}: files over TLS`, async (t) => {
    const folder = await folderOf(t, { 'index.html': '<h1>Home</h1>', 'ten.txt': '0123456789', 'big.bin': BIG })
    const port = await freePort()
    await startSluice(t, { engine, options: { LISTENERS: `https://127.0.0.1:${port}`, FILES: folder } })

    for (const [version, over] of [
      ['HTTP/1.1', overHttp1],
      ['HTTP/2', overHttp2]
    ] as const) {
      await t.test(`${version}: whole files, ranges, conditions, HEAD and errors`, async (t) => {
        const ask = await over(t, port)
        for (const [path, content] of [
          ['/', Buffer.from('<h1>Home</h1>')],
          ['/big.bin', BIG]
        ] as const) {
          const whole = await ask(path)
          t.match(whole, {
            status: 200,
            headers: { 'content-length': String(content.length), 'last-modified': LAST_MODIFIED }
          })
          t.ok(whole.body.equals(content), path)
          const head = await ask(path, {}, 'HEAD')
          t.equal(head.body.length, 0)
          t.match(head, {
            status: 200,
            headers: { 'content-length': String(content.length), etag: whole.headers.etag }
          })
          const known = await ask(path, { 'if-none-match': String(whole.headers.etag) })
          t.match(known, { status: 304, headers: { etag: whole.headers.etag } })
          t.equal(known.body.length, 0)
          t.equal((await ask(path, { 'if-modified-since': LAST_MODIFIED })).status, 304)
          t.equal((await ask(path, { 'if-match': '"x"' })).status, 412)
        }
        const few = await ask('/ten.txt', { range: 'bytes=3-5' })
        t.match(few, { status: 206, headers: { 'content-range': 'bytes 3-5/10' } })
        t.equal(few.body.toString(), '345')
        const many = await ask('/big.bin', { range: 'bytes=100000-270000' })
        t.equal(many.status, 206)
        t.ok(many.body.equals(BIG.subarray(100_000, 270_001)))
        t.match(await ask('/ten.txt', { range: 'bytes=10-' }), {
          status: 416,
          headers: { 'content-range': 'bytes */10' }
        })
        t.equal((await ask('/none')).status, 404)
        t.match(await ask('/', {}, 'DELETE'), { status: 405, headers: { allow: 'GET, HEAD, OPTIONS' } })
      })
    }

    await t.test(`HTTP/2: a changed file breaks its stream alone`, async (t) => {
      const session = openHttp2(t, port)
      const stream = session.request({ ':authority': 'a.test', ':path': '/big.bin' })
      stream.on('error', () => undefined)
      await once(stream, 'response')
      // More than the window of the stream is left, which opens when the client reads.
      await place(join(folder, 'big.bin'), BIG.subarray(1))
      let got = 0
      stream.on('data', (chunk: Buffer) => {
        got += chunk.length
      })
      await new Promise<void>((resolve) => stream.once('close', resolve))
      t.not(stream.rstCode, 0)
      t.ok(got < BIG.length, `${got} bytes`)
      const other = session.request({ ':authority': 'a.test', ':path': '/ten.txt' })
      other.resume()
      t.match(await once(other, 'response'), [{ ':status': 200 }])
    })
  })
}
