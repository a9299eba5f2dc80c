import type { Clock } from '../lib/clock.js'
import type { ProcessReport } from '../store/store.js'

/** A report as far as it is a sign of life. */
export type Sign = Pick<ProcessReport, 'id' | 'seenAt'>

/** What one look may add to a silence: a store that was out of reach has silenced everybody, and nobody has died of it. Milliseconds. */
const MOST_STEP = 2_000

/**
 * How long the processes on a store have been silent, as far as this one has watched. A sign of life is a report that differs
 * from the one before; its time is that of another machine and is compared with no clock.
 */
export class SignsOfLife {
  readonly #clock: Clock
  #silences: ReadonlyMap<string, { readonly sign: Sign; readonly silence: number; readonly heardAt: number }> =
    new Map()
  #lookedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes what all processes have reported last. */
  look(signs: readonly Sign[]): void {
    const now = this.#clock.monotonic()
    const step = Math.min(MOST_STEP, now - (this.#lookedAt ?? now))
    this.#lookedAt = now
    const former = this.#silences
    this.#silences = new Map(
      signs.map(({ id, seenAt }) => {
        const known = former.get(id)
        const same = known?.sign.seenAt === seenAt
        const silence = same ? known.silence + step : 0
        return [id, { sign: { id, seenAt }, silence, heardAt: same ? known.heardAt : this.#clock.wall() }]
      })
    )
  }

  /**
   * When this process heard of that one last, by its own clock; of one that was silent from the beginning: when it looked
   * first. Milliseconds since the Unix epoch.
   */
  heardAt(id: string): number | undefined {
    return this.#silences.get(id)?.heardAt
  }

  /** The last signs of those that have been silent for longer than this. Milliseconds. */
  silentFor(milliseconds: number): readonly Sign[] {
    const silent: Sign[] = []
    for (const { sign, silence } of this.#silences.values()) if (silence > milliseconds) silent.push(sign)
    return silent
  }
}
