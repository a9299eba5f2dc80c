import { startSluice } from '../helpers/sluice.js'
import { onEngines } from './engines.js'
import { type Message, statusOf } from './message.js'
import { ask, field, ok, RawClient, turn, Upstream, type UpstreamConnection } from './peers.js'

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`

/** What an upstream does to the request for /bad, and what may be seen of it. */
interface Misbehaviour {
  readonly name: string
  /** Bytes of the answer. */
  readonly reply: string
  /** What it does behind them; without it, it waits. */
  readonly after?: 'end' | 'reset'
  readonly method?: string
  /** Status of a complete answer, or an answer that was cut off. */
  readonly seen: number | 'aborted'
  readonly code?: string
  readonly body?: string
  readonly framing?: Message['framing']
  /** May the same upstream connection serve the next request? Undefined: either. */
  readonly reused?: boolean
}

const refused = (name: string, reply: string, after?: 'end' | 'reset'): Misbehaviour => ({
  name,
  reply,
  seen: 502,
  code: 'UPSTREAM_MALFORMED',
  reused: false,
  ...(after === undefined ? {} : { after })
})

const cases: readonly Misbehaviour[] = [
  {
    name: 'a plain answer',
    reply: `${OK}Content-Length: 2\r\n\r\nok`,
    seen: 200,
    body: 'ok',
    framing: 'length',
    reused: true
  },
  {
    name: 'a chunked answer',
    reply: `${CHUNKED}2\r\nok\r\n0\r\n\r\n`,
    seen: 200,
    body: 'ok',
    framing: 'chunked',
    reused: true
  },
  {
    name: 'an answer until the end of the connection',
    reply: `${OK}\r\nok`,
    after: 'end',
    seen: 200,
    body: 'ok',
    reused: false
  },
  {
    name: 'an answer that says close',
    reply: `${OK}Connection: close\r\nContent-Length: 2\r\n\r\nok`,
    seen: 200,
    body: 'ok',
    reused: false
  },
  { name: 'HTTP/1.0', reply: 'HTTP/1.0 200 OK\r\n\r\nok', after: 'end', seen: 200, body: 'ok', reused: false },

  refused('length and coding', `${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
  refused('coding and length', `${OK}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
  refused('two different lengths', `${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!`),
  refused('a list of lengths', `${OK}Content-Length: 2, 3\r\n\r\nok!`),
  refused('a negative length', `${OK}Content-Length: -2\r\n\r\nok`),
  refused('a length with a sign', `${OK}Content-Length: +2\r\n\r\nok`),
  refused('a length of letters', `${OK}Content-Length: two\r\n\r\nok`),
  refused('a length beyond 2^64', `${OK}Content-Length: 18446744073709551618\r\n\r\nok`),
  refused('another coding', `${OK}Transfer-Encoding: gzip\r\n\r\nok`, 'end'),
  refused('chunked twice', `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
  refused('a coding that is not quite chunked', `${OK}Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`, 'end'),
  refused('no status line', 'hello there\r\n\r\n'),
  refused('a status of letters', 'HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n'),
  refused('a status of two digits', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('a status below 100', 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('another protocol', 'RTSP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('HTTP/2.0', 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('lower-case protocol', 'http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
  refused('a bare LF in a field', `${OK}X-A: 1\nX-B: 2\r\nContent-Length: 2\r\n\r\nok`),
  refused('a bare CR in a field', `${OK}X-A: 1\rX-B: 2\r\nContent-Length: 2\r\n\r\nok`),
  refused('NUL in a field', `${OK}X-A: 1\x002\r\nContent-Length: 2\r\n\r\nok`),
  refused('a control character in a field', `${OK}X-A: 1\x012\r\nContent-Length: 2\r\n\r\nok`),
  refused('a bare CR in the reason', 'HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok'),
  refused('a field without a colon', `${OK}X-A\r\nContent-Length: 2\r\n\r\nok`),
  refused('a space before the colon', `${OK}X-A : 1\r\nContent-Length: 2\r\n\r\nok`),
  refused('an empty name', `${OK}: 1\r\nContent-Length: 2\r\n\r\nok`),
  refused('only bare LF', 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok'),
  refused('a head of 300,000 bytes', `${OK}X-A: ${'a'.repeat(300_000)}\r\nContent-Length: 2\r\n\r\nok`),
  refused(
    '101 that nobody asked for',
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  ),
  refused('no end of interim answers', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(2_000)),

  {
    name: 'more bytes than the length',
    reply: `${OK}Content-Length: 2\r\n\r\nok and more`,
    seen: 200,
    body: 'ok',
    reused: false
  },
  {
    name: 'a second answer behind the first',
    reply: `${OK}Content-Length: 2\r\n\r\nok${OK}Content-Length: 4\r\n\r\nevil`,
    seen: 200,
    body: 'ok',
    reused: false
  },
  {
    name: 'bytes behind the last chunk',
    reply: `${CHUNKED}2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n`,
    seen: 200,
    body: 'ok',
    reused: false
  },
  {
    name: 'a body for HEAD',
    method: 'HEAD',
    reply: `${OK}Content-Length: 2\r\n\r\nok`,
    seen: 200,
    body: '',
    reused: false
  },
  {
    name: 'a chunked body for HEAD',
    method: 'HEAD',
    reply: `${CHUNKED}2\r\nok\r\n0\r\n\r\n`,
    seen: 200,
    body: '',
    reused: false
  },
  { name: 'a body of 204', reply: 'HTTP/1.1 204 No Content\r\n\r\nbody', seen: 204, body: '', reused: false },
  {
    name: 'a body of 304',
    reply: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody',
    seen: 304,
    body: '',
    reused: false
  },

  { name: 'the end in mid-length', reply: `${OK}Content-Length: 10\r\n\r\nok`, after: 'end', seen: 'aborted' },
  { name: 'a reset in mid-length', reply: `${OK}Content-Length: 10\r\n\r\nok`, after: 'reset', seen: 'aborted' },
  { name: 'the end in mid-chunk', reply: `${CHUNKED}a\r\nok`, after: 'end', seen: 'aborted' },
  { name: 'the end between chunks', reply: `${CHUNKED}2\r\nok\r\n`, after: 'end', seen: 'aborted' },
  { name: 'the end before the last line', reply: `${CHUNKED}2\r\nok\r\n0\r\n`, after: 'end', seen: 'aborted' },
  { name: 'a reset in a body without a length', reply: `${OK}\r\nok`, after: 'reset', seen: 'aborted' },
  { name: 'a chunk size that is none', reply: `${CHUNKED}2\r\nok\r\nxyz\r\n`, seen: 'aborted', reused: false },
  { name: 'a chunk that is too long', reply: `${CHUNKED}2\r\nokay\r\n0\r\n\r\n`, seen: 'aborted', reused: false },
  { name: 'silence in mid-body', reply: `${OK}Content-Length: 10\r\n\r\nok`, seen: 'aborted', reused: false },

  { name: 'silence', reply: '', seen: 504, code: 'UPSTREAM_TIMEOUT', reused: false },
  { name: 'a head that does not end', reply: `${OK}X-A: 1\r\n`, seen: 504, code: 'UPSTREAM_TIMEOUT', reused: false },
  {
    name: 'only an interim answer',
    reply: 'HTTP/1.1 103 Early Hints\r\n\r\n',
    seen: 504,
    code: 'UPSTREAM_TIMEOUT',
    reused: false
  },
  { name: 'the end without an answer', reply: '', after: 'end', seen: 502, code: 'UPSTREAM_GONE' },
  { name: 'a reset without an answer', reply: '', after: 'reset', seen: 502, code: 'UPSTREAM_GONE' },
  { name: 'the end in the head', reply: `${OK}Content-Le`, after: 'end', seen: 502 },
  { name: 'a reset for POST', method: 'POST', reply: '', after: 'reset', seen: 502, code: 'UPSTREAM_GONE' },

  {
    name: 'interim answers, then the final one',
    reply: `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`,
    seen: 200,
    body: 'ok',
    reused: true
  },
  {
    name: 'a status that nobody knows',
    reply: 'HTTP/1.1 299 Own\r\nContent-Length: 2\r\n\r\nok',
    seen: 299,
    body: 'ok',
    reused: true
  },
  {
    name: 'an empty reason',
    reply: 'HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok',
    seen: 200,
    body: 'ok',
    reused: true
  }
]

const request = (method: string, target: string): string =>
  `${method} ${target} HTTP/1.1\r\nHost: a.test\r\n${method === 'POST' ? 'Content-Length: 2\r\n\r\nhi' : '\r\n'}`

onEngines('what an upstream must not do', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const options = { TIMEOUTS_RESPONSE: '300ms', TIMEOUTS_IDLE: '300ms', ACCESS_LOG: 'off' }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options })
  let bad: UpstreamConnection[] = []
  let next: UpstreamConnection[] = []

  for (const wire of cases) {
    bad = []
    next = []
    upstream.reply = (message, connection) => {
      if (!message.line.includes(' /bad ')) {
        next.push(connection)
        return ok(message, connection)
      }
      bad.push(connection)
      misbehave(connection, wire)
      return undefined
    }
    const client = await RawClient.open(sluice.port)
    const answer = await client.ask(request(wire.method ?? 'GET', '/bad'), 3_000)
    await turn(3)
    t.same(problemsOf(wire, client, answer), [], wire.name)
    client.close()
    const answered = await ask(sluice.port, request('GET', '/next'))
    t.equal(answered?.body, 'ok', `${wire.name}: the next request gets its own answer`)
    if (wire.reused !== undefined) {
      const reused = next.some((connection) => bad.includes(connection))
      t.equal(reused, wire.reused, `${wire.name}: reuse`)
    }
  }
})

function misbehave({ socket }: UpstreamConnection, { reply, after }: Misbehaviour): void {
  const go = (): void => {
    if (after === 'end') socket.end()
    // A reset throws away what is still on its way, so the bytes get a moment to be read.
    else if (after === 'reset') void turn(5).then(() => socket.resetAndDestroy())
  }
  if (reply === '') go()
  else socket.write(reply, 'latin1', go)
}

function problemsOf(wire: Misbehaviour, client: RawClient, answer: Message | undefined): string[] {
  const problems: string[] = []
  if (client.malformed !== undefined) problems.push(`malformed answer: ${client.malformed}`)
  if (client.interim.length > 64) problems.push(`${client.interim.length} interim answers`)
  if (wire.seen === 'aborted') {
    if (answer !== undefined) problems.push(`a complete answer: ${answer.line} ${answer.framing}`)
    if (!client.closed) problems.push('the client waits')
    return problems
  }
  if (answer === undefined)
    return [...problems, `no answer, expected ${wire.seen}; ${JSON.stringify(client.text.slice(0, 200))}`]
  if (statusOf(answer) !== wire.seen) problems.push(`status ${statusOf(answer)}, expected ${wire.seen}`)
  if (wire.body !== undefined && answer.body !== wire.body) problems.push(`body ${JSON.stringify(answer.body)}`)
  if (wire.framing !== undefined && answer.framing !== wire.framing) problems.push(`framing ${answer.framing}`)
  if (wire.code !== undefined && field(answer, 'sluice-error-code') !== wire.code) {
    problems.push(`code ${field(answer, 'sluice-error-code')}`)
  }
  if (client.rest !== '') problems.push(`bytes behind the answer: ${JSON.stringify(client.rest.slice(0, 100))}`)
  return problems
}

onEngines('bytes on an idle upstream connection are never the answer to the next request', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  for (const poison of [
    'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil',
    'evil',
    '\r\n',
    'HTTP/1.1 408 Request Timeout\r\n\r\n'
  ]) {
    t.equal((await ask(sluice.port, request('GET', '/first')))?.body, 'ok')
    const [idle] = upstream.connections
    idle?.socket.write(poison)
    // The proxy closes the poisoned connection, or at the latest discards it when it is wanted.
    const next = await ask(sluice.port, request('GET', '/next'))
    t.equal(next?.body, 'ok', JSON.stringify(poison))
    await turn(5)
    t.notOk(upstream.connections.includes(idle as UpstreamConnection), 'the connection is gone')
  }
})

onEngines('an answer before the end of the request body', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  for (const framing of ['Content-Length: 1000000', 'Transfer-Encoding: chunked']) {
    const client = await RawClient.open(sluice.port)
    client.write(`POST /early HTTP/1.1\r\nHost: a.test\r\n${framing}\r\n\r\n`)
    if (framing.startsWith('T')) client.write('5\r\nhello\r\n')
    else client.write('hello')
    await upstream.until(() => upstream.connections.some(({ text }) => text.includes('hello')))
    const [connection] = upstream.connections.filter(({ text }) => text.includes('hello'))
    connection?.socket.write('HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop')
    t.ok(await client.until(() => client.answers.length === 1), `${framing}: the answer comes at once`)
    t.match(client.answers[0], { line: /^HTTP\/1.1 413/, body: 'stop' })
    // Bytes that would be a request if they were not inside the body.
    client.write('GET /evil HTTP/1.1\r\nHost: a.test\r\n\r\n'.repeat(4_000))
    t.ok(await client.until(() => client.closed), `${framing}: the proxy closes`)
    t.equal(client.answers.length, 1)
    t.notOk(upstream.requests.some(({ line }) => line.includes('/evil')))
    client.close()
    t.equal((await ask(sluice.port, request('GET', '/next')))?.body, 'ok')
    t.notOk(upstream.requests.some(({ line }) => line.includes('/evil')))
  }
})

onEngines('an upstream that nobody listens for', async (t, engine) => {
  const gone = await Upstream.start(t)
  const { address } = gone
  gone.close()
  const sluice = await startSluice(t, { engine, upstream: address })
  for (const method of ['GET', 'POST']) {
    const answer = await ask(sluice.port, request(method, '/a'))
    t.equal(answer && statusOf(answer), 502)
    t.equal(field(answer, 'sluice-error-code'), 'UPSTREAM_REFUSED')
  }
})

onEngines('a connection that the upstream closed while idle', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  for (let i = 0; i < 5; i++) {
    t.equal((await ask(sluice.port, request('GET', '/a')))?.body, 'ok')
    const [idle] = upstream.connections
    // The request and the end of the connection meet on the way: GET is sent again, nobody sees an error.
    idle?.socket.destroy()
    t.equal((await ask(sluice.port, request('GET', '/b')))?.body, 'ok')
  }
})
