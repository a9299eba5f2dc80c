import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { parentPort } from 'node:worker_threads'
import { WebSocketServer } from 'ws'

/**
 * The upstream of the storm, in a thread of its own: short answers, at `/slow` a download that trickles until a message
 * ends it, and WebSockets that echo. Posts its port, and at the end how many bytes the download had.
 */
const CHUNK = Buffer.alloc(1_024, 1)
const EVERY = 20

let ending = false
let sent = 0
const sockets = new WebSocketServer({ noServer: true })
const server = createServer((request, response) => {
  if (request.url !== '/slow') {
    response.end('steady')
    return
  }
  const timer = setInterval(() => {
    sent += CHUNK.length
    response.write(CHUNK)
    if (!ending) return
    clearInterval(timer)
    response.end()
    parentPort?.postMessage(sent)
  }, EVERY)
})
server.on('upgrade', (request, socket, head) => {
  sockets.handleUpgrade(request, socket as Socket, head, (echo) => {
    echo.on('message', (data) => echo.send(data))
  })
})
parentPort?.once('message', () => {
  ending = true
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
parentPort?.postMessage((server.address() as AddressInfo).port)
