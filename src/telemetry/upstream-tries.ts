import type { Failure } from '../flow/exchange.js'
import { toMicroseconds } from '../lib/units.js'

/** One attempt at an upstream. Times in milliseconds from its start. */
export interface UpstreamTry {
  /** Backend id, or the name of the option that sets it. */
  readonly backend: string
  /** Name of the backend. */
  readonly name: string
  /** Server URL, or the tunnels. */
  readonly server: string
  /** Time until connected; undefined for a reused connection or none. */
  readonly connect: number | undefined
  /** Time until the response header; undefined without a response. */
  readonly firstByte: number | undefined
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/** Maximum number of attempts kept; the last is always among them. */
const MOST_KEPT = 10

/** Attempts of one exchange. Created only if a log line or event shows them. */
export class UpstreamTries {
  /** First attempts and the last one, in order. */
  readonly kept: UpstreamTry[] = []
  /** Number of all attempts. */
  count = 0

  add(one: UpstreamTry): void {
    this.count++
    if (this.kept.length === MOST_KEPT) this.kept.pop()
    this.kept.push(one)
  }

  get last(): UpstreamTry | undefined {
    return this.kept.at(-1)
  }

  /** Attempts as shown in logs and events. */
  get shown(): Readonly<Record<string, string | number>>[] {
    return this.kept.map(({ backend, name, server, connect, firstByte, status, failure }) => ({
      backend,
      name,
      server,
      ...(connect === undefined ? {} : { connect_ms: toMicroseconds(connect) }),
      ...(firstByte === undefined ? {} : { first_byte_ms: toMicroseconds(firstByte) }),
      ...(status === undefined ? {} : { status }),
      ...(failure === undefined ? {} : { failure })
    }))
  }
}
