import { corpus } from '../fixtures/wire/corpus.js'

/** A small random generator with a seed, so that a failure comes back. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0 || 1
  }

  /** 0 to `below` - 1. */
  next(below: number): number {
    this.#state ^= this.#state << 13
    this.#state ^= this.#state >>> 17
    this.#state ^= this.#state << 5
    return (this.#state >>> 0) % below
  }

  pick<T>(list: readonly T[]): T {
    return list[this.next(list.length)] as T
  }
}

const OWN = [
  'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /a/b?c=d HTTP/1.1\r\nHost: a.test:80\r\nAccept: */*\r\nX-Empty:\r\nX-Blank: \t v \t\r\n\r\n',
  'POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;e="f"\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n',
  'GET / HTTP/1.0\r\n\r\n',
  'GET http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
  'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n',
  'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nbytes',
  'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi',
  '\r\nDELETE /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
]

/** Every raw message that the fuzzers begin with; huge ones would only slow them down. */
export const seeds: readonly string[] = [
  ...OWN,
  ...Object.values(corpus).flatMap((cases) => cases.map(({ bytes }) => bytes).filter((bytes) => bytes.length < 1500))
]

/** What is put into messages: the bytes on which readers have disagreed. */
const PIECES = [
  '\r\n',
  '\n',
  '\r',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '\0',
  '\x0b',
  '\x7f',
  '\x80',
  '\xff',
  '0',
  '\r\n\r\n',
  '0\r\n\r\n',
  ' HTTP/1.1',
  'Content-Length: 3\r\n',
  'Content-Length: 0\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding : chunked\r\n',
  'transfer-encoding: identity\r\n',
  'Connection: close\r\n',
  'Connection: Upgrade\r\nUpgrade: h2c\r\n',
  'Expect: 100-continue\r\n',
  'Host: b\r\n',
  'GET /n HTTP/1.1\r\nHost: a\r\n\r\n',
  'ffffffffffffffff',
  '0x',
  '%0d%0a'
]

/** A message that grew out of one or two seeds by a few changes. */
export function mutated(random: Random): Buffer {
  let bytes = random.pick(seeds)
  for (let n = random.next(4); n >= 0; n--) {
    const at = random.next(bytes.length + 1)
    const to = Math.min(bytes.length, at + 1 + random.next(12))
    switch (random.next(7)) {
      case 0:
        bytes = bytes.slice(0, at) + String.fromCharCode(random.next(256)) + bytes.slice(at + 1)
        break
      case 1:
        bytes = bytes.slice(0, at) + bytes.slice(to)
        break
      case 2:
        bytes = bytes.slice(0, to) + bytes.slice(at)
        break
      case 3:
        bytes += random.pick(seeds)
        break
      case 4: {
        // A whole line more, where lines begin.
        const line = bytes.indexOf('\r\n', at)
        if (line !== -1) bytes = `${bytes.slice(0, line + 2)}${random.pick(PIECES)}${bytes.slice(line + 2)}`
        break
      }
      case 5: {
        const other = random.pick(seeds)
        bytes = bytes.slice(0, at) + other.slice(random.next(other.length))
        break
      }
      default:
        bytes = bytes.slice(0, at) + random.pick(PIECES) + bytes.slice(at)
    }
  }
  return Buffer.from(bytes.slice(0, 6000), 'latin1')
}

/** The bytes in pieces that were cut at random. */
export function cutAtRandom(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = []
  const longest = 1 + random.next(40)
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + 1 + random.next(longest))
    pieces.push(bytes.subarray(at, end))
    at = end
  }
  return pieces
}
