import t from 'tap'
import { RequestLine } from '../../src/transport/http-proxy/request-head.js'
import { MessageScanner } from '../../src/transport/message-scanner.js'
import { numbers } from '../helpers/numbers.js'

const LIMITS = {
  headerBytes: 1000,
  headers: 20,
  targetBytes: 100,
  headTimeout: 200,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}

/** What the scanner says of `bytes` when they come in the given pieces: its end state and how far it read. */
function verdict(bytes: Buffer, cuts: readonly number[], body: number | undefined): string {
  const scanner = new MessageScanner(LIMITS, new RequestLine(LIMITS.targetBytes))
  let read = 0
  let from = 0
  for (const to of [...cuts, bytes.length]) {
    const chunk = bytes.subarray(from, to)
    let at = 0
    while (at < chunk.length && scanner.state !== 'ended' && scanner.state !== 'refused') {
      at = scanner.scan(chunk, at)
      if (scanner.state === 'head-ended') scanner.expect(body)
    }
    if (scanner.state !== 'refused') read += at
    from = to
  }
  return scanner.state === 'refused' ? `refused ${scanner.refusal.status}` : `${scanner.state} ${read}`
}

t.test('the scanner gives one answer however the bytes are split', async (t) => {
  const seeds = [
    'GET /abc HTTP/1.1\r\nHost: a\r\nX-Y:  z \r\n\r\nGET / HTTP/1.1\r\n\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\n\r\n5\r\nhello\r\nA;b=c\r\n0123456789\r\n0\r\nT: 1\r\nU: 2\r\n\r\nGET'
  ]
  const random = numbers(42)
  const kinds = new Set<string>()
  for (let round = 0; round < 4000; round++) {
    const bytes = Buffer.from(seeds[round % 2] as string, 'latin1')
    for (let n = random(3); n > 0; n--) bytes[random(bytes.length)] = [13, 10, 32, 0, 58, 255, 49][random(7)] as number
    const body = round % 2 === 0 ? 0 : undefined
    const whole = verdict(bytes, [], body)
    kinds.add(whole.split(' ')[0] as string)
    const cuts = Array.from({ length: random(6) }, () => random(bytes.length)).sort((a, b) => a - b)
    if (verdict(bytes, cuts, body) !== whole) t.fail(`${JSON.stringify(bytes.toString('latin1'))} at ${cuts}`)
    const each = verdict(bytes, [...bytes.keys()], body)
    if (each !== whole) t.fail(`${JSON.stringify(bytes.toString('latin1'))} byte by byte: ${each}, whole: ${whole}`)
  }
  t.ok(kinds.has('ended') && kinds.has('refused'), 'both kinds of message were tried')
})

t.test('what the scanner passes, it passes up to the exact end of the message', async (t) => {
  const head = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
  t.equal(verdict(Buffer.from(`${head}GET`), [], 0), `ended ${head.length}`)
  t.equal(verdict(Buffer.from(`${head}abcGET`), [], 3), `ended ${head.length + 3}`)
  t.equal(verdict(Buffer.from(`${head}1;x\r\na\r\n0\r\n\r\nGET`), [], undefined), `ended ${head.length + 13}`)
  t.equal(verdict(Buffer.from(`${head}0;x\r\nA: b\r\nC: d\r\n\r\nGET`), [], undefined), `ended ${head.length + 19}`)
  t.equal(verdict(Buffer.from(`\r\n${head}`), [], 0), `ended ${head.length + 2}`, 'one empty line before it')
  t.equal(verdict(Buffer.from(`\r\n\r\n${head}`), [], 0), 'refused 400', 'two')
})
