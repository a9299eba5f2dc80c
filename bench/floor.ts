import { readFileSync } from 'node:fs'
import { connect, createServer, type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'

/**
 * What an exchange costs on Node's sockets alone: nothing is parsed, checked, counted or pooled.
 *
 * `floor.js proxy PORT UPSTREAM`: each client has one upstream connection, and what comes from one side is written to
 * the other. `floor.js refuse PORT`: one constant 429 for each read, which is one request of a client that does not
 * pipeline. `floor.js tls PORT UPSTREAM CERTIFICATE KEY [CIPHER]`: as proxy, with TLS on the side of the client. Reads go into one buffer that all sockets share, and text is written as latin1: of the ways that Node has,
 * the one with the least work.
 */
const [what, port, upstream, certificate, key, cipher] = process.argv.slice(2) as [
  string,
  string,
  ...(string | undefined)[]
]
const shared = Buffer.allocUnsafeSlow(65_536)
const REFUSAL = 'HTTP/1.1 429 Too Many Requests\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n'

function reading(callback: (length: number) => void): { onread: OnReadOpts } {
  return {
    onread: {
      buffer: shared,
      callback: (length) => {
        callback(length)
        return true
      }
    }
  }
}

/** A socket that was accepted has no public way to the shared buffer; its handle in a new socket has. */
function adopted(accepted: Socket, callback: (length: number) => void): Socket {
  const holder = accepted as unknown as { _handle: object | null }
  const handle = holder._handle as object
  holder._handle = null
  accepted.on('error', () => undefined)
  accepted.destroy()
  const options: SocketConstructorOpts & { handle: object } = { handle, ...reading(callback) }
  return new Socket(options)
}

function refuse(accepted: Socket): void {
  const client = adopted(accepted, () => client.write(REFUSAL, 'latin1'))
  client.on('error', () => client.destroy())
}

function bind(client: Socket, server: Socket): void {
  for (const [one, other] of [
    [client, server],
    [server, client]
  ] as const) {
    one.on('error', () => one.destroy())
    one.on('close', () => other.destroy())
  }
}

/** A connection to the upstream; `take` gets the length of what lies in the shared buffer. */
function dial(take: (length: number) => void): Socket {
  return connect({ host: '127.0.0.1', port: Number(upstream), noDelay: true, ...reading(take) })
}

function proxy(accepted: Socket): void {
  const client = adopted(accepted, (length) => server.write(shared.toString('latin1', 0, length), 'latin1'))
  const server = dial((length) => client.write(shared.toString('latin1', 0, length), 'latin1'))
  bind(client, server)
}

function secure(client: TLSSocket): void {
  let server: Socket | undefined
  client.on('error', () => client.destroy())
  client.on('data', (chunk) => {
    // One that only shakes hands needs none.
    if (server === undefined) {
      server = dial((length) => client.write(shared.toString('latin1', 0, length), 'latin1'))
      server.on('drain', () => client.resume())
      bind(client, server)
    }
    if (!server.write(chunk)) client.pause()
  })
}

const options = { noDelay: true, pauseOnConnect: true }
const server =
  what === 'tls'
    ? createTlsServer(
        {
          cert: readFileSync(certificate ?? ''),
          key: readFileSync(key ?? ''),
          ...(cipher === undefined ? {} : { ciphers: cipher })
        },
        secure
      )
    : createServer(options, what === 'proxy' ? proxy : refuse)
server.listen(Number(port), '127.0.0.1')
