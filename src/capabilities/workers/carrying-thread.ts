import type { Socket } from 'node:net'
import type { Worker } from 'node:worker_threads'
import type { WorkerState } from '../../control/calls.js'
import type { EndedNews } from '../../features/login/ended-sessions.js'
import { timestampText } from '../../lib/json.js'
import type { Drained } from '../../proxy/ports.js'
import { delaysInMilliseconds } from '../../telemetry/process-health.js'
import type { CountingThread } from '../../telemetry/relayed-traffic.js'
import type { ServingThread } from './sockets/dealer.js'
import type { ToServing } from './sockets/protocol.js'
import { type TunnelDirectory, TunnelOutlet } from './sockets/tunnel-outlet.js'
import type { ThreadState, ToTrafficThread } from './thread-protocol.js'

const NOTHING_DRAINED: Drained = { ended: 0, cut: 0 }

/** One thread that carries traffic, as the one of the control plane sees it. */
export class CarryingThread implements ServingThread, CountingThread {
  /** Number from 1; a replacement may have the same. */
  readonly number: number
  readonly #worker: Worker
  /** Wall time. */
  readonly #startedAt: number
  /** Callers that wait for an answer of the worker, by serial. */
  readonly #waiting = new Map<number, () => void>()
  requests = 0
  #drained: ((drained: Drained) => void) | undefined
  #over = false
  /** Opens streams of tunnels for it. */
  readonly tunnels: TunnelOutlet
  /** Last reported state. */
  state: ThreadState | undefined
  serves = false
  failing = false

  constructor(
    worker: Worker,
    { number, startedAt, directory }: { number: number; startedAt: number; directory: TunnelDirectory }
  ) {
    this.#worker = worker
    this.tunnels = new TunnelOutlet(directory, (message, transfer = []) => {
      if (!this.#over) worker.postMessage(message, transfer)
    })
    this.number = number
    this.#startedAt = startedAt
  }

  /** `connections`: that it has now. */
  shown(connections: number): WorkerState {
    const { state } = this
    return {
      worker: this.number,
      state: this.failing ? 'failing' : this.serves ? 'serving' : 'starting',
      startedAt: timestampText(this.#startedAt),
      connections,
      requests: this.requests,
      loopDelay: state === undefined ? null : delaysInMilliseconds(state.loop),
      memory:
        state === undefined ? null : { heapUsed: state.heapUsed, heapLimit: state.heapLimit, external: state.external }
    }
  }

  post(message: ToServing, socket?: Socket): boolean {
    if (this.#over) return false
    try {
      // Node 24 transfers sockets; its types do not know it.
      this.#worker.postMessage(message, socket === undefined ? [] : [socket as never])
      return true
    } catch {
      return false
    }
  }

  send(message: ToTrafficThread): void {
    if (!this.#over) this.#worker.postMessage(message)
  }

  /** Resolves when the worker has reported its state. */
  counts(serial: number, limits: boolean): Promise<void> {
    return this.#ask({ kind: 'count', serial, limits })
  }

  /** Resolves when the worker applies these logouts. */
  endLogins(serial: number, news: EndedNews): Promise<void> {
    return this.#ask({ kind: 'ended-logins', serial, news })
  }

  #ask(message: Extract<ToTrafficThread, { kind: 'count' | 'ended-logins' }>): Promise<void> {
    if (this.#over) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.set(message.serial, resolve)
      this.send(message)
    })
  }

  counted({ serial, state }: { readonly serial: number; readonly state: ThreadState }): void {
    this.state = state
    this.answered(serial)
  }

  /** Releases the caller that waits for this answer. */
  answered(serial: number): void {
    this.#waiting.get(serial)?.()
    this.#waiting.delete(serial)
  }

  drains(deadline: number): Promise<Drained> {
    if (this.#over) return Promise.resolve(NOTHING_DRAINED)
    return new Promise((resolve) => {
      this.#drained = resolve
      this.send({ kind: 'drain', deadline })
    })
  }

  drained(drained: Drained): void {
    this.#drained?.(drained)
  }

  /** Releases callers that wait for the worker. */
  ended(): void {
    this.#over = true
    this.tunnels.close()
    for (const resolve of this.#waiting.values()) resolve()
    this.#waiting.clear()
    this.#drained?.(NOTHING_DRAINED)
  }
}
