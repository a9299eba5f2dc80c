import type { Duplex } from 'node:stream'
import { atMost } from '../../../lib/concurrency.js'
import { newId } from '../../../lib/id.js'
import { answerCall, readCall, readType, StreamType } from '../protocol/calls.js'
import { MuxCode } from '../protocol/frame.js'
import { MuxSession, type SessionEnd } from '../protocol/session.js'
import type { MuxStream } from '../protocol/stream.js'
import { type AgentCommand, AgentCommands, type AuthRequest, Heartbeat, readAuthRequest } from './agent-calls.js'
import { type AgentFacts, type Grant, isBindDenied } from './authority.js'
import type { RegisteredSession } from './registry.js'
import type { SessionHost } from './session-host.js'
import { CALL_STREAMS, EARLY_BYTES, EARLY_CALL, EARLY_STREAMS, type Tunnel } from './tunnel.js'
import { TunnelCalls } from './tunnel-calls.js'

/** Agents on this core neither acknowledge in time nor survive many streams; see `MuxSession.nudged`. */
const RUST_CORE = 'ngrok-rust/'

/** Maximum time that a replaced connection may serve its visitors (ms). */
const REPLACED_TIME = 30_000

/** One connection of an agent, from its first byte to its end. */
export class AgentSession<G extends Grant = Grant> implements RegisteredSession<G> {
  readonly ip: string
  readonly #host: SessionHost<G>
  readonly #mux: MuxSession
  readonly #serverName: string | undefined
  readonly #calls: TunnelCalls<G>
  readonly #commands: AgentCommands
  readonly #heartbeat = new Heartbeat(() => {
    if (this.#state !== 'open') return
    this.#extend()
    this.#answer(true)
  })
  /** Callbacks that wait for a sign of life of the agent. */
  #waiters: ((alive: boolean) => void)[] = []
  #state: 'new' | 'authenticating' | 'open' | 'leaving' | 'over' = 'new'
  #request: AuthRequest | undefined = undefined
  #grant: G | undefined = undefined
  #id = ''
  #startedAt = 0
  #farewell = ''
  #deadline: number
  /** Time of the last heartbeat (monotonic ms). */
  #beatAt = 0
  /** A connection that another has replaced ends then at the latest. */
  #endsAt = Number.POSITIVE_INFINITY
  #visitors = 0
  #replaced = false
  /** Called when the last visitor has disconnected. */
  #idle: (() => void) | undefined

  /** Takes the pipe over. */
  constructor(
    pipe: Duplex,
    from: { readonly ip: string; readonly serverName: string | undefined },
    host: SessionHost<G>
  ) {
    this.ip = from.ip
    this.#serverName = from.serverName
    this.#host = host
    this.#deadline = host.clock.monotonic() + host.limits.authTime
    this.#calls = new TunnelCalls(this, host)
    this.#mux = new MuxSession(pipe, {
      role: 'server',
      peerStreams: EARLY_STREAMS,
      peerBytes: EARLY_BYTES,
      owner: {
        opened: (stream) => {
          readType(stream, (type) => this.#begin(type, stream))
          return true
        },
        closed: (end) => this.#closed(end)
      }
    })
    this.#commands = new AgentCommands(this.#mux, host.clock, host.limits.commandTime)
  }

  /** The same over reconnects of an agent; '' before it has authenticated. */
  get id(): string {
    return this.#id
  }

  get grant(): G {
    if (this.#grant === undefined) throw new Error('the session has not authenticated')
    return this.#grant
  }

  get facts(): AgentFacts {
    if (this.#request === undefined) throw new Error('the session has not authenticated')
    return this.#request.facts
  }

  /** Number among the connections of one agent. */
  get leg(): number {
    return this.#request?.leg ?? 0
  }

  /** Wall clock, milliseconds since the epoch. */
  get startedAt(): number {
    return this.#startedAt
  }

  get authenticated(): boolean {
    return this.#state === 'open'
  }

  get hasRoom(): boolean {
    return this.#state === 'open' && this.#visitors < this.#host.limits.visitors
  }

  get late(): boolean {
    const { late = 0 } = this.#request ?? {}
    return this.#state === 'open' && this.#host.clock.monotonic() - this.#beatAt > late
  }

  alive(): Promise<boolean> {
    if (this.#state !== 'open') return Promise.resolve(false)
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  #answer(alive: boolean): void {
    for (const resolve of this.#waiters) resolve(alive)
    this.#waiters = []
  }

  get creditsEachRead(): boolean {
    return this.#request?.facts.userAgent.includes(RUST_CORE) === true
  }

  openStream(first: Buffer): MuxStream | undefined {
    const stream = this.#mux.openStream(first)
    if (stream !== undefined) this.#count(stream)
    return stream
  }

  adopt(stream: MuxStream, first: Buffer): boolean {
    if (!this.#mux.adopt(stream, first)) return false
    this.#count(stream)
    return true
  }

  stopTunnel(id: string, message: string): void {
    this.#commands.stopTunnel(id, message)
  }

  /** Ends a tunnel with a message that the agent shows to its user. Returns false if the session has no such tunnel. */
  endTunnel(id: string, message: string): boolean {
    return this.#calls.end(id, message)
  }

  /** Resolves with undefined, or with why the agent does not do it. */
  command(command: AgentCommand, version = ''): Promise<string | undefined> {
    const unsupported = this.#request?.unsupported[command] ?? ''
    return unsupported === '' ? this.#commands.ask(command, version) : Promise.resolve(unsupported)
  }

  /** Disconnects the agent, which reconnects immediately. */
  close(detail: string): void {
    this.#mux.close(MuxCode.none, detail)
  }

  /** Ends all tunnels and the session immediately; the connection stays open briefly, so that the agent reads the message. */
  revoke(message: string): void {
    if (this.#state !== 'open') return
    this.#calls.endAll(message)
    this.#leave(message)
    this.#host.registry.removeSession(this, message)
  }

  /** Marks the connection as replaced by a new one of the same agent; active streams may finish. */
  replace(): void {
    if (this.#replaced) return
    this.#replaced = true
    this.#endsAt = this.#host.clock.monotonic() + REPLACED_TIME
  }

  tunnels(): Iterable<Tunnel> {
    return this.#calls.tunnels()
  }

  /** Resolves with true once there are no visitors, or with false after this time (ms). */
  async idle(within: number): Promise<boolean> {
    if (this.#visitors === 0 || this.#state === 'over') return true
    const idle = new Promise<true>((resolve) => {
      this.#idle = () => resolve(true)
    })
    return (await atMost(within, idle)) ?? false
  }

  /** A tunnel that came back on another connection takes no visitors here. */
  releaseTunnel(id: string): void {
    this.#calls.release(id)
    if (this.#replaced && this.#visitors === 0 && this.#calls.size === 0) this.close('replaced')
  }

  /** Ends timed-out calls and sessions; called about every second. */
  sweep(now: number): void {
    this.#commands.sweep(now)
    if (this.#state === 'over') return
    const flooded = this.#heartbeat.flooded()
    if (this.#state === 'leaving') this.#mux.close(MuxCode.none, this.#farewell)
    else if (now > this.#endsAt) this.close('replaced')
    else if (now > this.#deadline) this.#mux.destroy(MuxCode.peerEnded, this.#silenceDetail())
    else if (flooded) this.#mux.close(MuxCode.enhanceYourCalm, 'too many heartbeats')
    else if (this.#mux.stuckFor(now) > this.#host.limits.writeTime) {
      this.#mux.destroy(MuxCode.writeTimeout, 'the agent does not read')
    }
  }

  #silenceDetail(): string {
    return this.#state === 'open' ? 'no heartbeat in time' : 'no authentication in time'
  }

  #count(stream: MuxStream): void {
    this.#visitors++
    let counted = true
    const uncount = (): void => {
      if (!counted) return
      counted = false
      this.#visitors--
      if (this.#visitors === 0) this.#idle?.()
    }
    stream.once('close', uncount)
    stream.once('moved', uncount)
  }

  #begin(type: number, stream: MuxStream): void {
    if (type === StreamType.heartbeat) this.#beat(stream)
    else if (type === StreamType.auth) void this.#authenticate(stream)
    else if (this.#state === 'open')
      this.#calls.answer(type, stream).catch((error: unknown) => this.#fail(stream, error))
    else {
      const message = this.#state === 'leaving' ? this.#farewell : 'authenticate first'
      answerCall(stream.resume(), { Error: message })
      this.#leave(message)
    }
  }

  #beat(stream: MuxStream): void {
    if (!this.#heartbeat.begin(stream)) stream.destroy()
    this.#nudge()
  }

  #extend(): void {
    this.#beatAt = this.#host.clock.monotonic()
    this.#deadline = this.#beatAt + (this.#request?.silence ?? 0)
  }

  #nudge(): void {
    if (this.creditsEachRead) this.#mux.nudged = this.#heartbeat.stream
  }

  async #authenticate(stream: MuxStream): Promise<void> {
    if (this.#state !== 'new') {
      const message = this.#state === 'open' ? 'the session has authenticated already' : 'authenticate once'
      answerCall(stream.resume(), { Version: '3', ClientId: '', Error: message, Extra: {} })
      return
    }
    this.#state = 'authenticating'
    const fields = await readCall(stream, EARLY_CALL)
    if (fields === undefined) {
      this.#refuse(stream, '3', 'the request is no JSON object or too long')
      return
    }
    const request = readAuthRequest(fields, { ip: this.ip, serverName: this.#serverName })
    const { throttle, authority } = this.#host
    const wait = throttle.wait(this.ip, request.token)
    if (wait > 0) {
      this.#refuse(stream, request.version, `too many failed attempts; the next one counts in ${wait} s`)
      return
    }
    // A response would count as a rejection, after which some agents stay away for hours; the time limit ends the call.
    if (throttle.crowded(this.ip, request.token) > 0) return
    try {
      const answer = await authority.authenticate(request.token, request.facts)
      if (this.#state !== 'authenticating') return
      if (isBindDenied(answer)) {
        throttle.refused(this.ip, request.token)
        this.#refuse(stream, request.version, answer.refused)
      } else {
        throttle.accepted(this.ip, request.token)
        this.#accept(stream, request, answer)
      }
    } catch (error) {
      // No response, for the same reason.
      this.#host.failed(error)
    }
  }

  #refuse(stream: MuxStream, version: string, message: string): void {
    if (this.#state === 'over') return
    answerCall(stream, { Version: version, ClientId: '', Error: message, Extra: {} })
    this.#leave(message)
  }

  #fail(stream: MuxStream, error: unknown): void {
    this.#host.failed(error)
    answerCall(stream, { Error: 'this cannot be done now; the log of the server says why' })
  }

  /** The next sweep ends it: the agent should read the reason first. */
  #leave(message: string): void {
    this.#state = 'leaving'
    this.#farewell = message
  }

  #accept(stream: MuxStream, request: AuthRequest, grant: G): void {
    const { identities, clock, registry, region, version } = this.#host
    const { clientId, cookie } = request
    const known = clientId !== '' && identities.ownsSession(cookie, clientId, grant.credential)
    this.#id = known ? clientId : newId('ts', clock.wall())
    this.#request = request
    this.#grant = grant
    this.#startedAt = clock.wall()
    this.#state = 'open'
    this.#mux.peerStreams = CALL_STREAMS
    this.#mux.peerBytes = Number.POSITIVE_INFINITY
    this.#extend()
    this.#nudge()
    if (known) this.#host.replaced(this)
    this.#host.authenticated(this)
    registry.addSession(this)
    answerCall(stream, {
      Version: request.version,
      ClientId: this.#id,
      Error: '',
      Extra: {
        Version: version,
        Region: region,
        Cookie: identities.cookie(this.#id, grant.credential),
        AccountName: grant.account ?? '',
        SessionDuration: 0,
        AgentSessionID: this.#id
      }
    })
  }

  #closed({ detail }: SessionEnd): void {
    const started = this.#state === 'open'
    this.#state = 'over'
    this.#idle?.()
    this.#calls.closed()
    this.#answer(false)
    this.#commands.closed()
    if (started) this.#host.registry.removeSession(this, detail)
    this.#host.ended(this)
  }
}
