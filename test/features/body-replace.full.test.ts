import { monitorEventLoopDelay } from 'node:perf_hooks'
import { brotliCompressSync, deflateRawSync, deflateSync, gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import type { Flow } from '../../src/flow/flow.js'
import { makeFlow } from '../helpers/flow.js'
import { ScriptedBody } from '../helpers/message-body.js'
import { Kit, outcomeOf } from './kit.js'

const kit = new Kit()
const REQUEST = 'request-body-find-replace'
const RESPONSE = 'response-body-find-replace'

function request(body: string | Uint8Array, headers: readonly string[] = [], query = ''): Flow {
  return makeFlow({ method: 'POST', url: `http://app.example.com/${query}`, headers, body: Buffer.from(body) })
}

function response(body: string | Uint8Array, headers: readonly string[] = [], status = 200): Flow {
  return makeFlow({ response: { body: Buffer.from(body), headers, status } })
}

const bodyOf = ({ request: message }: Flow): string => Buffer.from(message?.body as Uint8Array).toString('utf8')
const answerOf = ({ response: message }: Flow): string => Buffer.from(message?.body as Uint8Array).toString('utf8')

function replacing(type: string | [Kit, string], ...replacements: { from: string; to?: string }[]) {
  const [own, name] = typeof type === 'string' ? [kit, type] : type
  return own.waiting([[name, { replacements }]], name === REQUEST ? 'on_http_request' : 'on_http_response')
}

t.test('replacements run in order, each on the result of the one before, and are published', async (t) => {
  const run = replacing(
    REQUEST,
    { from: '"key":\\s*"([^"]*)"', to: '"key": "<$1>"' },
    { from: 'nothing like it', to: '!' },
    { from: '<(\\w)(\\w*)>', to: '$2$1$$' },
    { from: 'drop' }
  )
  const flow = request('{"key": "abc", "key":"xy"} drop', ['content-type', 'application/json', 'Content-Length', '31'])
  t.equal(outcomeOf(await run(flow)), 'goes on')
  t.equal(bodyOf(flow), '{"key": "bca$", "key": "yx$"} ')
  t.same(kit.read('actions.service.request_body_find_replace.replacements', flow), [
    { replacement_index: 0, matched_content: '"key": "abc"' },
    { replacement_index: 2, matched_content: '<abc>' },
    { replacement_index: 3, matched_content: 'drop' }
  ])
  t.equal(flow.request?.headers.get('content-length'), '30')
  t.equal(kit.read('req.content_length', flow), 30)
})

t.test('pattern and replacement may hold expressions', async (t) => {
  const run = replacing(REQUEST, { from: "${getQueryParam('word')[0]}", to: '${req.method}' })
  const flow = request('a cat', [], '?word=c.t')
  await run(flow)
  t.equal(bodyOf(flow), 'a POST')
  t.equal(outcomeOf(await run(request('x', [], '?word=('))), '500 POLICY_EXPRESSION')
  t.equal(outcomeOf(await run(request('x'))), '500 POLICY_EXPRESSION')
})

t.test('a request is searched whatever its media type, because the client chooses that', async (t) => {
  const flow = request('secret', ['content-type', 'image/png'])
  await replacing(REQUEST, { from: 'secret', to: '-' })(flow)
  t.equal(bodyOf(flow), '-')
})

t.test('a coded body is read, and goes on without its coding when something was replaced', async (t) => {
  const coded = {
    gzip: gzipSync('a secret'),
    'x-gzip': gzipSync('a secret'),
    br: brotliCompressSync('a secret'),
    deflate: deflateSync('a secret'),
    DEFLATE: deflateRawSync('a secret'),
    'gzip, br': brotliCompressSync(gzipSync('a secret')),
    identity: Buffer.from('a secret')
  }
  for (const [coding, bytes] of Object.entries(coded)) {
    const fields = [
      'content-encoding',
      coding,
      'etag',
      '"1"',
      'content-digest',
      'x',
      'accept-ranges',
      'bytes',
      'a',
      'b'
    ]
    const flow = response(bytes, fields)
    t.equal(outcomeOf(await replacing(RESPONSE, { from: 'secret', to: 'word' })(flow)), 'goes on', coding)
    t.equal(answerOf(flow), 'a word')
    t.same(flow.response?.headers.list, ['a', 'b', 'etag', 'W/"1"'])
    const untouched = response(bytes, fields)
    const list = untouched.response?.headers.list
    await replacing(RESPONSE, { from: 'absent', to: 'word' })(untouched)
    t.same(untouched.response?.body, bytes)
    t.equal(untouched.response?.headers.list, list, 'bytes that stay keep their fields')
    const sent = request(bytes, ['content-encoding', coding])
    await replacing(REQUEST, { from: 'secret', to: 'word' })(sent)
    t.equal(bodyOf(sent), 'a word')
    t.notOk(sent.request?.headers.has('content-encoding'))
  }
})

t.test('what cannot be read is refused: passing it would be a way around the policy', async (t) => {
  const own = new Kit()
  const cases: readonly [string, Uint8Array, string, string][] = [
    ['zstd', Buffer.from('x'), '415 BODY_ENCODING', '502 RESPONSE_ENCODING'],
    ['gzip, gzip, gzip, gzip', Buffer.from('x'), '415 BODY_ENCODING', '502 RESPONSE_ENCODING'],
    ['gzip', Buffer.from('no gzip'), '400 BODY_ENCODING', '502 RESPONSE_ENCODING'],
    ['gzip', gzipSync('secret').subarray(0, 15), '400 BODY_ENCODING', '502 RESPONSE_ENCODING'],
    ['gzip', gzipSync(Buffer.alloc(1024 * 1024 + 1)), '413 BODY_TOO_LARGE', '502 RESPONSE_TOO_LARGE'],
    ['br', brotliCompressSync(Buffer.alloc(64 * 1024 * 1024)), '413 BODY_TOO_LARGE', '502 RESPONSE_TOO_LARGE']
  ]
  for (const [coding, bytes, ofRequest, ofResponse] of cases) {
    const sent = request(bytes, ['content-encoding', coding])
    t.equal(outcomeOf(await replacing([own, REQUEST], { from: 'x' })(sent)), ofRequest, coding)
    sent.end()
    const answered = response(bytes, ['content-encoding', coding])
    t.equal(outcomeOf(await replacing([own, RESPONSE], { from: 'x' })(answered)), ofResponse, coding)
    answered.end()
    t.equal(own.bodies.held, 0)
  }
})

t.test('text is read in its charset and becomes UTF-8', async (t) => {
  const run = replacing(RESPONSE, { from: 'für', to: '→ “für”' })
  const latin = response(Buffer.from('Grüße für', 'latin1'), [
    'content-type',
    'text/plain; charset="ISO-8859-1"; x="a b"'
  ])
  await run(latin)
  t.equal(answerOf(latin), 'Grüße → “für”')
  t.equal(latin.response?.headers.get('content-type'), 'text/plain; charset=utf-8; x="a b"')
  const wide = response(Buffer.from('Grüße für', 'utf16le'), ['content-type', 'text/plain;charset=utf-16le'])
  await run(wide)
  t.equal(answerOf(wide), 'Grüße → “für”')
  const plain = response('Grüße für', ['content-type', 'text/html'])
  await run(plain)
  t.equal(answerOf(plain), 'Grüße → “für”')
  t.equal(plain.response?.headers.get('content-type'), 'text/html')
})

t.test('a stray byte neither hides a match nor changes', async (t) => {
  for (const type of ['text/plain; charset=utf-8', 'application/json', 'text/plain; charset=nonsense']) {
    const bytes = Buffer.concat([Buffer.from([0xff, 0xc3]), Buffer.from('secret é'), Buffer.from([0x00, 0xfe])])
    const flow = response(bytes, ['content-type', type])
    await replacing(RESPONSE, { from: 's(ecre)t', to: 'ü$1' })(flow)
    const expected = Buffer.concat([Buffer.from([0xff, 0xc3]), Buffer.from('üecre é'), Buffer.from([0x00, 0xfe])])
    t.same(flow.response?.body, expected, type)
  }
})

t.test('what a replacement may make is bounded', async (t) => {
  const long = 'y'.repeat(4000)
  const flow = request('x'.repeat(300))
  t.equal(outcomeOf(await replacing(REQUEST, { from: 'x', to: long })(flow)), '413 BODY_TOO_LARGE')
  t.equal(bodyOf(flow), 'x'.repeat(300))
  const bomb = replacing(REQUEST, ...Array.from({ length: 40 }, () => ({ from: '.+', to: '$0$0' })))
  t.equal(outcomeOf(await bomb(request('x'))), '413 BODY_TOO_LARGE')
  const huge = replacing(REQUEST, { from: '', to: 'z'.repeat(4000) })
  t.equal(outcomeOf(await huge(request('x'.repeat(100_000)))), '413 BODY_TOO_LARGE')
  const fits = request(`${'x'.repeat(900_000)}END`)
  t.equal(outcomeOf(await replacing(REQUEST, { from: '(E)(N)(D)$', to: `$3$2$1${long}` })(fits)), 'goes on')
  t.equal(bodyOf(fits).length, 900_003 + 4000)
})

t.test('media without text, event streams, 304 and HEAD are left alone', async (t) => {
  const run = replacing(RESPONSE, { from: 'secret', to: '-' })
  for (const type of [
    'image/png',
    'Video/mp4; x=1',
    'application/zip',
    'text/event-stream',
    'application/grpc+proto'
  ]) {
    const body = new ScriptedBody(['secret'])
    const flow = makeFlow({ response: { body, headers: ['content-type', type] } })
    t.equal(await run(flow), undefined)
    t.equal(body.claimed, 0, type)
    t.same(kit.read('actions.service.response_body_find_replace.replacements', flow, 'on_http_response'), [])
  }
  for (const type of ['image/svg+xml', 'application/octet-stream', 'application/xhtml+xml']) {
    const flow = response('secret', ['content-type', type])
    await run(flow)
    t.equal(answerOf(flow), '-', type)
  }
  const head = makeFlow({
    method: 'HEAD',
    response: { body: new ScriptedBody([], { framing: { kind: 'none' } }), headers: ['content-length', '6', 'a', 'b'] }
  })
  t.equal(await run(head), undefined)
  t.same(head.response?.headers.list, ['a', 'b'], 'how long the body would be is not known')
  t.equal(head.response?.transforms.length, 1, 'nor taken from the upstream')
  t.same(kit.read('actions.service.response_body_find_replace.replacements', head, 'on_http_response'), [])
  const own = makeFlow({ method: 'HEAD', response: { body: Buffer.from('a secret'), local: true } })
  t.equal(await run(own), undefined)
  t.equal(answerOf(own), 'a -', 'an answer of our own, whose body is there')
  t.equal(outcomeOf(await run(response('sec', ['content-range', 'bytes 0-2/6'], 206))), '502 RESPONSE_PARTIAL')
})

t.test('a streamed body is gathered, and a broken one is never replaced in', async (t) => {
  const own = new Kit()
  const run = replacing([own, RESPONSE], { from: 'secret', to: '-' })
  const flow = makeFlow({ response: { body: new ScriptedBody(['a sec', 'ret']) } })
  t.equal(outcomeOf(await run(flow)), 'goes on')
  t.equal(answerOf(flow), 'a -')
  flow.end()
  const broken = makeFlow({ response: { body: new ScriptedBody(['a sec'], { failure: 'upstream-timeout' }) } })
  t.equal(outcomeOf(await run(broken)), '502 upstream-timeout')
  t.equal(own.bodies.held, 0)
})

t.test('compression after a replacement compresses its result; before it, it is undone', async (t) => {
  const text = `secret ${'lorem ipsum '.repeat(200)}`
  const list = [
    [RESPONSE, { replacements: [{ from: 'secret', to: 'word' }] }],
    ['compress-response', { algorithms: ['gzip'] }]
  ] as const
  const flowOf = () => {
    const flow = response(text, ['content-type', 'text/plain'])
    flow.request?.headers.append('accept-encoding', 'gzip')
    return flow
  }
  const after = flowOf()
  await kit.waiting(list, 'on_http_response')(after)
  t.equal(after.response?.headers.get('content-encoding'), 'gzip')
  const sent = (await kit.bodies.response(after)) as Uint8Array
  t.match(gunzipSync(sent).toString(), /^word lorem/)
  const before = flowOf()
  await kit.waiting([...list].reverse(), 'on_http_response')(before)
  t.notOk(before.response?.headers.has('content-encoding'))
  t.same(before.response?.transforms, [])
  t.match(answerOf(before), /^word lorem/)
})

t.test('bytes of a buffered body are counted once, however often it is replaced in', async (t) => {
  const own = new Kit()
  const flow = makeFlow({ method: 'POST' })
  if (flow.request !== undefined) flow.request.body = new ScriptedBody(['x'.repeat(1000)])
  await own.waiting([
    [REQUEST, { replacements: [{ from: '^x', to: 'yy' }] }],
    [REQUEST, { replacements: [{ from: 'x$' }] }]
  ])(flow)
  t.equal(own.bodies.held, 1000)
  flow.end()
  t.equal(own.bodies.held, 0)
})

t.test('a long body is replaced in beside the loop, with the same result as a short one', async (t) => {
  const own = new Kit()
  const words = 'a user@example.com wrote to https://b.example/x '
  const text = words.repeat(Math.ceil(900_000 / words.length))
  const list = [
    { from: '([a-z]+)@([a-z.]+)', to: '$2 at $1' },
    { from: 'https://([a-z.]+)', to: 'http://$1' },
    { from: 'nothing like it', to: "${getQueryParam('absent')[0]}" }
  ]
  const short = request(words)
  await replacing([own, REQUEST], ...list)(short)
  const long = request(text)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  t.equal(outcomeOf(await replacing([own, REQUEST], ...list)(long)), 'goes on')
  delay.disable()
  // On the loop it would take more than 250 ms; this is not the measure of it, only the proof that it is not there.
  t.ok(delay.max / 1e6 < 120, `the longest stop of the loop was ${delay.max / 1e6} ms`)
  t.ok(bodyOf(long) === bodyOf(short).repeat(text.length / words.length), 'the same text')
  const published = 'actions.service.request_body_find_replace.replacements'
  t.same(own.read(published, long), own.read(published, short))
  const needed = replacing([own, REQUEST], { from: 'wrote', to: "${getQueryParam('absent')[0]}" })
  t.equal(outcomeOf(await needed(request(text))), '500 POLICY_EXPRESSION', 'a value that is missing where it is needed')
})

t.test('replacements that take too long end with an answer, and the next ones are made', async (t) => {
  const own = new Kit()
  const slow = replacing([own, REQUEST], { from: '(x+)(x+)(x{0,900})y|(x)', to: '-' })
  const text = 'x'.repeat(500_000)
  t.equal(outcomeOf(await slow(request(text))), '503 REPLACEMENT_SLOW')
  const flow = request(`${text}secret`)
  t.equal(outcomeOf(await replacing([own, REQUEST], { from: 'secret', to: '-' })(flow)), 'goes on')
  t.ok(bodyOf(flow) === `${text}-`, 'the same text')
})
