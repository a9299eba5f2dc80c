import { once } from 'node:events'
import t from 'tap'
import { type EventStreamMessage, EventStreamTransform } from '../../src/flow/event-stream.js'

interface Setup {
  readonly each?: (message: EventStreamMessage) => boolean | Promise<boolean>
  readonly maxMessage?: number
  readonly hold?: (difference: number) => boolean
}

function transform({ each = () => true, maxMessage = 1000, hold = () => true }: Setup = {}) {
  return new EventStreamTransform({ each, maxMessage, hold })
}

async function through(chunks: readonly (string | Uint8Array)[], setup: Setup = {}): Promise<string> {
  const stream = transform(setup)
  const out: Buffer[] = []
  stream.on('data', (chunk: Buffer) => out.push(chunk))
  const ended = once(stream, 'end')
  for (const chunk of chunks) stream.write(Buffer.from(chunk))
  stream.end()
  await ended
  return Buffer.concat(out).toString('utf8')
}

/** Messages as `data|retry`. */
async function messagesOf(chunks: readonly (string | Uint8Array)[]): Promise<string[]> {
  const seen: string[] = []
  await through(chunks, { each: ({ data, retry }) => seen.push(`${data}|${retry}`) > 0 })
  return seen
}

t.test('messages are what the standard says', async (t) => {
  t.same(await messagesOf(['data: a\n\n']), ['a|undefined'])
  t.same(await messagesOf(['data:a\ndata: b\nretry: 5\n\ndata\n\n']), ['a\nb|5', '|undefined'])
  t.same(await messagesOf(['data: a\r\n\r\ndata: b\r\rdata: c\n\n']), ['a|undefined', 'b|undefined', 'c|undefined'])
  t.same(await messagesOf(['data:  two spaces\n\n']), [' two spaces|undefined'])
  t.same(await messagesOf(['\ufeffdata: a\n\n']), ['a|undefined'], 'one byte order mark at the start')
  t.same(await messagesOf([': comment\n\n: ping\n\n']), [], 'comments are no message')
  t.same(await messagesOf(['event: x\nid: 1\n\n']), ['undefined|undefined'])
  t.same(await messagesOf(['DATA: a\nother: b\ndata: c\n\n']), ['c|undefined'], 'names have a case')
  t.same(
    await messagesOf(['data: a\n\ndata: cut']),
    ['a|undefined', 'cut|undefined'],
    'what clients ignore is looked at'
  )
})

t.test('without changes every byte passes as it came', async (t) => {
  const streams = [
    'data: a\n\n',
    '\ufeffid: 1\r\ndata: é\r\n\r\n: c\r\n\r\n',
    'data: a\r\r\ndata:b\r\r',
    'data: cut',
    '\n\n\n'
  ]
  for (const stream of streams) t.equal(await through([stream]), stream)
})

t.test('where the chunks are cut makes no difference, whatever the line ends', async (t) => {
  let seed = 7
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return (seed >>> 8) % below
  }
  const lines = ['data: één', 'data:', 'data: x: y', 'retry: 10', ': note', 'id: 7', 'event: e', '']
  const ends = ['\n', '\r\n', '\r']
  for (let round = 0; round < 400; round++) {
    let text = ''
    for (let i = random(12); i >= 0; i--) text += `${lines[random(lines.length)]}${ends[random(3)]}`
    const bytes = Buffer.from(text)
    const chunks: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      const size = 1 + random(6)
      chunks.push(bytes.subarray(at, at + size))
      at += size
    }
    t.equal(await through(chunks), text)
    t.same(await messagesOf(chunks), await messagesOf([bytes]), JSON.stringify(text))
  }
})

