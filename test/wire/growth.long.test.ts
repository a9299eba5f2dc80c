import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { account, create, site } from '../helpers/account.js'
import { fastGrowth } from '../helpers/growth.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { textFamilies, textOf } from '../helpers/text-families.js'
import {
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  FrameText,
  frame,
  GOAWAY,
  HEADERS,
  PREFACE,
  RST_STREAM,
  SETTINGS
} from '../transport/raw-frames.js'

/*
 * What one request or one answer costs grows with its size alone, wherever a peer may write: each kind of field, filled with each family
 * of text up to its limit. The product runs with all that looks at exchanges: access log, events, recorder, explanations, traces.
 */

/** Characters of the largest field that fits into a head with others; and of a body. */
const FIELD = 60_000
const BODY = 500_000

const POLICY = `
on_http_request:
  - expressions: ["req.url.path.startsWith('/basic')"]
    actions: [{ type: basic-auth, config: { enforce: false, credentials: ['anna:correct-horse-battery'] } }]
  - expressions: ["req.url.path.startsWith('/jwt')"]
    actions:
      - type: jwt-validation
        config:
          enforce: false
          issuer: { allow_list: [{ value: 'https://issuer.test/' }] }
          http:
            tokens:
              - { type: jwt, method: header, name: Authorization, prefix: 'Bearer ' }
              - { type: jwt, method: body, name: token }
          jws: { allowed_algorithms: [HS256], keys: { sources: { shared_secrets: [{ value: '${'s'.repeat(64)}' }] } } }
  - expressions: ["req.url.path.startsWith('/hook')"]
    actions:
${['github', 'stripe', 'slack', 'circleci', 'twilio', 'plivo', 'contentful', 'hubspot', 'mailgun', 'docusign', 'orb']
  .map(
    (provider) =>
      `      - { type: verify-webhook, config: { provider: ${provider}, secret: some-secret-text, enforce: false } }`
  )
  .join('\n')}
      - { type: verify-webhook, config: { provider: svix, secret: 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0', enforce: false } }
  - expressions: ["req.url.path.startsWith('/cors')"]
    actions: [{ type: cors, config: { origins: ['https://*.example.com'], headers: ['x-a'] } }]
  - expressions: ["req.url.path.startsWith('/replace')"]
    actions:
      - { type: request-body-find-replace, config: { replacements: [{ from: '(a+)+b', to: 'c' }, { from: '\\\\s+$', to: '' }] } }
  - expressions: ["req.url.path.startsWith('/rewrite')"]
    actions:
      - { type: url-rewrite, config: { from: '/rewrite(.*)', to: '/other$1' } }
  - expressions: ["req.url.path.startsWith('/limit')"]
    actions:
      - type: rate-limit
        config: { name: a, algorithm: sliding_window, capacity: 1000000, rate: 60s, bucket_key: ["getReqHeader('x-text')[0]"] }
  - expressions: ["req.url.path.startsWith('/read')"]
    actions:
      - type: log
        config:
          metadata:
            agent: "\${req.user_agent.name + req.user_agent.os + string(req.user_agent.is_bot)}"
            type: "\${string(size(req.content_type.parameters))}"
            coding: "\${size(req.content_encoding)}"
            cookies: "\${size(req.cookies)}"
            query: "\${size(req.url.query_params)}"
            raw: "\${req.url.raw + req.url.authority + req.location}"
      - { type: remove-headers, config: { headers: [x-a-b-c-d-e-f] } }
      - { type: add-headers, config: { headers: { x-more: 'a' } } }
on_http_response:
  - actions:
      - type: log
        config: { metadata: { type: "\${size(res.content_type.parameters)}", cookies: "\${size(res.cookies)}", to: "\${res.location}" } }
      - { type: compress-response, config: { algorithms: [br, gzip] } }
on_event_stream_message:
  - actions: [{ type: sse-find-replace, config: { replacements: [{ from: 'a+b', to: c }] } }]
`

