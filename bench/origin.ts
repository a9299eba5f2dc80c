import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { parentPort } from 'node:worker_threads'
import { answerHttp2 } from './h2-origin.js'

/**
 * Three upstreams in a thread of their own. `plain` answers every request with a fixed body and does next to nothing
 * else, so that it is never what is measured; `http2` does the same in HTTP/2; `echo` answers with what it got, so that a proxy can be checked.
 * Posts `{plain, http2, echo}`: their ports.
 */
const SMALL = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 102\r\n\r\n${'x'.repeat(101)}\n`
)
const MEGABYTE = Buffer.concat([
  Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 1048576\r\n\r\n'),
  Buffer.alloc(1_048_576, 'm')
])
const END = Buffer.from('\r\n\r\n')

const plain = createTcpServer((socket) => {
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (let end = rest.indexOf(END); end !== -1; end = rest.indexOf(END)) {
      socket.write(rest.subarray(4, 8).toString('latin1') === '/1mb' ? MEGABYTE : SMALL)
      rest = rest.subarray(end + 4)
    }
  })
})
const echo = createServer((request, response) => {
  response.setHeader('x-echo', `${request.method} ${request.url}`)
  response.setHeader('set-cookie', ['a=1', 'b=2'])
  request.pipe(response)
})
const http2 = createTcpServer(answerHttp2)
plain.listen(0, '127.0.0.1')
echo.listen(0, '127.0.0.1')
http2.listen(0, '127.0.0.1')
await Promise.all([once(plain, 'listening'), once(echo, 'listening'), once(http2, 'listening')])
parentPort?.postMessage({
  plain: (plain.address() as AddressInfo).port,
  http2: (http2.address() as AddressInfo).port,
  echo: (echo.address() as AddressInfo).port
})
