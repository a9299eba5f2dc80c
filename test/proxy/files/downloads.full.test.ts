import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { appendFile, truncate, writeFile } from 'node:fs/promises'
import { connect as connectH2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { rawClient } from '../../helpers/raw-client.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { freePort } from '../free-port.js'
import { folderOf } from './folder.js'

const MIB = 1024 * 1024
/** The buffers of the system for a connection hold megabytes, so there are no thousand here; `open-files.test.ts` shows how much each of them reads. */
const DOWNLOADS = 200

/** Descriptors of this process that lead into the folder. */
function openIn(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const place = readlinkSync(`/proc/self/fd/${fd}`)
      return place.startsWith(`${folder}/`) ? [place] : []
    } catch {
      return []
    }
  })
}

/** Resolves when the stream has closed, with an error or without. */
const closed = (stream: Duplex) => new Promise<void>((resolve) => stream.once('close', resolve))

/** A client that reads the head of an answer, and then no more. */
async function slowClient(port: number, path: string, secure = false): Promise<Socket> {
  const socket = secure
    ? connectTls({ host: '127.0.0.1', port, servername: 'a.test', rejectUnauthorized: false })
    : connect({ host: '127.0.0.1', port })
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`)
  const readable = new Promise<void>((resolve, reject) => {
    socket.once('readable', resolve)
    socket.once('close', () => reject(new Error('the connection was refused')))
  })
  await readable
  socket.read(1)
  return socket
}

for (const engine of engines) {
  const serve = async (t: Test, files: Readonly<Record<string, Uint8Array>>, options = {}) => {
    const folder = await folderOf(t, files)
    const sluice = await startSluice(t, { engine, options: { FILES: folder, ...options } })
    return { folder, sluice }
  }

  t.test(
    `${engine}: slow downloads of one file hold one descriptor and bounded memory`,
    { skip: process.platform !== 'linux' },
    async (t) => {
      const { folder, sluice } = await serve(
        t,
        { 'big.bin': Buffer.alloc(16 * MIB, 7) },
        { LIMITS_CONNECTIONS_PER_ADDRESS: '0' }
      )
      const first = await slowClient(sluice.port, '/big.bin')
      global.gc?.()
      const before = process.memoryUsage().rss
      const clients = [first]
      for (let i = 1; i < DOWNLOADS; i += 50)
        clients.push(
          ...(await Promise.all(
            Array.from({ length: Math.min(50, DOWNLOADS - i) }, () => slowClient(sluice.port, '/big.bin'))
          ))
        )
      t.equal(clients.length, DOWNLOADS)
      t.equal(openIn(folder).length, 1, 'everyone shares the descriptor')
      // What the process holds for a download: a slab that was read ahead and those that its socket takes. Buffers of the system are not in it, and half of this is that of
      // the clients, which are in this process.
      const grown = (process.memoryUsage().rss - before) / MIB
      t.ok(grown < 120, `${grown.toFixed(0)} MiB for ${DOWNLOADS} downloads, both ends`)
      for (const client of clients) client.destroy()
      await until(() => openIn(folder).length === 0)
      t.same(openIn(folder), [], 'nothing stays open')
    }
  )

  t.test(
    `${engine}: different files cost a descriptor each, which is closed with its download`,
    { skip: process.platform !== 'linux' },
    async (t) => {
      const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}.bin`, Buffer.alloc(8 * MIB, i)]))
      const { folder, sluice } = await serve(t, files)
      const clients = await Promise.all(Object.keys(files).map((name) => slowClient(sluice.port, `/${name}`)))
      t.equal(openIn(folder).length, 20)
      for (const client of clients) client.destroy()
      await until(() => openIn(folder).length === 0)
      const client = await rawClient(sluice.port)
      client.send('HEAD /1.bin HTTP/1.1\r\nHost: a.test\r\n\r\n')
      t.equal((await client.answer('HEAD')).status, 200)
      client.send('GET /2.bin HTTP/1.1\r\nHost: a.test\r\nRange: bytes=0-99\r\n\r\n')
      t.equal((await client.answer()).body.length, 100)
      client.socket.destroy()
      await until(() => openIn(folder).length === 0)
      t.same(openIn(folder), [], 'neither HEAD nor an answer that has ended keeps one')
    }
  )

  for (const [change, apply] of [
    ['other content in place', (path: string) => writeFile(path, Buffer.alloc(16 * MIB, 2))],
    ['a longer file', (path: string) => appendFile(path, 'more')],
    ['a shorter file', (path: string) => truncate(path, 12 * MIB)]
  ] as const) {
    t.test(`${engine}: ${change} breaks the message that is under way`, async (t) => {
      const { folder, sluice } = await serve(t, { 'big.bin': Buffer.alloc(16 * MIB, 1) })
      const socket = await slowClient(sluice.port, '/big.bin')
      await apply(join(folder, 'big.bin'))
      let got = 0
      socket.on('data', (chunk: Buffer) => {
        got += chunk.length
      })
      await closed(socket)
      t.ok(got < 16 * MIB, `the connection ended after ${got} bytes`)
      const client = await rawClient(sluice.port)
      client.send('GET /big.bin HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
      t.equal((await client.answer()).status, 200, 'the next one gets the new file')
    })
  }

  t.test(`${engine}: other content breaks the message over TLS, too`, async (t) => {
    const port = await freePort()
    const { folder } = await serve(
      t,
      { 'big.bin': Buffer.alloc(16 * MIB, 1) },
      { LISTENERS: `https://127.0.0.1:${port}` }
    )
    const socket = await slowClient(port, '/big.bin', true)
    await writeFile(join(folder, 'big.bin'), Buffer.alloc(16 * MIB, 2))
    let got = 0
    socket.on('data', (chunk: Buffer) => {
      got += chunk.length
    })
    await closed(socket)
    t.ok(got < 16 * MIB, `the connection ended after ${got} bytes`)
  })
}

// The other engine takes HTTP/2 over TLS alone.
const skip = process.env.TEST_ENGINE === 'http-proxy' && 'needs HTTP/2 in clear text'
t.test('over HTTP/2 the stream alone breaks', { skip }, async (t) => {
  const folder = await folderOf(t, { 'big.bin': Buffer.alloc(16 * MIB, 1), 'a.txt': 'a' })
  const sluice = await startSluice(t, { options: { FILES: folder } })
  const session = connectH2(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':authority': 'a.test', ':path': '/big.bin' })
  stream.on('error', () => undefined)
  await once(stream, 'response')
  // The stream may break before the file is written.
  const over = closed(stream)
  await writeFile(join(folder, 'big.bin'), Buffer.alloc(16 * MIB, 2))
  stream.resume()
  await over
  t.not(stream.rstCode, 0)
  const other = session.request({ ':authority': 'a.test', ':path': '/a.txt' })
  const [head] = (await once(other, 'response')) as [Record<string, unknown>]
  t.equal(head[':status'], 200)
})