/** The bytes of a request, and those of its answer; or a call of the API. */
interface Message {
  readonly request: string | Buffer
  readonly answer?: string
  readonly asked?: { readonly path: string; readonly body?: unknown }
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
/** A request without its end. */
const head = (path: string, fields = '', method = 'GET', host = 'a.test') =>
  `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${fields}connection: close\r\n`
const get = (path: string, ...fields: string[]): Message => ({
  request: `${head(path, fields.map((field) => `${field}\r\n`).join(''))}\r\n`
})
const post = (path: string, type: string, body: string, ...fields: string[]): Message => {
  const all = [...fields, `content-type: ${type}`, `content-length: ${body.length}`]
  return { request: `${head(path, all.map((field) => `${field}\r\n`).join(''), 'POST')}\r\n${body}` }
}
const answered = (fields: string, body = ''): Message => ({
  ...get('/read'),
  answer: `HTTP/1.1 200 OK\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`
})
/** Without what no target may hold as it stands. */
const inTarget = (text: string) => text.replace(/[^\x21-\x7e]|#/g, '+')
const inName = (text: string) => text.replace(/[^!$%&'*+\-.^_`|~0-9A-Za-z]/g, '-')
const chunked = (body: string) => `transfer-encoding: chunked\r\n\r\n${body}`

/** The length of a text in a block of HTTP/2 (RFC 7541 5.1), and the text. */
function literal(text: string): Buffer {
  const length: number[] = []
  let rest = text.length
  if (rest < 127) length.push(rest)
  else {
    length.push(127)
    for (rest -= 127; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), Buffer.from(text, 'latin1')])
}

/** Bytes of a frame that every peer takes. */
const FRAME = 16_384

/** A request over HTTP/2, whose fields are written as they are. */
function overHttp2(fields: Readonly<Record<string, string>>, trailers?: Readonly<Record<string, string>>): Message {
  const frames = (of: Readonly<Record<string, string>>, ends: boolean): Buffer[] => {
    const block = Buffer.concat(
      Object.entries(of).flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)])
    )
    const parts = Math.ceil(block.length / FRAME)
    return Array.from({ length: parts }, (_, i) =>
      frame(
        i === 0 ? HEADERS : CONTINUATION,
        (i === parts - 1 ? END_HEADERS : 0) | (i === 0 && ends ? END_STREAM : 0),
        1,
        block.subarray(i * FRAME, (i + 1) * FRAME)
      )
    )
  }
  const head = { ':method': 'GET', ':scheme': 'http', ':authority': 'a.test', ':path': '/read', ...fields }
  const body = trailers === undefined ? [] : [frame(DATA, 0, 1, 'a'), ...frames(trailers, true)]
  return {
    request: Buffer.concat([
      Buffer.from(PREFACE),
      frame(SETTINGS, 0, 0),
      ...frames(head, trailers === undefined),
      ...body
    ])
  }
}
const ask = (path: string, body?: unknown): Message => ({ request: '', asked: { path, body } })

