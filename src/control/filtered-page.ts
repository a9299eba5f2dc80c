import { Slices } from '../lib/slices.js'
import type { ResourceRecord } from '../schema/field.js'

/** Records of a list, and whether more come behind them. */
export interface FoundPage {
  readonly records: readonly ResourceRecord[]
  readonly more: boolean
}

/** Returns a page of a list behind the record `before`; undefined if `before` is no cursor. */
export type FindPage = (limit: number, before: string | undefined) => Promise<FoundPage | undefined>

/** Records of a page, and the cursor of the next one; undefined at the end. */
interface Page {
  readonly records: readonly ResourceRecord[]
  readonly next: string | undefined
}

/** Records that are read and presented at once. */
const AT_ONCE = 100

/** Maximum number of records that one request reads for its filter; the page is then short, and the next one continues. */
export const MAX_FILTERED = 10_000

/** Parts of a request for a filtered page. */
interface FilteredRequest {
  readonly limit: number
  readonly beforeId?: string | undefined
  /** Returns the objects as lists show them, in the order of the records. */
  readonly present: (records: readonly ResourceRecord[]) => Promise<readonly unknown[]>
  readonly passes: (shown: unknown) => boolean
}

/** Returns a page of the records whose objects pass a filter; undefined if `beforeId` is no cursor. Evaluates in time slices. */
export async function filteredPage(
  find: FindPage,
  { limit, beforeId, present, passes }: FilteredRequest
): Promise<Page | undefined> {
  const slices = new Slices()
  const kept: ResourceRecord[] = []
  let before = beforeId
  for (let read = 0; ; ) {
    const page = await find(AT_ONCE, before)
    if (page === undefined) return undefined
    const shown = await present(page.records)
    for (const [place, record] of page.records.entries()) {
      if (passes(shown[place])) kept.push(record)
      if (kept.length > limit) return { records: kept.slice(0, limit), next: kept[limit - 1]?.id }
      if (slices.due) await slices.rest()
    }
    before = page.records.at(-1)?.id
    read += page.records.length
    if (!page.more || before === undefined) return { records: kept, next: undefined }
    if (read >= MAX_FILTERED) return { records: kept, next: before }
  }
}
