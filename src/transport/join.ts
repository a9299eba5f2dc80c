import type { Duplex } from 'node:stream'
import { cut } from './byte-pipe.js'
import { copy, ignore } from './copy.js'

/** Hears of the bytes of each direction. */
export interface Counted {
  readonly fromA: (bytes: number) => void
  readonly fromB: (bytes: number) => void
}

/**
 * Joins two byte streams both ways with back-pressure. The end of one direction is passed on as a half-close; a break
 * in either cuts both. `done(clean)` once, when nothing can flow any more.
 */
export function join(a: Duplex, b: Duplex, done: (clean: boolean) => void, counted?: Counted): void {
  let open = 2
  let over = false
  const finish = (clean: boolean): void => {
    if (over) return
    over = true
    a.on('error', ignore)
    b.on('error', ignore)
    if (!clean) {
      cut(a)
      cut(b)
    }
    done(clean)
  }
  const direction = (from: Duplex, to: Duplex, carried: ((bytes: number) => void) | undefined): void => {
    copy(from, to, carried, (complete) => {
      if (over) return
      // A sink that closed after it had sent its own end takes nothing more; that is a break too.
      if (!complete) return finish(false)
      to.end()
      open--
      if (open === 0) finish(true)
      return undefined
    })
  }
  direction(a, b, counted?.fromA)
  direction(b, a, counted?.fromB)
}
