import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { freePort } from '../capabilities/certificates/pebble.js'
import { create, site } from '../helpers/account.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { coded } from './huffman-block.js'
import {
  ACK,
  block,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  Frames,
  frame,
  GOAWAY,
  HEADERS,
  PADDED,
  PING,
  PREFACE,
  PRIORITY,
  PROTOCOL_ERROR,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
  WITH_PRIORITY
} from './raw-frames.js'
import { eventually, NAME } from './suite/harness.js'

/**
 * What h2spec asks of a server (146 cases in its release 2.6.0, and two of other versions), case by case under its section numbers,
 * against the whole product, over TLS and by prior knowledge.
 */

const FLOW_CONTROL_ERROR = 3
const STREAM_CLOSED = 5
const FRAME_SIZE_ERROR = 6
const REFUSED_STREAM = 7
const CANCEL = 8
const COMPRESSION_ERROR = 9
const PUSH_PROMISE = 5
const WHOLE = END_HEADERS | END_STREAM
const BODY = 'a body of some length'

const u32 = (...numbers: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * numbers.length)
  for (const [i, number] of numbers.entries()) bytes.writeUInt32BE(number, 4 * i)
  return bytes
}
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

type Fields = readonly (readonly [string, string])[]

/** How clients of the connection under test name things. */
interface Terms {
  readonly scheme: 'http' | 'https'
}

const request = ({ scheme }: Terms, method = 'GET', more: Fields = []): Fields => [
  [':method', method],
  [':scheme', scheme],
  [':path', '/'],
  [':authority', NAME],
  ...more
]

/** A connection past its start. */
class Client extends Frames {
  terms: Terms = { scheme: 'https' }

  headers(stream: number, flags = WHOLE, fields: Fields = request(this.terms), more: Buffer = Buffer.alloc(0)): void {
    this.send(frame(HEADERS, flags, stream, Buffer.concat([block(fields), more])))
  }

  post(stream: number, more: Fields = []): void {
    this.headers(stream, END_HEADERS, request(this.terms, 'POST', more))
  }

  data(stream: number, text: string | Buffer = 'test', flags = END_STREAM): void {
    this.send(frame(DATA, flags, stream, text))
  }

  settings(...values: readonly (readonly [number, number])[]): void {
    this.send(
      frame(
        SETTINGS,
        0,
        0,
        Buffer.concat(values.map(([id, value]) => Buffer.concat([hex(id.toString(16).padStart(4, '0')), u32(value)])))
      )
    )
  }

  window(stream: number, by: number): void {
    this.send(frame(WINDOW_UPDATE, 0, stream, u32(by)))
  }

  reset(stream: number, code = CANCEL): void {
    this.send(frame(RST_STREAM, 0, stream, u32(code)))
  }

  priority(stream: number, on = 0, weight = 255): void {
    this.send(frame(PRIORITY, 0, stream, Buffer.concat([u32(on), Buffer.from([weight])])))
  }

  ping(flags = 0, stream = 0, text = '12345678'): void {
    this.send(frame(PING, flags, stream, text))
  }

  count(type: number, stream = 0, flags = 0): number {
    return this.all().filter((one) => one.type === type && one.stream === stream && (one.flags & flags) === flags)
      .length
  }

  /** Resolves when the stream is closed on the other side. */
  async ended(stream: number): Promise<void> {
    await eventually(
      () =>
        this.over ||
        this.resetOf(stream) !== undefined ||
        this.all().some((one) => one.stream === stream && one.type <= HEADERS && (one.flags & END_STREAM) !== 0)
    )
  }

  /** Sends SETTINGS and waits until they are acknowledged. */
  async agree(...values: readonly (readonly [number, number])[]): Promise<void> {
    const before = this.count(SETTINGS, 0, ACK)
    this.settings(...values)
    await eventually(() => this.over || this.count(SETTINGS, 0, ACK) > before)
  }
}

interface Outcome {
  readonly name: string
  isThere(client: Client): boolean
}

