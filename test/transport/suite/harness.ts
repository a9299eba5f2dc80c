import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { connect as connectTcp, Socket } from 'node:net'
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import type { ConnectionFacts, Exchange, ResponseHead, Sent } from '../../../src/flow/exchange.js'
import type { Clock } from '../../../src/lib/clock.js'
import {
  type ClientTransport,
  type Dialer,
  forwardTo,
  type Handler,
  type Listening,
  type ListenLimits,
  type ServerTransport
} from '../../../src/transport/contract.js'
import { tcpDialer, tlsDialer } from '../../../src/transport/dialers.js'
import { resetBelow } from '../../../src/transport/pipes.js'
import { ManualClock } from '../../helpers/clock.js'
import { RawPeer, rawClient } from '../../helpers/raw-client.js'
import { type Identity, RawUpstream, type UpstreamPeer } from '../../helpers/upstream.js'

/**
 * With a `secure` identity both connections are TLS, with an `h2` identity that of the client, which may speak HTTP/2; the
 * certificate is for NAME.
 */
export type Make = (parts: { clock: Clock }) => {
  front: ServerTransport
  back: ClientTransport
  secure?: Identity
  h2?: Identity
}

export const NAME = 'upstream.test'

/** What one test of the suite runs against. */
export interface Bench {
  readonly clock: ManualClock
  readonly front: ServerTransport
  readonly back: ClientTransport
  /** Clients come over TLS. */
  readonly secure: boolean
  readonly listening: Listening
  readonly upstream: RawUpstream
  readonly exchanges: Exchange[]
  /** What every answered or spliced exchange reported, in order of its end. */
  readonly sent: Sent[]
  readonly refused: { readonly status: number; readonly why: string }[]
  readonly failures: { readonly failure: string; readonly retry: string }[]
  readonly opened: ConnectionFacts[]
  readonly closed: ConnectionFacts[]
  client(): Promise<RawPeer>
  /** An HTTP/2 client over TLS or by prior knowledge, on a TCP connection of the test if it has one; its errors are ignored. */
  session(below?: Socket): ClientHttp2Session
  /** Resolves when connection `n` is past its handshake, where there is one. */
  served(n: number): Promise<void>
  /** Dials the scripted upstream, or another port of this machine. */
  dialer(port?: number): Dialer
  /** Resolves when `holds` does; looked at whenever something was recorded. */
  until(holds: () => boolean): Promise<void>
}

export interface BenchOptions {
  readonly limits?: Partial<ListenLimits>
  readonly script?: (peer: UpstreamPeer) => unknown
  /** Instead of passing through. */
  readonly exchange?: (exchange: Exchange, bench: Bench) => void | Promise<void>
  readonly connection?: (facts: ConnectionFacts) => boolean
  readonly timeouts?: { connect?: number; response?: number; idle?: number }
  /** Instead of the scripted upstream. */
  readonly port?: number
}

const LIMITS: ListenLimits = {
  headerBytes: 65_536,
  headers: 200,
  targetBytes: 8192,
  headTimeout: 0,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}

/** Each test sees that an answer comes once, and after `forward` has returned. */
function strict(t: Test, back: ClientTransport): ClientTransport {
  return {
    forward(exchange, dialer, options, answered) {
      let due = false
      back.forward(exchange, dialer, options, (answer) => {
        if (!due) t.fail('an answer comes once, and after forward has returned')
        due = false
        answered(answer)
      })
      due = true
    },
    retainUpstreams: (keys) => back.retainUpstreams(keys),
    endUpstream: (key) => back.endUpstream(key),
    close: () => back.close()
  }
}

