/** What a process of the cluster says of itself. */
export interface ProcessReport {
  readonly id: string
  readonly appliedRevision: number
  /** What this process could not apply, or null. */
  readonly lastError: string | null
  /** When this process last found that the store was not the one that it had followed; null: never. Milliseconds since the Unix epoch. */
  readonly divergedAt: number | null
  /** Milliseconds since the Unix epoch. */
  readonly seenAt: number
}

/** What the store says to a report. */
export interface Reported {
  /** False: nothing was known of the process, and so there is nothing of it on the cluster board either. */
  readonly known: boolean
  /** How many calls others have left for it since its first report. */
  readonly calls: number
}

/**
 * What the processes on one store share beside records: what lives in each of them, and what one asks of
 * another. Nothing of it is a revision, and all of a process goes when its report goes.
 */
export interface ClusterBoard {
  /**
   * Puts and drops entries of a process, all or nothing. Fails with `STORE_FAILED` when the process has no report (any
   * more).
   */
  publish(process: string, change: BoardChange): Promise<void>
  /** Drops every entry of a process. */
  clear(process: string): Promise<void>
  /** Entries of one kind, greatest rank first. */
  list(kind: string, page: BoardPage, of: Published): Promise<BoardEntry[]>
  /** Those that have this id: several when it moves from one process to another. */
  get(kind: string, id: string, of: Published): Promise<PublishedEntry[]>
  /** Leaves a call for a process and wakes it. False: it has no report (any more). */
  call(call: BoardCall): Promise<boolean>
  /** Calls for a process that have no answer, oldest first. */
  waiting(process: string): Promise<BoardCall[]>
  /** Answers a call and wakes the process that made it. Nothing happens when it was withdrawn. */
  answer(call: Pick<BoardCall, 'id' | 'from'>, text: string): Promise<void>
  /** Its answer; null: none yet; undefined: the call is gone, withdrawn or with the process that it was for. */
  answerTo(id: string): Promise<string | null | undefined>
  /** Forgets a call, answered or not. */
  withdraw(id: string): Promise<void>
  /**
   * `notified` runs when there may be a call or an answer for the process; it must not throw. A call that is not delivered
   * shows in the process's next report. Answers what ends it.
   */
  listen(process: string, notified: () => void): () => void
}

/** Something that lives in one process. */
export interface BoardEntry {
  readonly kind: string
  /** Unique within its kind and process. */
  readonly id: string
  /** Its place in lists, compared byte by byte in UTF-8. */
  readonly rank: string
  /** JSON text. */
  readonly body: string
}

/** An entry with the process that has published it. */
export interface PublishedEntry extends BoardEntry {
  readonly process: string
}

/** What a process puts on the cluster board and takes from it. */
export interface BoardChange {
  readonly put: readonly BoardEntry[]
  readonly drop: readonly Pick<BoardEntry, 'kind' | 'id'>[]
}

/** Which part of the entries is asked for, by descending rank. */
export interface BoardPage {
  readonly limit: number
  /** Only ranks below this one. */
  readonly below?: string | undefined
}

/** Whose entries count. */
export interface Published {
  /** Not those of these processes. */
  readonly except: readonly string[]
}

/** What one process asks of another. */
export interface BoardCall {
  readonly id: string
  /** The process that is to answer. */
  readonly process: string
  /** The one that asks. */
  readonly from: string
  /** JSON text. */
  readonly body: string
}