/** Kinds of fields by name: the message whose field holds a text, and its limit when it is not that of a field of a head. */
const kinds: Readonly<Record<string, (text: string) => Message>> = {
  path: (text) => get(`/read/${inTarget(text)}`),
  'path that is rewritten': (text) => get(`/rewrite/${inTarget(text)}`),
  query: (text) => get(`/read?${inTarget(text)}`),
  'name of a parameter': (text) => get(`/read?${inTarget(text).replace(/[=&]/g, '-')}x=1`),
  'value of a parameter': (text) => get(`/read?next=${encodeURIComponent(inTarget(text)).slice(0, FIELD)}`),
  'absolute target': (text) => get(`http://a.test/${inTarget(text)}`),
  'authority of a target': (text) => get(`http://${inTarget(text)}/`),
  host: (text) => ({ request: `${head('/', '', 'GET', text)}\r\n` }),
  'host below a wildcard': (text) => ({ request: `${head('/', '', 'GET', `${text}.wild.test`)}\r\n` }),
  'field name': (text) => get('/read', `${inName(text)}: 1`),
  'key of a limit': (text) => get('/limit', `x-text: ${text}`),
  'basic credentials': (text) => get('/basic', `authorization: Basic ${text}`),
  token: (text) => get('/jwt', `authorization: Bearer ${text}`),
  cookie: (text) => get('/read', `cookie: ${text}`),
  'login cookie': (text) => get('/read', `cookie: session.sl0123456789ab=${text}`),
  referer: (text) => get('/read', `referer: https://a.test/?${text}`),
  'user agent': (text) => get('/read', `user-agent: Mozilla/5.0 (${text}`),
  accept: (text) => get('/read', `accept: ${text}`),
  'accepted codings': (text) => get('/read', `accept-encoding: ${text}`),
  'content type': (text) => get('/read', `content-type: text/html; ${text}`),
  'content coding': (text) => get('/read', `content-encoding: ${text}`),
  'X-Forwarded-For': (text) => get('/read', `x-forwarded-for: ${text}`),
  Forwarded: (text) => get('/read', `forwarded: for=${text}`),
  'X-Forwarded-Host': (text) => get('/read', `x-forwarded-host: ${text}`, `x-forwarded-proto: ${text.slice(0, 100)}`),
  tracestate: (text) =>
    get('/read', 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', `tracestate: a=${text}`),
  traceparent: (text) => get('/read', `traceparent: ${text}`),
  'options of a connection': (text) => get('/read', `connection: ${text}`),
  TE: (text) => get('/read', `te: ${text}`),
  upgrade: (text) =>
    get('/read', `upgrade: ${text}`, 'connection: upgrade', `sec-websocket-protocol: ${text}`.slice(0, 2_000)),
  expectation: (text) => get('/read', `expect: ${text}`),
  'content length': (text) => get('/read', `content-length: ${text}`),
  'preflight request': (text) => ({
    request: `${head('/cors', `origin: https://${text.slice(0, FIELD / 3)}\r\naccess-control-request-method: GET\r\naccess-control-request-headers: ${text.slice(0, FIELD / 2)}\r\n`, 'OPTIONS')}\r\n`
  }),
  'signature of a webhook': (text) =>
    post(
      `/hook?${inTarget(text).slice(0, FIELD / 4)}`,
      'application/json',
      '{"a":1}',
      ...['x-hub-signature-256', 'stripe-signature', 'circleci-signature', 'x-plivo-signature-v3'].map(
        (name) => `${name}: ${text.slice(0, FIELD / 6)}`
      ),
      `svix-id: a`,
      `svix-timestamp: ${Math.floor(Date.now() / 1_000)}`,
      `svix-signature: ${text.slice(0, FIELD / 6)}`
    ),
  'names that a webhook signs': (text) =>
    post(
      '/hook',
      'application/json',
      '{}',
      'x-contentful-signature: a',
      `x-contentful-timestamp: ${Date.now()}`,
      `x-contentful-signed-headers: x-contentful-signed-headers,x-contentful-timestamp,${'x-a,'.repeat(text.length / 10)}x-a`,
      `x-a: ${text.slice(0, text.length / 2)}`
    ),
  method: (text) => ({ request: `${head('/', '', inName(text))}\r\n` }),
  version: (text) => ({ request: `GET / HTTP/1.1${text}\r\n\r\n` }),
  'extension of a chunk': (text) => ({
    request: `${head('/read', '', 'POST')}${chunked(`1;${text}\r\na\r\n0\r\n\r\n`)}`
  }),
  trailer: (text) => ({ request: `${head('/read', '', 'POST')}${chunked(`1\r\na\r\n0\r\nx-t: ${text}\r\n\r\n`)}` }),
  form: (text) => post('/jwt', 'application/x-www-form-urlencoded', text),
  'form of a webhook': (text) =>
    post(
      '/hook',
      'application/x-www-form-urlencoded',
      text,
      'x-twilio-signature: a',
      'x-plivo-signature-v3: a',
      'x-plivo-signature-v3-nonce: a'
    ),
  'text of JSON': (text) => post('/jwt', 'application/json', JSON.stringify({ token: text, a: [text] })),
  'name in JSON': (text) => post('/jwt', 'application/json', JSON.stringify({ [text]: 1 })),
  'broken JSON': (text) => post('/jwt', 'application/json', `{"a":"${text}`),
  'body that is replaced': (text) => post('/replace', 'text/plain', text),
  'HTTP/2: path': (text) => overHttp2({ ':path': `/read/${inTarget(text)}` }),
  'HTTP/2: authority': (text) => overHttp2({ ':authority': text }),
  'HTTP/2: method': (text) => overHttp2({ ':method': text }),
  'HTTP/2: scheme': (text) => overHttp2({ ':scheme': text }),
  'HTTP/2: field': (text) => overHttp2({ 'x-a': text }),
  'HTTP/2: field name': (text) => overHttp2({ [inName(text).toLowerCase()]: '1' }),
  'HTTP/2: cookies': (text) => overHttp2({ cookie: text }),
  'HTTP/2: key of a limit': (text) => overHttp2({ ':path': '/limit', 'x-text': text }),
  'HTTP/2: trailer': (text) => overHttp2({ ':method': 'POST' }, { 'x-t': text }),
  'API: policy': (text) => ask('/policies/check', { policy: text }),
  'API: expression': (text) =>
    ask('/policies/check', {
      policy: JSON.stringify({ on_http_request: [{ expressions: [text], actions: [{ type: 'deny' }] }] })
    }),
  'API: replacement': (text) =>
    ask('/policies/check', {
      policy: JSON.stringify({
        on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: text, to: text } }] }]
      })
    }),
  'API: text of a record': (text) => ask('/backends/static', { address: '127.0.0.1:0', description: text }),
  'API: address': (text) => ask('/backends/static', { address: text }),
  'API: hosts': (text) => ask('/edges/https', { hostports: [`${text}:443`] }),
  'API: network': (text) => ask('/ip_policy_rules', { cidr: text, action: 'allow', ip_policy_id: text }),
  'API: name of a member': (text) => ask('/vaults', { [text]: 1 }),
  'API: query': (text) => ask(`/exchanges?limit=1&${inTarget(text).slice(0, FIELD / 4)}`),
  'API: filter': (text) => ask(`/vaults?filter=${encodeURIComponent(inTarget(text)).slice(0, FIELD / 5)}`),
  'answer: location': (text) => answered(`location: https://a.test/?${text}\r\n`),
  'answer: cookie': (text) => answered(`set-cookie: a=1; ${text}\r\n`),
  'answer: content type': (text) => answered(`content-type: text/html; ${text}\r\n`, 'a'.repeat(2_000)),
  'answer: vary and cache': (text) =>
    answered(`vary: ${text}\r\ncache-control: ${text.slice(0, 1_000)}\r\n`, 'a'.repeat(2_000)),
  'answer: field name': (text) => answered(`${inName(text)}: 1\r\n`),
  'answer: reason': (text) => ({ ...get('/read'), answer: `HTTP/1.1 200 ${text}\r\ncontent-length: 0\r\n\r\n` }),
  'answer: events': (text) => answered('content-type: text/event-stream\r\n', `data: ${text}\n\n`),
  'answer: JSON': (text) => answered('content-type: application/json\r\n', `{"a":"${text}`)
}
const OF_BODIES = new Set([
  'answer: events',
  'answer: JSON',
  'form',
  'form of a webhook',
  'text of JSON',
  'name in JSON',
  'broken JSON',
  'body that is replaced'
])

