import { once } from 'node:events'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { FLAG, FRAME } from '../../src/transport/http2/frames.js'
import { create, site } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { frame } from '../transport/raw-frames.js'

const HOST = 'app.example.com'
/** What some servers answer beyond the classes that are defined, and the ends of those. */
const STATUSES = [299, 451, 599, 600, 799, 999]

/** Answers requests over HTTP/2 by these statuses, which no library would send, one after the other. */
async function h2Upstream(t: Test, statuses: readonly number[]): Promise<number> {
  const open = new Set<Socket>()
  const left = [...statuses]
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.write(frame(FRAME.settings, 0, 0))
    let got = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      got = Buffer.concat([got, chunk])
      // HEADERS come behind the preface and SETTINGS.
      for (let at = 24; at + 9 <= got.length; at += 9 + got.readUIntBE(at, 3)) {
        if (got[at + 3] !== FRAME.headers) continue
        const block = Buffer.from([0, 7, ...Buffer.from(':status'), 3, ...Buffer.from(String(left.shift()))])
        socket.write(frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, got.readUInt32BE(at + 5), block))
        got = Buffer.concat([got.subarray(0, 24), got.subarray(at + 9 + got.readUIntBE(at, 3))])
        return
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

for (const back of ['HTTP/1.1', 'HTTP/2']) {
  t.test(`a status passes as it came from ${back}, to clients of both versions`, async (t) => {
    const asked = STATUSES.flatMap((status) => [status, status])
    const inTurn = [...asked]
    const answer = answering(() => `HTTP/1.1 ${inTurn.shift()} Own\r\nContent-Length: 0\r\n\r\n`)
    const port = back === 'HTTP/2' ? await h2Upstream(t, asked) : (await RawUpstream.start(t, answer)).port
    const sluice = await startSluice(t)
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, http2: back === 'HTTP/2' })
    await site(sluice, HOST, { backend: { backend_id: id } })
    const client = await rawClient(sluice.port)
    const session = connect(`http://127.0.0.1:${sluice.port}`)
    t.teardown(() => session.destroy())
    for (const status of STATUSES) {
      client.send(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
      t.equal((await client.answer()).status, status, 'over HTTP/1.1')
      const [head] = (await once(session.request({ ':authority': HOST }), 'response')) as [IncomingHttpHeaders]
      t.equal(head[':status'], status, 'over HTTP/2')
    }
    client.socket.destroy()
  })
}
