import { connect, createServer, type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'

/**
 * What an exchange costs on Node's sockets alone: nothing is parsed, checked, counted or pooled.
 *
 * `floor.js proxy PORT UPSTREAM`: each client has one upstream connection, and what comes from one side is written to
 * the other. `floor.js refuse PORT`: one constant 429 for each read, which is one request of a client that does not
 * pipeline. Reads go into one buffer that all sockets share, and text is written as latin1: of the ways that Node has,
 * the one with the least work.
 */
const [what, port, upstream] = process.argv.slice(2) as [string, string, string | undefined]
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

function proxy(accepted: Socket): void {
  const client = adopted(accepted, (length) => server.write(shared.toString('latin1', 0, length), 'latin1'))
  const server = connect({
    host: '127.0.0.1',
    port: Number(upstream),
    noDelay: true,
    ...reading((length) => client.write(shared.toString('latin1', 0, length), 'latin1'))
  })
  for (const [one, other] of [
    [client, server],
    [server, client]
  ] as const) {
    one.on('error', () => one.destroy())
    one.on('close', () => other.destroy())
  }
}

createServer({ noDelay: true, pauseOnConnect: true }, what === 'proxy' ? proxy : refuse).listen(
  Number(port),
  '127.0.0.1'
)