/** An upstream that gives each request the answer that was set last. */
async function scriptedUpstream(t: Test) {
  const state = { answer: OK, port: 0 }
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text = (text + bytes.toString('latin1', Math.max(0, bytes.length - 8))).slice(-8)
      // Bodies are not looked at: each message is answered at the first end of a part, and its connection is not used again.
      socket.end(state.answer, 'latin1')
    })
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  state.port = (server.address() as AddressInfo).port
  return state
}

/** Has the answer on stream 1 come to its end? */
function overOf(frames: FrameText): boolean {
  return frames
    .all()
    .some(
      ({ type, flags }) => type === GOAWAY || type === RST_STREAM || (type !== SETTINGS && (flags & END_STREAM) !== 0)
    )
}

/** Sends a message on a connection of its own until that ends; the status of the answer. */
async function exchange({ port }: RunningSluice, message: string | Buffer): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  let status = ''
  const frames = new FrameText()
  socket.on('error', () => undefined)
  socket.on('data', (bytes: Buffer) => {
    if (typeof message !== 'string') {
      frames.bytes = Buffer.concat([frames.bytes, bytes])
      if (overOf(frames)) socket.destroy()
      status = 'h2'
    } else if (status === '') status = bytes.toString('latin1', 9, 12)
  })
  socket.write(message, 'latin1')
  const late = setTimeout(() => socket.destroy(), 20_000)
  await once(socket, 'close')
  clearTimeout(late)
  return status
}

