import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { request as requestTls } from 'node:https'
import { isIP, type Socket } from 'node:net'
import { arch, hostname, platform } from 'node:os'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { Clock } from '../../../lib/clock.js'
import { DeadlineTimer } from '../../../lib/deadline-timer.js'
import { CodedError, codeOf, defineErrors } from '../../../lib/errors.js'
import { formatAuthority } from '../../../lib/host.js'
import { answerCall, type Fields, readCall, readType, StreamType, typed } from '../protocol/calls.js'
import { MuxCode } from '../protocol/frame.js'
import { MuxSession, type SessionEnd } from '../protocol/session.js'
import type { MuxStream } from '../protocol/stream.js'
import { CALL } from '../server/tunnel.js'
import {
  type AgentTunnel,
  forwardVisitor,
  PIPE_CHECKS,
  rawTarget,
  readVisitor,
  type ServerAddress
} from './visitors.js'

/** Why an agent is not connected. */
export const agentErrors = defineErrors({
  AGENT_REFUSED: {
    text: 'The server does not take this agent or what it wants to serve.',
    help: 'Follow the message; mostly the token or its rights have to change.'
  },
  AGENT_UNREACHABLE: {
    text: 'The server cannot be reached or does not answer.',
    help: 'Look at the address of the server and at firewalls; the agent tries again.'
  },
  AGENT_TLS: {
    text: 'The TLS handshake with the server failed.',
    help: 'Give the agent the certificate of the authority of the server with --ca.'
  }
})

/** Makes one call and waits for its response; undefined without one. */
async function call(session: MuxSession, type: number, request: object): Promise<Fields | undefined> {
  const stream = session.openStream(typed(type, Buffer.from(JSON.stringify(request))))
  if (stream === undefined) return undefined
  const answer = await readCall(stream, CALL)
  if (!stream.destroyed) stream.end()
  return answer
}

/** State of an agent that persists between connections. */
export interface Remembered {
  clientId: string
  cookie: string
  /** Id and token of each tunnel that is an endpoint. */
  readonly endpoints: Map<AgentTunnel, { readonly id: string; readonly token: string }>
}

interface ConnectionOwner {
  bound(tunnel: AgentTunnel, id: string, url: string): void
  /** Called when the server requests it; the connection is still open. */
  asked(what: 'stop' | 'restart'): void
  /** The server has ended a tunnel. */
  tunnelStopped(tunnel: AgentTunnel, message: string): void
  /** A visitor could not be brought to the target. */
  unreachable(tunnel: AgentTunnel, why: string): void
  ended(why: string): void
}

const MILLION = 1_000_000
/** Interval of heartbeats (ms). */
const INTERVAL = 1_000
/** Maximum response time to a heartbeat (ms). */
const TOLERANCE = 15_000
/** Time beyond the interval after which the server drops the agent without a heartbeat (ms). */
const SERVER_TOLERANCE = 24_000
/** Maximum time from the first packet to the end of the handshake, and then for each response (ms). */
const CONNECT_TIME = 15_000
/** Maximum number of open streams of the server. */
const PEER_STREAMS = 8192
/** Errors of an interrupted handshake, which are no certificate errors: the server may be overloaded, or stopping. */
const TRANSIENT: ReadonlySet<string> = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT'])
const NO_UPDATE = 'this agent does not update itself'

/** One connection of our agent to a server. */
export class AgentConnection {
  readonly #mux: MuxSession
  readonly #owner: ConnectionOwner
  readonly #clock: Clock
  readonly #deadlines: DeadlineTimer
  readonly #tunnels = new Map<string, AgentTunnel>()
  readonly #heartbeat: MuxStream | undefined
  #awaited: Buffer | undefined = undefined
  #beatAt: number

