import { Readable } from 'node:stream'
import { createGzip, gunzipSync } from 'node:zlib'
import t from 'tap'
import { BodyBuffers } from '../../src/flow/body-buffers.js'
import { refuse } from '../../src/flow/verdict.js'
import { ManualClock } from '../helpers/clock.js'
import { makeFlow } from '../helpers/flow.js'
import { ScriptedBody } from '../helpers/message-body.js'
import { until } from '../helpers/until.js'

const buffers = (total = 100, each = 10) => {
  return new BodyBuffers({ total, each, broken: (failure) => refuse({ status: 599, code: failure }) })
}

function requestWith(body: ScriptedBody, clientAddress?: string) {
  const flow = makeFlow({ method: 'POST', ...(clientAddress === undefined ? {} : { clientAddress }) })
  if (flow.request === undefined) throw new Error('no request')
  flow.request.body = body
  return flow
}

t.test('a request body stands in its flow as bytes, and is read once', async (t) => {
  const bodies = buffers()
  const body = new ScriptedBody(['abc', 'def'])
  const flow = requestWith(body)
  const first = await bodies.request(flow)
  t.equal(String(first), 'abcdef')
  t.equal(await bodies.request(flow), first)
  t.equal(flow.request?.body, first)
  t.equal(body.claimed, 1)
  t.equal(bodies.held, 6)
  flow.end()
  t.equal(bodies.held, 0)
})

t.test('no body costs nothing and stays the engine’s', async (t) => {
  const bodies = buffers()
  const body = new ScriptedBody([], { framing: { kind: 'none' } })
  const flow = requestWith(body)
  t.equal(((await bodies.request(flow)) as Uint8Array).length, 0)
  t.equal(flow.request?.body, body)
  t.equal(body.claimed, 0)
  t.equal(((await bodies.response(makeFlow({}))) as Uint8Array).length, 0)
})

t.test('a body that is too large is refused: by what it says before a byte is read, else by what came', async (t) => {
  const bodies = buffers()
  const announced = new ScriptedBody(['abcdefghijk'], { framing: { kind: 'length', bytes: 11 } })
  t.match(await bodies.request(requestWith(announced)), { status: 413, code: 'BODY_TOO_LARGE' })
  t.equal(announced.claimed, 0)
  const open = new ScriptedBody(['abcdef', 'ghijk', 'never'])
  const flow = requestWith(open)
  t.match(await bodies.request(flow), { status: 413, code: 'BODY_TOO_LARGE' })
  t.equal(open.abandoned, true)
  t.equal(flow.request?.body, open, 'nothing half stands in the flow')
  const exact = new ScriptedBody(['abcde', 'fghij'])
  t.equal(String(await bodies.request(requestWith(exact))), 'abcdefghij')
  const answer = new ScriptedBody(['abcdefghijk'])
  t.match(await bodies.response(makeFlow({ response: { body: answer } })), { status: 502, code: 'RESPONSE_TOO_LARGE' })
  t.equal(bodies.held, 10)
})

t.test('the budget of the process bounds all bodies together and comes back with the end of each', async (t) => {
  const bodies = buffers(15)
  const first = requestWith(new ScriptedBody(['abcdefgh']))
  const second = requestWith(new ScriptedBody(['abcd', 'efgh']))
  await bodies.request(first)
  t.match(await bodies.request(second), { status: 503, code: 'BODY_BUDGET' })
  t.equal(bodies.held, 8, 'what was counted for a refused body is given back at once')
  first.end()
  first.end()
  t.equal(bodies.held, 0)
  const third = requestWith(new ScriptedBody(['abcdefgh']))
  t.equal(String(await bodies.request(third)), 'abcdefgh')
  third.end()
  t.equal(String(await bodies.request(third)), 'abcdefgh')
  t.equal(bodies.held, 0)
})

t.test('one client holds at most its share, and an IPv6 network is one client', async (t) => {
  const bodies = new BodyBuffers({
    total: 100,
    each: 10,
    perClient: 12,
    broken: (failure) => refuse({ status: 599, code: failure })
  })
  const from = (clientAddress: string, text = 'abcdefgh') => {
    const flow = requestWith(new ScriptedBody([text]), clientAddress)
    return { flow, whole: bodies.request(flow) }
  }
  const held = from('192.0.2.1')
  t.equal(String(await held.whole), 'abcdefgh')
  t.match(await from('192.0.2.1').whole, { status: 429, code: 'BODY_SHARE' })
  t.equal(bodies.held, 8)
  t.equal(String(await from('192.0.2.1', 'abcd').whole), 'abcd', 'up to the share')
  t.equal(String(await from('192.0.2.2').whole), 'abcdefgh', 'another client is served')
  t.match(bodies.reserve(held.flow, 1), { status: 429, code: 'BODY_SHARE' })
  held.flow.end()
  t.equal(String(await from('192.0.2.1').whole), 'abcdefgh')
  t.equal(String(await from('2001:db8::1').whole), 'abcdefgh')
  t.match(await from('2001:db8::ffff:0:1').whole, { status: 429 })
  t.equal(String(await from('2001:db8:0:1::1').whole), 'abcdefgh')
})

