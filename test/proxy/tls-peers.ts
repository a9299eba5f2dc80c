import { once } from 'node:events'
import type { Socket } from 'node:net'
import { type ConnectionOptions, connect, createServer, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import type { ManualClock } from '../helpers/clock.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { freePort } from './free-port.js'
import { type Authority, authority, certificate } from './tls-client.js'

export interface Started {
  readonly sluice: RunningSluice
  /** Of the TLS listener. */
  readonly port: number
  readonly ca: Authority
}

/** Starts the product with one TLS listener. */
export async function start(
  t: Test,
  options: Record<string, string> = {},
  clock?: ManualClock,
  threads?: number
): Promise<Started> {
  const port = await freePort()
  const sluice = await startSluice(t, {
    options: { LISTENERS: `https://127.0.0.1:${port}`, ...options },
    ...(clock === undefined ? {} : { clock }),
    ...(threads === undefined ? {} : { threads })
  })
  return { sluice, port, ca: await authority('Test CA') }
}

/** A TLS server with a certificate of its own, which answers each line of text by its name, the name that the client asked for and the line. */
export async function tlsServer(t: Test, name: string, ca: Authority, names: readonly string[]) {
  const { pem, key } = await certificate(name, ca, names)
  const sockets = new Set<TLSSocket>()
  const server = createServer({ cert: pem, key }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('data', (chunk: Buffer) => socket.write(`${name} ${socket.servername} ${chunk}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return { port, sockets }
}

export interface Client {
  readonly socket: TLSSocket
  readonly subject: string
  say(text: string): Promise<string>
}

/** A TLS client that checks the certificate of the server. */
export async function client(
  port: number,
  servername: string,
  ca: Authority,
  below?: Socket,
  options: ConnectionOptions = {}
): Promise<Client> {
  const to = below === undefined ? { host: '127.0.0.1', port } : { socket: below }
  const socket = connect({ ...to, servername, ca: ca.pem, ...options })
  socket.on('error', () => undefined)
  await once(socket, 'secureConnect')
  const say = async (text: string) => {
    socket.write(text)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    return answer.toString()
  }
  return { socket, subject: socket.getPeerX509Certificate()?.subject ?? '', say }
}

/** How a connection without a TLS session ends: the alert, the close. */
export async function refusedTls(port: number, servername?: string): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...(servername && { servername }) })
  return await new Promise((resolve) => {
    socket.once('secureConnect', () => {
      resolve(`shown ${socket.getPeerX509Certificate()?.subject}`)
      socket.destroy()
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
    socket.once('close', () => resolve('closed'))
  })
}

/** Resolves when the connection is over, however it ended. */
export const gone = (socket: TLSSocket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))

/** The log line of a finished connection of an edge. */
export const connectionOf = (sluice: RunningSluice, edge: string) =>
  sluice.line(({ msg, edge: id, bytes_in }) => msg === 'connection' && id === edge && bytes_in !== undefined)
