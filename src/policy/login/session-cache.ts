import type { Session } from './session.js'

/** A session that is in use, with what this process knows about it beside its cookies. Times: wall clock, milliseconds. */
export interface Held {
  /** Of its realm. */
  readonly tag: string
  readonly session: Session
  /** As browsers keep it. */
  readonly sealed: string
  /** Last request, as far as this process knows. */
  seen: number
  /** When the browser was last told about its activity. */
  stamped: number
  /** It is over, whatever its cookies say. */
  ended: boolean
  /** The session that has taken its place. */
  successor: Held | undefined
  /** The provider is being asked. */
  checking: Promise<Held | 'ended' | 'unknown'> | undefined
  /** The provider is not asked before. Monotonic milliseconds. */
  restUntil: number
  /** What is published on each request. */
  results: Readonly<Record<string, unknown>> | undefined
}

/** Entries of one generation; two of them are kept. */
const SIZE = 4_096
const KEY_LENGTH = 24

/**
 * Sessions by the sealed text that browsers send, so that opening and reading it is done once. Two generations: what was not
 * used while the younger one filled up is forgotten, and opened again when it comes back.
 */
export class SessionCache {
  #young = new Map<string, Held>()
  #old = new Map<string, Held>()

  get(sealed: string): Held | undefined {
    const key = keyOf(sealed)
    let held = this.#young.get(key)
    if (held === undefined) {
      held = this.#old.get(key)
      if (held !== undefined) this.set(held)
    }
    return held?.sealed === sealed ? held : undefined
  }

  set(held: Held): void {
    if (this.#young.size >= SIZE) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(keyOf(held.sealed), held)
  }
}

/** The end of a sealed text is its tag, as good as random: hashing it costs less than hashing kilobytes. */
function keyOf(sealed: string): string {
  return sealed.slice(-KEY_LENGTH)
}

/** A session as it was sealed or opened. */
export function hold(tag: string, session: Session, sealed: string, stamped: number): Held {
  return {
    tag,
    session,
    sealed,
    seen: session.checked,
    stamped,
    ended: false,
    successor: undefined,
    checking: undefined,
    restUntil: 0,
    results: undefined
  }
}
