import { once } from 'node:events'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { parentPort } from 'node:worker_threads'

/** An upstream of HTTP/2 in a thread of its own: a call of gRPC gets its message back, with trailers; what else comes gets 102 bytes. Posts its port. */
const SMALL = Buffer.from(`${'x'.repeat(101)}\n`)
const server = createServer()
server.on('stream', (stream, head) => {
  stream.on('error', () => stream.destroy())
  if (head['content-type'] !== 'application/grpc') {
    stream.respond({ ':status': 200, 'content-type': 'text/plain', 'content-length': '102' })
    stream.end(SMALL)
    return
  }
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
  stream.pipe(stream)
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
parentPort?.postMessage((server.address() as AddressInfo).port)