/** GOAWAY with one of the codes, or an end of the connection. */
const fails = (...codes: number[]): Outcome => ({
  name: `the connection fails with ${codes}`,
  isThere: (client) => client.over || codes.includes(client.goaway ?? -1)
})
/** The same, or RST_STREAM with one of the codes. */
const refuses = (stream: number, ...codes: number[]): Outcome => ({
  name: `stream ${stream} or the connection fails with ${codes}`,
  isThere: (client) =>
    client.over || codes.includes(client.goaway ?? -1) || codes.includes(client.resetOf(stream) ?? -1)
})
const answers = (stream = 1): Outcome => ({
  name: `stream ${stream} is answered`,
  isThere: (client) => client.count(HEADERS, stream) > 0
})
const sends = (bytes: number): Outcome => ({
  name: `DATA of ${bytes} bytes`,
  isThere: (client) => client.all().some((one) => one.type === DATA && one.payload.length === bytes)
})
const ends: Outcome = { name: 'the connection ends', isThere: (client) => client.over }
const pongs: Outcome = { name: 'PING is answered', isThere: (client) => client.count(PING, 0, ACK) > 0 }
const pongsOrEnds: Outcome = {
  name: 'PING is answered, or the connection ends',
  isThere: (client) => client.over || pongs.isThere(client)
}
const says: Outcome = { name: 'GOAWAY', isThere: (client) => client.count(GOAWAY) > 0 }

type Case = readonly [section: string, what: string, outcome: Outcome, act: (client: Client) => void | Promise<void>]

const ZERO_WINDOW = [4, 0] as const
const AGENT = 58
/** A literal: the bits of its kind, the bits of an index that fit into its first byte, name or index, value (RFC 7541 6.2). */
function literal(kind: number, most: number, name: number | string, value: string, huffman = false): Buffer {
  const text = (one: string) => (huffman ? coded(one) : Buffer.concat([Buffer.from([one.length]), Buffer.from(one)]))
  const index = typeof name === 'string' ? 0 : name
  const head = index < most ? [kind | index] : [kind | most, index - most]
  return Buffer.concat([Buffer.from(head), typeof name === 'string' ? text(name) : Buffer.alloc(0), text(value)])
}
const KINDS = [
  ['with indexing', 0x40, 63],
  ['without indexing', 0, 15],
  ['never indexed', 0x10, 15]
] as const
const literals: Case[] = KINDS.flatMap(([kind, bits, most]) =>
  [AGENT, 'x-test'].flatMap((name) =>
    [false, true].map((huffman): Case => {
      const what = `a literal ${kind}, ${typeof name === 'string' ? 'a new name' : 'a name of the table'}${huffman ? ', Huffman' : ''}`
      return [
        'generic/5',
        what,
        answers(),
        (c) => c.headers(1, WHOLE, request(c.terms), literal(bits, most, name, 'h2spec', huffman))
      ]
    })
  )
)

/** A POST whose last field is followed by these bytes. */
const ending = (bytes: string) => (c: Client) => c.headers(1, WHOLE, request(c.terms), hex(bytes))
const posting =
  (...frames: readonly (readonly [string, number])[]) =>
  (c: Client) => {
    c.post(1)
    for (const [text, flags] of frames) c.data(1, text, flags)
  }
const fields =
  (more: Fields, without = '') =>
  (c: Client) =>
    c.headers(1, WHOLE, [...request(c.terms).filter(([name]) => name !== without), ...more])
const whole = (type: number, flags: number, stream: number, payload: Buffer | string) => (c: Client) =>
  c.send(frame(type, flags, stream, payload))
/** A block in as many frames as it has fields, the last of which ends it if `closes`. */
const pieces = (c: Client, last: Fields, closes = true) => {
  c.headers(1, END_STREAM, request(c.terms))
  for (const [at, one] of last.entries())
    c.send(frame(CONTINUATION, closes && at === last.length - 1 ? END_HEADERS : 0, 1, block([one])))
}
const more: Fields = [['x-dummy0', 'abc']]

