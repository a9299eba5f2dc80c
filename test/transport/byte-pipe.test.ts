import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connect as connectTls, createSecureContext, TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { cut, resetBelow } from '../../src/transport/pipes.js'
import { fixture } from '../helpers/files.js'

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const identity = { cert: at('upstream.crt'), key: at('upstream.key') }

interface Ends {
  /** What is cut. */
  readonly near: Socket
  /** The TCP connection that carries it. */
  readonly carrier: Socket
  /** The other end of `carrier`, and of `near`. */
  readonly farCarrier: Socket
  readonly far: Socket
  /** The error of the other end, if it had one. */
  error(): string | undefined
}

async function joined(t: Test, secure: boolean): Promise<Ends> {
  const server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const farCarrier = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, allowHalfOpen: true })
  const [[carrier]] = (await Promise.all([once(server, 'connection'), once(farCarrier, 'connect')])) as [
    [Socket],
    unknown
  ]
  t.teardown(() => {
    server.close()
    farCarrier.destroy()
    carrier.destroy()
  })
  let error: string | undefined
  const note = (one: NodeJS.ErrnoException): void => {
    error ??= one.code
  }
  farCarrier.on('error', note)
  carrier.on('error', () => undefined)
  if (!secure) return { near: carrier, carrier, farCarrier, far: farCarrier, error: () => error }
  const far = connectTls(Object.assign({ socket: farCarrier, rejectUnauthorized: false }, { allowHalfOpen: true }))
  far.on('error', note)
  const near = new TLSSocket(carrier, { isServer: true, secureContext: createSecureContext(identity) })
  near.on('error', () => undefined)
  resetBelow(near, carrier)
  await once(far, 'secureConnect')
  return { near, carrier, farCarrier, far, error: () => error }
}

/** `once` would reject at an error before. */
function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

for (const secure of [false, true]) {
  const name = secure ? 'TLS' : 'TCP'

  t.test(`${name}: what is cut is reset`, async (t) => {
    const { near, farCarrier, far, error } = await joined(t, secure)
    far.resume()
    const closed = closing(farCarrier)
    near.write('some')
    await once(far, 'data')
    cut(near)
    await closed
    t.equal(error(), 'ECONNRESET')
  })

  t.test(`${name}: what is cut is gone, whatever it was doing`, async (t) => {
    const doing: Readonly<Record<string, (near: Socket, far: Socket) => unknown>> = {
      nothing: () => undefined,
      'sending its end': (near) => near.end(),
      'having sent its end': async (near) => {
        near.end()
        await once(near, 'finish')
      },
      'sending what is not taken': (near, far) => {
        far.pause()
        near.write(Buffer.alloc(16 * 1024 * 1024))
      },
      'sending its end behind what is not taken': (near, far) => {
        far.pause()
        near.end(Buffer.alloc(16 * 1024 * 1024))
      }
    }
    for (const [what, act] of Object.entries(doing)) {
      const { near, carrier, farCarrier, far } = await joined(t, secure)
      const closed = Promise.all([closing(carrier), closing(farCarrier)])
      far.on('end', () => far.destroy())
      await act(near, far)
      cut(near)
      far.resume()
      await closed
      const open = process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length
      t.equal(open, 0, what)
    }
  })
}
