import type { PauseLimits, WorkLimits } from './work-budget.js'

const KIB = 1_024

/** Bounds of a policy document. */
export interface DocumentLimits {
  /** Size in bytes of UTF-8. */
  readonly bytes: number
  /** Total number in all phases. */
  readonly rules: number
}

/** Bounds of the tests of a policy that are run for a caller. */
export interface TestLimits {
  readonly cases: number
  /** Total number in all cases. */
  readonly requests: number
}

interface MemberLimits {
  /** Maximum number of concurrent streams of events, backups and exports. */
  readonly streams: number
  /** A policy document. */
  readonly documents: DocumentLimits
  /** Bounds of policy tests, stored with the policy or run before a write. */
  readonly tests: TestLimits
  /** Bytes of bodies; other work is converted by `BYTES_OF_REQUEST` and `BYTES_OF_MILLISECOND`. */
  readonly work: WorkLimits
}

interface AgentLimits {
  readonly documents: DocumentLimits
  /** Bytes of the policies of its endpoints plus `BYTES_OF_REQUEST` for each, per credential and client address. */
  readonly work: WorkLimits
  /** Pauses after rejected policies, per credential and client address. */
  readonly pauses: PauseLimits
}

/**
 * Work limits of one caller by role. Administrators have only the bounds of every document. Each member and agent has a separate budget, so
 * that a busy caller delays no other.
 */
export const CALLER_LIMITS: {
  readonly administrator: Pick<MemberLimits, 'streams'>
  readonly member: MemberLimits
  readonly agent: AgentLimits
} = {
  administrator: { streams: 256 },
  member: {
    streams: 16,
    documents: { bytes: 256 * KIB, rules: 1_000 },
    tests: { cases: 300, requests: 3_000 },
    work: { burst: 512 * KIB, perSecond: 32 * KIB }
  },
  agent: {
    documents: { bytes: 128 * KIB, rules: 500 },
    work: { burst: 512 * KIB, perSecond: 16 * KIB },
    pauses: { free: 20, first: 1_000, longest: 60_000 }
  }
}

/** Bytes charged for a member's write request, and for an endpoint bound by an agent: some 3 ms of work. */
export const BYTES_OF_REQUEST = 512

/** Bytes charged per millisecond of other work: reading and compiling a document takes some 5 µs per byte. */
const BYTES_OF_MILLISECOND = 200

/** Share of time for which background work runs before yielding to traffic. */
const BESIDE_TRAFFIC = 1 / 3

/** Runs background work and charges it to the caller. */
export async function counted<T>(spend: ((bytes: number) => void) | undefined, run: () => Promise<T>): Promise<T> {
  if (spend === undefined) return await run()
  const begun = performance.now()
  try {
    return await run()
  } finally {
    spend((performance.now() - begun) * BESIDE_TRAFFIC * BYTES_OF_MILLISECOND)
  }
}
