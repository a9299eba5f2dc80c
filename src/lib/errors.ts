/** Anything that carries a code: a row of a table, or an error whose code goes on under another message. */
export interface Coded {
  readonly code: string
  /** What the reader of the code can do. */
  readonly help?: string | undefined
}

/** An error that programs tell apart by `code`; `message` is for people and holds no secret. */
export class CodedError extends Error {
  readonly code: string
  readonly #help: string | undefined

  constructor({ code, help }: Coded, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'CodedError'
    this.code = code
    this.#help = help
  }

  /** What its reader can do, of the table that its code stands in; undefined: the code stands in none. No field that logs show. */
  get help(): string | undefined {
    return this.#help
  }
}

/** The code of an error of ours or of the system (`EADDRINUSE`), or undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** What stands in a table under a code. Both sentences go into the reference documentation. */
export interface ErrorMeaning {
  /** HTTP status, where the code stands in an answer. */
  readonly status?: number
  /** Further statuses, where the answer depends on the cause or on the configuration. */
  readonly otherStatuses?: readonly number[]
  /** The connection ends with the answer. */
  readonly close?: boolean
  /** One sentence: what has happened. */
  readonly text: string
  /** What the reader of the code can do. */
  readonly help: string
}

/** One error: its code with its meaning. */
export type ErrorRow = ErrorMeaning & Coded

/** The rows of a table under their codes; each row carries its own code. */
export type ErrorTable<T extends Readonly<Record<string, ErrorMeaning>> = Readonly<Record<string, ErrorMeaning>>> = {
  readonly [Code in keyof T & string]: T[Code] & { readonly code: Code }
}

/** Declares error codes. The rest of the source takes rows, so that code and status are written once. */
export function defineErrors<const T extends Readonly<Record<string, ErrorMeaning>>>(table: T): ErrorTable<T> {
  const rows = Object.entries(table).map(([code, meaning]) => [code, { ...meaning, code }])
  return Object.freeze(Object.fromEntries(rows)) as ErrorTable<T>
}

/** The meaning of a row as a message has it: without a capital at its beginning and a full stop at its end. */
export function messageOf({ text }: Pick<ErrorMeaning, 'text'>): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1, -1)}`
}
