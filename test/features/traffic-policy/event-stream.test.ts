import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { constants, createBrotliCompress, createGzip } from 'node:zlib'
import t from 'tap'
import { watchEventStream } from '../../../src/features/traffic-policy.js'
import type { Flow } from '../../../src/flow/flow.js'
import { makeFlow } from '../../helpers/flow.js'
import { ScriptedBody } from '../../helpers/message-body.js'
import { Kit, outcomeOf } from '../kit.js'

const kit = new Kit()

function phaseOf(rules: readonly object[]) {
  const { policy, problems } = kit.compile({ on_event_stream_message: rules })
  const phase = policy?.phases.on_event_stream_message
  if (phase === null || phase === undefined) throw new Error(JSON.stringify(problems))
  return phase
}

function replacing(...replacements: object[]) {
  return phaseOf([{ actions: [{ type: 'sse-find-replace', config: { replacements } }] }])
}

function streamFlow(headers: readonly string[] = [], options: { status?: number; method?: string } = {}): Flow {
  const { status = 200, method = 'GET' } = options
  const body = new ScriptedBody([])
  return makeFlow({
    method,
    response: { status, body, headers: ['Content-Type', 'text/event-stream; charset=utf-8', ...headers] }
  })
}

/** The transforms of the response, joined. */
function joined(flow: Flow): { into: Duplex; out: Duplex } {
  const streams = (flow.response?.transforms ?? []).map((make) => make())
  for (const [i, stream] of streams.entries()) {
    const next = streams[i + 1]
    if (next === undefined) continue
    stream.on('error', (error) => next.destroy(error))
    stream.pipe(next)
  }
  return { into: streams[0] as Duplex, out: streams.at(-1) as Duplex }
}

async function sent(flow: Flow, ...chunks: readonly (string | Uint8Array)[]): Promise<string> {
  const { into, out } = joined(flow)
  let text = ''
  out.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8')
  })
  for (const chunk of chunks) into.write(Buffer.from(chunk))
  into.end()
  await once(out, 'end')
  return text
}

t.test('each message is replaced in for itself, while the stream goes on', async (t) => {
  const flow = streamFlow(['Content-Length', '99', 'x-a', 'b'])
  const phase = replacing(
    { from: '\\b(NOTE|WARNING)\\b', to: '**$1**' },
    { field: 'retry', from: '\\d+', to: '10' },
    { field: 'data', from: '^bad$' }
  )
  t.equal(watchEventStream(phase, flow, kit.bodies), undefined)
  t.same(flow.response?.headers.list, ['Content-Type', 'text/event-stream; charset=utf-8', 'x-a', 'b'])
  const { into, out } = joined(flow)
  into.write('id: 1\ndata: a NO')
  into.write('TE\nretry: 5000\n\n')
  const [first] = (await once(out, 'data')) as [Buffer]
  t.equal(String(first), 'id: 1\ndata: a **NOTE**\nretry: 10\n\n')
  t.same(kit.read('actions.service.sse_find_replace.replacements', flow, 'on_http_response'), [
    { replacement_index: 0, matched_content: 'NOTE' },
    { replacement_index: 1, matched_content: '5000' }
  ])
  into.write(': ping\n\ndata: NOT\n\ndata: E\n\ndata: bad\n\n')
  const [second] = (await once(out, 'data')) as [Buffer]
  t.equal(String(second), ': ping\n\n', 'no state from one message to the next')
  into.destroy()
  out.destroy()
})

t.test('rules have conditions, and see request and response', async (t) => {
  const rules = [
    {
      expressions: ["req.url.path == '/chat'", 'res.status_code == 200'],
      actions: [{ type: 'sse-find-replace', config: { replacements: [{ from: 'a', to: '${req.method}' }] } }]
    }
  ]
  const other = streamFlow()
  watchEventStream(phaseOf(rules), other, kit.bodies)
  t.equal(await sent(other, 'data: a\n\n'), 'data: a\n\n')
  const chat = makeFlow({
    url: 'http://app.example.com/chat',
    response: { body: new ScriptedBody([]), headers: ['content-type', 'text/event-stream'] }
  })
  watchEventStream(phaseOf(rules), chat, kit.bodies)
  t.equal(await sent(chat, 'data: a\n\n'), 'data: GET\n\n')
})

t.test('a failure breaks the stream instead of letting a message through', async (t) => {
  for (const broken of [
    replacing({ from: 'a', to: "${req.headers['x-missing'][0]}" }),
    replacing({ from: "${req.headers['x-missing'][0]}" }),
    replacing({ field: '${req.method}', from: 'a' }),
    replacing({ field: 'retry', from: '1', to: '2\ndata: injected' }),
    phaseOf([
      {
        expressions: ['1 / (size(req.method) - 3) == 1'],
        actions: [{ type: 'sse-find-replace', config: { replacements: [{ from: 'a' }] } }]
      }
    ])
  ]) {
    const flow = streamFlow()
    watchEventStream(broken, flow, kit.bodies)
    await t.rejects(sent(flow, 'data: a\nretry: 1\n\n'))
  }
})

t.test('a stream in a coding is undone at once; one that cannot be undone is refused', async (t) => {
  const encoders = {
    gzip: () => createGzip({ flush: constants.Z_SYNC_FLUSH }),
    br: () => createBrotliCompress({ flush: constants.BROTLI_OPERATION_FLUSH })
  }
  for (const [coding, encoder] of Object.entries(encoders)) {
    const flow = streamFlow(['content-encoding', coding])
    t.equal(watchEventStream(replacing({ from: 'secret', to: '-' }), flow, kit.bodies), undefined)
    t.notOk(flow.response?.headers.has('content-encoding'))
    const { into, out } = joined(flow)
    const encode = encoder()
    encode.pipe(into)
    encode.write('data: a secret\n\n')
    const [first] = (await once(out, 'data')) as [Buffer]
    t.equal(String(first), 'data: a -\n\n', 'before the stream has ended')
    encode.end()
    out.resume()
    await once(out, 'end')
  }
  const flow = streamFlow(['content-encoding', 'zstd'])
  t.equal(outcomeOf(watchEventStream(replacing({ from: 'a' }), flow, kit.bodies)), '502 RESPONSE_ENCODING')
})

t.test('other responses are left alone', async (t) => {
  const phase = replacing({ from: 'a' })
  const others = [
    makeFlow({ response: { headers: ['content-type', 'text/plain'] } }),
    makeFlow({ response: {} }),
    streamFlow([], { status: 304 }),
    streamFlow([], { method: 'HEAD' })
  ]
  for (const flow of others) {
    t.equal(watchEventStream(phase, flow, kit.bodies), undefined)
    t.same(flow.response?.transforms, [])
  }
})

t.test('memory of unfinished messages is the budget’s, and comes back', async (t) => {
  const flow = streamFlow()
  watchEventStream(replacing({ from: 'a' }), flow, kit.bodies)
  const { into, out } = joined(flow)
  out.resume()
  into.write(`data: ${'x'.repeat(1000)}`)
  t.equal(kit.bodies.held, 1006)
  into.write('\n\n')
  t.equal(kit.bodies.held, 0)
  into.write(`data: ${'x'.repeat(1024 * 1024)}`)
  await t.rejects(once(out, 'end'))
  flow.end()
  t.equal(kit.bodies.held, 0)
})
