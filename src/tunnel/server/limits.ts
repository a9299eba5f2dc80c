/** What an agent may use. Bytes and milliseconds. */
export interface TunnelLimits {
  /** From the first byte to the answer of a successful authentication. */
  readonly authTime: number
  /** Connections that have not authenticated: in all, and from one address. */
  readonly unauthenticated: number
  readonly unauthenticatedPerAddress: number
  /** Tunnels of one session. */
  readonly tunnels: number
  /** Visitors' streams of one session. Agents on the Rust core break as a whole beyond 512. */
  readonly visitors: number
  /** How long an agent may take for the answer to a command. */
  readonly commandTime: number
  /** How long bytes may wait for a peer that does not read. */
  readonly writeTime: number
}

export const DEFAULT_LIMITS: TunnelLimits = {
  authTime: 10_000,
  unauthenticated: 4096,
  unauthenticatedPerAddress: 2048,
  tunnels: 512,
  visitors: 448,
  commandTime: 5000,
  writeTime: 30_000
}

/**
 * Before authentication: one call and the heartbeat; the longest request, beyond which an answer says so; and all bytes of the
 * connection, frames included, beyond which it ends.
 */
export const EARLY_STREAMS = 2
export const EARLY_CALL = 16_384
export const EARLY_BYTES = 65_536
/** Afterwards. */
export const CALL_STREAMS = 64
export const CALL = 1_048_576
/** Bounds of the silence after which an agent counts as gone, whatever it asks for. */
export const LEAST_SILENCE = 5000
export const MOST_SILENCE = 300_000
/** Heartbeats between two looks of `sweep`, which come about each second. */
export const MOST_BEATS = 100
