import type { Buckets } from './buckets.js'
import { COUNTER, HEADER, PAGE_BYTES, THREAD_CELLS, THREADS, THREADS_BASE } from './layout.js'
import type { Memory } from './memory.js'

/** What the limiter holds now. */
export interface LimiterStatistics {
  readonly buckets: number
  /** Buckets with room for at most 8 stamps, with a larger ring, and with counters. */
  readonly sparse: number
  readonly rings: number
  readonly counts: number
  readonly bytesReserved: number
  /** Bytes of pages that hold slots or states. */
  readonly bytesInUse: number
  /** Bytes of all pages that there are for slots and states. */
  readonly bytesForPages: number
  readonly admitted: number
  readonly refused: number
  /** Refusals that the estimate of the sketch took part in. */
  readonly sketchRefusals: number
  /** Admissions that were counted in the sketch because their key got no bucket. */
  readonly sketchDecisions: number
  /** Buckets that were moved into the sketch, and the admissions they held. */
  readonly folded: number
  readonly foldedAdmissions: number
  /** Empty buckets that were removed. */
  readonly dropped: number
  /** Refusals because another thread had the bucket's part of the table for too long. */
  readonly busy: number
}

/** Numbers of all threads together. While others decide they may belong to moments that are a little apart. */
export function statisticsOf({ words, doubles, layout }: Memory, buckets: Buckets): LimiterStatistics {
  const sum = (counter: number) => {
    let all = 0
    for (let thread = 0; thread < THREADS; thread += 1) all += doubles[THREADS_BASE + thread * THREAD_CELLS + counter]!
    return all
  }
  return {
    ...buckets.census(),
    buckets: words[HEADER.buckets]!,
    bytesReserved: layout.bytes,
    bytesInUse: words[HEADER.pagesInUse]! * PAGE_BYTES,
    bytesForPages: (layout.endPage - layout.firstPage) * PAGE_BYTES,
    admitted: sum(COUNTER.admitted),
    refused: sum(COUNTER.refused),
    sketchRefusals: sum(COUNTER.sketchRefusals),
    sketchDecisions: sum(COUNTER.sketchDecisions),
    folded: sum(COUNTER.folded),
    foldedAdmissions: sum(COUNTER.foldedAdmissions),
    dropped: sum(COUNTER.dropped),
    busy: sum(COUNTER.busy)
  }
}
