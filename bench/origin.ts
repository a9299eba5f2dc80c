import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { parentPort } from 'node:worker_threads'
import { LINK } from './scenarios.js'

/**
 * Two upstreams in a thread of their own. `plain` answers every request with a fixed body and does next to nothing
 * else, so that it is never what is measured; `echo` answers with what it got, so that a proxy can be checked.
 * Posts `{plain, echo}`: their ports.
 */
const SMALL = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 102\r\n\r\n${'x'.repeat(101)}\n`
)
const large = (type: string, body: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`),
    body
  ])
const bytes = (size: number): Buffer => large('application/octet-stream', Buffer.alloc(size, 'm'))
/** A page of `size` bytes with a link in each paragraph, the same in every run. */
function page(size: number): Buffer {
  const parts: string[] = []
  let drawn = 1
  let length = 0
  while (length < size) {
    const words: string[] = []
    for (let i = 0; i < 30; i++) {
      // Linear congruential generator (Numerical Recipes); its high bits choose the word.
      drawn = (Math.imul(drawn, 1_664_525) + 1_013_904_223) >>> 0
      words.push(((drawn >>> 12) % 4_000).toString(36), WORDS[drawn >>> 28] as string)
    }
    const part = `<p>${words.join(' ')} <a href="${LINK.from}${words[0]}">${words[1]}</a></p>\n`
    parts.push(part)
    length += part.length
  }
  return large('text/html', Buffer.from(parts.join('').slice(0, size)))
}
const WORDS = 'the of and to in is you that it he was for on are as with'.split(' ')
/** By the first bytes of the target. */
const LARGE: ReadonlyMap<string, Buffer> = new Map([
  ['/1mb', bytes(1_048_576)],
  ['/64k', bytes(65_536)],
  ['/t1m', page(1_048_576)],
  ['/t64', page(65_536)]
])
const END = Buffer.from('\r\n\r\n')

const plain = createTcpServer((socket) => {
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  let rest: Buffer = Buffer.alloc(0)
  /** Bytes of the body that are still to come. */
  let body = 0
  socket.on('data', (chunk: Buffer) => {
    const skipped = Math.min(body, chunk.length)
    body -= skipped
    if (skipped > 0 && body === 0) socket.write(SMALL)
    if (skipped === chunk.length) return
    rest = rest.length === 0 ? chunk.subarray(skipped) : Buffer.concat([rest, chunk.subarray(skipped)])
    for (let end = rest.indexOf(END); end !== -1; end = rest.indexOf(END)) {
      const isUpload = rest[0] === 0x50
      if (!isUpload) socket.write(LARGE.get(rest.subarray(4, 8).toString('latin1')) ?? SMALL)
      else body = Number(/\r\ncontent-length: *(\d+)/i.exec(rest.subarray(0, end).toString('latin1'))?.[1] ?? 0)
      rest = rest.subarray(end + 4)
      if (!isUpload) continue
      const came = Math.min(body, rest.length)
      body -= came
      rest = rest.subarray(came)
      if (body === 0) socket.write(SMALL)
    }
  })
})
const echo = createServer((request, response) => {
  response.setHeader('x-echo', `${request.method} ${request.url}`)
  response.setHeader('set-cookie', ['a=1', 'b=2'])
  request.pipe(response)
})
plain.listen(0, '127.0.0.1')
echo.listen(0, '127.0.0.1')
await Promise.all([once(plain, 'listening'), once(echo, 'listening')])
parentPort?.postMessage({
  plain: (plain.address() as AddressInfo).port,
  echo: (echo.address() as AddressInfo).port
})
