import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { rawClient, valuesOf } from '../helpers/raw-client.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { answering, type RawRequest, RawUpstream } from '../helpers/upstream.js'

const header = ({ headers }: RawRequest, name: string) =>
  headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)

const policy = (phase: string, type: string, replacements: object[]) =>
  JSON.stringify({ [phase]: [{ actions: [{ type, config: { replacements } }] }] })
const REQUEST = policy('on_http_request', 'request-body-find-replace', [{ from: 'secret', to: '[REDACTED]' }])
const RESPONSE = policy('on_http_response', 'response-body-find-replace', [{ from: 'secret', to: '-' }])
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const LIMITS = { LIMITS_BUFFERED_BODY: '16KiB', LIMITS_BUFFERED_BODIES: '1MiB' }

for (const engine of engines) {
  t.test(`bodies through ${engine}`, async (t) => {
    t.test('a request body reaches the upstream replaced, framed by its new length', async (t) => {
      const upstream = await RawUpstream.start(t, answering(OK))
      const sluice = await startSluice(t, { engine, upstream, policy: REQUEST })
      const client = await rawClient(sluice.port)
      t.teardown(() => client.socket.destroy())
      client.send('POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\na secret')
      t.equal((await client.answer()).status, 200)
      client.send('POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nsec\r\n')
      client.send('4\r\nret!\r\n0\r\nx-trailer: 1\r\n\r\n')
      t.equal((await client.answer()).status, 200)
      client.send('POST /c HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 6\r\n\r\n')
      t.equal((await client.answer()).status, 100)
      client.send('secret')
      t.equal((await client.answer()).status, 200)
      client.send('GET /d HTTP/1.1\r\nhost: a\r\n\r\n')
      t.equal((await client.answer()).status, 200)
      const requests = upstream.peers.flatMap((peer) => peer.requests)
      t.same(
        requests.map(({ line, body }) => `${line.split(' ')[1]} ${body}`),
        ['/a a [REDACTED]', '/b [REDACTED]!', '/c [REDACTED]', '/d ']
      )
      t.same(
        requests.map((request) => header(request, 'content-length')),
        [['12'], ['11'], ['10'], []]
      )
      t.same(
        requests.map((request) => header(request, 'transfer-encoding')),
        [[], [], [], []]
      )
    })

    t.test('a request body that is too large is refused, and the upstream hears nothing', async (t) => {
      const upstream = await RawUpstream.start(t, answering(OK))
      const sluice = await startSluice(t, { engine, upstream, policy: REQUEST, options: LIMITS })
      const announced = await rawClient(sluice.port)
      announced.send('POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 16385\r\n\r\n')
      const refused = await announced.answer()
      t.equal(refused.status, 413, 'and not 100')
      t.same(valuesOf(refused, 'sluice-error-code'), ['BODY_TOO_LARGE'])
      announced.socket.destroy()
      const chunked = await rawClient(sluice.port)
      chunked.send('POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
      chunked.send(`4000\r\n${'x'.repeat(16_384)}\r\n1\r\nx\r\n`)
      t.equal((await chunked.answer()).status, 413)
      chunked.socket.destroy()
      const fits = await rawClient(sluice.port)
      fits.send(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 16384\r\n\r\n${'x'.repeat(16_384)}`)
      t.equal((await fits.answer()).status, 200)
      fits.socket.destroy()
      t.equal(upstream.peers.length, 1)
    })

    t.test('a client that leaves or stalls in its body never reaches the upstream', async (t) => {
      const upstream = await RawUpstream.start(t, answering(OK))
      const options = { ...LIMITS, TIMEOUTS_REQUEST_BODY: '1s', ACCESS_LOG: 'on' }
      const sluice = await startSluice(t, { engine, upstream, policy: REQUEST, options })
      const leaving = await rawClient(sluice.port)
      leaving.send('POST /left HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf')
      leaving.reset()
      const stalling = await rawClient(sluice.port)
      stalling.send('POST /stalled HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf')
      await stalling.untilEnd()
      t.match(stalling.text, /^HTTP\/1\.1 408 /)
      t.equal(upstream.peers.length, 0)
      stalling.socket.destroy()
    })

    t.test('a response body reaches the client replaced, whatever its framing and coding', async (t) => {
      const zipped = gzipSync('a secret').toString('latin1')
      const answers: Readonly<Record<string, string>> = {
        '/length': 'HTTP/1.1 200 OK\r\ncontent-length: 8\r\netag: "1"\r\n\r\na secret',
        '/chunked':
          'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\na sec\r\n3\r\nret\r\n0\r\nx-sum: 1\r\n\r\n',
        '/gzip': `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${zipped.length}\r\n\r\n${zipped}`,
        '/none': 'HTTP/1.1 204 No Content\r\n\r\n'
      }
      const upstream = await RawUpstream.start(
        t,
        answering(({ line }) => answers[line.split(' ')[1] ?? ''] ?? '')
      )
      const sluice = await startSluice(t, { engine, upstream, policy: RESPONSE })
      const client = await rawClient(sluice.port)
      t.teardown(() => client.socket.destroy())
      const get = async (path: string) => {
        client.send(`GET ${path} HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n`)
        return client.answer()
      }
      const length = await get('/length')
      t.match(length, { status: 200, body: 'a -' })
      t.same(valuesOf(length, 'content-length'), ['3'])
      t.same(valuesOf(length, 'etag'), ['W/"1"'])
      const chunked = await get('/chunked')
      t.equal(chunked.body, 'a -')
      t.same(chunked.trailers, [['x-sum', '1']])
      const gzip = await get('/gzip')
      t.equal(gzip.body, 'a -')
      t.same(valuesOf(gzip, 'content-encoding'), [])
      t.equal((await get('/none')).status, 204)
    })

    t.test('a response that is too large or breaks is an error of its own, never half a body', async (t) => {
      const answers: Readonly<Record<string, string>> = {
        '/announced': 'HTTP/1.1 200 OK\r\ncontent-length: 16385\r\n\r\nx',
        '/large': `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4001\r\n${'x'.repeat(16_385)}\r\n`,
        '/broken': 'HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\na sec'
      }
      const upstream = await RawUpstream.start(t, async (peer) => {
        const request = await peer.request()
        const path = request.line.split(' ')[1] ?? ''
        peer.send(answers[path] ?? '')
        if (path === '/broken') peer.end()
      })
      const sluice = await startSluice(t, { engine, upstream, policy: RESPONSE, options: LIMITS })
      for (const [path, code] of [
        ['/announced', 'RESPONSE_TOO_LARGE'],
        ['/large', 'RESPONSE_TOO_LARGE'],
        ['/broken', 'UPSTREAM_GONE']
      ] as const) {
        const client = await rawClient(sluice.port)
        client.send(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`)
        const answer = await client.answer()
        t.match(answer, { status: 502, body: `502 Bad Gateway\ncode: ${code}\n` }, path)
        t.same(valuesOf(answer, 'sluice-error-code'), [code])
        client.socket.destroy()
      }
    })

    t.test('the budget is for all bodies together, and full only while they are held', async (t) => {
      const upstream = await RawUpstream.start(t, answering(OK))
      const options = { LIMITS_BUFFERED_BODY: '1MiB', LIMITS_BUFFERED_BODIES: '1MiB' }
      const sluice = await startSluice(t, { engine, upstream, policy: REQUEST, options })
      const slow = await rawClient(sluice.port)
      const head = 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n'
      slow.send(`${head}${'x'.repeat(899_999)}`)
      const statusOf = async (): Promise<number> => {
        const client = await rawClient(sluice.port)
        client.send(`${head}${'x'.repeat(900_000)}`)
        const { status } = await client.answer()
        client.socket.destroy()
        return status
      }
      // The first body has to have arrived; until it has, there is room.
      let status = await statusOf()
      for (let i = 0; i < 50 && status === 200; i++) status = await statusOf()
      t.equal(status, 503)
      slow.send('x')
      t.equal((await slow.answer()).status, 200)
      t.equal(await statusOf(), 200)
      slow.socket.destroy()
    })

    t.test('replaced text is compressed for clients that ask', async (t) => {
      const body = `secret ${'lorem ipsum '.repeat(200)}`
      const upstream = await RawUpstream.start(
        t,
        answering(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      )
      const actions = [
        { type: 'response-body-find-replace', config: { replacements: [{ from: 'secret', to: '-' }] } },
        { type: 'compress-response', config: { algorithms: ['gzip'] } }
      ]
      const sluice = await startSluice(t, {
        engine,
        upstream,
        policy: JSON.stringify({ on_http_response: [{ actions }] })
      })
      const client = await rawClient(sluice.port)
      client.send('GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n')
      const answer = await client.answer()
      t.equal(gunzipSync(Buffer.from(answer.body, 'latin1')).toString(), body.replace('secret', '-'))
      client.socket.destroy()
    })

    t.test('requests of a policy reach this machine only when the operator allows it', async (t) => {
      const upstream = await RawUpstream.start(t, answering(OK))
      const side = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngold'))
      const actions = [
        { type: 'http-request', config: { url: `http://127.0.0.1:${side.port}/tier`, on_error: 'halt' } },
        { type: 'add-headers', config: { headers: { 'x-tier': '${actions.service.http_request.res.body}' } } }
      ]
      const asking = JSON.stringify({ on_http_request: [{ actions }] })
      for (const allowed of [false, true]) {
        const options = allowed ? { OUTBOUND_ALLOW_PRIVATE: 'on' } : {}
        const sluice = await startSluice(t, { engine, upstream, policy: asking, options })
        const client = await rawClient(sluice.port)
        client.send('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
        const answer = await client.answer()
        client.socket.destroy()
        t.equal(answer.status, allowed ? 200 : 502)
        t.same(valuesOf(answer, 'sluice-error-code'), allowed ? [] : ['HTTP_REQUEST_FAILED'])
        t.equal(side.peers.length, allowed ? 1 : 0)
      }
      t.same(header(upstream.peers[0]?.requests[0] as RawRequest, 'x-tier'), ['gold'])
    })
  })
}
