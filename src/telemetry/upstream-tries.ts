import type { Failure } from '../flow/exchange.js'
import { toMicroseconds } from '../lib/units.js'

/** One try to get an answer from an upstream. Times in milliseconds, from the beginning of the try. */
export interface UpstreamTry {
  /** Id of the backend, or the name of the option that says it. */
  readonly backend: string
  /** Its URL, or the tunnels that it stands for. */
  readonly server: string
  /** Until a connection stood; undefined when one was reused or none came about. */
  readonly connect: number | undefined
  /** Until the head of the answer; undefined without one. */
  readonly firstByte: number | undefined
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/** Tries of one exchange that are kept; the last one always is. */
const MOST_KEPT = 10

/** The tries of one exchange. It is made only where a log line or an event is going to show them. */
export class UpstreamTries {
  /** The first ones and the last one, in their order. */
  readonly kept: UpstreamTry[] = []
  /** How many there were. */
  count = 0

  add(one: UpstreamTry): void {
    this.count++
    if (this.kept.length === MOST_KEPT) this.kept.pop()
    this.kept.push(one)
  }

  get last(): UpstreamTry | undefined {
    return this.kept.at(-1)
  }

  /** As logs and events show them. */
  get shown(): Readonly<Record<string, string | number>>[] {
    return this.kept.map(({ backend, server, connect, firstByte, status, failure }) => ({
      backend,
      server,
      ...(connect === undefined ? {} : { connect_ms: toMicroseconds(connect) }),
      ...(firstByte === undefined ? {} : { first_byte_ms: toMicroseconds(firstByte) }),
      ...(status === undefined ? {} : { status }),
      ...(failure === undefined ? {} : { failure })
    }))
  }
}
