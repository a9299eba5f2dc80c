/** Bounds of what one caller of the API can have open or make this process do. */
interface CallerLimits {
  /** Streams of events, backups and exports that are being sent at once. */
  readonly streams: number
}

/** The bounds by role. */
export const CALLER_LIMITS: Readonly<Record<'administrator' | 'member', CallerLimits>> = {
  administrator: { streams: 256 },
  member: { streams: 16 }
}
