import type { Clock } from '../../../lib/clock.js'
import { Backoff, type BackoffRange } from '../../../lib/concurrency.js'
import { CodedError, codeOf } from '../../../lib/errors.js'
import { AgentConnection, type Remembered } from './connection.js'
import type { AgentTunnel, ServerAddress } from './visitors.js'

/** Events of an agent, for display. */
export type AgentEvent =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'connected'; readonly sessionId: string; readonly account: string }
  | { readonly kind: 'bound'; readonly tunnel: AgentTunnel; readonly id: string; readonly url: string }
  | { readonly kind: 'lost'; readonly why: string }
  | { readonly kind: 'waiting'; readonly why: string; readonly milliseconds: number }
  | { readonly kind: 'tunnel-stopped'; readonly tunnel: AgentTunnel; readonly why: string }
  | { readonly kind: 'unreachable'; readonly tunnel: AgentTunnel; readonly why: string }

export interface AgentOptions {
  readonly server: ServerAddress
  readonly token: string
  readonly tunnels: readonly AgentTunnel[]
  /** Shown with the session. */
  readonly metadata?: string
  readonly version: string
  readonly clock: Clock
  /** Numbers from 0 to below 1. */
  readonly random: () => number
  /** Resolves after `milliseconds`, or immediately if `signal` aborts. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>
  report(event: AgentEvent): void
}

const TICK = 1000
/** Pauses between attempts to connect, and between attempts to bind a tunnel. */
export const RECONNECTING: BackoffRange = { first: 500, longest: 15_000 }

/** Keeps one agent connected until stopped. */
export class Agent {
  readonly #options: AgentOptions
  readonly #known: Remembered = { clientId: '', cookie: '', endpoints: new Map() }
  readonly #stopping = new AbortController()
  readonly #backOff: Backoff
  #connection: AgentConnection | undefined = undefined
  #everBound = false

  constructor(options: AgentOptions) {
    this.#options = options
    this.#backOff = new Backoff(RECONNECTING, options.random)
  }

  /**
   * Resolves when stopped, here or by the server. Rejects with a CodedError if the server rejects the first connection
   * (`AGENT_REFUSED`) or its certificate is not trusted (`AGENT_TLS`): a retry would not help. Later rejections are retried
   * with pauses, because an administrator may change the configuration.
   */
  async run(): Promise<void> {
    const { report, wait } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      let why: string
      try {
        report({ kind: 'connecting' })
        why = await this.#once()
        if (!signal.aborted) report({ kind: 'lost', why })
      } catch (error) {
        if (!(error instanceof CodedError)) throw error
        if (!this.#everBound && error.code !== 'AGENT_UNREACHABLE') throw error
        why = error.message
      }
      if (signal.aborted) return
      const milliseconds = this.#backOff.next()
      report({ kind: 'waiting', why, milliseconds })
      await wait(milliseconds, signal)
    }
  }

  /** Ends the connection and `run`. */
  stop(): void {
    this.#stopping.abort()
    this.#connection?.close()
  }

  /** One connection from beginning to end; resolves with why it ended. */
  async #once(): Promise<string> {
    const { server, token, tunnels, metadata = '', version, clock, report } = this.#options
    let ended: (why: string) => void = () => undefined
    const end = new Promise<string>((resolve) => {
      ended = resolve
    })
    const connection = await AgentConnection.open(
      server,
      {
        bound: (tunnel, id, url) => report({ kind: 'bound', tunnel, id, url }),
        asked: (what) => {
          if (what === 'stop') this.stop()
          else connection.close()
        },
        tunnelStopped: (tunnel, why) => {
          report({ kind: 'tunnel-stopped', tunnel, why })
          void this.#again(connection, tunnel)
        },
        unreachable: (tunnel, why) => report({ kind: 'unreachable', tunnel, why }),
        ended: (why) => ended(why)
      },
      clock
    )
    this.#connection = connection
    const timer = setInterval(() => connection.tick(), TICK)
    try {
      if (this.#stopping.signal.aborted) return 'stopped'
      const account = await connection.authenticate(token, metadata, version, this.#known)
      report({ kind: 'connected', sessionId: this.#known.clientId, account })
      for (const tunnel of tunnels) await this.#bind(connection, tunnel)
      this.#everBound = true
      this.#backOff.reset()
      return await end
    } finally {
      clearInterval(timer)
      this.#connection = undefined
      connection.close()
    }
  }

  /** The other tunnels of an agent that has served stay, when one of them is refused. */
  async #bind(connection: AgentConnection, tunnel: AgentTunnel): Promise<void> {
    try {
      await connection.bind(tunnel, this.#known)
    } catch (error) {
      if (!this.#everBound || codeOf(error) !== 'AGENT_REFUSED') throw error
      this.#options.report({ kind: 'tunnel-stopped', tunnel, why: (error as CodedError).message })
      void this.#again(connection, tunnel)
    }
  }

  /** Requests a tunnel until granted, or the connection has ended. */
  async #again(connection: AgentConnection, tunnel: AgentTunnel): Promise<void> {
    const { random, wait } = this.#options
    const backOff = new Backoff(RECONNECTING, random)
    while (this.#connection === connection) {
      await wait(backOff.next(), this.#stopping.signal)
      if (this.#connection !== connection || this.#stopping.signal.aborted) return
      try {
        await connection.bind(tunnel, this.#known)
        return
      } catch (error) {
        if (codeOf(error) !== 'AGENT_REFUSED') return
      }
    }
  }
}
