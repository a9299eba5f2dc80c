import t from 'tap'
import { fieldsForReading, greaterReading } from '../../src/flow/content-coding.js'
import { HeaderFields } from '../../src/flow/headers.js'
import { rawClient, valuesOf } from '../helpers/raw-client.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { answering, type RawRequest, RawUpstream } from '../helpers/upstream.js'

const asked = (value: string) => fieldsForReading(new HeaderFields(['Accept-Encoding', value]), 'stream')[1]

t.test('an upstream is asked for nothing that cannot be undone', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['gzip, deflate, br, zstd', 'gzip, deflate, br'],
    ['zstd', 'identity'],
    ['', 'identity'],
    ['zstd;q=1.0, GZIP;q=0.5,identity;q=0', 'GZIP;q=0.5, identity;q=0'],
    ['*', 'identity'],
    ['br, *;q=0.1', 'br'],
    ['br, *;q=0', 'br, *;q=0'],
    ['dcb, x-gzip, constructor', 'x-gzip']
  ]
  for (const [given, expected] of cases) t.equal(asked(given), expected, given)
  const fields = ['Range', 'bytes=0-1', 'A', 'b', 'If-Range', '"v"', 'accept-encoding', 'zstd', 'Accept-Encoding', 'br']
  const coding = ['accept-encoding', 'identity', 'Accept-Encoding', 'br']
  t.same(fieldsForReading(new HeaderFields(fields), 'whole'), ['A', 'b', ...coding])
  t.same(fieldsForReading(new HeaderFields(fields), 'stream'), [...fields.slice(0, 6), ...coding])
  t.equal(greaterReading(undefined, 'stream'), 'stream')
  t.equal(greaterReading('whole', 'stream'), 'whole')
  t.equal(greaterReading('stream', 'whole'), 'whole')
})

const header = ({ headers }: RawRequest, name: string) =>
  headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)
const REPLACING = { type: 'response-body-find-replace', config: { replacements: [{ from: 'secret', to: '-' }] } }
const FOUND = '${string(size(actions.service.response_body_find_replace.replacements))}'
const TEXT = 'a secret '.repeat(200)
const CLIENT = 'accept-encoding: zstd, gzip;q=0.5\r\nrange: bytes=0-3\r\nif-range: "v"\r\n'

for (const engine of engines) {
  t.test(`responses that a policy reads, through ${engine}`, async (t) => {
    const answers = answering(
      `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ${TEXT.length}\r\n\r\n${TEXT}`
    )
    const upstream = await RawUpstream.start(t, answers)
    const actions = [
      REPLACING,
      { type: 'add-headers', config: { headers: { 'x-found': FOUND, 'x-asked': "${req.headers['range'][0]}" } } }
    ]
    const policy = JSON.stringify({ on_http_response: [{ actions }] })
    const sluice = await startSluice(t, { engine, upstream, policy })
    const client = await rawClient(sluice.port)
    t.teardown(() => client.socket.destroy())
    client.send(`GET / HTTP/1.1\r\nhost: a\r\n${CLIENT}\r\n`)
    const answer = await client.answer()
    t.equal(answer.status, 200)
    t.equal(answer.body, TEXT.replaceAll('secret', '-'))
    t.same(valuesOf(answer, 'x-found'), ['1'])
    t.same(valuesOf(answer, 'x-asked'), ['bytes=0-3'], 'rules see what the client sent')
    const request = upstream.peers[0]?.requests[0] as RawRequest
    t.same(header(request, 'accept-encoding'), ['gzip;q=0.5'])
    t.same([header(request, 'range'), header(request, 'if-range')], [[], []])
    await sluice.reload('on_http_request: []')
    client.send(`GET / HTTP/1.1\r\nhost: a\r\n${CLIENT}\r\n`)
    await client.answer()
    const last = upstream.peers.flatMap(({ requests }) => requests).at(-1) as RawRequest
    t.same(header(last, 'accept-encoding'), ['zstd, gzip;q=0.5'], 'a policy that reads nothing changes nothing')
    t.same(header(last, 'range'), ['bytes=0-3'])
  })

  t.test(`HEAD goes through the rules of GET, through ${engine}`, async (t) => {
    const upstream = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n'))
    const rules = [{ actions: [REPLACING, { type: 'add-headers', config: { headers: { 'x-found': FOUND } } }] }]
    const compressing = { actions: [{ type: 'compress-response', config: { algorithms: ['gzip'] } }] }
    const policy = JSON.stringify({ on_http_response: [...rules, compressing] })
    const sluice = await startSluice(t, { engine, upstream, policy })
    const client = await rawClient(sluice.port)
    t.teardown(() => client.socket.destroy())
    client.send('HEAD / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n')
    await client.untilEnd()
    t.match(client.text, /^HTTP\/1\.1 200 /)
    t.match(client.text, /\r\nx-found: 0\r\n/i)
    t.match(client.text, /\r\ncontent-encoding: gzip\r\n/i)
    t.match(client.text, /\r\nvary: Accept-Encoding\r\n/i)
    t.notMatch(client.text, /content-length|transfer-encoding/i, 'the length of another body')
    t.match(client.text, /\r\n\r\n$/)
  })
}