const CASES: readonly Case[] = [
  [
    'generic/1',
    'the preface of a client',
    { name: 'SETTINGS first', isThere: (c) => c.all()[0]?.type === SETTINGS },
    () => undefined
  ],
  [
    'generic/2',
    'PRIORITY on an idle stream',
    pongs,
    (c) => {
      c.priority(1)
      c.ping()
    }
  ],
  [
    'generic/2',
    'WINDOW_UPDATE on a half-closed stream',
    sends(1),
    (c) => {
      c.settings(ZERO_WINDOW)
      c.headers(1)
      c.window(1, 1)
    }
  ],
  [
    'generic/2',
    'PRIORITY on a half-closed stream',
    sends(1),
    (c) => {
      c.settings(ZERO_WINDOW)
      c.headers(1)
      c.priority(1)
      c.window(1, 1)
    }
  ],
  [
    'generic/2',
    'RST_STREAM on a half-closed stream',
    pongsOrEnds,
    (c) => {
      c.headers(1)
      c.reset(1)
      c.ping()
    }
  ],
  [
    'generic/2',
    'PRIORITY on a closed stream',
    pongs,
    async (c) => {
      c.headers(1)
      await c.ended(1)
      c.priority(1)
      c.ping()
    }
  ],
  ['generic/3.1', 'DATA', answers(), posting(['test', END_STREAM])],
  ['generic/3.1', 'several DATA', answers(), posting(['test', 0], ['test', END_STREAM])],
  ['generic/3.1', 'padded DATA', answers(), posting(['\x02test\0\0', PADDED | END_STREAM])],
  ['generic/3.2', 'HEADERS', answers(), (c) => c.headers(1)],
  [
    'generic/3.2',
    'padded HEADERS',
    answers(),
    (c) => whole(HEADERS, WHOLE | PADDED, 1, Buffer.concat([hex('08'), block(request(c.terms)), Buffer.alloc(8)]))(c)
  ],
  [
    'generic/3.2',
    'HEADERS with priority',
    answers(),
    (c) => whole(HEADERS, WHOLE | WITH_PRIORITY, 1, Buffer.concat([hex('00000000ff'), block(request(c.terms))]))(c)
  ],
  [
    'generic/3.3',
    'PRIORITY 1',
    answers(),
    (c) => {
      c.priority(1, 0, 0)
      c.headers(1)
    }
  ],
  [
    'generic/3.3',
    'PRIORITY 256',
    answers(),
    (c) => {
      c.priority(1, 0, 255)
      c.headers(1)
    }
  ],
  [
    'generic/3.3',
    'PRIORITY with a dependency',
    answers(),
    (c) => {
      c.priority(3, 1, 0)
      c.headers(1)
    }
  ],
  [
    'generic/3.3',
    'PRIORITY, exclusive',
    answers(),
    (c) => {
      c.priority(1, 2 ** 31, 0)
      c.headers(1)
    }
  ],
  [
    'generic/3.3',
    'PRIORITY of an idle stream, then HEADERS of one below',
    answers(),
    (c) => {
      c.priority(3)
      c.headers(1)
    }
  ],
  [
    'generic/3.4',
    'RST_STREAM',
    pongsOrEnds,
    (c) => {
      c.headers(1, END_HEADERS)
      c.reset(1)
      c.ping()
    }
  ],
  [
    'generic/3.5',
    'SETTINGS',
    { name: 'acknowledged', isThere: (c) => c.count(SETTINGS, 0, ACK) === 2 },
    (c) => c.settings([3, 100])
  ],
  ['generic/3.7', 'PING', pongs, (c) => c.ping()],
  [
    'generic/3.8',
    'GOAWAY',
    pongsOrEnds,
    (c) => {
      c.send(frame(GOAWAY, 0, 0, u32(0, 0)))
      c.ping()
    }
  ],
  [
    'generic/3.9',
    'WINDOW_UPDATE of the connection',
    answers(),
    (c) => {
      c.window(0, 1)
      c.headers(1)
    }
  ],
  [
    'generic/3.9',
    'WINDOW_UPDATE of a stream',
    sends(1),
    (c) => {
      c.settings(ZERO_WINDOW)
      c.headers(1)
      c.window(1, 1)
    }
  ],
  ['generic/3.10', 'CONTINUATION', answers(), (c) => pieces(c, more)],
  ['generic/3.10', 'several CONTINUATION', answers(), (c) => pieces(c, [...more, ['x-dummy1', 'abc']])],
  ['generic/4', 'GET', answers(), (c) => c.headers(1)],
  ['generic/4', 'HEAD', answers(), (c) => c.headers(1, WHOLE, request(c.terms, 'HEAD'))],
  ['generic/4', 'POST', answers(), posting(['test', END_STREAM])],
  [
    'generic/4',
    'POST with trailers',
    answers(),
    (c) => {
      c.post(1, [['trailer', 'x-test']])
      c.data(1, 'test', 0)
      c.headers(1, WHOLE, [['x-test', 'ok']])
    }
  ],
  ['generic/5', 'an indexed field', answers(), ending('ba')],
  ...literals,
  [
    'generic/5',
    'a smaller table',
    answers(),
    (c) => whole(HEADERS, WHOLE, 1, Buffer.concat([hex('20'), block(request(c.terms))]))(c)
  ],
  [
    'generic/5',
    'two sizes of the table',
    answers(),
    (c) => whole(HEADERS, WHOLE, 1, Buffer.concat([hex('203fe11f'), block(request(c.terms))]))(c)
  ],

  [
    '3.5',
    'the preface',
    { name: 'SETTINGS', isThere: (c) => c.all().some(({ type, flags }) => type === SETTINGS && flags === 0) },
    () => undefined
  ],
  ['3.5', 'no preface', ends, () => undefined],
  [
    '4.1',
    'an unknown type',
    pongs,
    (c) => {
      c.send(frame(0x16, 0, 0, Buffer.alloc(8)))
      c.ping()
    }
  ],
  ['4.1', 'unknown flags', pongs, (c) => c.ping(0x16)],
  ['4.1', 'the reserved bit', pongs, (c) => c.ping(0x16, 2 ** 31)],
  [
    '4.2',
    'DATA of 2^14 bytes',
    answers(),
    (c) => {
      c.post(1)
      c.data(1, Buffer.alloc(2 ** 14))
    }
  ],
  [
    '4.2',
    'DATA of more',
    refuses(1, FRAME_SIZE_ERROR),
    (c) => {
      c.post(1)
      c.data(1, Buffer.alloc(2 ** 14 + 1))
    }
  ],
  ['4.2', 'HEADERS of more', fails(FRAME_SIZE_ERROR), whole(HEADERS, WHOLE, 1, Buffer.alloc(2 ** 14 + 1))],
  ['4.3', 'a block that is none', fails(COMPRESSION_ERROR), whole(HEADERS, WHOLE, 1, '\x40')],
  [
    '4.3',
    'PRIORITY within a block',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, 0)
      c.priority(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  [
    '4.3',
    'HEADERS of another stream within a block',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, 0)
      c.headers(3)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  ['5.1', 'idle: DATA', fails(PROTOCOL_ERROR), (c) => c.data(1)],
  ['5.1', 'idle: RST_STREAM', fails(PROTOCOL_ERROR), (c) => c.reset(1)],
  ['5.1', 'idle: WINDOW_UPDATE', fails(PROTOCOL_ERROR), (c) => c.window(1, 100)],
  [
    '5.1',
    'idle: CONTINUATION',
    fails(PROTOCOL_ERROR),
    (c) => c.send(frame(CONTINUATION, END_HEADERS, 1, block(request(c.terms))))
  ],
  [
    '5.1',
    'half-closed: DATA',
    refuses(1, STREAM_CLOSED),
    (c) => {
      c.headers(1)
      c.data(1)
    }
  ],
  [
    '5.1',
    'half-closed: HEADERS',
    refuses(1, STREAM_CLOSED),
    (c) => {
      c.headers(1)
      c.headers(1)
    }
  ],
  [
    '5.1',
    'half-closed: CONTINUATION',
    refuses(1, STREAM_CLOSED, PROTOCOL_ERROR),
    (c) => {
      c.headers(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(request(c.terms))))
    }
  ],
  [
    '5.1',
    'closed by RST_STREAM: DATA',
    refuses(1, STREAM_CLOSED),
    (c) => {
      c.headers(1, END_HEADERS)
      c.reset(1)
      c.data(1)
    }
  ],
  [
    '5.1',
    'closed by RST_STREAM: HEADERS',
    refuses(1, STREAM_CLOSED),
    (c) => {
      c.headers(1, END_HEADERS)
      c.reset(1)
      c.headers(1)
    }
  ],
  [
    '5.1',
    'closed by RST_STREAM: CONTINUATION',
    refuses(1, STREAM_CLOSED, PROTOCOL_ERROR),
    (c) => {
      c.headers(1, END_HEADERS)
      c.reset(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  [
    '5.1',
    'closed: DATA',
    fails(STREAM_CLOSED),
    async (c) => {
      c.headers(1)
      await c.ended(1)
      c.data(1)
    }
  ],
  [
    '5.1',
    'closed: HEADERS',
    fails(STREAM_CLOSED),
    async (c) => {
      c.headers(1)
      await c.ended(1)
      c.headers(1)
    }
  ],
  [
    '5.1',
    'closed: CONTINUATION',
    fails(STREAM_CLOSED, PROTOCOL_ERROR),
    async (c) => {
      c.headers(1)
      await c.ended(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  ['5.1.1', 'an even stream', fails(PROTOCOL_ERROR), (c) => c.headers(2)],
  [
    '5.1.1',
    'a stream below the last',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(5)
      c.headers(3)
    }
  ],
  [
    '5.1.1',
    'HEADERS again on a half-closed stream',
    refuses(5, STREAM_CLOSED),
    (c) => {
      c.headers(5)
      c.headers(5)
    }
  ],
  [
    '5.1.2',
    'more streams than allowed',
    {
      name: 'one is refused',
      isThere: (c) =>
        c.over ||
        c
          .all()
          .some(
            ({ type, payload }) =>
              type === RST_STREAM && [PROTOCOL_ERROR, REFUSED_STREAM].includes(payload.readUInt32BE(0))
          )
    },
    async (c) => {
      await c.agree(ZERO_WINDOW)
      const { payload } = c.all()[0] ?? { payload: Buffer.alloc(0) }
      let most = 0
      for (let at = 0; at < payload.length; at += 6)
        if (payload.readUInt16BE(at) === 3) most = payload.readUInt32BE(at + 2)
      for (let n = 0; n <= most; n++) c.headers(2 * n + 1)
    }
  ],
  [
    '5.3.1',
    'HEADERS that depend on their stream',
    refuses(1, PROTOCOL_ERROR),
    (c) => c.send(frame(HEADERS, WHOLE | WITH_PRIORITY, 1, Buffer.concat([hex('00000001ff'), block(request(c.terms))])))
  ],
  ['5.3.1', 'PRIORITY that depends on its stream', refuses(2, PROTOCOL_ERROR), (c) => c.priority(2, 2)],
  ['5.4.1', 'a wrong PING: the connection ends', ends, (c) => c.ping(0, 3)],
  ['5.4.1', 'a wrong PING: GOAWAY first', says, (c) => c.ping(0, 3)],
  [
    '5.5',
    'an extension',
    pongs,
    (c) => {
      c.send(frame(0x16, 0, 0, Buffer.alloc(8)))
      c.ping()
    }
  ],
  [
    '5.5',
    'an extension within a block',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, END_STREAM)
      c.send(frame(0x16, 0, 0, Buffer.alloc(8)), frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  ['6.1', 'DATA of stream 0', fails(PROTOCOL_ERROR), (c) => c.data(0)],
  [
    '6.1',
    'DATA of a stream that is not open',
    refuses(1, STREAM_CLOSED),
    (c) => {
      c.headers(1, WHOLE, request(c.terms, 'POST'))
      c.data(1)
    }
  ],
  [
    '6.1',
    'DATA with too much padding',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.post(1, [['content-length', '4']])
      c.data(1, '\x06test', PADDED | END_STREAM)
    }
  ],
  [
    '6.2',
    'HEADERS, then no CONTINUATION',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, 0)
      c.data(1)
    }
  ],
  [
    '6.2',
    'HEADERS, then one of another stream',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, 0)
      c.headers(3)
    }
  ],
  ['6.2', 'HEADERS of stream 0', fails(PROTOCOL_ERROR), (c) => c.headers(0)],
  [
    '6.2',
    'HEADERS with too much padding',
    fails(PROTOCOL_ERROR),
    (c) => {
      const text = block(request(c.terms))
      c.send(frame(HEADERS, WHOLE | PADDED, 1, Buffer.concat([Buffer.from([text.length + 1]), text])))
    }
  ],
  ['6.3', 'PRIORITY of stream 0', fails(PROTOCOL_ERROR), (c) => c.priority(0)],
  [
    '6.3',
    'PRIORITY of another length',
    refuses(1, FRAME_SIZE_ERROR),
    (c) => {
      c.headers(1, END_HEADERS)
      c.send(frame(PRIORITY, 0, 1, hex('80000001')))
    }
  ],
  ['6.4', 'RST_STREAM of stream 0', fails(PROTOCOL_ERROR), (c) => c.reset(0)],
  ['6.4', 'RST_STREAM of an idle stream', fails(PROTOCOL_ERROR), (c) => c.reset(1)],
  [
    '6.4',
    'RST_STREAM of another length',
    refuses(1, FRAME_SIZE_ERROR),
    (c) => {
      c.headers(1)
      c.send(frame(RST_STREAM, 0, 1, Buffer.alloc(3)))
    }
  ],
  ['6.5', 'SETTINGS acknowledged with content', fails(FRAME_SIZE_ERROR), whole(SETTINGS, ACK, 0, '\0')],
  ['6.5', 'SETTINGS of a stream', fails(PROTOCOL_ERROR), whole(SETTINGS, 0, 1, hex('000300000064'))],
  [
    '6.5',
    'SETTINGS of another length',
    refuses(0, FRAME_SIZE_ERROR, PROTOCOL_ERROR),
    whole(SETTINGS, 0, 0, hex('000300000064000200'))
  ],
  ['6.5.2', 'ENABLE_PUSH 2', fails(PROTOCOL_ERROR), (c) => c.settings([2, 2])],
  ['6.5.2', 'INITIAL_WINDOW_SIZE above the most', fails(FLOW_CONTROL_ERROR), (c) => c.settings([4, 2 ** 31])],
  ['6.5.2', 'MAX_FRAME_SIZE below the least', fails(PROTOCOL_ERROR), (c) => c.settings([5, 2 ** 14 - 1])],
  ['6.5.2', 'MAX_FRAME_SIZE above the most', fails(PROTOCOL_ERROR), (c) => c.settings([5, 2 ** 24])],
  [
    '6.5.2',
    'a setting that is unknown',
    pongs,
    (c) => {
      c.settings([255, 1])
      c.ping()
    }
  ],
  [
    '6.5.3',
    'INITIAL_WINDOW_SIZE twice',
    sends(1),
    async (c) => {
      await c.agree([4, 100], [4, 1])
      c.headers(1)
    }
  ],
  [
    '6.5.3',
    'SETTINGS',
    { name: 'acknowledged', isThere: (c) => c.count(SETTINGS, 0, ACK) === 2 },
    (c) => c.settings([2, 0])
  ],
  [
    '6.7',
    'PING',
    {
      name: 'answered with its content',
      isThere: (c) =>
        c.all().some(({ type, flags, payload }) => type === PING && flags === ACK && payload.toString() === '12345678')
    },
    (c) => c.ping()
  ],
  [
    '6.7',
    'PING with ACK',
    {
      name: 'only the other is answered',
      isThere: (c) =>
        c
          .all()
          .filter(({ type }) => type === PING)
          .map(({ payload }) => payload.toString())
          .join() === '12345678'
    },
    (c) => {
      c.ping(ACK, 0, 'invalid.')
      c.ping()
    }
  ],
  ['6.7', 'PING of a stream', fails(PROTOCOL_ERROR), (c) => c.ping(0, 1)],
  ['6.7', 'PING of another length', fails(FRAME_SIZE_ERROR), (c) => c.ping(0, 0, '123456')],
  ['6.8', 'GOAWAY of a stream', fails(PROTOCOL_ERROR), whole(GOAWAY, 0, 1, u32(0, 0))],
  ['6.9', 'WINDOW_UPDATE of nothing', fails(PROTOCOL_ERROR), (c) => c.window(0, 0)],
  [
    '6.9',
    'WINDOW_UPDATE of nothing on a stream',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      c.headers(1, END_HEADERS)
      c.window(1, 0)
    }
  ],
  ['6.9', 'WINDOW_UPDATE of another length', fails(FRAME_SIZE_ERROR), whole(WINDOW_UPDATE, 0, 0, '\0\0\x01')],
  [
    '6.9.1',
    'a window of 1',
    sends(1),
    async (c) => {
      await c.agree([4, 1])
      c.headers(1)
    }
  ],
  [
    '6.9.1',
    'a window of the connection above 2^31-1',
    fails(FLOW_CONTROL_ERROR),
    (c) => {
      c.window(0, 2 ** 31 - 1)
      c.window(0, 2 ** 31 - 1)
    }
  ],
  [
    '6.9.1',
    'a window of a stream above 2^31-1',
    refuses(1, FLOW_CONTROL_ERROR),
    (c) => {
      c.headers(1, END_HEADERS)
      c.window(1, 2 ** 31 - 1)
      c.window(1, 2 ** 31 - 1)
    }
  ],
  [
    '6.9.2',
    'another INITIAL_WINDOW_SIZE behind HEADERS',
    sends(1),
    async (c) => {
      await c.agree(ZERO_WINDOW)
      c.headers(1)
      await c.agree([4, 1])
    }
  ],
  [
    '6.9.2',
    'a window below 0',
    sends(1),
    async (c) => {
      await c.agree([4, 3])
      c.headers(1)
      await eventually(() => c.over || sends(3).isThere(c))
      await c.agree([4, 2])
      c.window(1, 2)
    }
  ],
  ['6.9.2', 'an INITIAL_WINDOW_SIZE above the most', fails(FLOW_CONTROL_ERROR), (c) => c.settings([4, 2 ** 31])],
  ['6.10', 'several CONTINUATION', answers(), (c) => pieces(c, [...more, ['x-dummy1', 'abc']])],
  [
    '6.10',
    'CONTINUATION, then something else',
    fails(PROTOCOL_ERROR),
    (c) => {
      pieces(c, more, false)
      c.data(1)
    }
  ],
  [
    '6.10',
    'CONTINUATION of stream 0',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1, END_STREAM)
      c.send(frame(CONTINUATION, END_HEADERS, 0, block(more)))
    }
  ],
  [
    '6.10',
    'CONTINUATION behind the end of HEADERS',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.headers(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  [
    '6.10',
    'CONTINUATION behind the end of CONTINUATION',
    fails(PROTOCOL_ERROR),
    (c) => {
      pieces(c, more)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  [
    '6.10',
    'CONTINUATION behind DATA',
    fails(PROTOCOL_ERROR),
    (c) => {
      c.post(1)
      c.data(1)
      c.send(frame(CONTINUATION, END_HEADERS, 1, block(more)))
    }
  ],
  [
    '7',
    'GOAWAY with an unknown code',
    pongsOrEnds,
    (c) => {
      c.send(frame(GOAWAY, 0, 0, u32(0, 255)))
      c.ping()
    }
  ],
  [
    '7',
    'RST_STREAM with an unknown code',
    pongs,
    (c) => {
      c.headers(1, END_HEADERS)
      c.reset(1, 255)
      c.ping()
    }
  ],
  [
    '8.1',
    'HEADERS again without END_STREAM',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      c.post(1)
      c.data(1, 'test', 0)
      c.headers(1, END_HEADERS, [['x-test', 'ok']])
    }
  ],
  ['8.1.2', 'a name in capital letters', refuses(1, PROTOCOL_ERROR), fields([['X-TEST', 'ok']])],
  ['8.1.2.1', 'an unknown pseudo-header', refuses(1, PROTOCOL_ERROR), fields([[':test', 'ok']])],
  ['8.1.2.1', 'a pseudo-header of responses', refuses(1, PROTOCOL_ERROR), fields([[':status', '200']])],
  [
    '8.1.2.1',
    'a pseudo-header in trailers',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      c.post(1, [['trailer', 'x-test']])
      c.data(1, 'test', 0)
      c.headers(1, WHOLE, [
        [':method', 'GET'],
        ['x-test', 'ok']
      ])
    }
  ],
  [
    '8.1.2.1',
    'a pseudo-header behind a field',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      const [first, ...others] = request(c.terms)
      c.headers(1, WHOLE, [...others, ['x-test', 'ok'], first ?? ['', '']])
    }
  ],
  ['8.1.2.2', 'a field of the connection', refuses(1, PROTOCOL_ERROR), fields([['connection', 'keep-alive']])],
  [
    '8.1.2.2',
    'TE other than trailers',
    refuses(1, PROTOCOL_ERROR),
    fields([
      ['trailers', 'test'],
      ['te', 'trailers, deflate']
    ])
  ],
  ['8.1.2.3', 'an empty :path', refuses(1, PROTOCOL_ERROR), fields([[':path', '']], ':path')],
  ['8.1.2.3', 'no :method', refuses(1, PROTOCOL_ERROR), fields([], ':method')],
  ['8.1.2.3', 'no :scheme', refuses(1, PROTOCOL_ERROR), fields([], ':scheme')],
  ['8.1.2.3', 'no :path', refuses(1, PROTOCOL_ERROR), fields([], ':path')],
  ['8.1.2.3', ':method twice', refuses(1, PROTOCOL_ERROR), fields([[':method', 'GET']])],
  ['8.1.2.3', ':scheme twice', refuses(1, PROTOCOL_ERROR), fields([[':scheme', 'http']])],
  ['8.1.2.3', ':path twice', refuses(1, PROTOCOL_ERROR), fields([[':path', '/']])],
  [
    '8.1.2.6',
    'more DATA than content-length',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      c.post(1, [['content-length', '1']])
      c.data(1)
    }
  ],
  [
    '8.1.2.6',
    'more DATA than content-length in several frames',
    refuses(1, PROTOCOL_ERROR),
    (c) => {
      c.post(1, [['content-length', '1']])
      c.data(1, 'test', 0)
      c.data(1)
    }
  ],
  [
    '8.2',
    'PUSH_PROMISE',
    fails(PROTOCOL_ERROR),
    (c) => c.send(frame(PUSH_PROMISE, END_HEADERS, 1, Buffer.concat([u32(3), block(request(c.terms))])))
  ],

  ['hpack/2.3.3', 'an index beyond the tables', fails(COMPRESSION_ERROR), ending('fe')],
  ['hpack/2.3.3', 'the index of a name beyond the tables', fails(COMPRESSION_ERROR), ending('7e0474657374')],
  ['hpack/4.2', 'a size of the table behind the fields', fails(COMPRESSION_ERROR), ending('20')],
  [
    'hpack/5.2',
    'Huffman: a byte of padding',
    fails(COMPRESSION_ERROR),
    (c) => ending(`0006782d7465737484${coded('test').subarray(1).toString('hex')}ff`)(c)
  ],
  ['hpack/5.2', 'Huffman: padded with zeros', fails(COMPRESSION_ERROR), ending('0006782d746573748100')],
  ['hpack/5.2', 'Huffman: the end of the string', fails(COMPRESSION_ERROR), ending('0006782d7465737484ffffffff')],
  ['hpack/6.1', 'index 0', fails(COMPRESSION_ERROR), ending('80')],
  [
    'hpack/6.3',
    'a table above the limit',
    fails(COMPRESSION_ERROR),
    (c) => c.send(frame(HEADERS, WHOLE, 1, Buffer.concat([hex('3fe2ff7f'), block(request(c.terms))])))
  ]
]

