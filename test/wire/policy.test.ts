import { gunzipSync, gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { type Engine, startSluice } from '../helpers/sluice.js'
import { onEngines } from './engines.js'
import { type Message, statusOf, values } from './message.js'
import { ask, field, RawClient, type Reply, Upstream } from './peers.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'

const get = (target: string, ...fields: string[]): string =>
  `${[`GET ${target} HTTP/1.1`, 'Host: a.test', ...fields].join('\r\n')}\r\n\r\n`

const status = (answer: Message | undefined): number => (answer === undefined ? 0 : statusOf(answer))

const answering =
  (body: string, ...fields: string[]): Reply =>
  (request) =>
    `${['HTTP/1.1 200 OK', ...fields, `Content-Length: ${body.length}`].join('\r\n')}\r\n\r\n${request.line.startsWith('HEAD ') ? '' : body}`

async function start(t: Test, engine: Engine, policy: string, options: Record<string, string> = {}) {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy, options })
  return { upstream, sluice, ask: (text: string, milliseconds?: number) => ask(sluice.port, text, milliseconds) }
}

onEngines('a rate limit: 429 with retry-after, one bucket for each key', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - actions:
      - type: rate-limit
        config: { name: by key, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: ["req.headers['x-key']"] }
on_http_response:
  - expressions: ["res.status_code == 429"]
    actions: [{ type: add-headers, config: { headers: { x-limited: "\${actions.service.rate_limit.limited}" } } }]
`
  )
  for (const expected of [200, 200, 429, 429]) t.equal(status(await ask(get('/a', 'X-Key: one'))), expected)
  const refused = await ask(get('/a', 'x-kEy: one'))
  const after = Number(field(refused, 'retry-after'))
  t.ok(Number.isInteger(after) && after >= 1 && after <= 60, `retry-after ${after}`)
  t.equal(field(refused, 'x-limited'), 'true', 'the response phase sees the result')
  t.equal(status(await ask(get('/a', 'X-Key: two'))), 200)
  t.equal(status(await ask(get('/a'))), 200, 'a missing key has a bucket of its own')
  t.equal(upstream.requests.length, 4, 'what was refused never reached the upstream')
})

onEngines('concurrent requests: exactly the capacity is admitted', async (t, engine) => {
  const { upstream, sluice } = await start(
    t,
    engine,
    `
on_http_request:
  - actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 100, rate: 10m, bucket_key: ["'one'"] }
`,
    { ACCESS_LOG: 'off' }
  )
  const connections = 50
  const each = LONG ? 200 : 20
  const clients = await Promise.all(Array.from({ length: connections }, () => RawClient.open(sluice.port)))
  for (const client of clients) client.write(get('/a').repeat(each))
  await Promise.all(clients.map((client) => client.until(() => client.answers.length === each, 30_000)))
  const answers = clients.flatMap((client) => client.answers.map(statusOf))
  t.equal(answers.length, connections * each)
  t.equal(answers.filter((code) => code === 200).length, 100)
  t.equal(answers.filter((code) => code === 429).length, connections * each - 100)
  t.equal(upstream.requests.length, 100)
  for (const client of clients) client.close()
})

onEngines('a limit that is not enforced only reports; later rules and the alias see it', async (t, engine) => {
  const { ask } = await start(
    t,
    engine,
    `
on_http_request:
  - actions:
      - type: rate-limit
        config: { name: soft, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: ["'one'"], enforce: false }
  - expressions: ["actions.service.rate_limit.limited && actions.ngrok.rate_limit.limited"]
    actions: [{ type: custom-response, config: { status_code: 503, body: "busy, \${actions.ngrok.rate_limit.remaining} left" } }]