t.test('a body that trickles in ends with 408 and gives back what it held', async (t) => {
  const start = (deadline: number, rate: number) => {
    const clock = new ManualClock()
    const pace = { clock, deadline, rate }
    const bodies = new BodyBuffers({
      total: 100,
      each: 50,
      pace,
      broken: (failure) => refuse({ status: 408, code: failure })
    })
    const send = (text: string) => {
      const stream = new Readable({ read: () => undefined })
      stream.push(text)
      const body = Object.assign(new ScriptedBody([]), { claim: () => stream })
      const whole = bodies.request(requestWith(body))
      let over = false
      const finish = () => {
        over = true
      }
      whole.then(finish, finish)
      // The timer of deadlines keeps no process alive.
      const ended = () => until(() => over)
      return { stream, whole, ended }
    }
    return { clock, bodies, send }
  }
  const late = start(60_000, 0)
  const one = late.send('abcdefgh')
  late.clock.advance(60_001)
  await one.ended()
  t.match(await one.whole, { status: 408, code: 'client-timeout' })
  t.equal(late.bodies.held, 0)

  const paced = start(60_000, 10)
  const steady = paced.send('abcdefghijklmnopqrstuvwxyz')
  const trickling = paced.send('abcdefgh')
  await until(() => paced.bodies.held === 34)
  paced.clock.advance(7_000)
  await trickling.ended()
  t.match(await trickling.whole, { status: 408, code: 'client-timeout' })
  t.equal(paced.bodies.held, 26)
  steady.stream.push(null)
  t.equal(String(await steady.whole), 'abcdefghijklmnopqrstuvwxyz')
})

t.test('an exchange that is over when its body arrives leaves nothing counted', async (t) => {
  const bodies = buffers()
  const flow = requestWith(new ScriptedBody(['abc']))
  const pending = bodies.request(flow)
  flow.end()
  await pending
  t.equal(bodies.held, 0)
  t.equal(bodies.reserve(flow, 5), undefined)
  t.equal(bodies.held, 0)
})

t.test('a broken message is never half a body', async (t) => {
  const bodies = buffers()
  const flow = requestWith(new ScriptedBody(['abc'], { failure: 'client-timeout' }))
  t.match(await bodies.request(flow), { status: 599, code: 'client-timeout' })
  const answered = makeFlow({ response: { body: new ScriptedBody(['abc'], { failure: 'upstream-timeout' }) } })
  t.match(await bodies.response(answered), { status: 599, code: 'upstream-timeout' })
  const stream = new Readable({
    read() {
      this.destroy(new Error('broken'))
    }
  })
  t.match(await bodies.response(makeFlow({ response: { body: stream } })), { status: 599, code: 'upstream-gone' })
  t.equal(bodies.held, 0)
})

t.test('a response is what the client would get: its transforms are applied', async (t) => {
  for (const body of [new ScriptedBody(['hello']), Buffer.from('hello'), Readable.from([Buffer.from('hello')])]) {
    const bodies = buffers(200, 100)
    const flow = makeFlow({ response: { body } })
    flow.response?.transforms.push(() => createGzip())
    const whole = (await bodies.response(flow)) as Uint8Array
    t.equal(gunzipSync(whole).toString(), 'hello')
    t.same(flow.response?.transforms, [])
    t.equal(flow.response?.body, whole)
  }
})

t.test('trailers that came are kept, a promise of none is not', async (t) => {
  for (const [trailers, kept] of [
    [
      ['x-checksum', '1'],
      ['x-checksum', '1']
    ],
    [[], undefined]
  ] as const) {
    const bodies = buffers()
    const body = new ScriptedBody(['abc'], { trailers })
    const flow = makeFlow({ response: { body } })
    if (flow.response !== undefined) flow.response.trailers = () => body.trailers ?? []
    await bodies.response(flow)
    t.same(flow.response?.trailers?.(), kept)
  }
})