async function sink(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.end('{}'))
  }).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('what a message costs grows with its size alone', async (t) => {
  const upstream = await scriptedUpstream(t)
  const receiver = await sink(t)
  const sluice = await startSluice(t, {
    upstream: { port: upstream.port },
    policy: POLICY,
    options: {
      TRUSTED_PROXIES: '127.0.0.0/8',
      RECORDER_WHERE: 'true',
      RECORDER_EXPLAIN: 'true',
      RECORDER_BODIES: '1MiB',
      RECORDER_MEMORY: '4MiB',
      OTLP_ENDPOINT: receiver,
      OUTBOUND_ALLOW_PRIVATE: 'on'
    }
  })
  for (const host of ['*.wild.test', 'b.test']) await site(sluice, host, {})
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: receiver } } })).id
  await create(sluice, '/event_subscriptions', {
    sources: [{ type: 'http_request_complete.v0' }],
    destination_ids: [destination]
  })
  const call = account(sluice)
  /** The exchange, and what the API shows of it. */
  const run = async ({ request, answer = OK, asked }: Message): Promise<string> => {
    if (asked !== undefined)
      return String(
        (await call(asked.path, asked.body === undefined ? {} : { method: 'POST', body: asked.body })).status
      )
    upstream.answer = answer
    const status = await exchange(sluice, request)
    const { json } = await call('/exchanges?limit=1')
    const [last] = json.exchanges ?? []
    if (last !== undefined) await call(`/exchanges/${last.id}`)
    sluice.log.length = 0
    return status
  }
  const only = process.env.TEST_KIND
  for (const [kind, messageOf] of Object.entries(kinds)) {
    if (only !== undefined && !kind.startsWith(only)) continue
    await t.test(kind, async (t) => {
      const limit = OF_BODIES.has(kind) ? BODY : FIELD
      const begun = process.cpuUsage()
      const statuses = new Set([await run(messageOf('a1'))])
      for (const family of Object.keys(textFamilies)) {
        const growth = await fastGrowth(
          limit,
          (size) => messageOf(textOf(family, size)),
          async (message) => statuses.add(await run(message))
        )
        t.equal(growth, undefined, family)
      }
      const { user, system } = process.cpuUsage(begun)
      t.comment(`${Math.round((user + system) / 1_000)} ms of CPU, ${[...statuses].join(' ')}`)
    })
  }
})