`
  )
  t.equal(status(await ask(get('/a'))), 200)
  t.match(await ask(get('/a')), { line: /^HTTP\/1.1 503/, body: 'busy, 0 left' })
})

onEngines('the response phase runs on answers that are made here', async (t, engine) => {
  const { upstream, sluice, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.url.path == '/custom'"]
    actions: [{ type: custom-response, config: { status_code: 418, content: teapot } }]
  - expressions: ["req.url.path == '/deny'"]
    actions: [{ type: deny, config: { status_code: 451 } }]
  - expressions: ["req.url.path == '/redirect'"]
    actions: [{ type: redirect, config: { from: /redirect$, to: /there } }]
  - expressions: ["req.url.path == '/close'"]
    actions: [{ type: close-connection }]
on_http_response:
  - actions: [{ type: add-headers, config: { headers: { x-seen: "\${res.status_code}" } } }]
`
  )
  for (const [path, code] of [
    ['/custom', 418],
    ['/deny', 451],
    ['/redirect', 302],
    ['/a', 200]
  ] as const) {
    const answer = await ask(get(path))
    t.equal(status(answer), code, path)
    t.equal(field(answer, 'x-seen'), String(code), path)
  }
  t.equal(field(await ask(get('/redirect')), 'location'), 'http://a.test/there')
  t.equal((await ask(get('/custom')))?.body, 'teapot')
  const client = await RawClient.open(sluice.port)
  t.equal(await client.ask(get('/close')), undefined)
  t.ok(client.closed)
  t.equal(client.text, '', 'closed without a byte')
  t.equal(upstream.requests.length, 1)
  upstream.close()
  for (const connection of upstream.connections) await connection.closed
  t.match(await ask(get('/a')), { headers: [['sluice-error-code', 'UPSTREAM_REFUSED']] })
  t.equal(field(await ask(get('/a')), 'x-seen'), '502', 'a failure of the upstream too')
})

onEngines('header rules on both ways', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - actions:
      - { type: remove-headers, config: { headers: [X-Gone, x-replaced] } }
      - { type: add-headers, config: { headers: { x-replaced: "\${req.method}", x-added: "1" } } }
on_http_response:
  - actions:
      - { type: remove-headers, config: { headers: [server] } }
      - { type: add-headers, config: { headers: { x-out: "\${req.headers['x-added'][0]}" } } }
`
  )
  upstream.reply = answering('ok', 'Server: secret/1.0', 'X-Out: 0', 'Set-Cookie: a=1', 'Set-Cookie: b=2')
  const answer = await ask(get('/a', 'x-gone: 1', 'X-GONE: 2', 'X-Replaced: 3', 'X-Added: 0'))
  const [request] = upstream.requests
  t.same(values(request?.headers ?? [], 'x-gone'), [])
  t.same(values(request?.headers ?? [], 'x-replaced'), ['GET'])
  t.same(values(request?.headers ?? [], 'x-added'), ['0', '1'], 'added, not replaced')
  t.same(values(answer?.headers ?? [], 'server'), [])
  t.same(values(answer?.headers ?? [], 'x-out'), ['0', '0'])
  t.same(values(answer?.headers ?? [], 'set-cookie'), ['a=1', 'b=2'])
})

onEngines('url-rewrite reaches the upstream and cannot choose it', async (t, engine) => {
  const other = await Upstream.start(t)
  const { upstream, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.url.path.startsWith('/old/')"]
    actions: [{ type: url-rewrite, config: { from: /old/, to: /new/ } }]
  - expressions: ["req.url.path == '/go'"]
    actions: [{ type: url-rewrite, config: { to: "\${req.url.query_params['to'][0]}" } }]
`
  )
  t.equal(status(await ask(get('/old/x/../y?q=1'))), 200)
  t.equal(upstream.requests.at(-1)?.line, 'GET /new/y?q=1 HTTP/1.1')
  const hostile = [
    `http://127.0.0.1:${other.port}/x`,
    `//127.0.0.1:${other.port}/x`,
    `http://a.test@127.0.0.1:${other.port}/x`,
    `/x%20HTTP/1.1%0d%0aHost:%20evil%0d%0a%0d%0aGET%20/evil`,
    'file:///etc/passwd',
    '/../../x#y'
  ]
  for (const to of hostile) {
    const answer = await ask(get(`/go?to=${encodeURIComponent(decodeURIComponent(to))}`))
    t.ok(answer !== undefined && [200, 400, 500].includes(status(answer)), `${to}: ${status(answer)}`)
  }
  t.equal(other.requests.length, 0, 'nothing reached another server')
  t.same(upstream.malformed, [])
  for (const request of upstream.requests) {
    t.equal(field(request, 'host'), 'a.test', request.line)
  }
})

