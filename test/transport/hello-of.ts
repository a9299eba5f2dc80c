import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type ConnectionOptions, connect } from 'node:tls'

/** Length of a record header (bytes). */
const RECORD = 5

/** The first record of a TLS client of Node, that is of OpenSSL: its ClientHello. */
export async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...options })
  client.on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  let bytes = Buffer.alloc(0)
  while (bytes.length < RECORD || bytes.length < RECORD + bytes.readUInt16BE(3)) {
    bytes = Buffer.concat([bytes, ((await once(socket, 'data')) as [Buffer])[0]])
  }
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}