  private constructor(socket: TLSSocket, owner: ConnectionOwner, clock: Clock) {
    this.#owner = owner
    this.#clock = clock
    this.#deadlines = new DeadlineTimer(clock, PIPE_CHECKS)
    this.#beatAt = clock.monotonic()
    this.#mux = new MuxSession(socket, {
      role: 'agent',
      peerStreams: PEER_STREAMS,
      owner: {
        opened: (stream) => {
          readType(stream, (type) => this.#begin(type, stream))
          return true
        },
        closed: (end) => owner.ended(describe(end))
      }
    })
    this.#awaited = randomBytes(4)
    this.#heartbeat = this.#mux.openStream(typed(StreamType.heartbeat, this.#awaited))
    this.#heartbeat?.on('data', () => {
      this.#awaited = undefined
    })
  }

  /** Connects. Rejects with a CodedError: `AGENT_UNREACHABLE`, `AGENT_TLS`. */
  static async open(server: ServerAddress, owner: ConnectionOwner, clock: Clock): Promise<AgentConnection> {
    const { host, port, ca, lookup, proxy, serverName = host } = server
    const options: ConnectionOptions = {
      ...(proxy === undefined ? { host, port } : { socket: await connectThrough(proxy, server) }),
      ...(lookup === undefined ? {} : { lookup }),
      ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
      ...(ca === undefined ? {} : { ca, allowPartialTrustChain: true })
    }
    const socket = connect(options)
    socket.setNoDelay(true)
    socket.setTimeout(CONNECT_TIME, () =>
      socket.destroy(new CodedError({ code: 'ETIMEDOUT' }, 'no connection in time'))
    )
    let reached = proxy !== undefined
    socket.once('connect', () => {
      reached = true
    })
    try {
      await once(socket, 'secureConnect')
    } catch (error) {
      throw refusal(error, reached, `${host}:${port}`)
    }
    socket.setTimeout(0)
    return new AgentConnection(socket, owner, clock)
  }

  /** Rejects with a CodedError: `AGENT_REFUSED` with the server's own words, or `AGENT_UNREACHABLE`. */
  async authenticate(token: string, metadata: string, version: string, known: Remembered): Promise<string> {
    const answer = await call(this.#mux, StreamType.auth, {
      Version: ['3', '2'],
      ClientId: known.clientId,
      Extra: {
        OS: platform(),
        Arch: arch(),
        Authtoken: token,
        Version: version,
        Hostname: hostname(),
        UserAgent: `sluice-agent/${version}`,
        Metadata: metadata,
        Cookie: known.cookie,
        HeartbeatInterval: INTERVAL * MILLION,
        HeartbeatTolerance: SERVER_TOLERANCE * MILLION,
        UpdateUnsupportedError: NO_UPDATE,
        StopUnsupportedError: '',
        RestartUnsupportedError: '',
        ClientType: 'sluice-agent'
      }
    })
    if (answer === undefined) throw gone()
    if (answer.text('error') !== '') throw new CodedError(agentErrors.AGENT_REFUSED, answer.text('error').trim())
    known.clientId = answer.text('clientid')
    known.cookie = answer.object('extra').text('cookie')
    return answer.object('extra').text('accountname')
  }

  /** Offers a tunnel. Rejects as `authenticate` does. */
  async bind(tunnel: AgentTunnel, known: Remembered): Promise<void> {
    const { labels, endpoint, forwardsTo, metadata = '' } = tunnel
    const former = known.endpoints.get(tunnel)
    const ForwardsProto = tunnel.target.http2 === true ? 'http2' : ''
    const answer =
      labels !== undefined
        ? await call(this.#mux, StreamType.startLabelled, {
            Labels: labels,
            ForwardsTo: forwardsTo,
            ForwardsProto,
            Metadata: metadata
          })
        : await call(this.#mux, StreamType.bind, {
            Id: former?.id ?? '',
            Proto: endpoint.proto,
            ForwardsTo: forwardsTo,
            ForwardsProto,
            Opts: {
              ...(endpoint.proto === 'tcp' ? { Addr: endpoint.at ?? '' } : { Domain: endpoint.at ?? '' }),
              TrafficPolicy: endpoint.trafficPolicy ?? ''
            },
            Extra: { Token: former?.token ?? '', Metadata: metadata, PoolingEnabled: endpoint.pooled === true }
          })
    if (answer === undefined) throw gone()
    if (answer.text('error') !== '') throw new CodedError(agentErrors.AGENT_REFUSED, answer.text('error').trim())
    const id = answer.text('id')
    this.#tunnels.set(id, tunnel)
    if (labels === undefined) known.endpoints.set(tunnel, { id, token: answer.object('extra').text('token') })
    this.#owner.bound(tunnel, id, answer.text('url'))
  }

  /** Sends heartbeats and notices their absence; to be called about each second. */
  tick(): void {
    const now = this.#clock.monotonic()
    const since = now - this.#beatAt
    if (this.#awaited !== undefined && since > TOLERANCE) {
      this.#mux.destroy(MuxCode.peerEnded, 'the server is silent')
    } else if (this.#awaited === undefined && since >= INTERVAL) {
      this.#awaited = randomBytes(4)
      this.#beatAt = now
      this.#heartbeat?.write(this.#awaited)
    }
  }

  close(): void {
    this.#mux.close(MuxCode.none, 'closed here')
  }

  #begin(type: number, stream: MuxStream): void {
    switch (type) {
      case StreamType.proxy:
        readVisitor(stream, (head) => {
          const tunnel = this.#tunnels.get(head.tunnelId)
          if (tunnel === undefined) {
            stream.refuse()
            return
          }
          const failed = (why: string): void => this.#owner.unreachable(tunnel, why)
          if (tunnel.forward === undefined) {
            const target = head.passthrough ? rawTarget(tunnel.target) : tunnel.target
            forwardVisitor(stream, target, this.#deadlines, failed)
          } else tunnel.forward(stream, head, failed)
        })
        return
      case StreamType.heartbeat:
        stream.on('data', (value: Buffer) => stream.write(value))
        return
      case StreamType.stop:
      case StreamType.restart:
        void this.#obey(stream, type === StreamType.stop ? 'stop' : 'restart')
        return
      case StreamType.update:
        answerCall(stream.resume(), { Error: NO_UPDATE })
        return
      case StreamType.stopTunnel:
        void this.#stopTunnel(stream)
        return
      default:
        stream.refuse()
    }
  }

  async #obey(stream: MuxStream, what: 'stop' | 'restart'): Promise<void> {
    await readCall(stream, CALL)
    answerCall(stream, { Error: '' })
    stream.once('close', () => this.#owner.asked(what))
  }

  async #stopTunnel(stream: MuxStream): Promise<void> {
    const fields = await readCall(stream, CALL)
    stream.end()
    const id = fields?.text('id') ?? ''
    const tunnel = this.#tunnels.get(id)
    if (tunnel === undefined) return
    this.#tunnels.delete(id)
    this.#owner.tunnelStopped(tunnel, fields?.text('message') ?? '')
  }
}