onEngines('headers are looked up without regard to case, with all repeated fields', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.headers['X-Role'].exists(v, v == 'admin')"]
    actions: [{ type: deny }]
  - expressions: ["'X-MARK' in req.headers && req.headers['x-mark'].size() == 2"]
    actions: [{ type: custom-response, config: { body: "\${req.headers['X-mArk'][1]}" } }]
`
  )
  t.equal(status(await ask(get('/a', 'x-role: user', 'X-ROLE: admin'))), 403)
  t.equal(status(await ask(get('/a', 'X-Role: user', 'x-role: guest'))), 200)
  t.equal(status(await ask(get('/a'))), 200, 'absent: the rule does not match')
  t.match(await ask(get('/a', 'x-Mark: 1', 'X-mark: 2')), { body: '2' })
  t.equal(upstream.requests.length, 2)
})

onEngines('names that objects know are plain data', async (t, engine) => {
  const { ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.url.path == '/in'"]
    actions:
      - type: custom-response
        config:
          body: "\${'__proto__' in req.headers} \${'constructor' in req.headers} \${'toString' in req.url.query_params} \${'hasOwnProperty' in req.url.query_params} \${req.cookies.size()}"
  - expressions: ["req.url.path == '/value'"]
    actions:
      - type: custom-response
        config:
          body: "\${req.url.query_params['__proto__'][0]} \${req.url.query_params['constructor'][0]} \${req.headers['__proto__'][0]}"
  - expressions: ["req.headers['constructor'][0] == '' || req.headers['__proto__'].size() > 0 || req.url.query_params['valueOf'].size() > 0"]
    actions: [{ type: deny }]
`
  )
  t.match(await ask(get('/in')), { body: 'false false false false 0' })
  t.match(await ask(get('/in?toString=1&hasOwnProperty=2', '__proto__: 1', 'constructor: 2', 'Cookie: __proto__=1')), {
    body: 'true true true true 1'
  })
  t.match(await ask(get('/value?__proto__=a&constructor=b', '__proto__: c')), { body: 'a b c' })
  t.equal(status(await ask(get('/a'))), 200, 'nothing is inherited')
})

