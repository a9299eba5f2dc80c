import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parentPort } from 'node:worker_threads'

/** An upstream in a thread of its own, so that what it does for slow clients delays nobody who measures. Posts its port. */
const LARGE = Buffer.alloc(2 ** 20, 'x')
/** A proxy adds none of these to what an upstream says. */
const CAREFUL = {
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "default-src 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY'
}

const origin = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    response.writeHead(200, CAREFUL)
    response.end(request.url === '/large' ? LARGE : 'served')
  })
})
origin.listen(0, '127.0.0.1', () => parentPort?.postMessage((origin.address() as AddressInfo).port))
