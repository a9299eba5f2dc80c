import { constants, createGzip } from 'node:zlib'
import t from 'tap'
import { rawClient, valuesOf } from '../../helpers/raw-client.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { RawUpstream } from '../../helpers/upstream.js'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n'
const POLICY = JSON.stringify({
  on_event_stream_message: [
    { actions: [{ type: 'sse-find-replace', config: { replacements: [{ from: 'secret', to: '-' }] } }] }
  ]
})

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

for (const engine of engines) {
  t.test(`event streams through ${engine}`, async (t) => {
    t.test('messages are replaced in while they come, and the end is the end', async (t) => {
      const upstream = await RawUpstream.start(t)
      const sluice = await startSluice(t, { engine, upstream, policy: POLICY })
      const client = await rawClient(sluice.port)
      t.teardown(() => client.socket.destroy())
      client.send('GET /events HTTP/1.1\r\nhost: a\r\n\r\n')
      const peer = await upstream.next()
      await peer.request()
      peer.send(`${HEAD}transfer-encoding: chunked\r\n\r\n${chunk('id: 1\ndata: a sec')}`)
      peer.send(chunk('ret\n\nda'))
      await client.until('data: a -\n\n')
      t.notMatch(client.text, /secret|\nda\r/)
      peer.send(chunk('ta: b\n\n'))
      await client.until('data: b\n\n')
      peer.send('0\r\n\r\n')
      const answer = await client.answer()
      t.equal(answer.body, 'id: 1\ndata: a -\n\ndata: b\n\n')
      client.send('GET /next HTTP/1.1\r\nhost: a\r\n\r\n')
      await peer.request()
      peer.send('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret')
      t.equal((await client.answer()).body, 'secret', 'other answers are left alone')
    })

    t.test('a stream that breaks, or that nobody reads, ends on both sides', async (t) => {
      const upstream = await RawUpstream.start(t)
      const sluice = await startSluice(t, { engine, upstream, policy: POLICY })
      const broken = await rawClient(sluice.port)
      broken.send('GET /broken HTTP/1.1\r\nhost: a\r\n\r\n')
      const first = await upstream.next()
      await first.request()
      first.send(`${HEAD}transfer-encoding: chunked\r\n\r\n${chunk('data: a\n\n')}`)
      await broken.until('data: a\n\n')
      first.reset()
      await broken.untilEnd()
      t.notMatch(broken.text, /\r\n0\r\n\r\n$/, 'no clean end')
      broken.socket.destroy()
      const left = await rawClient(sluice.port)
      left.send('GET /left HTTP/1.1\r\nhost: a\r\n\r\n')
      const second = await upstream.next()
      await second.request()
      second.send(`${HEAD}transfer-encoding: chunked\r\n\r\n${chunk('data: a\n\n')}`)
      await left.until('data: a\n\n')
      left.reset()
      await second.untilEnd()
    })

    t.test('a stream in a coding is undone, and one message cannot grow without end', async (t) => {
      const upstream = await RawUpstream.start(t)
      const sluice = await startSluice(t, {
        engine,
        upstream,
        policy: POLICY,
        options: { LIMITS_BUFFERED_BODY: '16KiB' }
      })
      const client = await rawClient(sluice.port)
      client.send('GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n')
      const peer = await upstream.next()
      await peer.request()
      const zip = createGzip({ flush: constants.Z_SYNC_FLUSH })
      peer.send(`${HEAD}content-encoding: gzip\r\nconnection: close\r\n\r\n`)
      zip.on('data', (bytes: Buffer) => peer.send(bytes))
      zip.write('data: secret\n\n')
      await client.until('data: -\n\n')
      t.notMatch(client.text, /content-encoding/i)
      zip.write(`data: ${'x'.repeat(20_000)}`)
      await client.untilEnd()
      t.notMatch(client.text, /xxx|\r\n0\r\n\r\n$/)
      client.socket.destroy()
      const strange = await rawClient(sluice.port)
      strange.send('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
      const other = await upstream.next()
      await other.request()
      other.send(`${HEAD}content-encoding: zstd\r\ncontent-length: 1\r\n\r\nx`)
      const answer = await strange.answer()
      t.equal(answer.status, 502)
      t.same(valuesOf(answer, 'sluice-error-code'), ['RESPONSE_ENCODING'])
      strange.socket.destroy()
    })
  })
}