onEngines('what is interpolated cannot become another header', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.url.path == '/custom'"]
    actions: [{ type: custom-response, config: { body: x, headers: { x-echo: "\${req.url.query_params['v'][0]}" } } }]
  - expressions: ["req.url.path == '/redirect'"]
    actions: [{ type: redirect, config: { to: "\${req.url.query_params['v'][0]}" } }]
  - expressions: ["req.url.path == '/add'"]
    actions: [{ type: add-headers, config: { headers: { x-echo: "\${req.url.query_params['v'][0]}" } } }]
on_http_response:
  - expressions: ["req.url.path == '/out'"]
    actions: [{ type: add-headers, config: { headers: { x-echo: "\${req.url.query_params['v'][0]}" } } }]
`
  )
  const payloads = [
    '%0d%0aSet-Cookie:%20evil=1',
    '%0aSet-Cookie:%20evil=1',
    '%0dSet-Cookie:%20evil=1',
    'x%00y',
    '%0d%0a%0d%0a%3cscript%3e',
    '%E5%98%8A%E5%98%8DSet-Cookie:%20evil=1'
  ]
  for (const path of ['/custom', '/redirect', '/add', '/out']) {
    for (const payload of payloads) {
      const answer = await ask(get(`${path}?v=${payload}`))
      t.ok(answer !== undefined, `${path} ${payload}: one well-formed answer`)
      t.same(values(answer?.headers ?? [], 'set-cookie'), [], `${path} ${payload}`)
    }
    t.not(
      status(await ask(get(`${path}?v=${path === '/redirect' ? 'http://a.test/' : 'plain'}`))),
      500,
      `${path}: a plain value works`
    )
  }
  t.same(upstream.malformed, [])
  for (const request of upstream.requests) t.same(values(request.headers, 'set-cookie'), [])
})

onEngines('compression: what, and what not', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    'on_http_response: [{ actions: [{ type: compress-response, config: { algorithms: [gzip, br] } }] }]'
  )
  const text = 'all work and no play makes jack a dull boy. '.repeat(100)
  const plain = ['Content-Type: text/plain', 'ETag: "v1"']
  upstream.reply = answering(text, ...plain, 'Vary: Origin', 'Accept-Ranges: bytes')
  const packed = await ask(get('/a', 'Accept-Encoding: gzip'))
  t.equal(field(packed, 'content-encoding'), 'gzip')
  t.equal(gunzipSync(Buffer.from(packed?.body ?? '', 'latin1')).toString(), text)
  t.equal(packed?.framing, 'chunked', 'the old length is gone')
  t.match(values(packed?.headers ?? [], 'vary').join(', '), /Origin.*Accept-Encoding/i)
  t.equal(field(packed, 'etag'), 'W/"v1"', 'no longer byte for byte')

  const alone: [string, Reply, ...string[]][] = [
    ['no Accept-Encoding', answering(text, ...plain)],
    ['refused by the client', answering(text, ...plain), 'Accept-Encoding: gzip;q=0, br;q=0'],
    ['encoded already', answering(text, ...plain, 'Content-Encoding: br'), 'Accept-Encoding: gzip'],
    ['no-transform', answering(text, ...plain, 'Cache-Control: public, no-transform'), 'Accept-Encoding: gzip'],
    [
      'a part',
      (request, connection) =>
        answering(
          text,
          ...plain,
          'Content-Range: bytes 0-9/10'
        )(request, connection)?.replace('200 OK', '206 Partial Content'),
      'Accept-Encoding: gzip'
    ],
    ['tiny', answering('tiny', ...plain), 'Accept-Encoding: gzip'],
    ['an event stream', answering(text, 'Content-Type: text/event-stream', 'ETag: "v1"'), 'Accept-Encoding: gzip'],
    ['an image', answering(text, 'Content-Type: image/png', 'ETag: "v1"'), 'Accept-Encoding: gzip']
  ]
  for (const [name, reply, ...fields] of alone) {
    upstream.reply = reply
    const answer = await ask(get('/a', ...fields))
    t.equal(answer?.body, name === 'tiny' ? 'tiny' : text, name)
    t.equal(field(answer, 'content-encoding'), name === 'encoded already' ? 'br' : undefined, name)
    t.equal(field(answer, 'etag'), '"v1"', name)
    t.equal(answer?.framing, 'length', name)
  }
  upstream.reply = answering(text, ...plain)
  const head = await ask(get('/a', 'Accept-Encoding: gzip').replace('GET', 'HEAD'))
  t.equal(field(head, 'content-encoding'), 'gzip', 'HEAD is answered as GET would be')
})

onEngines('compression of answers to requests with cookies is opt-in', async (t, engine) => {
  const { upstream, ask } = await start(t, engine, 'on_http_response: [{ actions: [{ type: compress-response }] }]')
  upstream.reply = answering('a'.repeat(5_000), 'Content-Type: text/plain')
  t.equal(field(await ask(get('/a', 'Accept-Encoding: gzip', 'Cookie: s=1')), 'content-encoding'), undefined)
  t.equal(field(await ask(get('/a', 'Accept-Encoding: gzip')), 'content-encoding'), 'gzip')
})

onEngines('a compressed request body passes as it is', async (t, engine) => {
  const { upstream, ask } = await start(
    t,
    engine,
    'on_http_request: [{ expressions: ["\'gzip\' in req.content_encoding"], actions: [{ type: add-headers, config: { headers: { x-packed: yes } } }] }]'
  )
  // A bomb: 20 MB of zeros in 20 KB.
  const packed = gzipSync(Buffer.alloc(20_000_000)).toString('latin1')
  const answer = await ask(
    `POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n${packed}`
  )
  t.equal(status(answer), 200)
  t.ok(upstream.requests[0]?.body === packed, 'the bytes are untouched')
  t.equal(field(upstream.requests[0], 'x-packed'), 'yes')
})

onEngines('an expression that fails lets nothing pass', async (t, engine) => {
  const { upstream, sluice, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - name: broken
    expressions: ["int(req.headers['x-n'][0]) > 3"]
    actions: [{ type: deny }]
`
  )
  t.equal(status(await ask(get('/a', 'X-N: 4'))), 403)
  t.equal(status(await ask(get('/a', 'X-N: 2'))), 200)
  t.equal(status(await ask(get('/a'))), 200, 'absent: no match')
  const failed = await ask(get('/a', 'X-N: canary-4711'))
  t.equal(status(failed), 500)
  t.equal(field(failed, 'sluice-error-code'), 'POLICY_EXPRESSION')
  t.notMatch(failed?.body, 'canary')
  t.equal(upstream.requests.length, 2)
  await sluice.line((line) => line.rule === 'broken' && line.status === 500)
  t.notMatch(JSON.stringify(sluice.log), 'canary', 'the value is in no log line')
})

