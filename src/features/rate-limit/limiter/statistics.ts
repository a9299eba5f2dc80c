import type { Buckets } from './buckets.js'
import { COUNTER, HEADER, PAGE_BYTES, THREAD_CELLS, THREADS, THREADS_BASE } from './layout.js'
import type { Memory } from './memory.js'

/** Current content of the limiter. */
export interface LimiterStatistics {
  readonly buckets: number
  /** Buckets with room for at most 8 stamps, with a larger ring, and with counters. */
  readonly sparse: number
  readonly rings: number
  readonly counts: number
  readonly bytesReserved: number
  /** Bytes of pages with slots or states. */
  readonly bytesInUse: number
  /** Bytes of all pages for slots and states. */
  readonly bytesForPages: number
  readonly admitted: number
  readonly refused: number
  /** Refusals in which the sketch's estimate counted. */
  readonly sketchRefusals: number
  /** Admissions counted in the sketch because their key got no bucket. */
  readonly sketchDecisions: number
  /** Buckets moved to the sketch, and their admissions. */
  readonly folded: number
  readonly foldedAdmissions: number
  /** Empty buckets removed. */
  readonly dropped: number
  /** Refusals because another thread held the bucket's segment for too long. */
  readonly busy: number
}

/** Returns the numbers of all threads together. While others decide, the numbers may be from slightly different moments. */
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
