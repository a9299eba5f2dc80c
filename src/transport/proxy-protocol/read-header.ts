import type { Socket } from 'node:net'
import type { HandshakeFailure } from '../contract.js'
import { ignore } from '../copy.js'
import { readAhead } from '../read-ahead.js'
import { type ProxyHeader, readHeader } from './header.js'

export interface ReadHeaderOptions {
  /** True: the header is required. False: a connection that begins with one is refused. */
  readonly trusted: boolean
}

/**
 * Reads the PROXY header of an accepted, paused socket; what came behind it is put back (`unshift`) and the socket stays
 * paused. `own` also for a peer that is not trusted and sends no header; it must send something, because what is not known
 * cannot be told from a header. `done` is called once; after a failure the socket is destroyed. Returns the way to give up,
 * which does nothing when it is over.
 */
export function readProxyHeader(
  socket: Socket,
  options: ReadHeaderOptions,
  done: (result: ProxyHeader | { readonly kind: 'failed'; readonly why: HandshakeFailure }) => void
): (why: HandshakeFailure) => void {
  let over = false
  let first: Buffer | undefined
  const settle = (): void => {
    over = true
    stop()
    socket.removeListener('close', onClose)
  }
  const fail = (why: HandshakeFailure): void => {
    if (over) return
    settle()
    socket.destroy()
    done({ kind: 'failed', why })
  }
  const succeed = (header: ProxyHeader, rest: Buffer): void => {
    settle()
    if (rest.length > 0) socket.unshift(rest)
    done(header)
  }
  const take = (chunk: Buffer): 'more' | 'enough' => {
    first = first === undefined ? chunk : Buffer.concat([first, chunk])
    const read = readHeader(first)
    if (read === 'more') return 'more'
    if (read === 'none') {
      if (options.trusted) fail('proxy-header-missing')
      else succeed({ kind: 'own' }, first)
    } else if (!options.trusted) fail('proxy-header-refused')
    else if (read === 'malformed') fail('proxy-header-malformed')
    else succeed(read.header, first.subarray(read.length))
    return 'enough'
  }
  const onClose = (): void => fail('client-gone')
  const stop = readAhead(socket, take, onClose)
  socket.on('error', ignore)
  socket.once('close', onClose)
  if (socket.destroyed) process.nextTick(onClose)
  return fail
}
