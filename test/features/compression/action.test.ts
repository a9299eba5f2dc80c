import { type Duplex, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import zlib from 'node:zlib'
import t from 'tap'
import { negotiate } from '../../../src/features/compression/compressor.js'
import type { Body } from '../../../src/flow/exchange.js'
import type { HeaderList } from '../../../src/flow/headers.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit } from '../kit.js'

const kit = new Kit()
const text = Buffer.from('The quick brown fox jumps over the lazy dog. '.repeat(100))
const decoders = { gzip: zlib.gunzipSync, br: zlib.brotliDecompressSync, deflate: zlib.inflateSync }

interface Case {
  config?: object
  method?: string
  accept?: string
  request?: HeaderList
  status?: number
  headers?: HeaderList
  body?: Body | Uint8Array | Readable | undefined
}

function answer(options: Case = {}) {
  const {
    config,
    method = 'GET',
    accept = 'gzip',
    request = [],
    status = 200,
    headers = ['Content-Type', 'text/plain']
  } = options
  const flow = makeFlow({
    method,
    headers: [...(accept === '' ? [] : ['Accept-Encoding', accept]), ...request],
    response: { status, headers, body: 'body' in options ? options.body : text }
  })
  kit.action('compress-response', config, 'on_http_response')(flow)
  const response = flow.response
  if (response === undefined) throw new Error('no response')
  return { flow, response, coding: response.headers.get('content-encoding') }
}

function bodyOf(kind: 'open' | 'length', bytes: number): Body {
  return { framing: kind === 'open' ? { kind } : { kind, bytes } } as unknown as Body
}

t.test('the body is encoded and the head says so', async (t) => {
  for (const coding of ['gzip', 'br', 'deflate'] as const) {
    const { response, flow } = answer({
      accept: coding,
      headers: [
        ...[
          'Content-Type',
          'text/html; charset=utf-8',
          'Content-Length',
          `${text.length}`,
          'ETag',
          '"v1"',
          'Vary',
          'Origin'
        ],
        ...['Accept-Ranges', 'bytes', 'Content-MD5', 'x', 'Repr-Digest', 'x']
      ]
    })
    t.same(response.headers.list, [
      'Content-Type',
      'text/html; charset=utf-8',
      'Vary',
      'Origin',
      'content-encoding',
      coding,
      'vary',
      'Accept-Encoding',
      'etag',
      'W/"v1"'
    ])
    const encoded = await buffer(Readable.from([text]).pipe((response.transforms[0] as () => Duplex)()))
    t.ok(encoded.length < text.length / 10)
    t.same(decoders[coding](encoded), text)
    t.same(kit.read('actions.service.compress', flow, 'on_http_response'), {
      already_compressed: false,
      negotiated_algorithm: coding
    })
  }
})

t.test('negotiation follows the qualities', async (t) => {
  const offered = ['br', 'gzip', 'deflate']
  const cases: readonly (readonly [string, string | undefined])[] = [
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['x-gzip', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['gzip;q=1.0, br;q=0.5', 'gzip'],
    ['gzip;q=0.5,br;q=0.501', 'br'],
    ['gzip ; q=0.8 , deflate ; Q=0.9', 'deflate'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['*;q=0', undefined],
    ['gzip;q=0', undefined],
    ['identity', undefined],
    ['identity;q=1, gzip;q=0.5', undefined],
    ['identity;q=0.5, gzip;q=0.5', 'gzip'],
    ['identity;q=0, *;q=0', undefined],
    ['zstd', undefined],
    ['', undefined],
    [',,;q=1', undefined],
    ['gzip;q=2', undefined],
    ['gzip;q=0.0001', undefined],
    ['gzip;q=abc, deflate', 'deflate'],
    ['gzip;q=', undefined],
    ['constructor, gzip;q=0.1', 'gzip']
  ]
  for (const [header, expected] of cases) t.equal(negotiate(header, offered), expected, JSON.stringify(header))
  t.equal(negotiate('br, gzip', ['gzip', 'br']), 'gzip', 'between equals the offer decides')
  t.equal(answer({ accept: '', request: ['Accept-Encoding', 'br;q=0.1', 'accept-encoding', 'gzip'] }).coding, 'gzip')
  t.equal(answer({ config: { algorithms: ['deflate', 'br'] }, accept: 'br, gzip, deflate' }).coding, 'deflate')
})

t.test('what must not or need not be compressed is left exactly as it is', async (t) => {
  const plain = ['Content-Type', 'text/plain', 'ETag', '"v1"', 'Content-Length', '4500']
  const cases: Readonly<Record<string, Case>> = {
    204: { status: 204, body: undefined },
    206: { status: 206 },
    range: { headers: [...plain, 'Content-Range', 'bytes 0-1/2'] },
    'no-transform': { headers: [...plain, 'Cache-Control', 'public, No-Transform'] },
    encoded: { headers: [...plain, 'Content-Encoding', 'br'] },
    'event stream': { headers: ['Content-Type', 'text/event-stream; charset=utf-8'], body: bodyOf('open', 0) },
    short: { body: text.subarray(0, 1023) },
    'short body of the upstream': { body: bodyOf('length', 1023) },
    'no body': { body: { framing: { kind: 'none' } } as unknown as Body },
    png: { headers: ['Content-Type', 'image/png'] },
    video: { headers: ['Content-Type', 'video/mp4'] },
    zip: { headers: ['Content-Type', 'Application/Zip; x=y'] },
    woff2: { headers: ['Content-Type', 'font/woff2'] }
  }
  for (const [name, options] of Object.entries(cases)) {
    const headers = options.headers ?? plain
    const { response, flow } = answer({ headers, ...options })
    t.same(response.headers.list, headers, name)
    t.same(response.transforms, [], name)
    t.equal(kit.read('actions.service.compress.negotiated_algorithm', flow, 'on_http_response'), '', name)
    const already = kit.read('actions.service.compress.already_compressed', flow, 'on_http_response')
    t.equal(already, name === 'encoded', name)
  }
  const { response } = answer({ headers: plain, status: 304, body: undefined })
  const fields = [...plain, 'vary', 'Accept-Encoding']
  t.same(response.headers.list, fields, 'a 304 has the Vary of the answer that it stands for (RFC 9110 15.4.5)')
})

t.test('what would be compressed for another client says so, and is left as it is otherwise', async (t) => {
  const plain = ['Content-Type', 'text/plain', 'ETag', '"v1"', 'Content-Length', '4500']
  const cases: Readonly<Record<string, Case>> = {
    'no Accept-Encoding': { accept: '' },
    'nothing in common': { accept: 'sdch' },
    'identity preferred': { accept: 'identity, gzip;q=0.5' },
    'no-transform asked for': { request: ['Cache-Control', 'no-transform'] },
    cookies: { request: ['Cookie', 'session=1'] }
  }
  for (const [name, options] of Object.entries(cases)) {
    const { response, flow } = answer({ headers: plain, ...options })
    t.same(response.headers.list, [...plain, 'vary', 'Accept-Encoding'], name)
    t.same(response.transforms, [], name)
    t.equal(kit.read('actions.service.compress.negotiated_algorithm', flow, 'on_http_response'), '', name)
  }
})

t.test('an answer to HEAD has the head of that to GET', async (t) => {
  const none = { framing: { kind: 'none' } } as unknown as Body
  for (const headers of [
    ['Content-Type', 'text/plain', 'ETag', '"v1"', 'Content-Length', '4500'],
    ['Content-Type', 'text/plain'],
    ['Content-Type', 'text/plain', 'Content-Length', '1023'],
    ['Content-Type', 'image/png', 'Content-Length', '4500']
  ]) {
    const length = headers[headers.indexOf('Content-Length') + 1]
    const body = headers.includes('Content-Length') ? bodyOf('length', Number(length)) : bodyOf('open', 0)
    const get = answer({ headers, body })
    const head = answer({ headers, body: none, method: 'HEAD' })
    t.same(head.response.headers.list, get.response.headers.list, headers.join())
    t.equal(head.response.transforms.length, get.response.transforms.length, 'which takes its length from the head')
  }
  t.equal(answer({ method: 'HEAD', body: text }).coding, 'gzip', 'an answer of our own, whose body is there')
})

t.test('compress is accepted by name and never applied', async (t) => {
  for (const algorithms of [['compress'], ['compress', 'gzip']]) {
    for (const accept of ['compress', 'x-compress', 'compress, gzip;q=0'])
      t.equal(answer({ config: { algorithms }, accept }).coding, undefined, accept)
  }
  t.equal(answer({ config: { algorithms: ['compress', 'gzip'] }, accept: 'compress, gzip;q=0.1' }).coding, 'gzip')
  t.equal(answer({ config: { algorithms: ['compress'] }, accept: '*' }).coding, undefined)
})

t.test('the borders: 1 KiB, plain images, unknown media types, identity, weak tags, Vary as it stands', async (t) => {
  t.equal(answer({ body: text.subarray(0, 1024) }).coding, 'gzip')
  t.equal(answer({ body: bodyOf('length', 1024) }).coding, 'gzip')
  t.equal(answer({ body: bodyOf('open', 0) }).coding, 'gzip')
  t.equal(answer({ headers: ['Content-Type', 'image/svg+xml'] }).coding, 'gzip')
  t.equal(answer({ headers: [] }).coding, 'gzip')
  t.same(answer({ headers: ['Content-Encoding', 'identity'] }).response.headers.values('content-encoding'), ['gzip'])
  t.equal(answer({ headers: ['ETag', 'W/"v"'] }).response.headers.get('etag'), 'W/"v"')
  for (const vary of ['*', 'Origin, accept-encoding']) {
    t.same(answer({ headers: ['Vary', vary] }).response.headers.values('vary'), [vary])
  }
  t.equal(answer({ status: 404 }).coding, 'gzip')
})

t.test('naming the algorithms allows compression for requests with cookies', async (t) => {
  const request = ['Cookie', 'session=1']
  t.equal(answer({ request }).coding, undefined)
  t.equal(answer({ request, config: { algorithms: ['gzip'] } }).coding, 'gzip')
})

t.test('it is compressed once, however often it is asked for', async (t) => {
  const flow = makeFlow({ headers: ['Accept-Encoding', 'gzip, br'], response: { body: text } })
  kit.actions([['compress-response'], ['compress-response', { algorithms: ['br'] }]], 'on_http_response')(flow)
  t.equal(flow.response?.transforms.length, 1)
  t.equal(kit.read('actions.service.compress.already_compressed', flow, 'on_http_response'), true)
})

t.test('a stream is not held back', async (t) => {
  for (const coding of ['gzip', 'br', 'deflate'] as const) {
    const { response } = answer({ accept: coding, body: bodyOf('open', 0) })
    const encoder = (response.transforms[0] as () => Duplex)()
    const decoder = { gzip: zlib.createGunzip, br: zlib.createBrotliDecompress, deflate: zlib.createInflate }[coding]()
    const chunks = encoder.pipe(decoder).iterator({ destroyOnReturn: false })
    for (const part of ['first', 'second']) {
      encoder.write(part)
      const { value } = await chunks.next()
      t.equal(String(value), part, `${coding} ${part}`)
    }
    encoder.destroy()
    decoder.destroy()
  }
})

t.test('algorithms are checked', async (t) => {
  const problems = (config: object) => kit.problems('compress-response', config, 'on_http_response')
  t.match(problems({ algorithms: ['lzma'] }), [/^error CONFIG_INVALID .*algorithms\[0\]/])
  t.match(problems({ algorithms: ['gzip', 'gzip'] }), [/^error CONFIG_INVALID .*algorithms/])
  t.match(problems({ algorithms: [] }), [/^error CONFIG_INVALID .*algorithms/])
  t.match(problems({ algorithms: ['gzip', 'compress'] }), [/^warning CONFIG_UNUSED .*algorithms\[1\].*name gzip/])
  const zstd = problems({ algorithms: ['zstd'] })
  if ('createZstdCompress' in zlib) t.same(zstd, [])
  else t.match(zstd, [/^warning ACTION_UNAVAILABLE .*algorithms\[0\]/])
  t.match(problems({}), [/^warning COOKIES_UNCOMPRESSED .*cookies/])
  t.match(kit.problems('compress-response', {}, 'on_http_request'), [/^error ACTION_PHASE/])
})
