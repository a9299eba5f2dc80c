import type { PauseLimits, WorkLimits } from './work-budget.js'

const KIB = 1_024

/** Bounds of a policy document. */
export interface DocumentLimits {
  /** In UTF-8. */
  readonly bytes: number
  /** Of all phases together. */
  readonly rules: number
}

/** Bounds of the tests of a policy that are run for a caller. */
export interface TestLimits {
  readonly cases: number
  /** Of all cases together. */
  readonly requests: number
}

interface MemberLimits {
  /** Streams of events, backups and exports that are sent at once. */
  readonly streams: number
  /** A policy document. */
  readonly documents: DocumentLimits
  /** Tests of a policy, stored with it or run before a write. */
  readonly tests: TestLimits
  /** Bytes of bodies; other work counts as `BYTES_OF_REQUEST` and `BYTES_OF_MILLISECOND` say. */
  readonly work: WorkLimits
}

interface AgentLimits {
  readonly documents: DocumentLimits
  /** Bytes of the policies of its endpoints, and `BYTES_OF_REQUEST` for each of them, by credential and client address. */
  readonly work: WorkLimits
  /** After policies that are refused, by credential and client address. */
  readonly pauses: PauseLimits
}

/**
 * What one caller can make this process do, by its role. Administrators have only the bounds of every document. The work of each member
 * and agent is a budget of its own, so that a busy caller delays no other.
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

/** Bytes that a request of a member that may change something counts as, and an endpoint that an agent binds: some 3 ms of work. */
export const BYTES_OF_REQUEST = 512

/** Bytes that a millisecond of other work counts as: to read and compile a document takes some 5 µs a byte. */
const BYTES_OF_MILLISECOND = 200

/** Share of the time that work beside traffic takes which it works; it rests for the others. */
const BESIDE_TRAFFIC = 1 / 3

/** Runs work beside traffic and counts it for the caller. */
export async function counted<T>(spend: ((bytes: number) => void) | undefined, run: () => Promise<T>): Promise<T> {
  if (spend === undefined) return await run()
  const begun = performance.now()
  try {
    return await run()
  } finally {
    spend((performance.now() - begun) * BESIDE_TRAFFIC * BYTES_OF_MILLISECOND)
  }
}
