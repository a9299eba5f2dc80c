import type { Duplex, Writable } from 'node:stream'
import { copy, ignore } from './copy.js'

/** Where bytes go in, what the end of their source does there, and the way to give everything up. */
export interface Chain {
  readonly into: Writable
  done(complete: boolean): void
  stop(): void
}

/**
 * Joins fresh transforms before `sink`, in order. `done(true)` when the last one has ended, `done(false)` when any of
 * them broke or the source did; the sink itself is never ended here. `carried` hears of each chunk that reaches it.
 */
export function chain(
  makers: readonly (() => Duplex)[],
  sink: Writable,
  carried: ((bytes: number) => void) | undefined,
  done: (complete: boolean) => void
): Chain {
  const streams = makers.map((make) => make())
  const stops: (() => void)[] = []
  let over = false
  const giveUp = (): void => {
    over = true
    for (const stop of stops) stop()
    for (const stream of streams) stream.destroy()
  }
  const fail = (): void => {
    if (over) return
    giveUp()
    done(false)
  }
  for (const [i, stream] of streams.entries()) {
    const next = streams[i + 1]
    stream.on('error', ignore)
    stops.push(
      copy(stream, next ?? sink, next === undefined ? carried : undefined, (complete) => {
        if (!complete) fail()
        else if (next !== undefined) next.end()
        else {
          over = true
          done(true)
        }
      })
    )
  }
  const head = streams[0] as Duplex
  return {
    into: head,
    done: (complete) => {
      if (complete) head.end()
      else fail()
    },
    stop: giveUp
  }
}
