import { randomBytes } from 'node:crypto'
import t from 'tap'
import { binaryHead, closeFrame, FrameReader, pong } from '../../src/transport/websocket/frames.js'

/** What a reader said, whole messages joined. */
function reader() {
  const said: string[] = []
  const data: Buffer[] = []
  const frames = new FrameReader({
    data: (bytes) => data.push(bytes),
    ping: (payload) => said.push(`ping ${payload.toString()}`),
    close: (code) => said.push(`close ${code}`)
  })
  return { frames, said, bytes: () => Buffer.concat(data) }
}

/** A client's frame. */
function frame(opcode: number, payload: Uint8Array, { fin = true, rsv = 0, masked = true } = {}): Buffer {
  const head = [(fin ? 0x80 : 0) | rsv | opcode]
  const mark = masked ? 0x80 : 0
  const { length } = payload
  if (length < 126) head.push(mark | length)
  else if (length < 0x1_0000) head.push(mark | 126, length >>> 8, length & 0xff)
  else
    head.push(
      mark | 127,
      0,
      0,
      0,
      0,
      (length >>> 24) & 0xff,
      (length >>> 16) & 0xff,
      (length >>> 8) & 0xff,
      length & 0xff
    )
  if (!masked) return Buffer.concat([Buffer.from(head), payload])
  const mask = randomBytes(4)
  return Buffer.concat([Buffer.from(head), mask, payload.map((byte, i) => byte ^ (mask[i & 3] as number))])
}

t.test('however frames are cut, the same bytes come out', async (t) => {
  for (let round = 0; round < 200; round++) {
    const sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 70_001]
    const messages = Array.from({ length: 6 }, () =>
      randomBytes(sizes[Math.floor(Math.random() * sizes.length)] as number)
    )
    const stream: Buffer[] = []
    for (const message of messages) {
      const cut = Math.floor(Math.random() * (message.length + 1))
      if (round % 2 === 0) stream.push(frame(2, message))
      else
        stream.push(
          frame(2, message.subarray(0, cut), { fin: false }),
          frame(9, Buffer.from('between')),
          frame(10, Buffer.alloc(0)),
          frame(0, message.subarray(cut))
        )
    }
    stream.push(frame(8, Buffer.of(3, 232)), frame(2, Buffer.from('too late')))
    const whole = Buffer.concat(stream)
    const { frames, said, bytes } = reader()
    for (let at = 0; at < whole.length; ) {
      const step = round < 2 ? 1 : 1 + Math.floor(Math.random() * 40_000)
      if (frames.read(whole.subarray(at, at + step)) !== undefined) t.fail('a violation')
      at += step
    }
    if (!bytes().equals(Buffer.concat(messages))) t.fail(`round ${round}`)
    t.equal(said.at(-1), 'close 1000')
    t.equal(said.length, round % 2 === 0 ? 1 : messages.length + 1)
  }
})

const VIOLATIONS: Readonly<Record<string, [frames: Buffer[], code: number]>> = {
  'a frame without a mask': [[frame(2, Buffer.from('x'), { masked: false })], 1002],
  'a bit of an extension': [[frame(2, Buffer.from('x'), { rsv: 0x40 })], 1002],
  'an unknown kind': [[frame(3, Buffer.alloc(0))], 1002],
  'an unknown kind of control': [[frame(11, Buffer.alloc(0))], 1002],
  'a continuation of nothing': [[frame(0, Buffer.from('x'))], 1002],
  'a message inside a message': [[frame(2, Buffer.from('x'), { fin: false }), frame(2, Buffer.from('y'))], 1002],
  'a ping in parts': [[frame(9, Buffer.from('x'), { fin: false })], 1002],
  'a ping that is too long': [[frame(9, Buffer.alloc(126))], 1002],
  'a message of text': [[frame(1, Buffer.from('x'))], 1003],
  'half a close code': [[frame(8, Buffer.of(3))], 1002],
  'a close code that nobody may send': [[frame(8, Buffer.of(1006 >>> 8, 1006 & 0xff))], 1002],
  'a reason that is no text': [[frame(8, Buffer.of(3, 232, 0xff))], 1007],
  'a length that no number holds': [[Buffer.of(0x82, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4)], 1009]
}

for (const [name, [frames, code]] of Object.entries(VIOLATIONS)) {
  t.test(`${name} is a violation`, async (t) => {
    const one = reader()
    const answers = frames.map((bytes) => one.frames.read(bytes))
    t.equal(answers.at(-1), code)
  })
}

t.test('what is written is what another implementation reads', async (t) => {
  // biome-ignore lint/suspicious/noExplicitAny: the library does not type its receiver.
  const { Receiver } = (await import('ws')) as any
  const receiver = new Receiver({ isServer: false, binaryType: 'nodebuffer' })
  const heard: unknown[] = []
  receiver.on('message', (data: Buffer, isBinary: boolean) => heard.push([data.length, isBinary]))
  receiver.on('pong', (data: Buffer) => heard.push(data.toString()))
  receiver.on('conclude', (code: number) => heard.push(code))
  for (const length of [0, 125, 126, 65_535, 65_536])
    receiver.write(Buffer.concat([binaryHead(length), Buffer.alloc(length)]))
  receiver.write(pong(Buffer.from('p')))
  const concluded = new Promise((resolve) => receiver.on('conclude', resolve))
  receiver.write(closeFrame(1001))
  await concluded
  t.same(heard, [[0, true], [125, true], [126, true], [65_535, true], [65_536, true], 'p', 1001])
})
