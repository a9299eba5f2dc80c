import type { Clock } from '../../lib/clock.js'
import type { MuxSession } from '../protocol/session.js'
import { readCall } from './call.js'
import { CALL } from './limits.js'
import { StreamType, typed } from './stream-type.js'

export type AgentCommand = 'stop' | 'restart' | 'update'

interface Expiry {
  readonly at: number
  run(): void
}

/** What the server asks of an agent; nothing waits for an answer longer than the time limit. */
export class AgentCommands {
  readonly #mux: MuxSession
  readonly #clock: Clock
  readonly #time: number
  readonly #expiries = new Set<Expiry>()

  /** `time`: milliseconds for an answer. */
  constructor(mux: MuxSession, clock: Clock, time: number) {
    this.#mux = mux
    this.#clock = clock
    this.#time = time
  }

  /** Resolves with undefined when the agent obeys, or with why not; one without a handler for it never answers. */
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

  /** Tells the agent that a tunnel is over; there is no answer. */
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