/** A front and a back joined by a handler that passes everything through, on free ports. */
export async function bench(t: Test, make: Make, options: BenchOptions = {}): Promise<Bench> {
  const clock = new ManualClock()
  const { front, back: made, secure, h2 } = make({ clock })
  const back = strict(t, made)
  const identity = secure ?? h2
  const upstream = await RawUpstream.start(t, (peer) => scripted(peer, options.script), secure)
  const clients: RawPeer[] = []
  const sessions: ClientHttp2Session[] = []
  let wake: (() => void)[] = []
  const noted = (): void => {
    const waiting = wake
    wake = []
    for (const resolve of waiting) resolve()
  }
  const self = {
    clock,
    front,
    back,
    secure: identity !== undefined,
    upstream,
    exchanges: [],
    sent: [],
    refused: [],
    failures: [],
    opened: [],
    closed: []
  }
  const result: Bench = Object.assign(self as unknown as Bench, {
    async client() {
      const { port } = result.listening.address
      const client = await (identity === undefined ? rawClient(port) : resettable(port))
      clients.push(client)
      return client
    },
    session(below = connectTcp({ host: '127.0.0.1', port: result.listening.address.port })) {
      const options = { socket: below, servername: NAME, rejectUnauthorized: false, ALPNProtocols: ['h2'] }
      const session =
        identity === undefined
          ? connect(`http://${NAME}`, { createConnection: () => below })
          : connect(`https://${NAME}`, { createConnection: () => connectTls(options) })
      session.on('error', () => undefined)
      sessions.push(session)
      return session
    },
    dialer(port = upstream.port) {
      const at = { host: '127.0.0.1', port }
      return secure === undefined ? tcpDialer(at) : tlsDialer({ ...at, servername: NAME, ca: secure.cert })
    },
    async served(n: number) {
      await eventually(() => {
        const facts = result.opened[n]
        return facts !== undefined && (identity === undefined || facts.tls !== undefined)
      })
    },
    async until(holds: () => boolean) {
      while (!holds()) {
        await new Promise<void>((resolve) => {
          wake.push(resolve)
        })
      }
    }
  })
  const handler: Handler = {
    connection(facts) {
      result.opened.push(facts)
      noted()
      return options.connection?.(facts) ?? true
    },
    exchange(exchange) {
      result.exchanges.push(exchange)
      noted()
      return options.exchange === undefined ? pass(exchange, result, options) : options.exchange(exchange, result)
    },
    refused(_facts, status, why) {
      result.refused.push({ status, why })
      noted()
    },
    closed(facts) {
      result.closed.push(facts)
      noted()
    }
  }
  const limits = { ...LIMITS, ...options.limits }
  const context = identity && createSecureContext(identity)
  const alpn = h2 === undefined ? ['http/1.1'] : ['h2', 'http/1.1']
  const tls = context && { tls: { entryFor: () => ({ context, alpn }) } }
  const listening = await front.listen({ host: '127.0.0.1', port: 0 }, { name: 'test', limits, ...tls }, handler)
  Object.assign(self, { listening, noted })
  t.teardown(async () => {
    for (const client of clients) client.socket.destroy()
    for (const session of sessions) session.destroy()
    back.close()
    await listening.drain(0)
  })
  return result
}

/** Forwards and answers with what came back, as a proxy without any policy would. */
export async function pass(
  exchange: Exchange,
  bench: Bench,
  options: BenchOptions = {},
  dialer = bench.dialer(options.port)
): Promise<void> {
  const answer = await forwardTo(bench.back, exchange, dialer, {
    head: { ...exchange.request, headers: withoutHopByHop(exchange.request.headers) },
    body: exchange.request.body,
    connectTimeout: options.timeouts?.connect ?? 0,
    responseTimeout: options.timeouts?.response ?? 0,
    idleTimeout: options.timeouts?.idle ?? 0,
    onInform: (head) => exchange.inform(head)
  })
  let sent: Sent
  if (answer.kind === 'response') sent = await exchange.respond(clean(answer.head), answer.body)
  else if (answer.kind === 'switched') sent = await exchange.splice(clean(answer.head), answer.pipe)
  else {
    bench.failures.push({ failure: answer.failure, retry: answer.retry })
    sent = await exchange.respond({ status: 502, headers: ['x-failure', answer.failure] })
  }
  record(bench, sent)
}

/** Looks again after each turn of the event loop, for what no event tells. */
export async function eventually(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate)
}

/** Notes `sent` and wakes who waits for it. */
export function record(bench: Bench, sent: Sent): void {
  bench.sent.push(sent)
  ;(bench as unknown as { noted(): void }).noted()
}

/** A TLS client whose reset is one of TCP. */
async function resettable(port: number): Promise<RawPeer> {
  const below = connectTcp({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true })
  const options = { socket: below, servername: NAME, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }
  const socket = connectTls(Object.assign(options, { allowHalfOpen: true }))
  resetBelow(socket, below)
  await once(socket, 'secureConnect')
  return new RawPeer(socket)
}

/** The same for the peer of an upstream's TLS server. */
function scripted(peer: UpstreamPeer, script: BenchOptions['script']): unknown {
  const { _parent: below } = peer.socket as unknown as { _parent?: Socket }
  if (below instanceof Socket) resetBelow(peer.socket as TLSSocket, below)
  return script?.(peer)
}

function clean(head: ResponseHead): ResponseHead {
  return { ...head, headers: withoutHopByHop(head.headers) }
}

/** The hygiene that is made above the engines. */
function withoutHopByHop(list: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (!/^(connection|keep-alive|content-length|transfer-encoding|expect)$/i.test(name)) {
      kept.push(name, list[i + 1] as string)
    }
  }
  return kept
}

export const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
export const GET = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'