/** A connection to the server through an HTTP proxy (CONNECT, RFC 9110 9.3.6). Rejects with `AGENT_UNREACHABLE`. */
async function connectThrough(proxy: URL, { host, port, lookup }: ServerAddress): Promise<Socket> {
  const at = formatAuthority(host, port)
  const secure = proxy.protocol === 'https:'
  const { username, password } = proxy
  const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  const asking = (secure ? requestTls : request)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port === '' ? (secure ? 443 : 80) : proxy.port,
    method: 'CONNECT',
    path: at,
    headers: { host: at, ...(username === '' ? {} : { 'proxy-authorization': `Basic ${credentials}` }) },
    agent: false,
    timeout: CONNECT_TIME,
    ...(lookup === undefined ? {} : { lookup })
  })
  const failed = (why: string, cause?: unknown) =>
    new CodedError(agentErrors.AGENT_UNREACHABLE, `the proxy ${proxy.host} ${why}`, { cause })
  return await new Promise((resolve, reject) => {
    asking.once('connect', ({ statusCode }, socket: Socket, head) => {
      if (statusCode === 200 && head.length === 0) resolve(socket)
      else {
        socket.destroy()
        reject(failed(`answers ${statusCode} to CONNECT ${at}`))
      }
    })
    asking.once('response', ({ statusCode }) => {
      asking.destroy()
      reject(failed(`answers ${statusCode} to CONNECT ${at}`))
    })
    asking.once('timeout', () => asking.destroy(new CodedError({ code: 'ETIMEDOUT' }, 'no answer in time')))
    asking.once('error', (error) => reject(failed(`cannot be reached: ${codeOf(error) ?? 'no connection'}`, error)))
    asking.end()
  })
}

function refusal(error: unknown, reached: boolean, at: string): CodedError {
  const detail = codeOf(error) ?? 'no connection'
  if (!reached)
    return new CodedError(agentErrors.AGENT_UNREACHABLE, `${at} cannot be reached: ${detail}`, { cause: error })
  return TRANSIENT.has(detail)
    ? new CodedError(agentErrors.AGENT_UNREACHABLE, `${at} did not finish the TLS handshake: ${detail}`, {
        cause: error
      })
    : new CodedError(agentErrors.AGENT_TLS, `the TLS handshake with ${at} failed: ${detail}${hint(detail)}`, {
        cause: error
      })
}

function hint(code: string): string {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return ' (the certificate is for another name)'
  const untrusted = code.startsWith('UNABLE_TO') || code.includes('SELF_SIGNED')
  return untrusted ? ' (the authority of the server is not trusted; name its certificate with --ca)' : ''
}

function gone(): CodedError {
  return new CodedError(agentErrors.AGENT_UNREACHABLE, 'the server ended the connection without an answer')
}

function describe({ by, detail }: SessionEnd): string {
  return by === 'peer' ? `${detail} (server)` : detail
}
