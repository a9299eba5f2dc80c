/** Report of one process of the cluster. */
export interface ProcessReport {
  readonly id: string
  readonly appliedRevision: number
  /** Configuration error of this process, or null. */
  readonly lastError: string | null
  /**
   * When this process last found that the store's history differs from the one that it followed; null: never. Milliseconds since the Unix
   * epoch.
   */
  readonly divergedAt: number | null
  /** Milliseconds since the Unix epoch. */
  readonly seenAt: number
}

/** Result of a report. */
export interface Reported {
  /** False if the process was unknown; then the cluster board has no entries of it either. */
  readonly known: boolean
  /** Number of calls from other processes since its first report. */
  readonly calls: number
}

/**
 * Data that the processes on one store share besides records: entries of each process, and calls between processes. None of it is a
 * revision; deleting the report of a process deletes all of its data.
 */
export interface ClusterBoard {
  /** Adds and removes entries of a process, all or nothing. Fails with `STORE_FAILED` if the process has no report. */
  publish(process: string, change: BoardChange): Promise<void>
  /** Removes all entries of a process. */
  clear(process: string): Promise<void>
  /** Returns the entries of one kind, highest rank first. */
  list(kind: string, page: BoardPage, of: Published): Promise<BoardEntry[]>
  /** Returns the entries with this id; several while it moves between processes. */
  get(kind: string, id: string, of: Published): Promise<PublishedEntry[]>
  /** Stores a call for a process and notifies it. Returns false if the process has no report. */
  call(call: BoardCall): Promise<boolean>
  /** Returns the unanswered calls for a process, oldest first. */
  waiting(process: string): Promise<BoardCall[]>
  /** Answers a call and notifies its caller. Has no effect on a withdrawn call. */
  answer(call: Pick<BoardCall, 'id' | 'from'>, text: string): Promise<void>
  /** Returns the answer of a call; null if there is none yet; undefined if the call was withdrawn or its target process was removed. */
  answerTo(id: string): Promise<string | null | undefined>
  /** Deletes a call, answered or not. */
  withdraw(id: string): Promise<void>
  /**
   * Calls `notified` when there may be a call or an answer for the process; it must not throw. A lost notification shows in the next
   * report. Returns the function that stops listening.
   */
  listen(process: string, notified: () => void): () => void
}

/** Entry of one process. */
export interface BoardEntry {
  readonly kind: string
  /** Unique for its kind and process. */
  readonly id: string
  /** Sort key, compared as UTF-8 bytes. */
  readonly rank: string
  /** JSON text. */
  readonly body: string
}

/** Entry with its process. */
export interface PublishedEntry extends BoardEntry {
  readonly process: string
}

/** Entries that a process adds and removes. */
export interface BoardChange {
  readonly put: readonly BoardEntry[]
  readonly drop: readonly Pick<BoardEntry, 'kind' | 'id'>[]
}

/** Page of entries by descending rank. */
export interface BoardPage {
  readonly limit: number
  /** Only entries with a lower rank. */
  readonly below?: string | undefined
}

/** Selects processes. */
export interface Published {
  /** Excluded processes. */
  readonly except: readonly string[]
}

/** Call from one process to another. */
export interface BoardCall {
  readonly id: string
  /** Process that answers. */
  readonly process: string
  /** Process that calls. */
  readonly from: string
  /** JSON text. */
  readonly body: string
}