/** The product with an upstream that answers everything, on a TLS port and on a plain one. */
async function product(t: Test, engine: (typeof engines)[number]) {
  const upstream = createServer((request, response) => {
    request.resume()
    request.on('error', () => undefined)
    request.on('end', () => response.end(BODY))
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    upstream.closeAllConnections()
    upstream.close()
  })
  const { port } = upstream.address() as AddressInfo
  const secure = await freePort()
  const plain = await startSluice(t, { engine, upstream: { port } })
  const sluice = await startSluice(t, {
    engine,
    upstream: { port },
    options: { LISTENERS: `https://127.0.0.1:${secure}` }
  })
  const { cert, key } = await makeServerCertificate(`CN=${NAME}`, [NAME], { now: Date.now(), life: 86_400_000 })
  await create(sluice, '/tls_certificates', { certificate_pem: cert, private_key_pem: key })
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  await site(sluice, NAME, { match_type: 'path_prefix', backend: { enabled: true, backend_id: backend.id } })
  return { tls: secure, tcp: plain.port }
}

t.equal(CASES.length, 148)

for (const engine of engines) {
  t.test(engine, async (t) => {
    const ports = await product(t, engine)
    for (const over of ['tls', 'tcp'] as const) {
      for (const [section, what, outcome, act] of CASES) {
        const client = new Client(ports[over], over)
        client.terms = { scheme: over === 'tls' ? 'https' : 'http' }
        const speaks = what !== 'no preface'
        if (!speaks) client.send(Buffer.from('INVALID CONNECTION PREFACE\r\n\r\n'))
        else {
          client.send(Buffer.from(PREFACE), frame(SETTINGS, 0, 0))
          await eventually(() => client.over || client.count(SETTINGS, 0, ACK) > 0)
        }
        // Without it every case that ends the connection would pass.
        const begun = !speaks || client.count(SETTINGS, 0, ACK) > 0
        await act(client)
        const until = Date.now() + 3_000
        await eventually(() => outcome.isThere(client) || client.over || Date.now() > until)
        const seen = client.all().map(({ type, flags, stream }) => `${type}/${flags}/${stream}`)
        t.ok(begun && outcome.isThere(client), `${over} ${section} ${what}: ${outcome.name}`, {
          seen,
          goaway: client.goaway,
          over: client.over
        })
        client.socket.destroy()
      }
    }
  })
}
