import type { Clock } from '../../../lib/clock.js'
import { type Fields, readCall, StreamType, typed } from '../protocol/calls.js'
import type { MuxSession } from '../protocol/session.js'
import type { MuxStream } from '../protocol/stream.js'
import type { AgentFacts } from './authority.js'
import { CALL, LEAST_SILENCE, MOST_BEATS, MOST_SILENCE } from './tunnel.js'

export type AgentCommand = 'stop' | 'restart' | 'update'

interface Expiry {
  readonly at: number
  run(): void
}

/** Calls from the server to an agent; each response has a time limit. */
export class AgentCommands {
  readonly #mux: MuxSession
  readonly #clock: Clock
  readonly #time: number
  readonly #expiries = new Set<Expiry>()

  /** `time`: maximum response time (ms). */
  constructor(mux: MuxSession, clock: Clock, time: number) {
    this.#mux = mux
    this.#clock = clock
    this.#time = time
  }

  /** Resolves with undefined if the agent executes the command, or with the reason why not; an agent without a handler never responds. */
  ask(command: AgentCommand, version: string): Promise<string | undefined> {
    const body = command === 'update' ? { Version: version, PermitMajorVersion: false } : {}
    const stream = this.#mux.openStream(typed(StreamType[command], Buffer.from(JSON.stringify(body))))
    if (stream === undefined) return Promise.resolve('the session is over')
    return new Promise((resolve) => {
      const expiry = this.#expire(() => {
        stream.destroy()
        resolve('the agent did not answer')
      })
      void readCall(stream, CALL).then((answer) => {
        this.#expiries.delete(expiry)
        if (!stream.destroyed) stream.end()
        const error = answer === undefined ? 'the agent did not answer' : answer.text('error')
        resolve(error === '' ? undefined : error)
      })
    })
  }

  /** Notifies the agent that a tunnel has ended; there is no response. */
  stopTunnel(id: string, message: string): void {
    const body = Buffer.from(JSON.stringify({ Id: id, Message: message, ErrorCode: '' }))
    const stream = this.#mux.openStream(typed(StreamType.stopTunnel, body))
    if (stream === undefined) return
    stream.resume().end()
    const expiry = this.#expire(() => stream.destroy())
    stream.once('close', () => this.#expiries.delete(expiry))
  }

  sweep(now: number): void {
    for (const expiry of this.#expiries) {
      if (expiry.at > now) continue
      this.#expiries.delete(expiry)
      expiry.run()
    }
  }

  /** The session is over; its streams are too. */
  closed(): void {
    for (const expiry of this.#expiries) expiry.run()
    this.#expiries.clear()
  }

  #expire(run: () => void): Expiry {
    const expiry = { at: this.#clock.monotonic() + this.#time, run }
    this.#expiries.add(expiry)
    return expiry
  }
}

const NANOSECONDS = 1e6
const DEFAULT_INTERVAL = 10_000
const DEFAULT_TOLERANCE = 15_000
/** Heartbeats that are missing when an agent is late, and the least time for that. Milliseconds. */
const LATE_BEATS = 3
/** Minimum time without a heartbeat before an agent is late (ms). */
const LEAST_LATE = 3_000

/** First call of an agent. */
export interface AuthRequest {
  readonly token: string
  /** '' for a new session. */
  readonly clientId: string
  readonly cookie: string
  /** The version of the protocol that is answered. */
  readonly version: string
  readonly leg: number
  /** Milliseconds without a heartbeat after which the agent is disconnected. */
  readonly silence: number
  /** Milliseconds without a heartbeat after which visitors go to other agents of the group. */
  readonly late: number
  /** Why the agent does not take a command; '' when it does. */
  readonly unsupported: Readonly<Record<AgentCommand, string>>
  readonly facts: AgentFacts
}

export function readAuthRequest(
  fields: Fields,
  from: { readonly ip: string; readonly serverName: string | undefined }
): AuthRequest {
  const extra = fields.object('extra')
  const versions = fields.texts('version')
  return {
    token: extra.text('authtoken'),
    clientId: fields.text('clientid'),
    cookie: extra.text('cookie'),
    version: versions.includes('3') ? '3' : '2',
    leg: extra.number('legnumber') ?? 0,
    silence: silence(extra.number('heartbeatinterval'), extra.number('heartbeattolerance')),
    late: Math.max(LEAST_LATE, LATE_BEATS * milliseconds(extra.number('heartbeatinterval'), DEFAULT_INTERVAL)),
    unsupported: {
      stop: extra.text('stopunsupportederror'),
      restart: extra.text('restartunsupportederror'),
      update: extra.text('updateunsupportederror')
    },
    facts: {
      ...from,
      userAgent: extra.text('useragent'),
      version: extra.text('version'),
      clientType: extra.text('clienttype'),
      os: extra.text('os'),
      arch: extra.text('arch'),
      hostname: extra.text('hostname'),
      metadata: extra.text('metadata')
    }
  }
}

function silence(interval: number | undefined, tolerance: number | undefined): number {
  const asked = milliseconds(interval, DEFAULT_INTERVAL) + milliseconds(tolerance, DEFAULT_TOLERANCE)
  return Math.min(MOST_SILENCE, Math.max(LEAST_SILENCE, asked))
}

function milliseconds(nanoseconds: number | undefined, otherwise: number): number {
  return nanoseconds === undefined || !(nanoseconds > 0) ? otherwise : nanoseconds / NANOSECONDS
}

const BEAT_BYTES = 4

/**
 * The heartbeat stream of an agent: each value is echoed. The server never ends the stream, because some agents react with a
 * flood.
 */
export class Heartbeat {
  readonly #beaten: () => void
  #stream: MuxStream | undefined = undefined
  #beats = 0

  /** `beaten`: the agent lives. */
  constructor(beaten: () => void) {
    this.#beaten = beaten
  }

  get stream(): MuxStream | undefined {
    return this.#stream
  }

  /** Returns false if there is one already. */
  begin(stream: MuxStream): boolean {
    if (this.#stream !== undefined && !this.#stream.destroyed) return false
    this.#stream = stream
    let rest = Buffer.alloc(0)
    stream.on('data', (chunk: Buffer) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      const whole = bytes.length - (bytes.length % BEAT_BYTES)
      rest = Buffer.from(bytes.subarray(whole))
      if (whole === 0) return
      this.#beats += whole / BEAT_BYTES
      if (this.#beats > MOST_BEATS) return
      this.#beaten()
      stream.write(Buffer.from(bytes.subarray(0, whole)))
    })
    return true
  }

  /** Were there too many beats since the last question? */
  flooded(): boolean {
    const flooded = this.#beats > MOST_BEATS
    this.#beats = 0
    return flooded
  }
}