t.test('a change keeps the other lines, and a line end in data stays in data', async (t) => {
  const each = (message: EventStreamMessage): boolean => {
    if (message.data !== undefined) message.data = message.data.replace('secret', 'x\ny\r\nz\rid: 9')
    if (message.retry !== undefined) message.retry = '1'
    return true
  }
  t.equal(
    await through(['id: 7\r\ndata: a secret\r\nevent: e\r\ndata: b\r\nretry: 30\r\n\r\n'], { each }),
    'id: 7\ndata: a x\ndata: y\ndata: z\ndata: id: 9\ndata: b\nevent: e\nretry: 1\n\n'
  )
  t.equal(await through(['data: fine\r\n\r\n'], { each }), 'data: fine\r\n\r\n')
  t.equal(await through(['data: secret'], { each }), 'data: x\ndata: y\ndata: z\ndata: id: 9')
  t.equal(
    await through(['data: a\n\n'], {
      each: (message) => {
        message.data = ''
        return true
      }
    }),
    'data: \n\n'
  )
})

t.test('a message leaves when it is complete, not later', async (t) => {
  const stream = transform()
  stream.write('data: a\n\nda')
  const [first] = (await once(stream, 'data')) as [Buffer]
  t.equal(String(first), 'data: a\n\n')
  stream.write('ta: b\r\r')
  const [second] = (await once(stream, 'data')) as [Buffer]
  t.equal(String(second), 'data: b\r\r')
  stream.destroy()
})

t.test('a step that waits keeps the order', async (t) => {
  const order: string[] = []
  const each = async (message: EventStreamMessage): Promise<boolean> => {
    if (message.data === 'slow') await new Promise((resolve) => setImmediate(resolve))
    order.push(String(message.data))
    message.data = `${message.data}!`
    return true
  }
  t.equal(
    await through(['data: slow\n\ndata: fast\n\nda', 'ta: end'], { each }),
    'data: slow!\n\ndata: fast!\n\ndata: end!'
  )
  t.same(order, ['slow', 'fast', 'end'])
})

t.test('a refused message, one that is too long and one without memory break the stream', async (t) => {
  const refusals: Setup[] = [
    { each: ({ data }) => data !== 'bad message' },
    { each: ({ data }) => Promise.resolve(data !== 'bad message') },
    { maxMessage: 15 },
    { hold: (difference) => difference < 16 }
  ]
  for (const setup of refusals) {
    const stream = transform(setup)
    const out: Buffer[] = []
    stream.on('data', (chunk: Buffer) => out.push(chunk))
    stream.write('data: ok\n\n')
    stream.write('data: bad message')
    stream.write('\n\ndata: never\n\n')
    await t.rejects(once(stream, 'end'))
    t.equal(Buffer.concat(out).toString(), 'data: ok\n\n')
  }
  const whole = transform({ maxMessage: 15 })
  whole.resume()
  whole.write('data: bad message\n\n')
  await t.rejects(once(whole, 'end'), 'also when it comes in one piece')
})

t.test('memory is counted while a message waits for its rest', async (t) => {
  let held = 0
  const stream = transform({
    hold: (difference) => {
      held += difference
      return true
    }
  })
  stream.resume()
  stream.write('data: a\n\nda')
  t.equal(held, 2)
  stream.write('ta: b')
  t.equal(held, 7)
  stream.write('\n\n')
  t.equal(held, 0)
  stream.write('data')
  t.equal(held, 4)
  stream.destroy()
  await once(stream, 'close')
  t.equal(held, 0)
})

t.test('a long message in small pieces is whole, and what was handed on before stays as it was', async (t) => {
  const stream = transform({ maxMessage: 1_000_000 })
  const out: Buffer[] = []
  stream.on('data', (chunk: Buffer) => out.push(chunk))
  const text = `${Array.from({ length: 3000 }, (_, i) => `data: line ${i}`).join('\n')}\n\n`
  const whole = Buffer.from(text.repeat(3))
  for (let at = 0; at < whole.length; at += 7) stream.write(whole.subarray(at, at + 7))
  stream.end()
  await once(stream, 'end')
  t.ok(Buffer.concat(out).equals(whole))
})
