import zlib from 'node:zlib'
import t from 'tap'
import { startRoute } from '../route.js'

const text = 'The quick brown fox jumps over the lazy dog. '.repeat(200)

t.test('responses are compressed for clients that accept it', async (t) => {
  const { get, put, remove } = await startRoute(
    t,
    (request, response) => {
      const type = request.url === '/image' ? 'image/png' : 'text/plain'
      const body = request.url === '/short' ? 'short' : text
      response.writeHead(200, { 'content-type': type, 'content-length': body.length, etag: '"v1"' }).end(body)
    },
    { compression: {} }
  )
  const headers = { 'accept-encoding': 'gzip' }
  const coded = await get({ headers })
  t.match(coded.headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding', etag: 'W/"v1"' })
  t.notOk('content-length' in coded.headers)
  t.equal(zlib.gunzipSync(coded.body).toString(), text)
  t.equal(zlib.brotliDecompressSync((await get({ headers: { 'accept-encoding': 'gzip, br' } })).body).toString(), text)

  const plain = async (asked: Parameters<typeof get>[0]) => {
    const { headers, body } = await get(asked)
    return headers['content-encoding'] === undefined && body.length > 0
  }
  t.ok(await plain({}), 'nobody asked')
  t.ok(await plain({ headers: { 'accept-encoding': 'gzip;q=0' } }))
  t.ok(await plain({ path: '/image', headers }))
  t.ok(await plain({ path: '/short', headers }))
  t.ok(await plain({ headers: { ...headers, cookie: 'session=1' } }), 'a request with cookies')
  t.ok(await plain({ headers: { ...headers, 'cache-control': 'no-transform' } }))
  const head = await get({ method: 'HEAD', headers })
  t.match(head.headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding', etag: 'W/"v1"' })
  t.notOk('content-length' in head.headers)
  t.equal((await get({})).headers.vary, 'Accept-Encoding', 'also where nobody asked')

  await put('compression', { enabled: false })
  t.ok(await plain({ headers }))
  await put('compression', {})
  t.notOk(await plain({ headers }))
  await remove('compression')
  t.ok(await plain({ headers }))
})

t.test('it compresses what policy and header module have left', async (t) => {
  const rule = {
    expressions: ["req.url.path == '/page'"],
    actions: [
      { type: 'custom-response', config: { status_code: 200, body: text, headers: { 'content-type': 'text/html' } } }
    ]
  }
  const { get } = await startRoute(t, (_, response) => response.end(text), {
    compression: {},
    response_headers: { add: { 'x-after': '1' }, remove: [] },
    traffic_policy: { value: JSON.stringify({ on_http_request: [rule] }) }
  })
  const answer = await get({ path: '/page', headers: { 'accept-encoding': 'gzip' } })
  t.match(answer.headers, { 'content-encoding': 'gzip', 'x-after': '1', 'content-type': 'text/html' })
  t.equal(zlib.gunzipSync(answer.body).toString(), text)
  const upstream = await get({ headers: { 'accept-encoding': 'gzip' } })
  t.equal(zlib.gunzipSync(upstream.body).toString(), text)
})

t.test('a coding of the upstream stays', async (t) => {
  const { get } = await startRoute(
    t,
    (_, response) => response.writeHead(200, { 'content-encoding': 'br' }).end(zlib.brotliCompressSync(text)),
    { compression: {} }
  )
  const { headers, body } = await get({ headers: { 'accept-encoding': 'gzip' } })
  t.equal(headers['content-encoding'], 'br')
  t.equal(zlib.brotliDecompressSync(body).toString(), text)
})
