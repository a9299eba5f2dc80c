import { partKey } from '../../app/opened-parts.js'
import type { HandedEndpoint } from '../tunnel/agents/ephemeral-endpoints.js'
import type { HandedTunnels } from '../workers/sockets/handed-tunnels.js'
import type { FromServing } from '../workers/sockets/protocol.js'

/** Admissions of limits, four numbers each: both halves of the bucket's hash, the seconds of its window, and the cost. */
export type Admissions = readonly number[]

/** Counters of limits of a process: the concatenated `LimiterTable.pieces`, or a file of `handOver`. */
export type HandedLimits = { readonly table: Uint8Array } | { readonly file: string }

/** The process whose place this one takes. */
export interface HandedProcess {
  /** Endpoints that agents have opened there. */
  readonly endpoints: readonly HandedEndpoint[]
  /** Passes messages about the tunnels of its agents to `follower`; the returned function sends messages to it. */
  tunnels(follower: Pick<HandedTunnels, 'receive' | 'lost'>): (message: FromServing) => void
  /** Resolves when it has ended. */
  readonly gone: Promise<void>
  /** Returns the counters. Called once, right before ports are opened. Undefined if unavailable. */
  limits(): Promise<HandedLimits | undefined>
  /** Calls `count` with its admissions since `limits`, until its end. */
  admitted(count: (admissions: Admissions) => void): void
}

/** The process whose place this one takes. */
export const PREDECESSOR = partKey<HandedProcess>('predecessor')