onEngines('expressions cannot be made slow by a request', async (t, engine) => {
  const rules = Array.from(
    { length: 200 },
    (_, i) => `
  - expressions: ["req.headers['x-long'][0].contains('needle${i}')"]
    actions: [{ type: deny }]`
  ).join('')
  const { sluice, ask } = await start(
    t,
    engine,
    `
on_http_request:
  - expressions: ["req.url.path.matches('^/(a+)+$')"]
    actions: [{ type: deny }]
  - expressions: ["req.url.path == '/nested' && ${"V.all(a, V.all(b, V.all(c, V.all(d, V.all(e, a + b + c + d + e != 'x')))))".replaceAll('V', "req.url.query_params['v']")}"]
    actions: [{ type: deny }]${rules}
`,
    { LIMITS_HEADER_BYTES: '256KiB' }
  )
  const timed = async (text: string): Promise<[number, number]> => {
    const begun = performance.now()
    const answer = await ask(text, 20_000)
    return [status(answer), performance.now() - begun]
  }
  await timed(get('/warm'))
  const [regex, regexTime] = await timed(get(`/${'a'.repeat(4_000)}!`))
  t.equal(regex, 200)
  t.ok(regexTime < 250, `a pattern with nested repetition: ${regexTime} ms`)
  const [long, longTime] = await timed(get('/b', `X-Long: ${'n'.repeat(100_000)}`))
  t.equal(long, 200)
  t.ok(longTime < 500, `200 rules over 100,000 characters: ${longTime} ms`)
  const [nested, nestedTime] = await timed(get(`/nested?${'v=1&'.repeat(1_000)}`))
  t.equal(nested, 500, 'stopped by its budget')
  t.ok(nestedTime < 1_000, `five loops over 1,000 values: ${nestedTime} ms`)
  const bad = await sluice.reload(
    'on_http_request:\n  - expressions: ["req.url.path.matches(\'(a\')"]\n    actions: [{ type: deny }]\n'
  )
  t.equal(bad.ok, false, 'a pattern that is none is refused when it is written')
})

onEngines('connections are judged before their first byte', async (t, engine) => {
  const { upstream, sluice, ask } = await start(
    t,
    engine,
    'on_tcp_connect: [{ actions: [{ type: restrict-ips, config: { deny: [127.0.0.0/8], allow: [0.0.0.0/0] } }] }]'
  )
  t.equal(await ask(get('/a')), undefined)
  const client = await RawClient.open(sluice.port)
  t.ok(await client.until(() => client.closed), 'closed although nothing was sent')
  t.equal(client.text, '')
  t.equal(upstream.connections.length, 0)
})
